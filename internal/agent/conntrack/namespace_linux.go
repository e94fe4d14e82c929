package conntrack

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ownNamespace is the calling thread's network namespace.
const ownNamespace = "/proc/thread-self/ns/net"

// within runs f on a thread that is in the network namespace.
func within(namespace *os.File, f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", namespace.Name(), err)
		}
		return f()
	})
}

// onThread runs f on a thread on which nothing else will ever run, so that f may change the thread's namespaces.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The process's first thread cannot be ended and would stay where it was taken. While it is held here, another runs f.
			defer runtime.UnlockOSThread()
			done <- onThread(f)
			return
		}
		// Never unlocked: the runtime ends the thread with the goroutine.
		done <- f()
	}()
	return <-done
}
