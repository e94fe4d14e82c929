//go:build unix

package request

import (
	"errors"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Symbol is the name of the errno that err is or wraps, such as ECONNRESET; "errno N" for a number without a name, "" for other errors.
func Symbol(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return ""
	}
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return "errno " + strconv.Itoa(int(errno))
}
