package dataplane

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const (
	tcp = unix.IPPROTO_TCP
	udp = unix.IPPROTO_UDP
)

// wanted are the Services of the fixtures in testdata, which are rules of one cluster in each of kube-proxy's forms: Pods are in 10.244.0.0/16 and
// fd00:10::/64, those of this node are 10.244.1.3 and 10.244.1.4.
func wanted() []State {
	three := addrs("10.244.1.3:8080", "10.244.1.4:8080", "10.244.2.5:8080")
	two := addrs("10.244.1.3:8080", "10.244.2.5:8080")
	return []State{
		{Front: front(tcp, "172.30.0.41:80"), Known: true, Backends: three},
		{Front: front(tcp, "172.30.0.42:80"), Known: true, Backends: addrs("10.244.1.3:8080")},
		{Front: front(tcp, "172.30.0.43:80"), Known: true, Verdict: Reject},
		{Front: front(tcp, "0.0.0.0:30043"), Known: true, Verdict: Reject},
		{Front: front(udp, "172.30.0.44:53"), Known: true, Backends: addrs("10.244.1.3:5353", "10.244.2.5:5353")},
		{Front: front(tcp, "172.30.0.45:80"), Known: true, Backends: two},
		{Front: front(tcp, "0.0.0.0:30045"), Known: true, Backends: two},
		// externalTrafficPolicy Local, with and without an endpoint on this node.
		{Front: front(tcp, "0.0.0.0:30046"), Known: true, Backends: addrs("10.244.1.3:8080"), LocalBackends: addrs("10.244.1.3:8080", "10.244.2.5:8080", "10.244.3.6:8080")},
		{Front: front(tcp, "172.30.0.46:80"), Known: true, Backends: addrs("10.244.1.3:8080", "10.244.2.5:8080", "10.244.3.6:8080")},
		{Front: front(tcp, "0.0.0.0:30047"), Known: true, Verdict: Drop, LocalBackends: addrs("10.244.2.5:8080", "10.244.3.6:8080")},
		{Front: front(tcp, "172.30.0.48:80"), Known: true, Backends: two, Affinity: true},
		// internalTrafficPolicy Local, without and with an endpoint on this node.
		{Front: front(tcp, "172.30.0.49:80"), Known: true, Verdict: Drop},
		{Front: front(tcp, "172.30.0.50:80"), Known: true, Backends: addrs("10.244.1.3:8080")},
		// The wrong port, the wrong protocol, an address of nobody's.
		{Front: front(tcp, "172.30.0.41:81")},
		{Front: front(udp, "172.30.0.41:80")},
		{Front: front(tcp, "172.30.0.99:80")},
		{Front: front(udp, "0.0.0.0:30045")},
	}
}

func wanted6() []State {
	return []State{
		{Front: front(tcp, "[fd00:30::41]:80"), Known: true, Backends: addrs("[fd00:10::3]:8080", "[fd00:10::4]:8080")},
		{Front: front(tcp, "[fd00:30::42]:80"), Known: true, Backends: addrs("[fd00:10::3]:8080")},
		{Front: front(tcp, "[::]:30042"), Known: true, Backends: addrs("[fd00:10::3]:8080")},
		{Front: front(tcp, "[fd00:30::43]:80"), Known: true, Verdict: Reject},
		{Front: front(tcp, "[fd00:30::99]:80")},
	}
}

func front(protocol uint8, addr string) Front { return Front{protocol, netip.MustParseAddrPort(addr)} }

func addrs(list ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range list {
		out = append(out, netip.MustParseAddrPort(a))
	}
	return out
}

func frontsOf(states []State) []Front {
	var out []Front
	for _, s := range states {
		out = append(out, s.Front)
	}
	return out
}

