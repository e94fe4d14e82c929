//go:build amd64 || arm64

package kernel

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/testkit"
)

// States of include/net/tcp_states.h.
const (
	tcpEstablished = 1
	tcpFinWait1    = 4
	tcpClose       = 7
	tcpCloseWait   = 8
	tcpListen      = 10
)

var loopbacks = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}

func addrPort(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }

func listen(addr netip.Addr) (net.Listener, error) {
	return net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
}

// isOf tells the events of one kind and local end.
func isOf(kind Kind, local netip.AddrPort) func(Event) bool {
	return func(e Event) bool { return e.Kind == kind && e.Local == local }
}

func TestListener(t *testing.T) {
	w := watch(t, Options{})
	for _, addr := range loopbacks {
		inNetNs(t, func(netns uint32) error {
			if err := w.Watch(netns, Sockets); err != nil {
				return err
			}
			before := clock.MonoNs()
			l, err := listen(addr)
			if err != nil {
				return err
			}
			between := clock.MonoNs()
			local := addrPort(l.Addr())
			if err := l.Close(); err != nil {
				return err
			}
			after := clock.MonoNs()
			opened, err := w.wait("the listener's begin", isOf(ListenerOpened, local))
			if err != nil {
				return err
			}
			closed, err := w.wait("the listener's end", isOf(ListenerClosed, local))
			if err != nil {
				return err
			}
			within(t, opened, before, between)
			within(t, closed, between, after)
			for _, e := range []Event{opened, closed} {
				if e.NetNs != netns || e.Protocol != unix.IPPROTO_TCP || e.By.PID != uint32(os.Getpid()) || e.By.NetNs != netns || e.Bystander {
					t.Errorf("%+v: want this process in network namespace %d", e, netns)
				}
			}
			if opened.NewState != tcpListen || closed.OldState != tcpListen || closed.NewState != tcpClose {
				t.Errorf("states %d to %d, then %d to %d", opened.OldState, opened.NewState, closed.OldState, closed.NewState)
			}
			return nil
		})
	}
}

// Not watched: first a listener in another namespace, then one here before the watch began.
func TestUnwatchedSocketsAreNotTold(t *testing.T) {
	w := watch(t, Options{})
	openAndClose := func() (netip.AddrPort, error) {
		l, err := listen(loopbacks[0])
		if err != nil {
			return netip.AddrPort{}, err
		}
		return addrPort(l.Addr()), l.Close()
	}
	inNetNs(t, func(uint32) error {
		_, err := openAndClose()
		return err
	})
	inNetNs(t, func(netns uint32) error {
		if err := w.Watch(netns, Processes); err != nil { // and not Sockets
			return err
		}
		if _, err := openAndClose(); err != nil {
			return err
		}
		if err := w.Watch(netns, Sockets); err != nil {
			return err
		}
		local, err := openAndClose()
		if err != nil {
			return err
		}
		if _, err := w.wait("the watched listener's end", isOf(ListenerClosed, local)); err != nil {
			return err
		}
		for _, e := range w.snapshot() {
			if e.Local != local || e.NetNs != netns {
				t.Errorf("told, though not watched: %+v", e)
			}
		}
		return nil
	})
}

// refused connects to a port where nobody listens, and answers which.
func refused(addr netip.Addr) (server netip.AddrPort, err error) {
	l, err := listen(addr)
	if err != nil {
		return server, err
	}
	server = addrPort(l.Addr())
	if err := l.Close(); err != nil {
		return server, err
	}
	return server, connectRefused(server)
}

func connectRefused(server netip.AddrPort) error {
	c, err := net.Dial("tcp", server.String())
	if err == nil {
		c.Close()
		return fmt.Errorf("%s accepted a connection", server)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	return nil
}

func checkReset(t *testing.T, e Event, netns uint32, server netip.AddrPort) {
	t.Helper()
	if e.NetNs != netns || e.Protocol != unix.IPPROTO_TCP || e.Remote.Addr() != server.Addr() || e.Remote.Port() == 0 || !e.Bystander {
		t.Errorf("%+v: want a reset that the kernel sent in network namespace %d to a client on %s", e, netns, server.Addr())
	}
}

func TestResetForWantOfASocket(t *testing.T) {
	for name, without := range map[string][]string{"tracepoint": nil, "functions, as before Linux 6.10": {"dp_reset", "dp_reset_old"}} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, Options{without: without})
			w.needs(t, "resets for want of a socket, IPv4")
			for _, addr := range loopbacks {
				inNetNs(t, func(netns uint32) error {
					if err := w.Watch(netns, Sockets); err != nil {
						return err
					}
					server, err := refused(addr)
					if err != nil {
						return err
					}
					e, err := w.wait("the reset", isOf(ResetSent, server))
					if err != nil {
						return err
					}
					checkReset(t, e, netns, server)
					if e.OldState != 0 || e.ByRule || e.Requested != (without != nil) || e.IfIndex != 1 {
						t.Errorf("%+v: want no socket's state and no rule, by the loopback interface", e)
					}
					if w.decoder.reasons != nil && without == nil && e.Reason != "NO_SOCKET" {
						t.Errorf("the kernel's reason is %q", e.Reason)
					}
					return nil
				})
			}
		})
	}
}

