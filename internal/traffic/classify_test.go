package traffic

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/record"
)

func TestClassify(t *testing.T) {
	icmp := func(typ, code int) *record.ICMP { return &record.ICMP{From: "192.0.2.1", Type: typ, Code: code} }
	for _, c := range []struct {
		name string
		p    record.Protocol
		e    RawEnd
		o    record.Outcome
		m    record.Mechanism
	}{
		{"announced FIN", record.TCP, RawEnd{Kind: EndEOF, Promised: true, Announced: true}, record.Drained, record.AnnouncedFIN},
		{"FIN against a promise", record.TCP, RawEnd{Kind: EndEOF, Promised: true}, record.Severed, record.FINMidMessage},
		{"FIN inside a message", record.TCP, RawEnd{Kind: EndEOF, PartialBytes: 3}, record.Severed, record.FINMidMessage},
		{"FIN inside a message after a bye", record.TCP, RawEnd{Kind: EndEOF, PartialBytes: 3, Announced: true}, record.Severed, record.FINMidMessage},
		{"plain FIN", record.TCP, RawEnd{Kind: EndEOF}, record.Closed, record.FIN},
		{"reset", record.TCP, RawEnd{Kind: EndReadError, Errno: "ECONNRESET", Promised: true}, record.Severed, record.RST},
		{"reset on a write", record.TCP, RawEnd{Kind: EndWriteError, Errno: "ECONNRESET"}, record.Severed, record.RST},
		{"reset after a bye", record.TCP, RawEnd{Kind: EndReadError, Errno: "ECONNRESET", Announced: true}, record.Drained, record.RST},
		{"broken pipe", record.TCP, RawEnd{Kind: EndWriteError, Errno: "EPIPE"}, record.Severed, record.BrokenPipe},
		{"broken pipe after a bye", record.TCP, RawEnd{Kind: EndWriteError, Errno: "EPIPE", Announced: true}, record.Drained, record.BrokenPipe},
		{"silence after a bye is no drain", record.TCP, RawEnd{Kind: EndReadError, Errno: "ETIMEDOUT", Announced: true}, record.Severed, record.Silence},
		{"UDP refused", record.UDP, RawEnd{Kind: EndReadError, Errno: "ECONNREFUSED"}, record.Severed, record.ICMPPort},
		{"ICMP port", record.UDP, RawEnd{Kind: EndReadError, Errno: "ECONNREFUSED", ICMP: icmp(3, 3)}, record.Severed, record.ICMPPort},
		{"ICMP host", record.UDP, RawEnd{Kind: EndReadError, Errno: "EHOSTUNREACH", ICMP: icmp(3, 1)}, record.Severed, record.ICMPHost},
		{"ICMP network", record.UDP, RawEnd{Kind: EndReadError, Errno: "ENETUNREACH", ICMP: icmp(3, 0)}, record.Severed, record.ICMPHost},
		{"ICMP network prohibited", record.UDP, RawEnd{Kind: EndReadError, ICMP: icmp(3, 9)}, record.Severed, record.ICMPHost},
		{"ICMP host prohibited", record.UDP, RawEnd{Kind: EndReadError, ICMP: icmp(3, 10)}, record.Severed, record.ICMPHost},
		{"ICMP filtered", record.UDP, RawEnd{Kind: EndReadError, Errno: "EHOSTUNREACH", ICMP: icmp(3, 13)}, record.Severed, record.ICMPHost},
		{"ICMPv6 port", record.UDP, RawEnd{Kind: EndReadError, Errno: "ECONNREFUSED", ICMP: icmp(1, 4)}, record.Severed, record.ICMPPort},
		{"ICMPv6 no route", record.UDP, RawEnd{Kind: EndReadError, Errno: "ENETUNREACH", ICMP: icmp(1, 0)}, record.Severed, record.ICMPHost},
		{"ICMP of another kind", record.UDP, RawEnd{Kind: EndReadError, Errno: "EMSGSIZE", ICMP: icmp(3, 4)}, record.NotMeasured, record.ClientLimit},
		{"no route", record.TCP, RawEnd{Kind: EndReadError, Errno: "EHOSTUNREACH"}, record.Severed, record.ICMPHost},
		{"given up by the kernel", record.TCP, RawEnd{Kind: EndReadError, Errno: "ETIMEDOUT"}, record.Severed, record.Silence},
		{"garbage", record.TCP, RawEnd{Kind: EndReadError, Errno: "EPROTO"}, record.NotMeasured, record.ClientLimit},
		{"no answer on TCP", record.TCP, RawEnd{Kind: EndNoAnswer}, record.ReadTimeout, record.Silence},
		{"no answer on UDP", record.UDP, RawEnd{Kind: EndNoAnswer}, record.Severed, record.Silence},
		{"another instance", record.UDP, RawEnd{Kind: EndOtherInstance}, record.Rehomed, record.OtherInstance},
		{"alive", record.TCP, RawEnd{Kind: EndWindowClosed}, record.Survived, record.None},
		{"descriptors", record.TCP, RawEnd{Kind: EndClientLimit, Errno: "EMFILE"}, record.NotMeasured, record.ClientLimit},
		{"worker lost", record.TCP, RawEnd{Kind: EndClientLost}, record.NotMeasured, record.ClientLimit},
		{"never opened: refused", record.TCP, RawEnd{Kind: EndNotOpened, Errno: "ECONNREFUSED"}, record.NotMeasured, record.RST},
		{"never opened: refused datagram", record.UDP, RawEnd{Kind: EndNotOpened, Errno: "ECONNREFUSED"}, record.NotMeasured, record.ICMPPort},
		{"never opened: silence", record.TCP, RawEnd{Kind: EndNotOpened, Errno: "ETIMEDOUT"}, record.NotMeasured, record.Silence},
		{"never opened: closed", record.TCP, RawEnd{Kind: EndNotOpened}, record.NotMeasured, record.FIN},
		{"never opened: stopped before", record.TCP, RawEnd{Kind: EndNotOpened, Errno: "ECANCELED"}, record.NotMeasured, record.WindowClosed},
	} {
		if o, m := Classify(c.p, c.e); o != c.o || m != c.m {
			t.Errorf("%s: got %s/%s, want %s/%s", c.name, o, m, c.o, c.m)
		}
	}
}

