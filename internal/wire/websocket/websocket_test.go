package websocket

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAcceptKey is the example of RFC 6455, 1.3.
func TestAcceptKey(t *testing.T) {
	if got := AcceptKey("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Errorf("got %s", got)
	}
}

// TestExamples are those of RFC 6455, 5.7, from either side.
func TestExamples(t *testing.T) {
	key := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	masked := []byte{0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58}
	if got := AppendMasked(nil, Text, key, []byte("Hello")); !bytes.Equal(got, masked) {
		t.Errorf("masked: % x", got)
	}
	bare := []byte{0x81, 0x05, 'H', 'e', 'l', 'l', 'o'}
	if got := AppendFrame(nil, Text, []byte("Hello")); !bytes.Equal(got, bare) {
		t.Errorf("bare: % x", got)
	}
	for name, c := range map[string]struct {
		bytes  []byte
		masked bool
		op     Opcode
		want   string
	}{
		"masked":     {masked, true, Text, "Hello"},
		"bare":       {bare, false, Text, "Hello"},
		"fragments":  {[]byte{0x01, 0x03, 'H', 'e', 'l', 0x80, 0x02, 'l', 'o'}, false, Text, "Hello"},
		"bare ping":  {[]byte{0x89, 0x05, 'H', 'e', 'l', 'l', 'o'}, false, Ping, "Hello"},
		"256 bytes":  {append([]byte{0x82, 0x7e, 0x01, 0x00}, make([]byte, 256)...), false, Binary, strings.Repeat("\x00", 256)},
		"64 KiB":     {append([]byte{0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0}, make([]byte, 65536)...), false, Binary, strings.Repeat("\x00", 65536)},
		"empty text": {[]byte{0x81, 0x00}, false, Text, ""},
	} {
		r := NewReader(bytes.NewReader(c.bytes), c.masked)
		if op, b, err := r.Next(); err != nil || op != c.op || string(b) != c.want {
			t.Errorf("%s: %d, %d bytes, %v", name, op, len(b), err)
		}
		if _, _, err := r.Next(); err != io.EOF {
			t.Errorf("%s: after it %v", name, err)
		}
	}
}

func TestControlFramesBetweenFragments(t *testing.T) {
	var b []byte
	b = append(b, 0x02, 0x02, 'a', 'b')
	b = AppendFrame(b, Ping, []byte("p"))
	b = append(b, 0x00, 0x00)
	b = AppendFrame(b, Pong, nil)
	b = append(b, 0x80, 0x01, 'c')
	b = AppendFrame(b, Close, ClosePayload(CloseGoingAway, "bye"))
	r := NewReader(bytes.NewReader(b), false)
	for _, want := range []struct {
		op      Opcode
		payload string
	}{{Ping, "p"}, {Pong, ""}, {Binary, "abc"}, {Close, "\x03\xe9bye"}} {
		if op, b, err := r.Next(); err != nil || op != want.op || string(b) != want.payload {
			t.Fatalf("%d %q %v, want %+v", op, b, err, want)
		}
	}
}

