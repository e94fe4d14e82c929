package probe

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// prepare gives accepted connections a congestion control without pacing. Where
// the system's choice is BBR, each heartbeat would arm a timer of its own,
// which is dear with thousands of connections; heartbeats never fill a window. Where this is refused the system's choice stays.
func prepare(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
}