// A port that is watched is watched in every namespace.
func TestResetToAWatchedPort(t *testing.T) {
	w := watch(t, Options{})
	inNetNs(t, func(netns uint32) error {
		if _, err := refused(loopbacks[0]); err != nil { // another port
			return err
		}
		server := netip.AddrPortFrom(loopbacks[0], 8080)
		if err := w.WatchPorts(unix.IPPROTO_TCP, 8080); err != nil {
			return err
		}
		if err := connectRefused(server); err != nil {
			return err
		}
		e, err := w.wait("the reset", isOf(ResetSent, server))
		if err != nil {
			return err
		}
		checkReset(t, e, netns, server)
		if all := w.snapshot(); len(all) != 1 {
			t.Errorf("told, though not watched: %+v", all)
		}
		return nil
	})
}

// connected is a connection, and what the server reads of it first.
func connected(addr netip.Addr, sent string) (server, client net.Conn, err error) {
	l, err := listen(addr)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	if server, err = l.Accept(); err != nil {
		client.Close()
		return nil, nil, err
	}
	if _, err = io.WriteString(client, sent); err == nil {
		_, err = io.ReadFull(server, make([]byte, 1)) // then all that was sent has arrived: it is one segment
	}
	if err != nil {
		client.Close()
		server.Close()
		return nil, nil, err
	}
	return server, client, nil
}

func TestCloseWithUnreadData(t *testing.T) {
	w := watch(t, Options{})
	for _, addr := range loopbacks {
		inNetNs(t, func(netns uint32) error {
			if err := w.Watch(netns, Sockets); err != nil {
				return err
			}
			server, client, err := connected(addr, "ab")
			if err != nil {
				return err
			}
			defer client.Close()
			local, remote := addrPort(server.LocalAddr()), addrPort(server.RemoteAddr())
			before := clock.MonoNs()
			if err := server.Close(); err != nil {
				return err
			}
			after := clock.MonoNs()
			sent, err := w.wait("the reset", isOf(ResetSent, local))
			if err != nil {
				return err
			}
			within(t, sent, before, after)
			if sent.NetNs != netns || sent.Remote != remote || sent.By.PID != uint32(os.Getpid()) || sent.Bystander {
				t.Errorf("%+v: want a reset to %s that this process caused", sent, remote)
			}
			if w.decoder.reasons != nil && sent.Reason != "TCP_ABORT_ON_CLOSE" {
				t.Errorf("the kernel's reason is %q", sent.Reason)
			}
			received, err := w.wait("the reset's receipt", isOf(ResetReceived, remote))
			if err != nil {
				return err
			}
			if received.Remote != local || received.OldState != tcpEstablished || !received.Bystander {
				t.Errorf("%+v: want the end of an established connection with %s", received, local)
			}
			for _, end := range []netip.AddrPort{local, remote} {
				aborted, err := w.wait("the abort", isOf(SocketState, end))
				if err != nil {
					return err
				}
				if aborted.OldState != tcpEstablished || aborted.NewState != tcpClose || aborted.Bystander != (end == remote) {
					t.Errorf("%+v: want an abort, by this process on the server's side only", aborted)
				}
			}
			return nil
		})
	}
}

// Of a connection that ends in order only one change is told: that of the side which began.
func TestOrderlyEnd(t *testing.T) {
	w := watch(t, Options{})
	inNetNs(t, func(netns uint32) error {
		if err := w.Watch(netns, Sockets); err != nil {
			return err
		}
		server, client, err := connected(loopbacks[0], "a")
		if err != nil {
			return err
		}
		local := addrPort(server.LocalAddr())
		if err := server.Close(); err != nil {
			return err
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			return fmt.Errorf("the client reads %w, not the end", err)
		}
		if err := client.Close(); err != nil {
			return err
		}
		e, err := w.wait("the first FIN", isOf(SocketState, local))
		if err != nil {
			return err
		}
		if e.OldState != tcpEstablished || e.NewState != tcpFinWait1 || e.Bystander {
			t.Errorf("%+v: want this process to send the first FIN", e)
		}
		last, err := listen(loopbacks[0]) // whatever else is told comes before it
		if err != nil {
			return err
		}
		defer last.Close()
		if _, err := w.wait("a listener", isOf(ListenerOpened, addrPort(last.Addr()))); err != nil {
			return err
		}
		var kinds []Kind
		for _, e := range w.snapshot() {
			kinds = append(kinds, e.Kind)
		}
		if want := []Kind{ListenerOpened, ListenerClosed, SocketState, ListenerOpened}; !slices.Equal(kinds, want) {
			t.Errorf("kinds %v, want %v: %+v", kinds, want, w.snapshot())
		}
		return nil
	})
}

