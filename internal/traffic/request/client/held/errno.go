//go:build unix

package held

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// symbol is the name of an errno, such as ECONNRESET; "errno N" for a number without a name.
func symbol(errno syscall.Errno) string {
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return "errno " + strconv.Itoa(int(errno))
}
