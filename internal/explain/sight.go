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
	if n := lost(a, sight); n > 0 {
		return "node " + node + "'s kernel lost " + figure.Plural(n, "event") + " of " + sight
	}
	source := sourceOf(sight)
	for _, s := range v.r.Sources {
		if s.Name != string(source) {
			continue
		}
		for _, g := range s.Gaps {
			// A gap of one node says so before its reason, "node NAME: "; so does one of a Pod that the node's agent never found.
			of, _, found := strings.Cut(g.Why, ": ")
			if found && (strings.HasPrefix(of, ofPod) || strings.HasPrefix(of, ofNode) && of != ofNode+node) {
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

// How a gap begins that is of one node, and one of a Pod.
const (
	ofNode = "node "
	ofPod  = "pod "
)

// unfound says that a Pod's agent never found it, so that nothing of it was seen; empty where that is not so.
func (v *view) unfound(pod *life) string {
	for _, s := range v.r.Sources {
		for _, g := range s.Gaps {
			if why, is := strings.CutPrefix(g.Why, ofPod+pod.name+": "); is && s.Name == string(record.FromKernel) {
				return why
			}
		}
	}
	return ""
}

// lost counts what a node saw of a sight and could not hand over.
func lost(a record.Agent, sight string) (n int) {
	for kind, k := range a.Lost {
		if spoils(kind, sight) {
			n += int(k)
		}
	}
	return n
}

// spoils reports whether the loss of a kind of event may have hidden something of a sight.
func spoils(kind, sight string) bool {
	switch kind {
	case "nested":
		return false // an upper bound of programs that the kernel skipped as they had interrupted themselves, and mostly would have told nothing
	case signals, exits, listeners, sockets, resets, icmp:
		return kind == sight
	case "deletions", conntrack:
		return sight == conntrack || sight == deleters
	case "memory": // of connections
		return sight != signals && sight != exits && sight != listeners && sight != ruleSight
	}
	return sight != ruleSight
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
