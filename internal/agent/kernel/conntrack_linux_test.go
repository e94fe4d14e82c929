//go:build amd64 || arm64

package kernel

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/testkit"
)

// trackOneDatagram makes this network namespace track connections, and sends itself a datagram that is translated on its way.
func trackOneDatagram(asked, served netip.AddrPort) (client netip.AddrPort, err error) {
	if err := nft(fmt.Sprintf("table %s t { chain c { type nat hook output priority -100; udp dport %d dnat to %s; }; }", family(asked), asked.Port(), served)); err != nil {
		return client, err
	}
	server, err := net.ListenPacket("udp", served.String())
	if err != nil {
		return client, err
	}
	defer server.Close()
	c, err := net.Dial("udp", asked.String())
	if err != nil {
		return client, err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "x"); err != nil {
		return client, err
	}
	_, _, err = server.ReadFrom(make([]byte, 1))
	return addrPort(c.LocalAddr()), err
}

// family is what nft calls it.
func family(a netip.AddrPort) string {
	if a.Addr().Is4() {
		return "ip"
	}
	return "ip6"
}

func deleteEntry(asked netip.AddrPort) error {
	family := netlink.InetFamily(unix.AF_INET)
	if asked.Addr().Is6() {
		family = unix.AF_INET6
	}
	n, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, everything{})
	if err == nil && n != 1 {
		err = fmt.Errorf("%d entries deleted, not 1", n)
	}
	return err
}

type everything struct{}

func (everything) MatchConntrackFlow(*netlink.ConntrackFlow) bool { return true }

// follow opens a listener to this network namespace's deletions.
func follow(w *watcher) (io.Closer, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	listener := os.NewFile(uintptr(fd), "conntrack events")
	const destroyed = 3 // NFNLGRP_CONNTRACK_DESTROY
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err := errors.Join(err, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (destroyed - 1)}), w.FollowConntrack(cookie)); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

func TestEntryDeleted(t *testing.T) {
	testkit.Require(t, testkit.Root, testkit.Program("nft"))
	asked4, served4 := netip.MustParseAddrPort("127.0.0.1:53"), netip.MustParseAddrPort("127.0.0.1:5353")
	asked6, served6 := netip.MustParseAddrPort("[::1]:53"), netip.MustParseAddrPort("[::1]:5353")
	for name, c := range map[string]struct {
		program       string
		asked, served netip.AddrPort
		port          uint16
	}{
		"function, watched by the original destination": {"dp_entry", asked4, served4, asked4.Port()},
		"function, watched by the reply's source":       {"dp_entry", asked4, served4, served4.Port()},
		"function, IPv6": {"dp_entry", asked6, served6, asked6.Port()},
		"message of netlink, watched by the original destination": {"dp_entry_told", asked4, served4, asked4.Port()},
		"message of netlink, watched by the reply's source":       {"dp_entry_told", asked4, served4, served4.Port()},
		"message of netlink, IPv6":                                {"dp_entry_told", asked6, served6, asked6.Port()},
	} {
		t.Run(name, func(t *testing.T) {
			var without []string
			for _, other := range []string{"dp_entry", "dp_entry_told"} {
				if other != c.program {
					without = append(without, other)
				}
			}
			w := watch(t, Options{without: without})
			w.needs(t, "deletions of conntrack entries")
			inNetNs(t, func(netns uint32) error {
				listener, err := follow(w)
				if err != nil {
					return err
				}
				defer listener.Close()
				client, err := trackOneDatagram(c.asked, c.served)
				if err != nil {
					return err
				}
				if err := w.WatchPorts(unix.IPPROTO_UDP, c.port); err != nil {
					return err
				}
				before := clock.MonoNs()
				if err := deleteEntry(c.asked); err != nil {
					return err
				}
				after := clock.MonoNs()
				e, err := w.wait("the deletion", func(e Event) bool { return e.Kind == EntryDeleted })
				if err != nil {
					return err
				}
				within(t, e, before, after)
				if e.By.PID != uint32(os.Getpid()) || e.NetlinkPortID == 0 || e.Bystander || e.Expired || e.NetNs != netns || e.Protocol != unix.IPPROTO_UDP {
					t.Errorf("%+v: want it by this process, by netlink, before its time", e)
				}
				if want := [2]netip.AddrPort{client, c.asked}; e.Original != want {
					t.Errorf("original direction %v, want %v", e.Original, want)
				}
				if want := [2]netip.AddrPort{c.served, client}; e.Reply != want {
					t.Errorf("reply direction %v, want %v", e.Reply, want)
				}
				return nil
			})
		})
	}
}
