package wire

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestEveryMessageReadsBack(t *testing.T) {
	id := NewIdentity("probe-7d9", "c0ff-ee")
	for _, m := range []Message{
		{Type: Hello, Promises: PromiseAnnounce},
		{Type: Beat, Seq: 12},
		{Type: Beat, Seq: math.MaxUint64},
		{Type: Tick, Seq: 3},
		{Type: Draining, ClosesInMs: 25000},
		{Type: Bye},
	} {
		b := id.Append([]byte("before"), m)[len("before"):]
		got, err := Parse(b)
		m.Instance, m.PodUID = "probe-7d9", "c0ff-ee"
		if err != nil || got != m {
			t.Errorf("%s: got %+v, %v", b, got, err)
		}
		if seq, ok := id.Is(b); ok != (m.Type == Beat) || ok && seq != m.Seq {
			t.Errorf("%s: Is says %d, %v", b, seq, ok)
		}
	}
}

// The documented form is a promise: other programs may speak it, and the fast paths compare bytes.
func TestTheFormOnTheWire(t *testing.T) {
	id := NewIdentity("probe-7d9", "c0ff")
	for want, got := range map[string][]byte{
		`{"type":"ping","seq":12}`: AppendPing(nil, 12),
		`{"type":"beat","instance":"probe-7d9","pod_uid":"c0ff","seq":12}`:                 id.AppendBeat(nil, 12),
		`{"type":"hello","instance":"probe-7d9","pod_uid":"c0ff","promises":"announce"}`:   id.Append(nil, Message{Type: Hello, Promises: PromiseAnnounce}),
		`{"type":"draining","instance":"probe-7d9","pod_uid":"c0ff","closes_in_ms":25000}`: id.Append(nil, Message{Type: Draining, ClosesInMs: 25000}),
		`{"type":"bye","instance":"probe-7d9","pod_uid":"c0ff"}`:                           id.Append(nil, Message{Type: Bye}),
	} {
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestIdentitiesAreToldApart(t *testing.T) {
	a, b := NewIdentity("probe", "a"), NewIdentity("probe", "b")
	if _, ok := a.Is(b.AppendBeat(nil, 1)); ok {
		t.Error("a Pod of the same name but another UID passes for the first")
	}
	quoted := NewIdentity(`a","pod_uid":"x`, `<&>`)
	m, err := Parse(quoted.AppendBeat(nil, 7))
	if err != nil || m.Instance != quoted.Instance || m.PodUID != quoted.PodUID || m.Seq != 7 {
		t.Errorf("a name with quotes: %+v, %v", m, err)
	}
	if m, err := Parse(quoted.Append(nil, Message{Type: Tick, Seq: 1})); err != nil || m.Instance != quoted.Instance {
		t.Errorf("a name with quotes: %+v, %v", m, err)
	}
}

func TestNumbersInTheFastPath(t *testing.T) {
	for text, want := range map[string]uint64{
		`{"type":"ping","seq":0}`:                    0,
		`{"type":"ping","seq":7}`:                    7,
		`{"type":"ping","seq":18446744073709551615}`: math.MaxUint64,
	} {
		if got, ok := ParsePing([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "{}", `{"type":"ping","seq":}`, `{"type":"ping","seq":-1}`, `{"type":"ping","seq":1`, `{"type":"ping","seq":1 }`, `{"type":"ping","seq":1}}`,
		`{"type":"ping","seq":18446744073709551616}`, `{"type":"ping","seq":99999999999999999999}`, `{"type":"beat","seq":1}`, `{"seq":1,"type":"ping"}`,
	} {
		if got, ok := ParsePing([]byte(text)); ok {
			t.Errorf("%s: read as ping %d", text, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "null", "[]", `{"type":"song"}`, `{"type":"beat","seq":-1}`, `{"type":"beat"`, `{"type":"beat","seq":"1"}`, `{"type":"bye"}{}`, `{"type":"bye","instance":"` + strings.Repeat("x", MaxMessageBytes) + `"}`} {
		if m, err := Parse([]byte(text)); err == nil {
			t.Errorf("%.60s: read as %+v", text, m)
		}
	}
}

func FuzzParse(f *testing.F) {
	id := NewIdentity("probe", "uid")
	for _, m := range []Message{{Type: Hello, Promises: PromiseAnnounce}, {Type: Beat, Seq: 1}, {Type: Tick, Seq: 2}, {Type: Draining, ClosesInMs: 3}, {Type: Bye}} {
		f.Add(id.Append(nil, m))
	}
	f.Add(AppendPing(nil, 9))
	f.Add([]byte(`{"type":"beat","instance":"probe","pod_uid":"uid","seq":01}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err == nil && len(b) > MaxMessageBytes {
			t.Fatal("an oversize message was read")
		}
		// Where a fast path reads a message, the slow one must agree, unless JSON forbids the number's form (leading zeros).
		if seq, ok := id.Is(b); ok && json.Valid(b) {
			if err != nil || m.Type != Beat || m.Seq != seq || m.Instance != "probe" || m.PodUID != "uid" {
				t.Fatalf("%s: the fast path says beat %d, Parse says %+v, %v", b, seq, m, err)
			}
		}
		if seq, ok := ParsePing(b); ok && json.Valid(b) {
			if err != nil || m.Type != Ping || m.Seq != seq {
				t.Fatalf("%s: the fast path says ping %d, Parse says %+v, %v", b, seq, m, err)
			}
		}
	})
}

func BenchmarkIs(b *testing.B) {
	id := NewIdentity("probe-7d9", "c0ff-ee")
	line := id.AppendBeat(nil, 123456)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := id.Is(line); !ok {
			b.Fatal("not recognised")
		}
	}
}