// What a client sends to a connection that the server has closed is answered with a reset.
func TestResetOfAClosedConnection(t *testing.T) {
	w := watch(t, Options{})
	inNetNs(t, func(netns uint32) error {
		if err := w.Watch(netns, Sockets); err != nil {
			return err
		}
		server, client, err := connected(loopbacks[0], "a")
		if err != nil {
			return err
		}
		defer client.Close()
		local, remote := addrPort(server.LocalAddr()), addrPort(server.RemoteAddr())
		if err := server.Close(); err != nil {
			return err
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			return fmt.Errorf("the client reads %w, not the end", err)
		}
		if _, err := io.WriteString(client, "late"); err != nil {
			return err
		}
		sent, err := w.wait("the reset", isOf(ResetSent, local))
		if err != nil {
			return err
		}
		checkReset(t, sent, netns, local)
		if sent.Remote != remote || sent.OldState == 0 { // closed already, or in TIME_WAIT: the kernel's choice
			t.Errorf("%+v: want a reset to %s from what is left of the connection", sent, remote)
		}
		received, err := w.wait("the reset's receipt", isOf(ResetReceived, remote))
		if err != nil {
			return err
		}
		if received.Remote != local || received.OldState != tcpCloseWait {
			t.Errorf("%+v: want the end of a connection that %s had closed", received, local)
		}
		return nil
	})
}

// A listener that closes aborts the connections that nobody has accepted.
func TestCloseWithUnacceptedConnections(t *testing.T) {
	w := watch(t, Options{})
	for _, addr := range loopbacks {
		inNetNs(t, func(netns uint32) error {
			if err := w.Watch(netns, Sockets); err != nil {
				return err
			}
			l, err := listen(addr)
			if err != nil {
				return err
			}
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				l.Close()
				return err
			}
			defer client.Close()
			before := clock.MonoNs()
			if err := l.Close(); err != nil {
				return err
			}
			after := clock.MonoNs()
			local, remote := addrPort(client.RemoteAddr()), addrPort(client.LocalAddr())
			for _, kind := range []Kind{ListenerClosed, SocketState, ResetSent} {
				e, err := w.wait(fmt.Sprintf("the end of %s, kind %d", local, kind), isOf(kind, local))
				if err != nil {
					return err
				}
				within(t, e, before, after)
				if e.By.PID != uint32(os.Getpid()) || e.Bystander || e.NetNs != netns {
					t.Errorf("%+v: want it by this process", e)
				}
			}
			received, err := w.wait("the reset's receipt", isOf(ResetReceived, remote))
			if err != nil {
				return err
			}
			if !received.Bystander {
				t.Errorf("%+v: want it by a packet", received)
			}
			return nil
		})
	}
}

// sendUDP sends one datagram to a port where nobody listens, and waits for the answer.
func sendUDP(addr netip.Addr, port uint16) (client, server netip.AddrPort, err error) {
	server = netip.AddrPortFrom(addr, port)
	c, err := net.Dial("udp", server.String())
	if err != nil {
		return client, server, err
	}
	defer c.Close()
	client = addrPort(c.LocalAddr())
	if _, err := io.WriteString(c, "x"); err != nil {
		return client, server, err
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return client, server, err
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNREFUSED) {
		return client, server, fmt.Errorf("a datagram to a closed port gives %w", err)
	}
	return client, server, nil
}

