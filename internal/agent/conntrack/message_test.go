package conntrack

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded are messages of Linux 6.18 on a little-endian machine: connections to port 8080 of a loopback address that were translated to 9090.
var recorded = []struct {
	name, message string
	want          Event
}{
	{
		"NEW, UDP over IPv4",
		"94000000000100060000000000000000020000003400018014000180080001007f000001080002007f0000011c000280050001001100000006000200c4d00000060003001f9000003400028014000180080001007f000001080002007f0000011c0002800500010011000000060002002382000006000300c4d0000008000c009bb36aaa08000300000001a8080007000000001e",
		Event{Kind: New, Entry: Entry{
			Protocol: 17, Original: ends("127.0.0.1:50384", "127.0.0.1:8080"), Reply: ends("127.0.0.1:9090", "127.0.0.1:50384"),
			ID: 0x9bb36aaa, Status: 0x1a8, TimeoutS: 30,
		}},
	},
	{
		"UPDATE, UDP over IPv4",
		"94000000000100000000000000000000020000003400018014000180080001007f000001080002007f0000011c000280050001001100000006000200e04c0000060003001f9000003400028014000180080001007f000001080002007f0000011c0002800500010011000000060002002382000006000300e04c000008000c00d0f44ea208000300000001aa080007000000001e",
		Event{Kind: Update, Entry: Entry{
			Protocol: 17, Original: ends("127.0.0.1:57420", "127.0.0.1:8080"), Reply: ends("127.0.0.1:9090", "127.0.0.1:57420"),
			ID: 0xd0f44ea2, Status: 0x1aa, TimeoutS: 30,
		}},
	},
	{
		"DESTROY by its timeout, UDP over IPv4",
		"8c000000020100000000000000000000020000003400018014000180080001007f000001080002007f0000011c000280050001001100000006000200e85d0000060003001f9000003400028014000180080001007f000001080002007f0000011c0002800500010011000000060002002382000006000300e85d000008000c00ff071a0108000300000003a8",
		Event{Kind: Destroy, Entry: Entry{
			Protocol: 17, Original: ends("127.0.0.1:59485", "127.0.0.1:8080"), Reply: ends("127.0.0.1:9090", "127.0.0.1:59485"),
			ID: 0xff071a01, Status: 0x3a8,
		}},
	},
	{
		"NEW, TCP over IPv6",
		"f40000000001000600000000000000000a0000004c0001802c000180140003000000000000000000000000000000000114000400000000000000000000000000000000011c000280050001000600000006000200ed180000060003001f9000004c0002802c000180140003000000000000000000000000000000000114000400000000000000000000000000000000011c0002800500010006000000060002002382000006000300ed18000008000c00c8eb0e4e08000300000001a80800070000000078300004802c0001800500010001000000050002000a000000050003000000000006000400030000000600050000000000",
		Event{Kind: New, Entry: Entry{
			Protocol: 6, Original: ends("[::1]:60696", "[::1]:8080"), Reply: ends("[::1]:9090", "[::1]:60696"),
			ID: 0xc8eb0e4e, Status: 0x1a8, TimeoutS: 120, TCPState: 1,
		}},
	},
	{
		"DESTROY by request, TCP over IPv4",
		"a4000000020100000000000094fca89a020000003400018014000180080001007f000001080002007f0000011c000280050001000600000006000200853a0000060003001f9000003400028014000180080001007f000001080002007f0000011c0002800500010006000000060002002382000006000300853a000008000c004ea8700908000300000003ae080007000006977f100004800c0001800500010003000000",
		Event{Kind: Destroy, PortID: 0x9aa8fc94, Entry: Entry{
			Protocol: 6, Original: ends("127.0.0.1:34106", "127.0.0.1:8080"), Reply: ends("127.0.0.1:9090", "127.0.0.1:34106"),
			ID: 0x4ea87009, Status: 0x3ae, TimeoutS: 431999, TCPState: 3,
		}},
	},
}

// decodeOne reads a datagram of one message.
func decodeOne(b []byte) (Event, error) {
	var e Event
	h, payload, _, err := cutMessage(b)
	if err == nil {
		err = decodeEvent(h, payload, &e)
	}
	return e, err
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		tb.Skip("the recorded messages are of a little-endian machine")
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

var compareAddrs = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })

func TestDecodeRecorded(t *testing.T) {
	for _, tt := range recorded {
		b := unhex(t, tt.message)
		got, err := decodeOne(b)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got, compareAddrs); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
		// Cut anywhere, it is an error, or lacks only what both directions are known without.
		for n := range len(b) {
			short := slices.Clone(b[:n])
			if n >= headerLen {
				binary.NativeEndian.PutUint32(short, uint32(n))
			}
			got, err := decodeOne(short)
			if err == nil && (got.Entry.Original != tt.want.Entry.Original || got.Entry.Reply != tt.want.Entry.Reply || got.Entry.Protocol != tt.want.Entry.Protocol) {
				t.Errorf("%s, the first %d bytes: %+v", tt.name, n, got)
			}
		}
	}
}

