package dataplane

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// chains is a ruleset made by hand.
type chains map[string][]rule

func (c chains) chain(name string) ([]rule, error)  { return c[name], nil }
func (c chains) elements(string) ([]element, error) { return nil, nil }

func TestWalks(t *testing.T) {
	var (
		a      = action{kind: translates, backend: netip.MustParseAddrPort("10.0.0.1:8080")}
		b      = action{kind: translates, backend: netip.MustParseAddrPort("10.0.0.2:8080")}
		same   = action{kind: translates, backend: netip.MustParseAddrPort("10.0.0.3:0")}
		chance = []condition{{on: onOther}}
		port   = func(p uint16) []condition { return []condition{{on: onPort, from: p, to: p}} }
		to     = func(k kind, chain string) action { return action{kind: k, chain: chain} }
	)
	for _, c := range []struct {
		name      string
		rules     chains
		backends  []netip.AddrPort
		ends      bool
		wantNamed bool
	}{
		{"the first that holds ends it", chains{"": {{do: a}, {do: b}}}, addrs("10.0.0.1:8080"), true, false},
		{"by chance the next", chains{"": {{when: chance, do: a}, {do: b}}}, addrs("10.0.0.1:8080", "10.0.0.2:8080"), true, false},
		{"only by chance", chains{"": {{when: chance, do: a}}}, addrs("10.0.0.1:8080"), false, false},
		{"another port's", chains{"": {{when: port(81), do: a}, {when: port(80), do: b}}}, addrs("10.0.0.2:8080"), true, true},
		{"back from a chain that marks", chains{"": {{do: to(jumps, "mark")}, {do: b}}, "mark": {{do: action{}}}}, addrs("10.0.0.2:8080"), true, false},
		{"not back from one that ends", chains{"": {{do: to(jumps, "x")}, {do: b}}, "x": {{do: a}}}, addrs("10.0.0.1:8080"), true, false},
		{"no way back from goto", chains{"": {{do: to(goesTo, "mark")}, {do: b}}, "mark": {}}, nil, false, false},
		{"goto in a chain jumped to", chains{"": {{do: to(jumps, "x")}, {do: b}}, "x": {{do: to(goesTo, "mark")}, {do: a}}, "mark": {}}, addrs("10.0.0.2:8080"), true, false},
		{"return", chains{"": {{do: to(jumps, "x")}, {do: b}}, "x": {{do: action{kind: returns}}, {do: a}}}, addrs("10.0.0.2:8080"), true, false},
		{"by chance return", chains{"": {{do: to(jumps, "x")}, {do: b}}, "x": {{when: chance, do: action{kind: returns}}, {do: a}}}, addrs("10.0.0.1:8080", "10.0.0.2:8080"), true, false},
		{"twice through one chain", chains{"": {{when: chance, do: to(jumps, "x")}, {do: to(jumps, "x")}, {do: b}}, "x": {{do: a}}}, addrs("10.0.0.1:8080"), true, false},
		{"a circle", chains{"": {{do: to(jumps, "x")}}, "x": {{do: to(jumps, "")}, {do: a}}}, addrs("10.0.0.1:8080"), true, false},
		{"a chain that is not there", chains{"": {{do: to(jumps, "x")}, {do: b}}}, addrs("10.0.0.2:8080"), true, false},
		{"the port stays", chains{"": {{do: same}}}, addrs("10.0.0.3:80"), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWalk(c.rules, front(tcp, "172.30.0.41:80"), false)
			ends, err := w.through("")
			if err != nil || ends != c.ends || !slices.Equal(w.backends(), c.backends) || w.named != c.wantNamed {
				t.Errorf("%v, ends %v, named %v, %v; want %v, ends %v, named %v", w.backends(), ends, w.named, err, c.backends, c.ends, c.wantNamed)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	service, nodePort := front(tcp, "172.30.0.41:80"), front(tcp, "0.0.0.0:30045")
	pods := netip.MustParsePrefix("10.244.0.0/16")
	for _, c := range []struct {
		name  string
		c     condition
		f     Front
		here  bool
		chain string
		want  answer
	}{
		{"its address", condition{on: onDestination, prefix: netip.MustParsePrefix("172.30.0.41/32")}, service, false, kubeServices, yes},
		{"its range", condition{on: onDestination, prefix: netip.MustParsePrefix("172.30.0.0/16")}, service, false, kubeServices, yes},
		{"another address", condition{on: onDestination, prefix: netip.MustParsePrefix("172.30.0.42/32")}, service, false, kubeServices, no},
		{"not another address", condition{on: onDestination, not: true, prefix: netip.MustParsePrefix("172.30.0.42/32")}, service, false, kubeServices, yes},
		{"a NodePort is at no Service's address", condition{on: onDestination, prefix: netip.MustParsePrefix("172.30.0.41/32")}, nodePort, false, kubeServices, no},
		{"nor at the loopback's", condition{on: onDestination, not: true, prefix: netip.MustParsePrefix("127.0.0.0/8")}, nodePort, false, kubeServices, yes},
		{"but at the node's", condition{on: onDestinationLocal}, nodePort, false, kubeServices, yes},
		{"a Service is not", condition{on: onDestinationLocal}, service, false, kubeServices, no},
		{"protocol", condition{on: onProtocol, from: udp, to: udp}, service, false, kubeServices, no},
		{"ports", condition{on: onPort, from: 79, to: 81}, service, false, kubeServices, yes},
		{"Pods, from outside", condition{on: onSource, prefix: pods}, nodePort, false, "KUBE-EXT-X", no},
		{"Pods, from here", condition{on: onSource, prefix: pods}, nodePort, true, "external-X", yes},
		{"Pods' bridge, from outside", condition{on: onInterface}, nodePort, false, "external-X", no},
		{"the node, from here", condition{on: onSourceLocal}, nodePort, true, "external-X", yes},
		{"the node, from outside", condition{on: onSourceLocal}, nodePort, false, "external-X", no},
		{"sources that a load balancer lets in", condition{on: onSource, prefix: pods}, service, false, "KUBE-FW-X", maybe},
		{"chance", condition{on: onOther}, service, false, kubeServices, maybe},
	} {
		if got := c.c.holds(c.f, c.here, c.chain); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMatches(t *testing.T) {
	u16 := func(ns ...uint16) (b []byte) {
		for _, n := range ns {
			b = binary.NativeEndian.AppendUint16(b, n)
		}
		return b
	}
	u32 := func(ns ...uint32) (b []byte) {
		for _, n := range ns {
			b = binary.NativeEndian.AppendUint32(b, n)
		}
		return b
	}
	tcpPorts := func(from, to uint16, more ...byte) []byte { return append(u16(0, 0xffff, from, to), more...) }
	recent := func(set, invert byte) []byte { return append(u32(10800, 0), set, invert) }
	for _, c := range []struct {
		name, match string
		revision    uint32
		info        []byte
		want        match
	}{
		{"one port", "tcp", 0, tcpPorts(80, 80, 0, 0, 0, 0), match{when: []condition{{on: onPort, from: 80, to: 80}}}},
		{"ports", "udp", 0, tcpPorts(80, 90, 0), match{when: []condition{{on: onPort, from: 80, to: 90}}}},
		{"not a port", "tcp", 0, tcpPorts(80, 80, 0, 0, 0, 2), match{when: []condition{{on: onPort, not: true, from: 80, to: 80}}}},
		{"any port", "tcp", 0, tcpPorts(0, 0xffff, 0, 0, 0, 0), match{}},
		{"flags", "tcp", 0, tcpPorts(0, 0xffff, 0, 2, 2, 0), notUnderstood},
		{"the client's port", "udp", 0, append(u16(53, 53, 0, 0xffff), 0), notUnderstood},
		{"too short", "tcp", 0, tcpPorts(80, 80, 0), notUnderstood},
		{"to the node", "addrtype", 1, append(u16(0, 4), u32(0)...), match{when: []condition{{on: onDestinationLocal}}}},
		{"not from the node", "addrtype", 1, append(u16(4, 0), u32(1)...), match{when: []condition{{on: onSourceLocal, not: true}}}},
		{"not to the node, of old", "addrtype", 0, append(u16(0, 4), u32(0, 1)...), match{when: []condition{{on: onDestinationLocal, not: true}}}},
		{"by an interface", "addrtype", 1, append(u16(0, 4), u32(4)...), match{when: []condition{{on: onDestinationLocal}, {on: onOther}}}},
		{"was here", "recent", 1, recent(1, 0), match{when: notUnderstood.when, affinity: true}},
		{"is put in the list", "recent", 1, recent(2, 0), match{affinity: true}},
		{"comment", "comment", 0, make([]byte, 256), match{}},
		{"chance", "statistic", 0, make([]byte, 24), notUnderstood},
		{"empty", "addrtype", 1, nil, notUnderstood},
	} {
		got := decodeMatch(c.match, c.revision, c.info)
		if !slices.Equal(got.when, c.want.when) || got.affinity != c.want.affinity {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestTranslations(t *testing.T) {
	const address, port = 1, 2
	u32 := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	wide := func(flags uint32, a string) []byte {
		b := append(u32(flags), make([]byte, 40)...)
		copy(b[4:], netip.MustParseAddr(a).AsSlice())
		binary.BigEndian.PutUint16(b[36:], 8080)
		return b
	}
	narrow := slices.Concat(u32(1), u32(address|port), []byte{10, 0, 0, 1, 10, 0, 0, 1, 0x1f, 0x90, 0x1f, 0x90})
	to := func(a string) action { return action{kind: translates, backend: netip.MustParseAddrPort(a)} }
	for _, c := range []struct {
		name     string
		revision uint32
		bits     int
		info     []byte
		want     action
	}{
		{"revision 0", 0, 32, narrow, to("10.0.0.1:8080")},
		{"revision 1", 1, 128, wide(address|port, "fd00::1"), to("[fd00::1]:8080")},
		{"revision 2", 2, 32, wide(address|port, "10.0.0.1"), to("10.0.0.1:8080")},
		{"the port stays", 2, 32, wide(address, "10.0.0.1"), to("10.0.0.1:0")},
		{"the address stays", 2, 32, wide(port, "10.0.0.1"), action{kind: accepts}},
		{"a revision to come", 3, 32, wide(address|port, "10.0.0.1"), action{kind: accepts}},
		{"too short", 2, 32, wide(address|port, "10.0.0.1")[:37], action{kind: accepts}},
	} {
		if got := decodeTarget("DNAT", c.revision, c.info, c.bits); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestCommitted(t *testing.T) {
	n := func(generation, pid uint32, comm string, at int64) notice {
		return notice{generation: generation, pid: pid, comm: comm, at: at}
	}
	for _, c := range []struct {
		name     string
		from, to uint32
		notices  []notice
		want     Change
	}{
		{"one", 7, 8, []notice{n(8, 100, "nft", 50)}, Change{MonoNs: 50, Commits: 1, ByPID: 100, ByComm: "nft"}},
		{"one of a process's two", 7, 9, []notice{n(8, 100, "nft", 50), n(9, 100, "nft", 60)}, Change{MonoNs: 60, Commits: 2, ByPID: 100, ByComm: "nft"}},
		{"of two processes of one name", 7, 9, []notice{n(8, 100, "nft", 50), n(9, 101, "nft", 60)}, Change{MonoNs: 60, Commits: 2, ByComm: "nft"}},
		{"of two programs", 7, 9, []notice{n(8, 100, "nft", 50), n(9, 101, "iptables-nft-re", 60)}, Change{MonoNs: 60, Commits: 2}},
		{"one word is lost", 7, 9, []notice{n(9, 100, "nft", 60)}, Change{MonoNs: 60, Commits: 2}},
		{"all words are lost", 7, 8, []notice{{lost: true, generation: 8, at: 70}}, Change{MonoNs: 70, Commits: 1}},
		{"an older one and a later one", 7, 8, []notice{n(7, 99, "x", 40), n(8, 100, "nft", 50), n(9, 101, "y", 60)}, Change{MonoNs: 50, Commits: 1, ByPID: 100, ByComm: "nft"}},
		{"read before it was done", 8, 8, []notice{n(8, 100, "nft", 50)}, Change{MonoNs: 50, Commits: 1, ByPID: 100, ByComm: "nft"}},
		{"numbers begin again", 0xffffffff, 1, []notice{n(0, 100, "nft", 50), n(1, 100, "nft", 60)}, Change{MonoNs: 60, Commits: 2, ByPID: 100, ByComm: "nft"}},
	} {
		got := committed(c.from, c.to, c.notices)
		if got.MonoNs != c.want.MonoNs || got.Commits != c.want.Commits || got.ByPID != c.want.ByPID || got.ByComm != c.want.ByComm {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
