package dataplane

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// How kube-proxy lays out its rules (Kubernetes 1.31 to 1.37, pkg/proxy/nftables/proxier.go and pkg/proxy/iptables/proxier.go). A
// Service port has a chain with its endpoints, one with those of this node where a Local policy asks for it, and one for connections from outside,
// which leads to one of them. In 1.34 each endpoint has a chain in nftables too, in 1.36 and later only with session affinity; in iptables it always has.
const (
	proxyTable = "kube-proxy"
	// Maps of that table, from address, protocol and port, or from protocol and port, to a verdict.
	serviceIPs          = "service-ips"
	serviceNodePorts    = "service-nodeports"
	noEndpointServices  = "no-endpoint-services"
	noEndpointNodePorts = "no-endpoint-nodeports"
	// Its chain that the hook for new connections from outside runs, and the one that asks the maps.
	natPrerouting = "nat-prerouting"
	services      = "services"
	// affinitySets is how names of sets of clients begin.
	affinitySets = "affinity-"

	// Chains of the tables nat and filter.
	kubeServices         = "KUBE-SERVICES"
	kubeNodePorts        = "KUBE-NODEPORTS"
	kubeExternalServices = "KUBE-EXTERNAL-SERVICES"
	prerouting           = "PREROUTING"
)

// proxyRules is kube-proxy's nftables table of one family.
type proxyRules interface {
	ruleset
	// lookup asks a map for one key.
	lookup(set string, key []byte) (v verdict, found bool, err error)
}

// stateOfMaps reads a front from kube-proxy's nftables table.
func stateOfMaps(rs proxyRules, f Front) (State, error) {
	key, sends, refuses := mapKey(f), serviceIPs, noEndpointServices
	if f.NodePort() {
		sends, refuses = serviceNodePorts, noEndpointNodePorts
	}
	to, sent, err := rs.lookup(sends, key)
	if err != nil {
		return State{}, err
	}
	refusal, refused, err := rs.lookup(refuses, key)
	if err != nil {
		return State{}, err
	}
	s := State{Front: f, Plane: NFTables, Known: sent || refused}
	enter := func(w *walk) error {
		if !sent {
			return nil
		}
		_, _, err := w.do(to.action())
		return err
	}
	refuse := func(w *walk) error {
		if !refused {
			return nil
		}
		_, _, err := w.do(refusal.action())
		return err
	}
	return s, s.fill(rs, rs, enter, refuse)
}

// mapKey is a front as kube-proxy's maps have it: fields in network order, each in as many 4-byte words as it needs.
func mapKey(f Front) []byte {
	var key []byte
	if !f.NodePort() {
		key = f.Addr.Addr().AsSlice()
	}
	key = append(key, f.Protocol, 0, 0, 0)
	key = binary.BigEndian.AppendUint16(key, f.Addr.Port())
	return append(key, 0, 0)
}

// stateOfChains reads a front from kube-proxy's chains in the iptables tables nat and filter.
func stateOfChains(plane string, nat, filter ruleset, f Front) (State, error) {
	s := State{Front: f, Plane: plane}
	enter := func(w *walk) error {
		from := kubeServices
		if f.NodePort() {
			from = kubeNodePorts
		}
		_, err := w.through(from)
		s.Known = s.Known || w.named
		return err
	}
	refuse := func(w *walk) error {
		for _, chain := range []string{kubeServices, kubeExternalServices} {
			if _, err := w.through(chain); err != nil {
				return err
			}
		}
		s.Known = s.Known || w.named
		return nil
	}
	err := s.fill(nat, filter, enter, refuse)
	return s, err
}

// fill walks the rules that translate, for both sorts of clients, and those that refuse what was not translated.
func (s *State) fill(sends, refuses ruleset, enter, refuse func(*walk) error) error {
	outside, inside, refused := newWalk(sends, s.Front, false), newWalk(sends, s.Front, true), newWalk(refuses, s.Front, false)
	for _, step := range []struct {
		w  *walk
		by func(*walk) error
	}{{outside, enter}, {inside, enter}, {refused, refuse}} {
		if err := step.by(step.w); err != nil {
			return err
		}
	}
	s.Backends = outside.backends()
	if local := inside.backends(); !slices.Equal(local, s.Backends) {
		s.LocalBackends = local
	}
	s.Affinity = outside.affinity || inside.affinity
	if len(s.Backends) == 0 {
		s.Verdict = refused.verdict
	}
	return nil
}

// naming makes a quick test of whether a rule's bytes can name any of the fronts in the chains where kube-proxy names all of them, thousands
// perhaps: by the address in network order, for a NodePort by the port in either order. A rule that passes may still be another's.
func naming(fronts []Front) func(rule []byte) bool {
	var marks [][]byte
	for _, f := range fronts {
		if !f.NodePort() {
			marks = append(marks, f.Addr.Addr().AsSlice())
			continue
		}
		marks = append(marks, binary.BigEndian.AppendUint16(nil, f.Addr.Port()), binary.NativeEndian.AppendUint16(nil, f.Addr.Port()))
	}
	return func(rule []byte) bool {
		return slices.ContainsFunc(marks, func(m []byte) bool { return bytes.Contains(rule, m) })
	}
}

// namesFronts is whether a chain is one of those, in which only the rules that name a front asked for are worth decoding.
func namesFronts(chain string) bool {
	return chain == kubeServices || chain == kubeNodePorts || chain == kubeExternalServices
}
