// Package sockdiag tells which TCP sockets listen in a network namespace. It asks the kernel for those alone (sock_diag(7)): a text of all sockets
// (/proc/PID/net/tcp) has hundreds of thousands of lines where a server closes thousands of connections a second.
//
// It changes nothing, but for the module tcp_diag, which a kernel that has it as one loads when it is asked. It must not know containers, Pods or records.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/mdlayher/netlink"
)

// Listeners lists where TCP sockets listen in the network namespace of a process that proc shows. A process that has ended is an error (fs.ErrNotExist).
// A kernel that cannot be asked has its text read.
func Listeners(proc string, pid int) ([]netip.AddrPort, error) {
	found, err := ask(filepath.Join(proc, strconv.Itoa(pid), "ns", "net"))
	if errors.Is(err, syscall.ENOENT) && !errors.Is(err, errNamespace) || errors.Is(err, syscall.EPROTONOSUPPORT) || errors.Is(err, syscall.EOPNOTSUPP) {
		return read(proc, pid) // without CONFIG_INET_DIAG
	}
	return found, err
}

var errNamespace = errors.New("open the network namespace of a process")

// Numbers of linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, linux/in.h and the kernel's net/tcp_states.h.
const (
	netlinkSockDiag  = 4
	sockDiagByFamily = 20
	protocolTCP      = 6
	familyIPv4       = 2
	familyIPv6       = 10
	stateListen      = 10
	requestBytes     = 56 // struct inet_diag_req_v2
	answerBytes      = 72 // struct inet_diag_msg
)

// ask asks the kernel of the namespace at that path.
func ask(namespace string) ([]netip.AddrPort, error) {
	ns, err := os.Open(namespace)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNamespace, err)
	}
	defer ns.Close()
	c, err := netlink.Dial(netlinkSockDiag, &netlink.Config{NetNS: int(ns.Fd())})
	if err != nil {
		return nil, fmt.Errorf("open a socket for sock_diag in %s: %w", namespace, err)
	}
	defer c.Close()
	var found []netip.AddrPort
	for _, family := range []byte{familyIPv4, familyIPv6} {
		request := make([]byte, requestBytes)
		request[0], request[1] = family, protocolTCP
		binary.NativeEndian.PutUint32(request[4:], 1<<stateListen)
		answers, err := c.Execute(netlink.Message{
			Header: netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump}, Data: request,
		})
		if err != nil {
			return nil, fmt.Errorf("ask %s which sockets listen: %w", namespace, err)
		}
		for _, a := range answers {
			if at, ok := listener(a.Data); ok {
				found = append(found, at)
			}
		}
	}
	return found, nil
}

// listener reads one answer: family, state, two more bytes, then the ports and addresses as they are on the wire.
func listener(b []byte) (netip.AddrPort, bool) {
	if len(b) < answerBytes || b[1] != stateListen {
		return netip.AddrPort{}, false
	}
	port := binary.BigEndian.Uint16(b[4:])
	switch b[0] {
	case familyIPv4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[8:12])), port), true
	case familyIPv6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port), true
	}
	return netip.AddrPort{}, false
}