func TestICMPError(t *testing.T) {
	const port = 9999
	for name, c := range map[string]struct {
		source    string
		addr      netip.Addr
		without   []string
		typ, code uint8
		requested bool
	}{
		"IPv4":                          {"ICMP errors sent", loopbacks[0], nil, 3, 3, false},
		"IPv4, as before Linux 6.11":    {"ICMP errors sent", loopbacks[0], []string{"dp_icmp"}, 3, 3, true},
		"IPv6 (always by the function)": {"ICMPv6 errors sent", loopbacks[1], nil, 1, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, Options{without: c.without})
			w.needs(t, c.source)
			inNetNs(t, func(netns uint32) error {
				if _, _, err := sendUDP(c.addr, port); err != nil { // nothing is watched yet
					return err
				}
				if err := w.WatchPorts(unix.IPPROTO_UDP, port); err != nil { // in every namespace
					return err
				}
				before := clock.MonoNs()
				client, server, err := sendUDP(c.addr, port)
				if err != nil {
					return err
				}
				after := clock.MonoNs()
				e, err := w.wait("the ICMP error", isOf(ICMPSent, client))
				if err != nil {
					return err
				}
				within(t, e, before, after)
				if e.NetNs != netns || e.Remote != server || e.Protocol != unix.IPPROTO_UDP || e.Type != c.typ || e.Code != c.code || e.Requested != c.requested || !e.Bystander || e.IfIndex != 1 {
					t.Errorf("%+v: want type %d code %d about a datagram to %s in network namespace %d", e, c.typ, c.code, server, netns)
				}
				if all := w.snapshot(); len(all) != 1 {
					t.Errorf("told, though not watched: %+v", all)
				}
				return nil
			})
		})
	}
}

func TestUDPClosed(t *testing.T) {
	w := watch(t, Options{})
	w.needs(t, "closings of UDP sockets, IPv4")
	for _, addr := range loopbacks {
		inNetNs(t, func(netns uint32) error {
			if err := errors.Join(w.Watch(netns, Sockets), w.WatchPorts(unix.IPPROTO_UDP, 5353)); err != nil {
				return err
			}
			for _, port := range []uint16{5354, 5353} { // the first is not watched
				c, err := net.ListenPacket("udp", netip.AddrPortFrom(addr, port).String())
				if err != nil {
					return err
				}
				if err := c.Close(); err != nil {
					return err
				}
			}
			e, err := w.wait("the closing", isOf(UDPClosed, netip.AddrPortFrom(addr, 5353)))
			if err != nil {
				return err
			}
			if e.NetNs != netns || e.By.PID != uint32(os.Getpid()) || e.Protocol != unix.IPPROTO_UDP {
				t.Errorf("%+v: want this process in network namespace %d", e, netns)
			}
			for _, e := range w.snapshot() {
				if e.Local.Port() != 5353 {
					t.Errorf("told, though not watched: %+v", e)
				}
			}
			return nil
		})
	}
}

// nft runs a script of rules in the network namespace of this thread.
func nft(script string) error {
	c := exec.Command("nft", "-f", "-")
	c.Stdin = strings.NewReader(script)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

func TestResetByARule(t *testing.T) {
	w := watch(t, Options{})
	testkit.Require(t, testkit.Program("nft"))
	w.needs(t, "resets that rules send, IPv4")
	for _, addr := range loopbacks {
		inNetNs(t, func(netns uint32) error {
			if err := nft("table inet t { chain c { type filter hook input priority 0; tcp dport 8081 reject with tcp reset; }; }"); err != nil {
				return err
			}
			if err := w.Watch(netns, Sockets); err != nil {
				return err
			}
			server := netip.AddrPortFrom(addr, 8081)
			if err := connectRefused(server); err != nil {
				return err
			}
			e, err := w.wait("the rule's reset", isOf(ResetSent, server))
			if err != nil {
				return err
			}
			checkReset(t, e, netns, server)
			if !e.ByRule {
				t.Errorf("%+v: want it by a rule", e)
			}
			return nil
		})
	}
}

// A rule that rejects with ICMP sends what the kernel itself would.
func TestICMPErrorByARule(t *testing.T) {
	w := watch(t, Options{})
	testkit.Require(t, testkit.Program("nft"))
	w.needs(t, "ICMP errors sent")
	inNetNs(t, func(netns uint32) error {
		if err := nft("table ip t { chain c { type filter hook output priority 0; tcp dport 8082 reject; }; }"); err != nil {
			return err
		}
		if err := w.WatchPorts(unix.IPPROTO_TCP, 8082); err != nil {
			return err
		}
		server := netip.AddrPortFrom(loopbacks[0], 8082)
		if err := connectRefused(server); err != nil {
			return err
		}
		e, err := w.wait("the rule's ICMP error", func(e Event) bool { return e.Kind == ICMPSent && e.Remote == server })
		if err != nil {
			return err
		}
		if e.NetNs != netns || e.Protocol != unix.IPPROTO_TCP || e.Type != 3 || e.Code != 3 || e.Local.Addr() != server.Addr() || e.Local.Port() == 0 {
			t.Errorf("%+v: want a port unreachable about a connection to %s in network namespace %d", e, server, netns)
		}
		return nil
	})
}
