package kernel

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sample is an event as the programs write it, with every field set.
func sample(kind Kind, ends byte) []byte {
	b := make([]byte, eventSize)
	binary.LittleEndian.PutUint64(b[atMonoNs:], 1_000_000_007)
	b[atKind], b[atFlags], b[atProtocol], b[atEndsKnown] = byte(kind), 0xff, 6, ends
	b[atOldState], b[atNewState], b[atICMPType], b[atICMPCode] = 1, 7, 3, 4
	binary.LittleEndian.PutUint32(b[atSignal:], 15)
	binary.LittleEndian.PutUint32(b[atDetail:], 2)
	binary.LittleEndian.PutUint32(b[atNetNs:], 4026531840)
	binary.LittleEndian.PutUint32(b[atIfIndex:], 11)
	binary.LittleEndian.PutUint32(b[atPortID:], 4242)
	putProcess(b[atBy:], 100, "kubelet")
	putProcess(b[atTo:], 200, "fifteen-letters")
	for i, addr := range []string{"::ffff:10.0.0.1", "fd00::2", "::ffff:10.0.0.3", "fd00::4"} {
		at := atEnds + i*endSize
		as16 := netip.MustParseAddr(addr).As16()
		copy(b[at:], as16[:])
		binary.BigEndian.PutUint16(b[at+16:], uint16(1000+i))
	}
	return b
}

func putProcess(b []byte, first uint32, comm string) {
	for i := range uint32(5) {
		binary.LittleEndian.PutUint32(b[i*4:], first+i)
	}
	copy(b[20:20+commSize], comm)
}

func TestDecode(t *testing.T) {
	by := Process{PID: 100, NsPID: 101, NetNs: 102, MntNs: 103, PIDNs: 104, Comm: "kubelet"}
	base := Event{
		MonoNs: 1_000_000_007, By: by, Bystander: true, Signal: 15, FromKernel: true, NetNs: 4026531840, IfIndex: 11, Protocol: 6,
		OldState: 1, NewState: 7, ByRule: true, Requested: true, Type: 3, Code: 4, NetlinkPortID: 4242, Expired: true, Early: true,
	}
	with := func(kind Kind, change func(*Event)) Event {
		e := base
		e.Kind = kind
		change(&e)
		return e
	}
	local, remote := netip.MustParseAddrPort("10.0.0.1:1000"), netip.MustParseAddrPort("[fd00::2]:1001")
	served, back := netip.MustParseAddrPort("10.0.0.3:1002"), netip.MustParseAddrPort("[fd00::4]:1003")
	for name, c := range map[string]struct {
		sample []byte
		want   Event
	}{
		"a signal has a target and a result": {sample(SignalSent, 0), with(SignalSent, func(e *Event) {
			e.To = Process{PID: 200, NsPID: 201, NetNs: 202, MntNs: 203, PIDNs: 204, Comm: "fifteen-letters"}
			e.Result = SignalAlreadyPending
		})},
		"an exit has a code": {sample(ProcessExited, 0), with(ProcessExited, func(e *Event) { e.ExitCode = 2 })},
		"a reset has the kernel's reason": {sample(ResetSent, 2), with(ResetSent, func(e *Event) {
			e.Reason, e.Local, e.Remote = "TWO", local, remote
		})},
		"most events are short": {sample(ResetSent, 2)[:shortSize], with(ResetSent, func(e *Event) {
			e.Reason, e.Local, e.Remote = "TWO", local, remote
		})},
		"an ICMP error has the packet's ends": {sample(ICMPSent, 2), with(ICMPSent, func(e *Event) { e.Local, e.Remote = local, remote })},
		"an entry has two directions": {sample(EntryDeleted, 4), with(EntryDeleted, func(e *Event) {
			e.Original, e.Reply = [2]netip.AddrPort{local, remote}, [2]netip.AddrPort{served, back}
		})},
		"an entry goes to nobody": {sample(EntryNew, 4)[:fourEndsSize], with(EntryNew, func(e *Event) {
			e.Original, e.Reply = [2]netip.AddrPort{local, remote}, [2]netip.AddrPort{served, back}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			var got Event
			if err := newDecoder(map[int32]string{2: "TWO"}).decode(c.sample, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
				t.Errorf("decode (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeRefusesForeignSamples(t *testing.T) {
	short, long := sample(SignalSent, 0)[:eventSize-1], append(sample(SignalSent, 0), 0)
	for name, b := range map[string][]byte{
		"empty": nil, "short": short, "long": long, "kind 0": sample(0, 0), "a kind of a newer version": sample(Kind(kinds), 0), "three addresses": sample(ResetSent, 3),
		"a short signal": sample(SignalSent, 0)[:shortSize], "a signal to nobody": sample(SignalSent, 0)[:fourEndsSize], "a short entry": sample(EntryDeleted, 4)[:shortSize],
	} {
		var e Event
		if err := newDecoder(nil).decode(b, &e); err == nil {
			t.Errorf("%s: decoded to %+v", name, e)
		}
	}
}

func TestDecodeAllocatesNothingForKnownNames(t *testing.T) {
	d, b := newDecoder(map[int32]string{2: "TWO"}), sample(ResetSent, 2)
	var e Event
	if n := testing.AllocsPerRun(100, func() {
		if err := d.decode(b, &e); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per event", n)
	}
}

func TestDecoderForgetsNames(t *testing.T) {
	d, b := newDecoder(nil), sample(ListenerOpened, 2)
	var e Event
	for i := range uint32(3 * maxComms) {
		binary.LittleEndian.PutUint32(b[atBy+20:], i)
		if err := d.decode(b, &e); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.comms) > maxComms {
		t.Errorf("%d names kept, more than %d", len(d.comms), maxComms)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample(SignalSent, 0))
	f.Add(sample(EntryDeleted, 4))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Event
		err := newDecoder(nil).decode(b, &e)
		if err == nil && (len(b) != eventSize && len(b) != fourEndsSize && len(b) != shortSize || e.Kind == 0 || int(e.Kind) >= kinds) {
			t.Errorf("%d bytes decoded to kind %d", len(b), e.Kind)
		}
	})
}

func TestOptions(t *testing.T) {
	if mask, err := (Options{Signals: []int{1, 64}}).mask(); err != nil || mask != 1|1<<63 {
		t.Errorf("mask of signals 1 and 64 is %#x, %v", mask, err)
	}
	if mask, err := (Options{}).mask(); err != nil || mask&(1<<14) == 0 {
		t.Errorf("TERM is not among the default signals: %#x, %v", mask, err)
	}
	for _, n := range []int{0, -1, 65} {
		if _, err := (Options{Signals: []int{n}}).mask(); err == nil {
			t.Errorf("signal %d was accepted", n)
		}
	}
	for want, bytes := range map[uint32]int{4096: 1, 8192: 4097, DefaultRingBytes: 0} {
		if got, err := (Options{RingBytes: bytes}).ringBytes(4096); err != nil || got != want {
			t.Errorf("a ring of %d bytes becomes %d, %v; want %d", bytes, got, err, want)
		}
	}
	for _, bytes := range []int{-1, 1<<30 + 1} {
		if _, err := (Options{RingBytes: bytes}).ringBytes(4096); err == nil {
			t.Errorf("a ring of %d bytes was accepted", bytes)
		}
	}
}