func TestViolations(t *testing.T) {
	text := func(b ...byte) []byte { return b }
	for name, c := range map[string]struct {
		bytes  []byte
		masked bool
		code   int
	}{
		"reserved bit":             {text(0xc1, 0), false, CloseProtocolError},
		"unknown data opcode":      {text(0x83, 0), false, CloseProtocolError},
		"unknown control opcode":   {text(0x8b, 0), false, CloseProtocolError},
		"a bare client":            {text(0x81, 0), true, CloseProtocolError},
		"a masked server":          {text(0x81, 0x80, 1, 2, 3, 4), false, CloseProtocolError},
		"a fragment of a ping":     {text(0x09, 0), false, CloseProtocolError},
		"a long ping":              {text(0x89, 126, 0, 126), false, CloseProtocolError},
		"continuation of nothing":  {text(0x80, 0), false, CloseProtocolError},
		"a message within another": {text(0x01, 0, 0x81, 0), false, CloseProtocolError},
		"half a close code":        {text(0x88, 1, 3), false, CloseProtocolError},
		"no UTF-8":                 {text(0x81, 1, 0xff), false, CloseBadData},
		"too big":                  {text(0x82, 127, 0, 0, 0, 0, 1, 0, 0, 1), false, CloseTooBig},
		"a length over 63 bits":    {text(0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0), false, CloseTooBig},
	} {
		_, _, err := NewReader(bytes.NewReader(c.bytes), c.masked).Next()
		if v, ok := errors.AsType[*Violation](err); !ok || v.Code != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The bound is for all fragments together.
	big := append([]byte{0x02, 127, 0, 0, 0, 0, 1, 0, 0, 0}, make([]byte, MaxMessageBytes)...)
	_, _, err := NewReader(bytes.NewReader(append(big, 0x80, 1, 'x')), false).Next()
	if v, ok := errors.AsType[*Violation](err); !ok || v.Code != CloseTooBig {
		t.Errorf("fragments over the bound: %v", err)
	}
}

func TestAnEndWithinAMessage(t *testing.T) {
	whole := AppendMasked(nil, Binary, [4]byte{1, 2, 3, 4}, make([]byte, 70000))
	for _, n := range []int{1, 2, 5, 9, 13, 14, 69000} {
		if _, _, err := NewReader(bytes.NewReader(whole[:n]), true).Next(); err != io.ErrUnexpectedEOF {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, _, err := NewReader(bytes.NewReader([]byte{0x01, 0}), false).Next(); err != io.ErrUnexpectedEOF {
		t.Errorf("between fragments: %v", err)
	}
}

func TestCloseCodes(t *testing.T) {
	if code, reason := CloseCode(ClosePayload(CloseServiceRestart, "later")); code != CloseServiceRestart || reason != "later" {
		t.Errorf("%d %q", code, reason)
	}
	if code, _ := CloseCode(nil); code != CloseNoStatus {
		t.Errorf("an empty frame: %d", code)
	}
	if n := len(ClosePayload(CloseNormal, strings.Repeat("x", 200))); n != maxControlBytes {
		t.Errorf("a long reason: %d bytes", n)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type frame struct {
			op      Opcode
			payload []byte
		}
		masked := rapid.Bool().Draw(t, "masked")
		var b []byte
		var want []frame
		for range rapid.IntRange(1, 5).Draw(t, "frames") {
			f := frame{op: rapid.SampledFrom([]Opcode{Binary, Ping, Pong}).Draw(t, "op")}
			most := maxControlBytes
			if f.op == Binary {
				most = rapid.SampledFrom([]int{130, 70000}).Draw(t, "most")
			}
			f.payload = bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte"), 7, 0}, most/3)[:rapid.IntRange(0, most/3*3).Draw(t, "length")]
			if masked {
				b = AppendMasked(b, f.op, [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "key")), f.payload)
			} else {
				b = AppendFrame(b, f.op, f.payload)
			}
			want = append(want, f)
		}
		r := NewReader(bytes.NewReader(b), masked)
		for _, f := range want {
			if op, payload, err := r.Next(); err != nil || op != f.op || !bytes.Equal(payload, f.payload) {
				t.Fatalf("%d, %d bytes, %v; want %d, %d bytes", op, len(payload), err, f.op, len(f.payload))
			}
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{0x81, 0x05, 'H', 'e', 'l', 'l', 'o'}, false)
	f.Add(AppendMasked(nil, Close, [4]byte{1, 2, 3, 4}, ClosePayload(CloseNormal, "")), true)
	f.Fuzz(func(t *testing.T, b []byte, masked bool) {
		r := NewReader(bytes.NewReader(b), masked)
		for {
			op, payload, err := r.Next()
			if err != nil {
				return
			}
			if op.control() && len(payload) > maxControlBytes || len(payload) > len(b) {
				t.Fatalf("opcode %d with %d bytes out of %d", op, len(payload), len(b))
			}
		}
	})
}