func TestClassifyIsTotal(t *testing.T) {
	kinds := []EndKind{EndEOF, EndReadError, EndWriteError, EndNoAnswer, EndOtherInstance, EndWindowClosed, EndClientLimit, EndClientLost, EndNotOpened, "", "a word of tomorrow"}
	errnos := []string{"", "ECONNRESET", "ECONNREFUSED", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EMFILE", "EPROTO", "ECANCELED", "errno 999"}
	rapid.Check(t, func(t *rapid.T) {
		e := RawEnd{
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Errno: rapid.SampledFrom(errnos).Draw(t, "errno"),
			PartialBytes: rapid.IntRange(0, 3).Draw(t, "partial"),
			Promised:     rapid.Bool().Draw(t, "promised"), Announced: rapid.Bool().Draw(t, "announced"),
		}
		if rapid.Bool().Draw(t, "with ICMP") {
			e.ICMP = &record.ICMP{Type: rapid.IntRange(0, 255).Draw(t, "type"), Code: rapid.IntRange(0, 255).Draw(t, "code")}
		}
		p := rapid.SampledFrom([]record.Protocol{record.TCP, record.UDP, "sctp"}).Draw(t, "protocol")
		o, m := Classify(p, e)
		if !slices.Contains(record.Outcomes(), o) {
			t.Fatalf("outcome %q", o)
		}
		if o == record.Survived {
			if m != record.None {
				t.Fatalf("survived by %q", m)
			}
		} else if !slices.Contains(record.Mechanisms(), m) {
			t.Fatalf("%s without a mechanism: %q", o, m)
		}
		if o == record.Drained && !e.Announced {
			t.Fatal("drained without an announcement")
		}
	})
}
