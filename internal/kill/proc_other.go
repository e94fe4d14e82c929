//go:build !linux

package kill

import (
	"syscall"

	"github.com/drainproof/drainproof/internal/fault"
)

// Container works on Linux alone: that is where containers' processes are.
func Container(id string, _ syscall.Signal) (pid int, atMonoNs int64, err error) {
	return 0, 0, fault.Measuref(nil, "run it on the container's node", "container %s cannot be on this machine: it does not run Linux", id)
}
