package traffic

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/record"
)

// dialSocket makes a non-blocking, connected or connecting socket for t. fd is
// -1 on error. UDP sockets queue the ICMP errors that come back (IP_RECVERR, ip(7)), which tells who refused.
func dialSocket(t target) (fd int, err error) {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	if t.remote.Addr().Is6() {
		family = unix.AF_INET6
	}
	if t.protocol == record.UDP {
		kind = unix.SOCK_DGRAM
	}
	fd, err = unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	switch {
	case t.protocol == record.TCP:
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		// Heartbeats never fill a window. Where the system's choice is BBR, each would still arm a pacing timer,
		// which is dear with thousands of flows. Where this is refused the system's choice stays.
		_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	case family == unix.AF_INET:
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
	default:
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	}
	if err == nil {
		err = unix.Connect(fd, sockaddr(t.remote))
	}
	if err != nil && err != unix.EINPROGRESS {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
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

// socketError takes the pending error of a connecting socket, nil without one.
func socketError(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return err
	case n != 0:
		return unix.Errno(n)
	}
	return nil
}

// icmpError takes one error from the socket's error queue. ok is false when it is
// empty. icmp is nil for errors that were not brought by an ICMP message, such as a local path MTU.
func icmpError(fd int) (icmp *record.ICMP, errno unix.Errno, ok bool) {
	var data [64]byte
	var control [512]byte
	_, n, _, _, err := unix.Recvmsg(fd, data[:], control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, 0, false
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return nil, 0, true
	}
	for _, m := range messages {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if v4 || v6 {
			icmp, errno, err := extendedError(m.Data)
			return icmp, errno, err == nil
		}
	}
	return nil, 0, true
}

// extendedError reads struct sock_extended_err and the offender's address after it (linux/errqueue.h).
func extendedError(b []byte) (*record.ICMP, unix.Errno, error) {
	const size = 16 // u32 errno, u8 origin, u8 type, u8 code, u8 pad, u32 info, u32 data
	if len(b) < size {
		return nil, 0, fmt.Errorf("extended error of %d bytes", len(b))
	}
	errno, origin := unix.Errno(binary.NativeEndian.Uint32(b)), b[4]
	if origin != unix.SO_EE_ORIGIN_ICMP && origin != unix.SO_EE_ORIGIN_ICMP6 {
		return nil, errno, nil
	}
	icmp := &record.ICMP{Type: int(b[5]), Code: int(b[6])}
	offender := b[size:]
	if len(offender) < 2 {
		return icmp, errno, nil
	}
	switch family := binary.NativeEndian.Uint16(offender); {
	case family == unix.AF_INET && len(offender) >= 8:
		icmp.From = netip.AddrFrom4([4]byte(offender[4:8])).String()
	case family == unix.AF_INET6 && len(offender) >= 24:
		icmp.From = netip.AddrFrom16([16]byte(offender[8:24])).String()
	}
	return icmp, errno, nil
}

// unreachable tells whether an ICMP message says that the peer cannot be
// reached. A packet too big (type 3 code 4) or a spent hop limit ends no flow.
func unreachable(m *record.ICMP) bool {
	_, known := icmp(*m)
	return known
}

// raiseDescriptors lifts the soft limit on descriptors to the hard one. Where
// that fails the limit shows itself as EMFILE, which is counted.
func raiseDescriptors() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}
