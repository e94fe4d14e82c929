package eventloop

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of a request go past Go's scheduler (RawSyscall): none of them blocks, and telling the scheduler of each
// costs as much as the shorter ones take. Only waiting for events is told.

// rawAddress is a socket address as the kernel takes it.
type rawAddress struct {
	family int
	raw    unix.RawSockaddrInet6 // an IPv4 address lies in its first bytes
	size   uintptr
}

func rawAddressOf(a netip.AddrPort) (r rawAddress) {
	port := a.Port()<<8 | a.Port()>>8
	if nativeIsBig {
		port = a.Port()
	}
	if a.Addr().Is4() {
		r.family, r.size = unix.AF_INET, unix.SizeofSockaddrInet4
		*(*unix.RawSockaddrInet4)(unsafe.Pointer(&r.raw)) = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: a.Addr().As4()}
		return r
	}
	r.family, r.size = unix.AF_INET6, unix.SizeofSockaddrInet6
	r.raw = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: a.Addr().As16()}
	return r
}

// nativeIsBig: numbers lie in memory as on the network.
var nativeIsBig = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 0
}()

// socket makes a non-blocking one.
func socket(family int) (fd int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return int(r), errno
}

// connect begins a connection. On loopback it is up by the time of the return, though the kernel says EINPROGRESS.
func connect(fd int, to *rawAddress) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), to.size)
	return errno
}

// send writes without a signal where the peer is gone. b is not empty.
func send(fd int, b []byte) (n int, errno unix.Errno) {
	for {
		r, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
		if errno != unix.EINTR {
			return int(r), errno
		}
	}
}

// message is where the loop receives: one buffer for all connections, and what else the kernel says of it.
type message struct {
	data    []byte
	header  unix.Msghdr
	vector  unix.Iovec
	control stampControl
}

// stampControl is a control message with a time (SCM_TIMESTAMPNS, socket(7)).
type stampControl struct {
	header unix.Cmsghdr
	stamp  unix.Timespec
}

func newMessage() *message {
	m := &message{data: make([]byte, 64<<10)}
	m.vector.Base = &m.data[0]
	m.vector.SetLen(len(m.data))
	m.header.Iov, m.header.Control = &m.vector, (*byte)(unsafe.Pointer(&m.control))
	m.header.SetIovlen(1)
	return m
}

// stampArrivals has the kernel say when what is received on fd arrived. Where it cannot, receive says 0.
func stampArrivals(fd int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) }

// receive reads what is there into m.data. wallNs is when the last of it arrived, on the wall clock; 0 where that is not known.
func (m *message) receive(fd int) (n int, wallNs int64, errno unix.Errno) {
	for {
		m.control.header.Type = 0
		m.header.SetControllen(int(unsafe.Sizeof(m.control)))
		r, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.header)), 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == 0 && m.control.header.Level == unix.SOL_SOCKET && m.control.header.Type == unix.SCM_TIMESTAMPNS:
			return int(r), m.control.stamp.Nano(), 0
		default:
			return int(r), 0, errno
		}
	}
}

// nap waits until the clock is untilNs. Interrupted, it is over a little earlier.
func nap(untilNs int64) {
	until := unix.NsecToTimespec(untilNs)
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil)
}

func closeSocket(fd int) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// watch tells epoll to report fd, or what of it; edge-triggered, with a tag.
func watch(ep, op, fd int, events uint32, index, generation int32) unix.Errno {
	ev := unix.EpollEvent{Events: events | unix.EPOLLET&0xffffffff, Fd: index, Pad: generation}
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(ep), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	return errno
}

// waitEvents waits for events for at most timeoutNs, exact to the nanosecond where the kernel has epoll_pwait2.
func (e *engine) waitEvents(timeoutNs int64) (int, error) {
	if timeoutNs > 0 {
		until := unix.NsecToTimespec(timeoutNs)
		if !e.noWait2 {
			n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(e.ep), uintptr(unsafe.Pointer(&e.events[0])), uintptr(len(e.events)),
				uintptr(unsafe.Pointer(&until)), 0, 0)
			switch errno {
			case 0:
				return int(n), nil
			case unix.ENOSYS, unix.EPERM: // before Linux 5.11, or forbidden
				e.noWait2 = true
			default:
				return 0, errno
			}
		}
		// epoll_wait itself counts in milliseconds; ppoll does not.
		if n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(e.ep), Events: unix.POLLIN}}, &until, nil); n <= 0 {
			return 0, err
		}
	}
	return unix.EpollWait(e.ep, e.events, 0)
}

// localAddress is the socket's own address; the zero value where the kernel does not tell.
func localAddress(fd int) netip.AddrPort {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
