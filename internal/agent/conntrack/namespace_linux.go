package conntrack

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/osthread"
)

// ownNamespace is the calling thread's network namespace.
const ownNamespace = "/proc/thread-self/ns/net"

// within runs f on a thread that is in the network namespace.
func within(namespace *os.File, f func() error) error {
	return osthread.Run(func() error {
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", namespace.Name(), err)
		}
		return f()
	})
}
