package localcluster

import (
	"net/netip"

	"github.com/drainproof/drainproof/internal/fault"
)

// benchmarkRange is reserved for benchmarks of networks (RFC 2544) and so
// does not collide with the addresses that people use.
const benchmarkRange = "198.18.0.0/15"

// pickSubnet gives the first /20 of the range that overlaps nothing in use.
func pickSubnet(used []netip.Prefix) (netip.Prefix, error) {
	all := netip.MustParsePrefix(benchmarkRange)
	for a := all.Addr(); all.Contains(a); a = addOffset(a, 1<<12) {
		candidate := netip.PrefixFrom(a, 20)
		if !overlapsAny(candidate, used) {
			return candidate, nil
		}
	}
	return netip.Prefix{}, fault.Measuref(nil,
		"take a local cluster down (drainproof cluster list), or free a /20 of "+benchmarkRange,
		"no range of addresses is free for another local cluster in %s", benchmarkRange)
}

func overlapsAny(p netip.Prefix, used []netip.Prefix) bool {
	for _, u := range used {
		// A default route overlaps everything and says nothing.
		if u.Bits() > 0 && p.Overlaps(u) {
			return true
		}
	}
	return false
}
