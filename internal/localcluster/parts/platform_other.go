//go:build !linux

package parts

import (
	"os/exec"

	"github.com/drainproof/drainproof/internal/fault"
)

// supported says whether sets can be made here.
func supported() error {
	return fault.Usagef("run this on Linux, or point drainproof at a cluster with --kubeconfig and --context",
		"local clusters need Linux")
}

func tryLock(string) (func(), bool, error) { return nil, false, supported() }

func freeBytes(string) (uint64, error) { return 0, supported() }

func ownGroup(*exec.Cmd) {}

func interruptGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func killGroup(*exec.Cmd) {}
