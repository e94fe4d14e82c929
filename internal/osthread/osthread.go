//go:build linux

// Package osthread runs code on a thread of its own, for what the kernel holds by thread: namespaces, cgroups.
//
// It must not know what is done there.
package osthread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Run runs f on a thread that nothing else will ever run on, so that f may change the thread's namespaces and cgroups. What f
// starts inherits them.
func Run(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The process's first thread cannot be ended and would stay where it was taken. While it is held here, another runs f.
			defer runtime.UnlockOSThread()
			done <- Run(f)
			return
		}
		// Never unlocked: the runtime ends the thread with the goroutine.
		done <- f()
	}()
	return <-done
}
