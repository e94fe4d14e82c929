package conntrack

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// inKernel gives messages to a socket with that filter and reports of each whether the kernel let it through. Any datagram
// socket runs such a filter: this one needs no rights.
func inKernel(t *testing.T, f Filter, updates []uint8, messages [][]byte) []bool {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	all := programs(f.clone(), updates)
	if len(all) != 3 {
		t.Fatalf("%d programs", len(all))
	}
	if err := attach(pair[1], all[0]); err != nil {
		t.Fatal(err)
	}
	passed := make([]bool, len(messages))
	buffer := make([]byte, receiveBytes)
	for i, m := range messages {
		if err := unix.Send(pair[0], m, 0); err != nil {
			t.Fatal(err)
		}
		n, err := unix.Read(pair[1], buffer)
		switch {
		case err == nil && slices.Equal(buffer[:n], m):
			passed[i] = true
		case err != unix.EAGAIN:
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	return passed
}

func TestKernelFilterMeansTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	addrs := []netip.Addr{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.1.1"),
		netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00:0:0:1::1"),
	}
	ports := []uint16{53, 80, 8080, 0x5000}
	protocols := []uint8{6, 17, 132}
	some := func(n int) []int { return rng.Perm(n)[:rng.IntN(n)] }
	end := func(v6 bool) netip.AddrPort {
		i := rng.IntN(3)
		if v6 {
			i += 3
		}
		return netip.AddrPortFrom(addrs[i], ports[rng.IntN(len(ports))])
	}
	passed := 0
	const filters, each = 300, 20
	for range filters {
		var f Filter
		var updates []uint8
		for _, i := range some(len(protocols)) {
			f.Protocols = append(f.Protocols, protocols[i])
		}
		for _, i := range some(len(ports)) {
			f.Ports = append(f.Ports, ports[i])
		}
		for _, i := range some(len(addrs)) {
			f.Addrs = append(f.Addrs, addrs[i])
		}
		for _, i := range some(len(protocols)) {
			updates = append(updates, protocols[i])
		}
		var messages [][]byte
		var want []bool
		for range each {
			v6, protocol := rng.IntN(2) == 0, protocols[rng.IntN(len(protocols))]
			kind, flags := uint16(msgNew), uint16(rng.IntN(2)*(flagCreate|0x200))
			if rng.IntN(3) == 0 {
				kind, flags = msgDelete, 0
			}
			// Attributes that the filter does not know stand before the ones that it wants.
			m := encode(kind, flags, 0, attribute(attrMark, be32(1)), tuple(attrOriginal, protocol, [2]netip.AddrPort{end(v6), end(v6)}),
				tuple(attrReply, protocol, [2]netip.AddrPort{end(v6), end(v6)}), attribute(attrID, be32(7)))
			h, payload, _, err := cutMessage(m)
			var e Event
			if err == nil {
				err = decodeEvent(h, payload, &e)
			}
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, m)
			want = append(want, f.matches(&e.Entry) && (e.Kind != Update || slices.Contains(updates, protocol)))
		}
		for i, got := range inKernel(t, f, updates, messages) {
			if got != want[i] {
				t.Fatalf("the kernel says %v of % x, filter %+v, updates %v", got, messages[i], f, updates)
			}
			if got {
				passed++
			}
		}
	}
	// The comparison says nothing if all are alike.
	if passed < filters*each/20 || passed > filters*each*19/20 {
		t.Errorf("%d of %d messages passed", passed, filters*each)
	}
}

// attrMark is CTA_MARK, which the package has no use for.
const attrMark = 8

func TestKernelFilterLetsThroughWhatItCannotJudge(t *testing.T) {
	f := Filter{Protocols: []uint8{17}, Ports: []uint16{53}}
	original := tuple(attrOriginal, 17, ends("10.0.0.1:1", "10.0.0.2:2"))
	for _, passed := range inKernel(t, f, nil, [][]byte{
		encode(msgDelete, 0, 0, original),
		encode(msgDelete, 0, 0, attribute(attrID, be32(1))),
		encode(msgDelete, 0, 0, nest(attrOriginal), nest(attrReply)),
	}) {
		if !passed {
			t.Error("a message without what the filter asks for was dropped: nobody would know of it")
		}
	}
}

// Many ports and addresses: the jumps over them are longer than a conditional one may be.
func TestLongKernelFilter(t *testing.T) {
	f := Filter{Protocols: []uint8{17}}
	for i := range 200 {
		f.Ports = append(f.Ports, uint16(1000+i))
		f.Addrs = append(f.Addrs, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	f.Addrs = append(f.Addrs, netip.MustParseAddr("::ffff:10.9.9.9"))
	message := func(served string) []byte {
		return encode(msgDelete, 0, 0, tuple(attrOriginal, 17, ends("10.1.1.1:999", "10.1.1.2:1199")), tuple(attrReply, 17, ends(served, "10.1.1.1:999")))
	}
	got := inKernel(t, f, nil, [][]byte{message("10.0.0.199:5"), message("10.9.9.9:5"), message("10.0.0.200:5")})
	if want := []bool{true, true, false}; !slices.Equal(got, want) {
		t.Errorf("passed %v, want %v", got, want)
	}
	for i := range 300 {
		f.Addrs = append(f.Addrs, netip.AddrFrom16([16]byte{0xfd, 15: byte(i), 14: byte(i >> 8)}))
	}
	if all := programs(f.clone(), nil); len(all) != 2 || len(all[0]) > maxInstructions {
		t.Errorf("%d programs: the one with too many addresses is not to be among them", len(all))
	}
}