// compareStates compares states of a plane with the wanted, in any order; an empty list of backends is as good as none.
func compareStates(t *testing.T, plane string, got, want []State) {
	t.Helper()
	byFront := map[Front]State{}
	for _, s := range got {
		if len(s.Backends) == 0 {
			s.Backends = nil
		}
		byFront[s.Front] = s
	}
	wantByFront := map[Front]State{}
	for _, s := range want {
		s.Plane = plane
		wantByFront[s.Front] = s
	}
	if diff := cmp.Diff(wantByFront, byFront, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("%s, -want +got:\n%s", plane, diff)
	}
}

// recording is a table as a kernel told it: a file with a line for each rule and each element, whose bytes are of netlink.
type recording struct {
	bits     int
	only     func([]byte) bool
	rules    map[string][][]byte // expressions
	sets     map[string][][]byte // elements
	skipping int
}

func readRecording(t testing.TB, name string, bits int, only func([]byte) bool) *recording {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatalf("%v (the tests that need root make it, with -update)", err)
	}
	r := &recording{bits: bits, only: only, rules: map[string][][]byte{}, sets: map[string][][]byte{}}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			t.Fatalf("%s: a line of %d words", name, len(words))
		}
		b, err := hex.DecodeString(words[2])
		if err != nil {
			t.Fatal(err)
		}
		switch words[0] {
		case "rule":
			r.rules[words[1]] = append(r.rules[words[1]], b)
		case "element":
			r.sets[words[1]] = append(r.sets[words[1]], b)
		default:
			t.Fatalf("%s: a line that begins with %s", name, words[0])
		}
	}
	return r
}

func (r *recording) chain(name string) ([]rule, error) {
	var out []rule
	for _, b := range r.rules[name] {
		if r.only != nil && namesFronts(name) && !r.only(b) {
			r.skipping++
			continue
		}
		out = append(out, decodeRule(b, r.bits))
	}
	return out, nil
}

func (r *recording) elements(set string) ([]element, error) {
	var out []element
	for _, b := range r.sets[set] {
		out = append(out, decodeElements(appendAttribute(nil, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, b))...)
	}
	return out, nil
}

func (r *recording) lookup(set string, key []byte) (verdict, bool, error) {
	for _, b := range r.sets[set] {
		if bytes.Equal(attribute(attribute(b, unix.NFTA_SET_ELEM_KEY), unix.NFTA_DATA_VALUE), key) {
			v, _ := decodeVerdict(attribute(b, unix.NFTA_SET_ELEM_DATA))
			return v, true, nil
		}
	}
	return verdict{}, false, nil
}

// recordTable writes a whole table of nf_tables in the form that readRecording reads.
func recordTable(t *testing.T, n *nftables, family uint8, table string) []byte {
	t.Helper()
	var lines, sets []string
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(n.ask(unix.NFT_MSG_GETRULE, family, true, appendText(nil, unix.NFTA_RULE_TABLE, table), func(_ uint16, b []byte) {
		lines = append(lines, fmt.Sprintf("rule %s %x", cString(attribute(b, unix.NFTA_RULE_CHAIN)), attribute(b, unix.NFTA_RULE_EXPRESSIONS)))
	}))
	must(n.ask(unix.NFT_MSG_GETSET, family, true, appendText(nil, unix.NFTA_SET_TABLE, table), func(_ uint16, b []byte) {
		sets = append(sets, cString(attribute(b, unix.NFTA_SET_NAME)))
	}))
	for _, set := range sets {
		request := appendText(appendText(nil, unix.NFTA_SET_ELEM_LIST_TABLE, table), unix.NFTA_SET_ELEM_LIST_SET, set)
		must(n.ask(unix.NFT_MSG_GETSETELEM, family, true, request, func(_ uint16, b []byte) {
			for _, e := range attributes(attribute(b, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
				lines = append(lines, fmt.Sprintf("element %s %x", set, e))
			}
		}))
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) })
	return []byte(strings.Join(lines, "\n") + "\n")
}

// littleEndian skips a test whose recorded bytes are of a machine with the other order.
func littleEndian(t testing.TB) {
	t.Helper()
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the recorded bytes are of a little-endian machine")
	}
}
