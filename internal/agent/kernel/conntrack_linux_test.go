//go:build amd64 || arm64

package kernel

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
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

// take opens a socket that conntrack tells of this network namespace's new, changed and deleted entries, and has the tracer take what it is told.
func take(w *watcher) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), "conntrack events")
	taken, err := w.TakeConntrack(fd)
	if err == nil && !taken {
		err = errors.New("the socket was not taken")
	}
	const created, updated, destroyed = 1, 2, 3 // NFNLGRP_CONNTRACK_NEW, _UPDATE, _DESTROY
	if err := errors.Join(err, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1<<(created-1) | 1<<(updated-1) | 1<<(destroyed-1)})); err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
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
				socket, err := take(w)
				if err != nil {
					return err
				}
				defer socket.Close()
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

// taking runs f in a network namespace whose entries are told by the filter of a socket alone.
func taking(t *testing.T, f func(w *watcher, socket *os.File, netns uint32) error) {
	t.Helper()
	w := watch(t, Options{without: []string{"dp_entry"}})
	w.needs(t, "other news of conntrack entries")
	inNetNs(t, func(netns uint32) error {
		socket, err := take(w)
		if err != nil {
			return err
		}
		defer socket.Close()
		return f(w, socket, netns)
	})
}

// gotNothing checks that no message came to a socket that was taken.
func gotNothing(t *testing.T, socket *os.File) {
	t.Helper()
	if n, _, err := unix.Recvfrom(int(socket.Fd()), make([]byte, 1024), unix.MSG_DONTWAIT); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the socket got %d bytes, %v", n, err)
	}
}

// translated are connections whose destination is another on the way.
var translated = map[string]struct{ asked, served netip.AddrPort }{
	"IPv4": {netip.MustParseAddrPort("127.0.0.1:53"), netip.MustParseAddrPort("127.0.0.1:5353")},
	"IPv6": {netip.MustParseAddrPort("[::1]:53"), netip.MustParseAddrPort("[::1]:5353")},
}

// Entries are told when they are made, changed and deleted, and the socket that the kernel tells gets nothing of it.
func TestEntries(t *testing.T) {
	testkit.Require(t, testkit.Root, testkit.Program("nft"))
	for name, c := range translated {
		t.Run(name, func(t *testing.T) {
			taking(t, func(w *watcher, socket *os.File, netns uint32) error {
				if err := w.WatchPorts(unix.IPPROTO_UDP, c.asked.Port()); err != nil {
					return err
				}
				before := clock.MonoNs()
				client, err := trackOneDatagram(c.asked, c.served)
				if err != nil {
					return err
				}
				between := clock.MonoNs()
				if err := answerOne(client, c.served); err != nil {
					return err
				}
				answered := clock.MonoNs()
				if err := deleteEntry(c.asked); err != nil {
					return err
				}
				after := clock.MonoNs()
				if _, err := w.wait("the deletion", func(e Event) bool { return e.Kind == EntryDeleted }); err != nil {
					return err
				}
				var kinds []Kind
				for _, e := range w.snapshot() {
					if e.Kind == ICMPSent {
						continue // the client does not listen any more
					}
					kinds = append(kinds, e.Kind)
					if e.NetNs != netns || e.Original != [2]netip.AddrPort{client, c.asked} || e.Reply != [2]netip.AddrPort{c.served, client} || e.Protocol != unix.IPPROTO_UDP {
						t.Errorf("%+v: want it of %v, served by %v", e, client, c.served)
					}
					switch e.Kind {
					case EntryNew:
						within(t, e, before, between)
					case EntryUpdated:
						within(t, e, between, answered)
					case EntryDeleted:
						within(t, e, answered, after)
						if e.Expired || !e.Early {
							t.Errorf("%+v: it had time left", e)
						}
					}
				}
				if want := []Kind{EntryNew, EntryUpdated, EntryDeleted}; !slices.Equal(kinds, want) {
					t.Errorf("told are kinds %v, not %v", kinds, want)
				}
				gotNothing(t, socket)
				return nil
			})
		})
	}
}

// answerOne sends a datagram from who served back to the client, which the entry counts as an answer.
func answerOne(client, served netip.AddrPort) error {
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(served), net.UDPAddrFromAddrPort(client))
	if err != nil {
		return err
	}
	_, err = io.WriteString(c, "x")
	return errors.Join(err, c.Close())
}

// What nobody watches is not told, and of TCP neither changes nor entries whose time is over; nor does the socket get it.
func TestEntriesLeftOut(t *testing.T) {
	testkit.Require(t, testkit.Root, testkit.Program("nft"))
	taking(t, func(w *watcher, socket *os.File, _ uint32) error {
		// Tracked is what a rule looks at the state of.
		if err := nft("table ip t { chain c { type filter hook output priority 0; ct state new accept; }; }"); err != nil {
			return err
		}
		const left = 9
		if err := w.WatchPorts(unix.IPPROTO_TCP, left); err != nil {
			return err
		}
		l, err := net.Listen("tcp4", fmt.Sprint("127.0.0.1:", left))
		if err != nil {
			return err
		}
		defer l.Close()
		if _, _, err := sendUDP(loopbacks[0], left); err != nil { // the port is of another protocol
			return err
		}
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			return err
		}
		server, err := l.Accept()
		if err != nil {
			return err
		}
		client := addrPort(c.LocalAddr())
		if err := errors.Join(c.Close(), server.Close()); err != nil {
			return err
		}
		if _, err := w.wait("the entry", func(e Event) bool { return e.Kind == EntryNew && e.Original[0] == client }); err != nil {
			return err
		}
		for _, e := range w.snapshot() {
			if e.Kind == EntryUpdated || e.Kind == EntryNew && e.Original[0] != client {
				t.Errorf("told is %+v", e)
			}
		}
		gotNothing(t, socket)
		return nil
	})
}

// A process may send to the group as the kernel does. That is no news of an entry.
func TestEntriesOfOthersAreNotBelieved(t *testing.T) {
	testkit.Require(t, testkit.Root)
	taking(t, func(w *watcher, _ *os.File, _ uint32) error {
		if err := w.WatchPorts(unix.IPPROTO_UDP, 53); err != nil {
			return err
		}
		other, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		defer unix.Close(other)
		// A deletion of 1.2.3.4:9 to 5.6.7.8:53, in both directions, as the kernel lays it out.
		tuple := func(kind byte, source, destination []byte, from, to byte) []byte {
			return slices.Concat([]byte{52, 0, kind, 0x80, 20, 0, 1, 0x80, 8, 0, 1, 0}, source, []byte{8, 0, 2, 0}, destination,
				[]byte{28, 0, 2, 0x80, 5, 0, 1, 0, unix.IPPROTO_UDP, 0, 0, 0, 6, 0, 2, 0, 0, from, 0, 0, 6, 0, 3, 0, 0, to, 0, 0})
		}
		a, b := []byte{1, 2, 3, 4}, []byte{5, 6, 7, 8}
		message := slices.Concat([]byte{124, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, unix.AF_INET, 0, 0, 0}, tuple(1, a, b, 9, 53), tuple(2, b, a, 53, 9))
		const destroyed = 3
		if err := unix.Sendto(other, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (destroyed - 1)}); err != nil {
			return err
		}
		last, err := listen(loopbacks[0]) // what is told comes in order, and this after it
		if err != nil {
			return err
		}
		defer last.Close()
		if err := w.CatchUp(); err != nil {
			return err
		}
		for _, e := range w.snapshot() {
			if e.Kind == EntryDeleted {
				t.Errorf("told is %+v", e)
			}
		}
		return nil
	})
}
