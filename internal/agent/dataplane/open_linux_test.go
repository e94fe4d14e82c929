package dataplane

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/testkit"
)

func TestRefusesWhatIsNoFront(t *testing.T) {
	for _, fronts := range [][]Front{nil, {{}}, {{Protocol: tcp}}, {front(tcp, "10.0.0.1:0")}, {front(0, "10.0.0.1:80")}} {
		w, _, err := Open(Options{Fronts: fronts})
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != fault.Usage || w != nil {
			t.Errorf("%v: %v", fronts, err)
		}
	}
}

func TestNoSuchNamespace(t *testing.T) {
	if _, _, err := Open(Options{NetNS: t.TempDir() + "/none", Fronts: []Front{front(tcp, "10.0.0.1:80")}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// sights opens a namespace in which nothing can be read, and gives what it said.
func sights(t *testing.T, n namespace, fronts ...Front) []Sight {
	t.Helper()
	w, sights, err := Open(Options{NetNS: n.path, Fronts: fronts})
	if err != nil {
		t.Fatal(err)
	}
	if w != nil {
		t.Errorf("something can be read: %+v", sights)
		w.Close()
	}
	return sights
}

func expectSights(t *testing.T, got []Sight, want ...Sight) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%+v, want %d", got, len(want))
	}
	for i, s := range got {
		if s.Name != want[i].Name || s.Seen != want[i].Seen || !strings.Contains(s.How, want[i].How) || !strings.Contains(s.Why, want[i].Why) || (s.Why == "") != s.Seen {
			t.Errorf("%+v, want %+v", s, want[i])
		}
	}
}

var both = []Front{front(tcp, "172.30.0.41:80"), front(tcp, "[fd00:30::41]:80")}

func TestNothingThere(t *testing.T) {
	n := newNamespace(t)
	expectSights(t, sights(t, n, both...), Sight{Name: None, How: "IPv4", Why: "no kube-proxy"}, Sight{Name: None, How: "IPv6", Why: "no kube-proxy"})
	// Looking has made nothing.
	err := inNamespace(n.path, func(netns int) error {
		for _, bits := range []int{32, 128} {
			if there, err := legacyTables(bits); err != nil || there {
				t.Errorf("legacy tables: %v, %v", there, err)
			}
		}
		nft, err := dialNFTables(netns)
		if err != nil {
			return err
		}
		defer nft.conn.Close()
		return nft.ask(unix.NFT_MSG_GETTABLE, unix.NFPROTO_UNSPEC, true, nil, func(_ uint16, b []byte) {
			t.Errorf("table %s", cString(attribute(b, unix.NFTA_TABLE_NAME)))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Rules that no hook leads to are not live.
func TestRulesWithoutHook(t *testing.T) {
	n := newNamespace(t)
	n.run(t, "table ip kube-proxy {\n chain services { drop; }\n chain nat-prerouting { jump services; }\n}\n", "nft", "-f", "-")
	n.run(t, "*filter\nCOMMIT\n*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n", "iptables-nft-restore", "--noflush")
	n.run(t, "*filter\nCOMMIT\n*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n", "iptables-legacy-restore", "--noflush")
	expectSights(t, sights(t, n, both[0]), Sight{Name: None, How: "IPv4", Why: "no hook"})
}

func TestTwoModesAtOnce(t *testing.T) {
	n := newNamespace(t)
	n.run(t, file(t, "nftables-1.37.nft"), "nft", "-f", "-")
	n.run(t, file(t, "iptables.rules"), "iptables-nft-restore", "--noflush")
	n.run(t, file(t, "iptables.rules"), "iptables-legacy-restore", "--noflush")
	expectSights(t, sights(t, n, both[0]), Sight{Name: NFTables, Why: "more than one"}, Sight{Name: IPTablesNFT, Why: "more than one"}, Sight{Name: IPTablesLegacy, Why: "more than one"})
	// IPv6 has only one, which is read.
	w, got, err := Open(Options{NetNS: n.path, Fronts: both})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	expectSights(t, got[3:], Sight{Name: NFTables, Seen: true, How: "IPv6"})
}

// The kernel of this test need not know IPVS nor dummy interfaces: an interface of the name is what there is to see.
func TestOthersAreRecognised(t *testing.T) {
	n := newNamespace(t)
	testkit.Require(t, testkit.Program("ip"))
	n.run(t, file(t, "iptables.rules"), "iptables-nft-restore", "--noflush")
	n.run(t, "", "ip", "link", "add", "kube-ipvs0", "type", "veth", "peer", "name", "cilium_host")
	expectSights(t, sights(t, n, both...), Sight{Name: IPVS, Why: "IPVS"}, Sight{Name: IPVS, Why: "IPVS"}, Sight{Name: Cilium, Why: "eBPF"})
}