func TestDecodeNeedsNoMemory(t *testing.T) {
	b := unhex(t, recorded[3].message)
	var e Event
	allocs := testing.AllocsPerRun(100, func() {
		h, payload, _, err := cutMessage(b)
		if err != nil || decodeEvent(h, payload, &e) != nil {
			t.Fatal("it was read before")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for each message", allocs)
	}
}

func TestDecode(t *testing.T) {
	one, other := ends("10.0.0.1:1000", "10.0.0.2:80"), ends("10.1.0.2:8080", "10.0.0.1:1000")
	original, reply := tuple(attrOriginal, 17, one), tuple(attrReply, 17, other)
	noPorts := func(kind uint16) []byte {
		return nest(kind, nest(tupleIP, attribute(ipV4Source, []byte{10, 0, 0, 1}), attribute(ipV4Destination, []byte{10, 0, 0, 2})),
			nest(tupleProto, attribute(protoNumber, []byte{1})), attribute(tupleZone, be16(9)))
	}
	for _, tt := range []struct {
		name  string
		parts [][]byte
		want  Entry
		err   string
	}{
		{"no more than both directions", [][]byte{original, reply}, Entry{Protocol: 17, Original: one, Reply: other}, ""},
		{"in the other order, with what is unknown", [][]byte{attribute(99, be32(1)), reply, original}, Entry{Protocol: 17, Original: one, Reply: other}, ""},
		{"a zone", [][]byte{original, reply, attribute(attrZone, be16(7))}, Entry{Protocol: 17, Original: one, Reply: other, Zone: 7}, ""},
		{"no ports, a zone of a direction", [][]byte{noPorts(attrOriginal), noPorts(attrReply)}, Entry{
			Protocol: 1, Original: ends("10.0.0.1:0", "10.0.0.2:0"), Reply: ends("10.0.0.1:0", "10.0.0.2:0"), Zone: 9,
		}, ""},
		{"no reply", [][]byte{original}, Entry{}, "a direction without addresses"},
		{"no original", [][]byte{reply}, Entry{}, "a direction without addresses"},
		{"no addresses in it", [][]byte{nest(attrOriginal, nest(tupleIP)), reply}, Entry{}, "a direction without addresses"},
		{"nothing", nil, Entry{}, "a direction without addresses"},
		{"an id of two bytes", [][]byte{original, reply, attribute(attrID, be16(1))}, Entry{}, "attribute 12 has 2 bytes instead of 4"},
		{"an address of six bytes", [][]byte{nest(attrOriginal, nest(tupleIP, attribute(ipV4Source, make([]byte, 6)))), reply}, Entry{}, "attribute 1 has 6 bytes instead of 4"},
		{"an attribute longer than what is left", [][]byte{original, reply, {200, 0, 1, 0}}, Entry{}, "200 bytes, of 4 that are left"},
		{"an attribute shorter than its head", [][]byte{original, reply, {3, 0, 1, 0}}, Entry{}, "3 bytes, of 4 that are left"},
		{"bytes behind", [][]byte{original, reply, {1, 2}}, Entry{}, "2 bytes after the last attribute"},
	} {
		got, err := decodeOne(encode(msgDelete, 0, 0, tt.parts...))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(Event{Kind: Destroy, Entry: tt.want}, got, compareAddrs); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", tt.name, err, diff)
		}
	}
	if _, err := decodeOne(encode(2<<8, 0, 0, original, reply)); err == nil {
		t.Error("a message of another subsystem was read")
	}
}

func TestFilterMatches(t *testing.T) {
	e := Entry{Protocol: 17, Original: ends("10.0.0.1:1000", "10.96.0.2:80"), Reply: ends("10.1.0.2:8080", "10.0.0.1:1000")}
	addr := netip.MustParseAddr
	for _, tt := range []struct {
		name string
		f    Filter
		want bool
	}{
		{"everything", Filter{}, true},
		{"the port asked for", Filter{Ports: []uint16{1, 80}}, true},
		{"the port that served", Filter{Ports: []uint16{8080}}, true},
		{"the client's port", Filter{Ports: []uint16{1000}}, false},
		{"the address asked for", Filter{Addrs: []netip.Addr{addr("10.96.0.2")}}, true},
		{"the address that served", Filter{Addrs: []netip.Addr{addr("fd00::1"), addr("10.1.0.2")}}, true},
		{"the client's address", Filter{Addrs: []netip.Addr{addr("10.0.0.1")}}, false},
		{"a protocol", Filter{Protocols: []uint8{6, 17}}, true},
		{"another protocol", Filter{Protocols: []uint8{6}, Ports: []uint16{80}}, false},
		{"the port of one, the address of the other end", Filter{Ports: []uint16{80}, Addrs: []netip.Addr{addr("10.1.0.2")}}, true},
		{"the port but not the address", Filter{Ports: []uint16{80}, Addrs: []netip.Addr{addr("10.1.0.3")}}, false},
	} {
		if got := tt.f.matches(&e); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// FuzzDecode gives the parser what no kernel sends: it must neither panic nor read what is not there.
func FuzzDecode(f *testing.F) {
	for _, r := range recorded {
		f.Add(unhex(f, r.message))
	}
	f.Add(encode(msgNew, flagCreate, 1, nest(attrOriginal, nest(tupleIP, attribute(ipV6Source)))))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			h, payload, rest, err := cutMessage(b)
			if err != nil {
				return
			}
			if len(rest) >= len(b) {
				t.Fatal("it does not end")
			}
			b = rest
			var e Event
			if decodeEvent(h, payload, &e) == nil && !(e.Entry.Original[0].IsValid() && e.Entry.Reply[1].IsValid()) {
				t.Errorf("read without addresses: %+v", e)
			}
		}
	})
}
