package explain

import (
	"fmt"
	"net/netip"

	"github.com/drainproof/drainproof/internal/record"
)

const (
	// passing is how long after its client called connect(2) a SYN may reach its node's rules: they are called on the way out.
	passing = 5_000_000
	// again is how long after a SYN its client's kernel sends the next (RFC 6298, section 2: one second at first; Linux
	// goes on by that step, tcp_syn_linear_timeouts, or doubles it), and slack how much later its timer may be, for each step.
	// One that was perhaps not sent any more says nothing.
	again = 1_000_000_000
	slack = 100_000_000
)

// backend is a Pod as a node's rules name it.
type backend struct {
	subject string
	address netip.AddrPort
}

// route is what a node's rules did with a new connection at a time.
type route struct {
	named   map[backend]*record.Event
	rejects *record.Event
	// unsure is a change that may have come before the connection or after it.
	unsure *record.Event
	// missing says why nothing is known of it.
	missing string
}

// routeOf follows a node's rules for the address that l's client asked.
func (v *view) routeOf(l loss, node string, at instant) route {
	now := route{named: map[backend]*record.Event{}}
	heard := false
	for _, e := range v.rules[node] {
		if !fronts(e, l) || isUDP(e) != l.udp {
			continue
		}
		switch t := timeOf(e); {
		case at.before(t):
			continue
		case !t.before(at):
			now.unsure = e
			return now
		}
		heard = true
		b := backend{e.Subject, endpointOf(e.Detail["backend"])}
		switch e.Kind {
		case record.RuleAdded:
			now.named[b] = e
		case record.RuleRemoved:
			delete(now.named, b)
		case record.RuleRejects:
			now.rejects = e
		case record.RuleRejectRemoved:
			now.rejects = nil
		}
	}
	if why := v.unseen(ruleSight, node, ever, at.hi); why != "" {
		return route{missing: why}
	}
	if !heard {
		return route{missing: "node " + node + "'s rules did not know that address"}
	}
	return now
}

// chooserOf gives the node whose rules choose for l's client: the one whose connection tracking told of every other connection from the client's address to
// the same one; empty where there was none, or where two did.
func (v *view) chooserOf(l loss) string {
	if !l.local.IsValid() || !l.remote.IsValid() {
		return ""
	}
	return v.choosers[asker{l.local.Addr(), l.remote, l.udp}]
}

// asker is a client's address and where it goes.
type asker struct {
	client netip.Addr
	front  netip.AddrPort
	udp    bool
}

// indexChoosers finds which node tells of connections that it translated. Where two tell, neither is taken.
func indexChoosers(entries map[pair][]entry) map[asker]string {
	index := map[asker]string{}
	for p, list := range entries {
		for _, e := range list {
			if e.event.Kind != record.ConntrackNew || !e.replySource.IsValid() || e.replySource == p.remote {
				continue
			}
			a := asker{p.local.Addr(), p.remote, p.udp}
			if node, known := index[a]; known && node != e.event.Node {
				index[a] = ""
			} else if !known {
				index[a] = e.event.Node
			}
		}
	}
	return index
}

// syn is when a new connection's first packet passed the rules.
func (l loss) syn() instant {
	sent := began(l.Failure)
	return instant{lo: sent, hi: min(sent+passing, max(l.TNs, sent)), doubt: l.UncertaintyNs}
}

// byRules finds where a new connection was sent of which connection tracking told nothing: to the only Pod that the rules of its node named.
// An entry is made once a packet has passed the node, which one to an address without a route never does.
func (v *view) byRules(l loss) (target, bool) {
	node := v.chooserOf(l)
	if node == "" || !notTaken(l) || l.udp || v.led(l, node) {
		return target{}, false
	}
	r := v.routeOf(l, node, l.syn())
	if r.missing != "" || r.unsure != nil || r.rejects != nil || len(r.named) != 1 {
		return target{}, false
	}
	for b, added := range r.named {
		to := target{entry: added, chooser: node, pod: b.address, by: byRule}
		if to.life, _ = v.owner(b.address.Addr(), began(l.Failure)); to.life == nil || to.life.name != record.PodOf(b.subject) {
			return target{}, false
		}
		return to, true
	}
	return target{}, false
}

// led reports whether an entry from before a new connection, of one from the same port, may have led it past the rules of a node. One that was deleted by
// then did not; nor did one that the kernel itself deleted right then, though it had time left: a SYN does that to the entry of a connection that is
// over, and is then looked at as a new one (net/netfilter/nf_conntrack_proto_tcp.c).
func (v *view) led(l loss, node string) bool {
	led := false
	for _, e := range v.entriesOf(l) {
		switch syn := l.syn(); {
		case e.event.Node != node:
		case e.event.Kind == record.ConntrackNew && e.event.TNs < syn.hi:
			led = true
		case e.event.Kind == record.ConntrackDeleted && (timeOf(e.event).before(syn) || deleter(e.event) == "kernel" && e.event.TNs < syn.hi+settled):
			led = false
		}
	}
	return led
}

// rejectedUntil follows the SYNs of a connection whose first one a node's rules rejected, at the time of by or of the rules themselves: none of the later ones
// may have met rules that named a Pod. It gives the rejecting rule.
func (v *view) rejectedUntil(l loss, node string, by *record.Event) (rejects *record.Event, x finding) {
	first := v.routeOf(l, node, l.syn())
	switch {
	case first.rejects != nil:
		rejects = first.rejects
	case by != nil && first.unsure != nil && first.unsure.Kind == record.RuleRejects:
		rejects = first.unsure // the node's error tells that it had them already
	default:
		return nil, finding{}
	}
	for k := int64(1); began(l.Failure)+k*(again+slack) < l.TNs; k++ {
		at := l.syn()
		at.lo, at.hi = at.lo+k*again, min(at.hi+k*(again+slack), l.TNs)
		if r := v.routeOf(l, node, at); r.missing != "" || r.unsure == nil && len(r.named) > 0 {
			return rejects, finding{
				missing:  because(fmt.Sprintf("what became of its SYN of %s: node %s's rules did not reject it any more", clockTime(at.lo), node), r.missing),
				evidence: told(by, rejects),
			}
		}
	}
	return rejects, finding{}
}
