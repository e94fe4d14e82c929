package dataplane

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
)

// statesOf reads fronts from recorded rules of one of kube-proxy's forms.
func statesOf(t *testing.T, name string, fronts []Front) (plane string, out []State) {
	t.Helper()
	bits, family := 32, "ip"
	if fronts[0].Addr.Addr().Is6() {
		bits, family = 128, "ip6"
	}
	only := naming(fronts)
	var of func(Front) (State, error)
	switch name {
	case "iptables-legacy":
		tables := map[string]*legacyTable{}
		for _, table := range []string{"nat", "filter"} {
			b, err := os.ReadFile("testdata/legacy-" + table + "." + family + ".bin")
			if err != nil {
				t.Fatal(err)
			}
			if tables[table], err = parseTable(b, bits, 0, [hooks]uint32{}, only); err != nil {
				t.Fatal(err)
			}
		}
		plane, of = IPTablesLegacy, func(f Front) (State, error) { return stateOfChains(IPTablesLegacy, tables["nat"], tables["filter"], f) }
	case "iptables-nft":
		nat, filter := readRecording(t, "iptables-nft-nat."+family+".txt", bits, only), readRecording(t, "iptables-nft-filter."+family+".txt", bits, only)
		plane, of = IPTablesNFT, func(f Front) (State, error) { return stateOfChains(IPTablesNFT, nat, filter, f) }
	default:
		rules := readRecording(t, name+"."+family+".txt", bits, nil)
		plane, of = NFTables, func(f Front) (State, error) { return stateOfMaps(rules, f) }
	}
	for _, f := range fronts {
		s, err := of(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return plane, out
}

func TestReadsRecordedRules(t *testing.T) {
	littleEndian(t)
	for _, name := range []string{"nftables-1.34", "nftables-1.37", "iptables-nft", "iptables-legacy"} {
		for _, want := range [][]State{wanted(), wanted6()} {
			t.Run(name+" "+want[0].Front.Addr.String(), func(t *testing.T) {
				plane, got := statesOf(t, name, frontsOf(want))
				compareStates(t, plane, got, want)
				// Asked for alone, each front is the same: what is skipped for it names others.
				for _, s := range want {
					plane, got := statesOf(t, name, []Front{s.Front})
					compareStates(t, plane, got, []State{s})
				}
			})
		}
	}
}

func TestSkipsRulesOfOtherServices(t *testing.T) {
	littleEndian(t)
	f := front(tcp, "172.30.0.41:80")
	nat := readRecording(t, "iptables-nft-nat.ip.txt", 32, naming([]Front{f}))
	all := len(nat.rules[kubeServices])
	rules, err := nat.chain(kubeServices)
	if err != nil || len(rules) != 1 || nat.skipping != all-1 {
		t.Errorf("%d of %d rules decoded, %d skipped, %v", len(rules), all, nat.skipping, err)
	}
}

func TestMapKeys(t *testing.T) {
	for _, c := range []struct {
		f    Front
		want string
	}{
		{front(tcp, "172.30.0.41:80"), "\xac\x1e\x00\x29\x06\x00\x00\x00\x00\x50\x00\x00"},
		{front(udp, "0.0.0.0:30045"), "\x11\x00\x00\x00\x75\x5d\x00\x00"},
		{front(tcp, "[fd00:30::41]:80"), "\xfd\x00\x00\x30\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x41\x06\x00\x00\x00\x00\x50\x00\x00"},
	} {
		if got := string(mapKey(c.f)); got != c.want {
			t.Errorf("%v: %x, want %x", c.f, got, c.want)
		}
	}
}

// A table that is cut, or whose offsets lead out of it, is refused.
func TestRefusesDamagedTables(t *testing.T) {
	littleEndian(t)
	whole, err := os.ReadFile("testdata/legacy-filter.ip.bin")
	if err != nil {
		t.Fatal(err)
	}
	next := layouts[32].nextOffset
	zeroed := append([]byte(nil), whole...)
	binary.NativeEndian.PutUint16(zeroed[next:], 0)
	long := append([]byte(nil), whole...)
	binary.NativeEndian.PutUint16(long[next:], 0xfff8)
	for name, b := range map[string][]byte{"cut": whole[:len(whole)-1], "no way on": zeroed, "out of it": long} {
		if _, err := parseTable(b, 32, 0, [hooks]uint32{}, nil); !errors.Is(err, errTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzExpressions(f *testing.F) {
	for _, name := range []string{"nftables-1.37.ip.txt", "nftables-1.34.ip6.txt", "iptables-nft-nat.ip.txt", "iptables-nft-filter.ip6.txt"} {
		r := readRecording(f, name, 32, nil)
		for _, rules := range r.rules {
			for _, b := range rules {
				f.Add(b)
			}
		}
		for _, elements := range r.sets {
			for _, b := range elements {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, bits := range []int{32, 128} {
			r := decodeRule(b, bits)
			for _, c := range r.when {
				c.holds(front(tcp, "172.30.0.41:80"), true, kubeServices)
			}
			for _, e := range decodeElements(b) {
				e.backend(r.do, front(tcp, "[fd00::1]:80"))
			}
		}
		decodeNotice(b)
	})
}

func FuzzLegacyTable(f *testing.F) {
	for _, name := range []string{"legacy-filter.ip.bin", "legacy-filter.ip6.bin", "legacy-nat.ip6.bin"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for bits, address := range map[int]string{32: "172.30.0.41:80", 128: "[fd00:30::41]:80"} {
			table, err := parseTable(b, bits, 1, [hooks]uint32{binary.LittleEndian.Uint32(append(b, 0, 0, 0, 0))}, nil)
			if err != nil {
				continue
			}
			for _, from := range []string{prerouting, kubeServices} {
				if _, err := leadsTo(table, from, kubeServices); err != nil && !errors.Is(err, errTable) {
					t.Error(err)
				}
			}
			if _, err := stateOfChains(IPTablesLegacy, table, table, front(tcp, address)); err != nil && !errors.Is(err, errTable) {
				t.Error(err)
			}
		}
	})
}
