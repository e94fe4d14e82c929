//go:build unix

package traffic

import (
	"errors"

	"golang.org/x/sys/unix"
)

// localLimit tells whether an error is the client's own: descriptors, ports,
// memory, or a rule of its machine that forbids it to send. None of them says anything about the server.
func localLimit(err error) bool {
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EADDRINUSE),
		errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return true
	}
	return false
}
