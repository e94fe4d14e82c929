package agent

import (
	"fmt"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/drainproof/drainproof/internal/record"
)

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func (m *memory) entry(at int64, kind traceKind, client, front, backend, seenAs string, n note) {
	m.keep(trace{monoNs: at, kind: kind, protocol: 6}, [4]netip.AddrPort{ap(client), ap(front), ap(backend), ap(seenAs)}, n)
}

func (m *memory) all(pairs ...Pair) (facts []Fact, forgotten int64) {
	forgotten = m.find(pairs, func(f Fact) { facts = append(facts, f) })
	return facts, forgotten
}

func TestMemoryFindsByEitherDirection(t *testing.T) {
	m := newMemory(100)
	m.entry(1, entryNew, "10.0.0.1:1000", "10.96.0.1:80", "10.0.1.5:8080", "10.0.0.1:1000", note{})
	m.entry(2, entryNew, "10.0.0.1:1001", "10.96.0.1:80", "10.0.2.6:8080", "10.0.0.1:1001", note{})
	m.entry(3, entryDeleted, "10.0.0.1:1000", "10.96.0.1:80", "10.0.1.5:8080", "10.0.0.1:1000", note{by: "process", comm: "kube-proxy", pid: 7})
	m.keep(trace{monoNs: 4, kind: resetSent, protocol: 6}, [4]netip.AddrPort{ap("10.0.1.5:8080"), ap("10.0.0.1:1000")}, note{how: "no-socket", podUID: "u"})

	facts, _ := m.all(Pair{6, ap("10.96.0.1:80"), ap("10.0.0.1:1000")})
	if len(facts) != 2 || facts[0].Event.Kind != record.ConntrackNew || facts[1].Event.Kind != record.ConntrackDeleted {
		t.Fatalf("by what the client knows: %v", facts)
	}
	if d := facts[0].Event.Detail; d["reply_source"] != "10.0.1.5:8080" || d["original_source"] != "10.0.0.1:1000" || d["protocol"] != "tcp" {
		t.Errorf("the entry is %v", d)
	}
	if d := facts[1].Event.Detail; d["by"] != "process" || d["by_comm"] != "kube-proxy" || d["by_pid"] != uint32(7) {
		t.Errorf("deleted by %v", d)
	}
	facts, _ = m.all(Pair{6, ap("10.0.0.1:1000"), ap("10.0.1.5:8080")})
	if len(facts) != 3 || facts[2].Event.Kind != record.ResetSent || facts[2].Event.PodUID != "u" || facts[2].Event.Detail["socket"] != false {
		t.Errorf("by what the server knows: %v", facts)
	}
	if facts, _ = m.all(Pair{17, ap("10.0.0.1:1000"), ap("10.0.1.5:8080")}); len(facts) != 0 {
		t.Errorf("another protocol: %v", facts)
	}
	mapped := netip.AddrPortFrom(netip.AddrFrom16(netip.MustParseAddr("::ffff:10.0.0.1").As16()), 1001)
	if facts, _ = m.all(Pair{6, mapped, ap("10.96.0.1:80")}); len(facts) != 1 {
		t.Errorf("an IPv4 address as IPv6 writes it: %v", facts)
	}
}

func TestMemoryForgetsTheOldestAndSaysSo(t *testing.T) {
	m := newMemory(3)
	for i := range 5 {
		m.entry(int64(10+i), entryNew, fmt.Sprintf("10.0.0.1:%d", 1000+i), "10.96.0.1:80", "10.0.1.5:8080", "10.0.0.1:9", note{})
	}
	var pairs []Pair
	for i := range 5 {
		pairs = append(pairs, Pair{6, ap(fmt.Sprintf("10.0.0.1:%d", 1000+i)), ap("10.96.0.1:80")})
	}
	facts, forgotten := m.all(pairs...)
	if len(facts) != 3 || facts[0].MonoNs != 12 || facts[2].MonoNs != 14 {
		t.Errorf("kept %v, want the last three in order", facts)
	}
	if forgotten != 11 {
		t.Errorf("forgotten up to %d, want 11", forgotten)
	}
}

// A table that is full loses what is new to it, counts it, and keeps what it knows.
func TestMemoryFullTable(t *testing.T) {
	m := newMemory(1 << 20)
	for i := range 1<<16 + 10 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		m.keep(trace{monoNs: 1, kind: resetSent, protocol: 6}, [4]netip.AddrPort{netip.AddrPortFrom(a, 1)}, note{})
	}
	if m.untold == 0 {
		t.Error("nothing counted as untold")
	}
	kept := m.kept
	m.keep(trace{monoNs: 2, kind: resetSent, protocol: 6}, [4]netip.AddrPort{ap("10.0.0.5:1")}, note{})
	if m.kept != kept+1 {
		t.Error("an address that is known was not kept")
	}
}

func TestTraceIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(trace{}); n != 32 {
		t.Errorf("a trace takes %d bytes; docs and memory's comment say 32", n)
	}
}

// News of an entry whose time is that of its receipt happened then or before; where the kernel told when, it happened then.
func TestMemoryTellsWhatItsTimesAre(t *testing.T) {
	m := newMemory(100)
	for i, kind := range []traceKind{entryNew, entryUpdated, entryDeleted} {
		m.entry(int64(2*i), kind, "10.0.0.1:1000", "10.96.0.1:80", "10.0.1.5:8080", "10.0.0.1:1000", note{how: received})
		m.entry(int64(2*i+1), kind, "10.0.0.1:1000", "10.96.0.1:80", "10.0.1.5:8080", "10.0.0.1:1000", note{})
	}
	facts, _ := m.all(Pair{6, ap("10.0.0.1:1000"), ap("10.96.0.1:80")})
	if len(facts) != 6 {
		t.Fatalf("%d facts, not 6", len(facts))
	}
	for i, f := range facts {
		want := record.Exact
		if i%2 == 0 {
			want = record.Upper
		}
		if f.MonoNs != int64(i) || f.Event.Bound != want {
			t.Errorf("fact %d, %s at %d, is %q; want %q", i, f.Event.Kind, f.MonoNs, f.Event.Bound, want)
		}
	}
}

func TestMemoryOfManyChunks(t *testing.T) {
	const limit = 2*chunkTraces + 10
	m := newMemory(limit)
	for i := range limit + chunkTraces {
		m.keep(trace{monoNs: int64(i), kind: resetSent, protocol: 6}, [4]netip.AddrPort{ap("10.0.0.5:1"), ap("10.0.0.6:2")}, note{})
	}
	facts, forgotten := m.all(Pair{6, ap("10.0.0.5:1"), ap("10.0.0.6:2")})
	if len(facts) != limit || forgotten != chunkTraces-1 {
		t.Fatalf("%d facts, forgotten up to %d; want %d and %d", len(facts), forgotten, limit, chunkTraces-1)
	}
	for i, f := range facts {
		if f.MonoNs != int64(chunkTraces+i) {
			t.Fatalf("fact %d is of %d, not %d", i, f.MonoNs, chunkTraces+i)
		}
	}
}
