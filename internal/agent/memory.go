package agent

import (
	"math"
	"net/netip"
	"sync"

	"github.com/drainproof/drainproof/internal/record"
)

// memory keeps what the kernel told of every single connection, until the harness asks for those that failed. Nearly none will be asked
// for, so an entry is 32 bytes, its addresses are numbers in a table, and the oldest give way to new ones when it is full.
type memory struct {
	mu sync.Mutex
	// chunks hold kept traces in order, up to the limit; then they are overwritten from at on. All but the last chunk are full: what has been kept
	// is never moved, which would take twice its room.
	chunks [][]trace
	kept   int
	limit  int
	at     int
	// forgottenMonoNs is the time of the newest trace that gave way.
	forgottenMonoNs int64
	addrs           []netip.Addr
	addrOf          map[netip.Addr]uint16
	notes           []note
	noteOf          map[note]uint16
	// last is the note that was kept last, and its number: connections of one kind follow each other.
	last       note
	lastNumber uint16
	// untold counts what could not be kept as a table was full.
	untold uint64
}

// trace is one thing that happened to one connection.
type trace struct {
	monoNs   int64
	kind     traceKind
	protocol uint8
	note     uint16
	// hosts are numbers of addresses: an entry's original source and destination and reply source and destination, or
	// a socket's local and remote end in the first two.
	hosts [4]uint16
	ports [4]uint16
}

type traceKind uint8

const (
	entryNew traceKind = iota + 1
	entryUpdated
	entryDeleted
	socketClosed
	resetSent
	resetReceived
	icmpSent
)

// note is what else is told of a trace; few differ.
type note struct {
	// by, comm and pid: who deleted an entry. how: how a socket was closed, that no socket was there, or that the time of news of an entry is
	// that of its receipt. reason: the kernel's for a reset.
	by, comm string
	pid      uint32
	how      string
	reason   string
	podUID   string
	// icmp is type and code, and to whom it went.
	icmpType, icmpCode uint8
	icmpTo             netip.Addr
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, addrOf: map[netip.Addr]uint16{}, noteOf: map[note]uint16{{}: 0}, notes: []note{{}}}
}

// keep takes one trace. Its hosts and note are given as themselves.
func (m *memory) keep(t trace, ends [4]netip.AddrPort, n note) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, e := range ends {
		host, ok := number(&m.addrs, m.addrOf, e.Addr().Unmap())
		if !ok {
			m.untold++
			return
		}
		t.hosts[i], t.ports[i] = host, e.Port()
	}
	if n != m.last {
		is, ok := number(&m.notes, m.noteOf, n)
		if !ok {
			m.untold++
			return
		}
		m.last, m.lastNumber = n, is
	}
	t.note = m.lastNumber
	if m.kept < m.limit {
		if m.kept == len(m.chunks)*chunkTraces {
			m.chunks = append(m.chunks, make([]trace, min(chunkTraces, m.limit-m.kept)))
		}
		*m.trace(m.kept) = t
		m.kept++
		return
	}
	oldest := m.trace(m.at)
	m.forgottenMonoNs = max(m.forgottenMonoNs, oldest.monoNs)
	*oldest = t
	m.at = (m.at + 1) % m.limit
}

// chunkTraces makes a chunk of 256 KiB.
const chunkTraces = 8 << 10

func (m *memory) trace(i int) *trace { return &m.chunks[i/chunkTraces][i%chunkTraces] }

// number gives what stands for v in a table.
func number[T comparable](list *[]T, of map[T]uint16, v T) (uint16, bool) {
	if i, ok := of[v]; ok {
		return i, true
	}
	if len(*list) > math.MaxUint16 {
		return 0, false
	}
	i := uint16(len(*list))
	*list, of[v] = append(*list, v), i
	return i, true
}

// pairKey is a pair with its ends in order.
type pairKey struct {
	protocol uint8
	a, b     netip.AddrPort
}

func keyOf(protocol uint8, a, b netip.AddrPort) pairKey {
	a, b = netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), netip.AddrPortFrom(b.Addr().Unmap(), b.Port())
	if b.Compare(a) < 0 {
		a, b = b, a
	}
	return pairKey{protocol, a, b}
}

// find calls told with every trace of those connections, in the order in which they were kept. An entry is found by either of its directions.
func (m *memory) find(pairs []Pair, told func(Fact)) (forgottenBeforeMonoNs int64) {
	want := make(map[pairKey]bool, len(pairs))
	for _, p := range pairs {
		want[keyOf(p.Protocol, p.A, p.B)] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.kept {
		t := m.trace((m.at + i) % m.kept)
		ends := m.ends(t)
		if want[keyOf(t.protocol, ends[0], ends[1])] || t.isEntry() && want[keyOf(t.protocol, ends[2], ends[3])] {
			told(m.fact(t, ends))
		}
	}
	return m.forgottenMonoNs
}

func (t *trace) isEntry() bool {
	return t.kind == entryNew || t.kind == entryUpdated || t.kind == entryDeleted
}

func (m *memory) ends(t *trace) (ends [4]netip.AddrPort) {
	for i := range ends {
		ends[i] = netip.AddrPortFrom(m.addrs[t.hosts[i]], t.ports[i])
	}
	return ends
}

func (m *memory) fact(t *trace, ends [4]netip.AddrPort) Fact {
	n := m.notes[t.note]
	e := record.Event{Source: record.FromKernel, Bound: record.Exact, PodUID: n.podUID, Detail: map[string]any{"protocol": protocolName(t.protocol)}}
	set := func(name string, a netip.AddrPort) { e.Detail[name] = a.String() }
	switch t.kind {
	case entryNew, entryUpdated, entryDeleted:
		e.Source = record.FromConntrack
		set("original_source", ends[0])
		set("original_destination", ends[1])
		set("reply_source", ends[2])
		set("reply_destination", ends[3])
		if n.how == received {
			e.Bound = record.Upper
		}
	case icmpSent:
		set("source", ends[0])
		set("destination", ends[1])
	default:
		set("local", ends[0])
		set("remote", ends[1])
	}
	switch t.kind {
	case entryNew:
		e.Kind = record.ConntrackNew
	case entryUpdated:
		e.Kind = record.ConntrackUpdated
	case entryDeleted:
		e.Kind = record.ConntrackDeleted
		e.Detail["by"] = n.by
		if n.comm != "" {
			e.Detail["by_comm"], e.Detail["by_pid"] = n.comm, n.pid
		}
	case socketClosed:
		e.Kind = record.SocketClosed
		e.Detail["how"] = n.how
	case resetSent:
		e.Kind = record.ResetSent
		e.Detail["socket"], e.Detail["by_rule"] = n.how == "socket", n.how == "rule"
		if n.reason != "" {
			e.Detail["reason"] = n.reason
		}
	case resetReceived:
		e.Kind = record.ResetReceived
	case icmpSent:
		e.Kind = record.ICMPSent
		e.Detail["type"], e.Detail["code"], e.Detail["to"] = n.icmpType, n.icmpCode, n.icmpTo.String()
	}
	return Fact{MonoNs: t.monoNs, Event: e}
}

// lost counts what could not be kept.
func (m *memory) lost() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.untold
}

// received marks news of an entry whose time is that of its receipt, some time later.
const received = "received"

func protocolName(p uint8) string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	}
	return "other"
}
