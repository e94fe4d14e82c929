package localcluster

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func testPlan(workers int) plan {
	p := newPlan("/var/lib/drainproof", "blue", netip.MustParsePrefix("198.18.32.0/20"), workers)
	p.ProxyMode, p.Version, p.PartsDir = ProxyIptables, "v1.37.2", "/parts"
	return p
}

func TestPlanNamesAndAddresses(t *testing.T) {
	p := testPlan(2)
	type node struct {
		name, addr, pods string
		controlPlane     bool
	}
	want := []node{
		{"blue-control-plane", "198.18.32.2", "198.18.40.0/24", true},
		{"blue-worker", "198.18.32.3", "198.18.41.0/24", false},
		{"blue-worker2", "198.18.32.4", "198.18.42.0/24", false},
	}
	var got []node
	for _, n := range p.Nodes {
		got = append(got, node{n.Name, n.Addr.String(), n.Pods.String(), n.ControlPlane})
	}
	if !slices.Equal(got, want) {
		t.Errorf("nodes are %+v", got)
	}
	if s := p.services().String(); s != "198.18.36.0/22" {
		t.Errorf("Services have %s", s)
	}
	if s := p.server(); s != "https://198.18.32.2:6443" {
		t.Errorf("the API server is at %s", s)
	}
}

// What the kernel limits or confuses: link names, and ranges that overlap.
func TestPlanFitsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?`).Draw(t, "name")
		workers := rapid.IntRange(1, MaxWorkers).Draw(t, "workers")
		base := addOffset(netip.MustParseAddr("198.18.0.0"), rapid.IntRange(0, 31).Draw(t, "subnet")<<12)
		p := newPlan("/state", name, netip.PrefixFrom(base, 20), workers)
		if n := len(p.hostLink()); n > 15 {
			t.Fatalf("link name %s has %d characters", p.hostLink(), n)
		}
		ranges := []netip.Prefix{p.nodeNet(), p.services()}
		for _, n := range p.Nodes {
			if len(n.Name) > 63 || !p.nodeNet().Contains(n.Addr) || n.Addr == p.hostAddr() || !p.pods().Overlaps(n.Pods) {
				t.Fatalf("node %+v does not fit", n)
			}
			ranges = append(ranges, n.Pods)
		}
		for i, a := range ranges {
			if !p.Subnet.Overlaps(a) || a.Bits() < p.Subnet.Bits() || a.Masked() != a {
				t.Fatalf("%s is not a range of %s", a, p.Subnet)
			}
			for _, b := range ranges[i+1:] {
				if a.Overlaps(b) {
					t.Fatalf("%s overlaps %s", a, b)
				}
			}
		}
	})
}

func TestClusterIDsDiffer(t *testing.T) {
	ids := []string{clusterID("/a", "x"), clusterID("/b", "x"), clusterID("/a", "y")}
	if ids[0] == ids[1] || ids[0] == ids[2] || ids[0] != clusterID("/a", "x") {
		t.Errorf("identities are %v", ids)
	}
}

func TestPickSubnet(t *testing.T) {
	prefixes := func(list ...string) []netip.Prefix {
		var ps []netip.Prefix
		for _, s := range list {
			ps = append(ps, netip.MustParsePrefix(s))
		}
		return ps
	}
	for _, c := range []struct {
		used []netip.Prefix
		want string
	}{
		{nil, "198.18.0.0/20"},
		{prefixes("0.0.0.0/0", "10.0.0.0/8"), "198.18.0.0/20"},
		{prefixes("198.18.0.0/20"), "198.18.16.0/20"},
		{prefixes("198.18.0.1/32", "198.18.16.0/24"), "198.18.32.0/20"},
		{prefixes("198.18.0.0/16"), "198.19.0.0/20"},
	} {
		got, err := pickSubnet(c.used)
		if err != nil || got.String() != c.want {
			t.Errorf("beside %v: %v, %v; want %s", c.used, got, err, c.want)
		}
	}
	if _, err := pickSubnet(prefixes("198.16.0.0/12")); err == nil || !strings.Contains(err.Error(), "198.18.0.0/15") {
		t.Errorf("with nothing free: %v", err)
	}
}
