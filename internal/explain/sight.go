package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// What a node's agent may see, as records name it.
const (
	signals   = "signals"
	exits     = "exits"
	listeners = "listeners"
	sockets   = "sockets"
	resets    = "resets"
	icmp      = "icmp"
	conntrack = "conntrack"
	deleters  = "conntrack-deleters"
	ruleSight = "rules"
)

// sourceOf says which source tells of a sight.
func sourceOf(sight string) record.EventFrom {
	switch sight {
	case conntrack, deleters:
		return record.FromConntrack
	case ruleSight:
		return record.FromDataplane
	default:
		return record.FromKernel
	}
}

// unseen says why a node may not have been seen to do something between two times; empty where all of it was watched, so that silence means
// that nothing happened. Without the node's name every node that a record knows of counts.
func (v *view) unseen(sight, node string, from, to int64) string {
	if node == "" {
		for _, a := range v.r.Agents {
			if why := v.unseen(sight, a.Node, from, to); why != "" {
				return why
			}
		}
		if len(v.r.Agents) == 0 {
			return "no agent on any node"
		}
		return ""
	}
	i := slices.IndexFunc(v.r.Agents, func(a record.Agent) bool { return a.Node == node })
	if i < 0 {
		return "no agent on node " + node
	}
	a := v.r.Agents[i]
	if a.Ended != "" {
		return "the agent of node " + node + ": " + a.Ended
	}
	k := slices.IndexFunc(a.Sights, func(s record.Sight) bool { return s.Name == sight })
	if k < 0 || !a.Sights[k].Seen {
		why := ""
		if k >= 0 {
			why = a.Sights[k].Why
		}
		return "node " + node + " cannot show " + sight + ": " + cmp.Or(why, "its agent did not say why")
	}
	if n := lost(a); n > 0 && sight != ruleSight {
		return "node " + node + "'s kernel lost " + figure.Plural(n, "event")
	}
	source := sourceOf(sight)
	for _, s := range v.r.Sources {
		if s.Name != string(source) {
			continue
		}
		for _, g := range s.Gaps {
			// A gap of one node says so before its reason: "node NAME: ".
			if of, _, found := strings.Cut(g.Why, ": "); found && strings.HasPrefix(of, "node ") && of != "node "+node {
				continue
			}
			if g.FromTNs <= to && (g.ToTNs == nil || *g.ToTNs >= from) {
				end := "the end"
				if g.ToTNs != nil {
					end = clockTime(*g.ToTNs)
				}
				return "source " + string(source) + " of node " + node + " had a gap from " + clockTime(g.FromTNs) + " to " + end
			}
		}
	}
	return ""
}

// lost counts what a node's kernel saw and could not hand over.
func lost(a record.Agent) (n int) {
	for name, k := range a.Lost {
		// nested is an upper bound of programs that the kernel skipped as they had interrupted themselves, and mostly would have told nothing.
		if name != "nested" {
			n += int(k)
		}
	}
	return n
}

// over is the time of the last event, until which a node was watched that was watched to the end.
func (v *view) over() int64 {
	if len(v.r.Events) == 0 {
		return 0
	}
	return v.r.Events[len(v.r.Events)-1].TNs
}

// clockTime prints a time of the record: +38 ms.
func clockTime(t int64) string {
	if t < 0 {
		return "-" + length(-t)
	}
	return "+" + length(t)
}

// because adds the reason why something is missing.
func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + " (" + why + ")"
}
