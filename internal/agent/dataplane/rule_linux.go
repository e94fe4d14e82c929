package dataplane

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// answer is whether a condition holds for the connections asked about.
type answer uint8

const (
	no answer = iota
	// maybe: for some of them, by chance, by the client's address, or by something that is not understood.
	maybe
	yes
)

func (a answer) negated(not bool) answer {
	if not {
		return yes - a
	}
	return a
}

// field is what a condition is about.
type field uint8

const (
	onOther field = iota // chance, a set of clients, or not understood
	onProtocol
	onDestination
	onPort
	onSource
	onInterface
	onSourceLocal // an address of the node
	onDestinationLocal
)

// condition is one part of what a rule demands of a packet.
type condition struct {
	on  field
	not bool
	// prefix is of addresses.
	prefix netip.Prefix
	// from and to are of ports, both inclusive, and of protocols.
	from, to uint16
}

// kind is what a rule does with a packet that it holds for.
type kind uint8

const (
	passes kind = iota // the next rule follows
	jumps              // another chain, then the next rule
	goesTo             // another chain, then the one that jumped here
	returns
	accepts // or any other end that neither translates nor refuses
	drops
	rejects
	translates      // to backend
	translatesByMap // to one of the elements of set
	goesByMap       // the verdict of one of the elements of set
)

// action is what a rule does.
type action struct {
	kind    kind
	chain   string
	backend netip.AddrPort
	set     string
	// addrAt and portAt are where an element's data has address and port; portAt is negative where the port stays as it is.
	addrAt, portAt int
}

// rule is one rule as far as it is understood.
type rule struct {
	when []condition
	do   action
	// affinity marks rules that send a client where it was before.
	affinity bool
}

// element is one of a map.
type element struct {
	verdict verdict
	data    []byte
}

// verdict is nf_tables' own: a code (NF_ACCEPT, NFT_GOTO, ...), and the chain it leads to.
type verdict struct {
	code  int32
	chain string
}

// ruleset gives chains and maps. A chain or map that is not there is empty.
type ruleset interface {
	chain(name string) ([]rule, error)
	elements(set string) ([]element, error)
}

// walk follows a new connection to one front through the rules, every way that it may take, and collects where these end.
type walk struct {
	rules ruleset
	front Front
	// here is whether it begins on this node.
	here bool

	found    map[netip.AddrPort]struct{}
	verdict  string
	named    bool // a rule names the front by its port
	affinity bool
	// ends remembers of each chain whether every way through it ends there; a chain that is being walked does not.
	ends map[string]bool
}

func newWalk(rs ruleset, f Front, here bool) *walk {
	return &walk{rules: rs, front: f, here: here, found: map[netip.AddrPort]struct{}{}, ends: map[string]bool{}}
}

// backends are those found, in order.
func (w *walk) backends() []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(w.found))
	for b := range w.found {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b netip.AddrPort) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Port(), b.Port()))
	})
	return out
}

// through walks a chain, and says whether no way leads out of its end.
func (w *walk) through(chain string) (bool, error) {
	if end, known := w.ends[chain]; known {
		return end, nil
	}
	w.ends[chain] = false
	rs, err := w.rules.chain(chain)
	if err != nil {
		return false, err
	}
	mayLeave := false // some ways lead out of the chain before its end
	for _, r := range rs {
		holds := w.holds(r, chain)
		if holds == no {
			continue
		}
		w.affinity = w.affinity || r.affinity
		end, leaves, err := w.do(r.do)
		if err != nil {
			return false, err
		}
		mayLeave = mayLeave || leaves && !end
		if holds == yes && (end || leaves) {
			w.ends[chain] = !mayLeave
			return !mayLeave, nil
		}
	}
	return false, nil
}

// do takes an action: end is whether the connection's way ends with it, leaves whether no later rule of the chain is reached.
func (w *walk) do(a action) (end, leaves bool, err error) {
	switch a.kind {
	case jumps:
		end, err = w.through(a.chain)
		return end, false, err
	case goesTo:
		end, err = w.through(a.chain)
		return end, true, err
	case returns:
		return false, true, nil
	case accepts:
		return true, true, nil
	case drops:
		w.refuse(Drop)
		return true, true, nil
	case rejects:
		w.refuse(Reject)
		return true, true, nil
	case translates:
		w.add(a.backend)
		return true, true, nil
	case translatesByMap:
		elements, err := w.rules.elements(a.set)
		if err != nil {
			return false, false, err
		}
		for _, e := range elements {
			if b, ok := e.backend(a, w.front); ok {
				w.add(b)
			}
		}
		return len(elements) > 0, len(elements) > 0, nil
	case goesByMap:
		elements, err := w.rules.elements(a.set)
		if err != nil {
			return false, false, err
		}
		end, leaves = len(elements) > 0, len(elements) > 0
		for _, e := range elements {
			elementEnds, elementLeaves, err := w.do(e.verdict.action())
			if err != nil {
				return false, false, err
			}
			end, leaves = end && elementEnds, leaves && elementLeaves
		}
		return end, leaves, nil
	case passes:
	}
	return false, false, nil
}

// refuse notes a verdict; of several, the first on the way.
func (w *walk) refuse(verdict string) { w.verdict = cmp.Or(w.verdict, verdict) }

func (w *walk) add(b netip.AddrPort) {
	if b.Port() == 0 {
		b = netip.AddrPortFrom(b.Addr(), w.front.Addr.Port()) // the rule leaves it as it is
	}
	w.found[b] = struct{}{}
}

// holds is whether a rule of a chain holds for the connection.
func (w *walk) holds(r rule, chain string) answer {
	all := yes
	named := false
	for _, c := range r.when {
		all = min(all, c.holds(w.front, w.here, chain))
		named = named || c.on == onPort && !c.not
	}
	w.named = w.named || named && all != no
	return all
}

func (c condition) holds(f Front, here bool, chain string) answer {
	switch c.on {
	case onProtocol:
		return is(f.Protocol >= uint8(c.from) && f.Protocol <= uint8(c.to)).negated(c.not)
	case onPort:
		return is(f.Addr.Port() >= c.from && f.Addr.Port() <= c.to).negated(c.not)
	case onDestination:
		if f.NodePort() {
			// Addresses that rules name are a Service's own or the loopback's; a NodePort is asked for at the node's others.
			return no.negated(c.not)
		}
		return is(c.prefix.Contains(f.Addr.Addr())).negated(c.not)
	case onDestinationLocal:
		return is(f.NodePort()).negated(c.not)
	case onSourceLocal:
		return is(here).negated(c.not)
	case onSource, onInterface:
		// The chains for connections from outside tell the node's Pods by their addresses or interfaces and spare them the Local policy.
		// Elsewhere a client's address decides on nothing that concerns the backend, or on who may come (loadBalancerSourceRanges).
		if strings.HasPrefix(chain, "external-") || strings.HasPrefix(chain, "KUBE-EXT-") {
			return is(here).negated(c.not)
		}
		return maybe
	case onOther:
	}
	return maybe
}

func is(holds bool) answer {
	if holds {
		return yes
	}
	return no
}
