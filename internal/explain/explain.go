// Package explain says why a request or flow was lost, and how each Pod came to its end, from what a record holds. Pure.
//
// Every cause has a rule (Table) that states the events which it needs. What contradicts them, and what is missing, leaves a loss
// unattributed, with a sentence that says so: a cause is never guessed. What a node's agent saw proves most; without any, Kubernetes' API
// and the client prove little, and place a loss among what was seen of the Pods.
//
// It must not know how anything was observed.
package explain

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/record"
)

// nearby is how far apart two things may lie and still be named together: what the API tells arrives late, and a node follows
// it later still. It decides what a sentence names, never what a cause is.
const nearby = 1_000_000_000

// Attribute gives every failure of r, and every flow that was lost, its cause; what cannot be known from the events is unattributed, with a
// sentence that places it and names what is missing. Cause is set; nothing else is changed.
func Attribute(r *record.Record) { newView(r).attribute() }

// Record derives all that a record says of why: the causes (Attribute), then how its Pods ended (Terminations), which counts by them.
func Record(r *record.Record) {
	v := newView(r)
	v.attribute()
	r.Terminations = v.terminations()
}

func (v *view) attribute() {
	r := v.r
	for i := range r.Failures {
		r.Failures[i].Cause = v.cause(v.lossOf(r.Failures[i]))
	}
	for i := range r.Flows {
		r.Flows[i].Cause = v.flow(&r.Flows[i])
	}
}

// Flow gives the cause of one flow's end; nil for one that was not lost, or of which that is not known.
func Flow(r *record.Record, f record.Flow) *record.Cause { return newView(r).flow(&f) }

func (v *view) flow(f *record.Flow) *record.Cause {
	l, ok := v.flowLost(f)
	if !ok {
		return nil
	}
	return v.cause(l)
}

// unattributed is the kind of what no rule proves, or more than one.
const unattributed = "unattributed"

// view indexes what the causes ask for.
type view struct {
	r     *record.Record
	lives []*life
	// down are the times in which no endpoint was ready or serving.
	down []downtime
	// watch are the times in which the API may have told what nobody heard.
	watch []record.Gap
	// asked: the record has agents, so that what they did not tell is missing, and rules that need them are tried.
	asked bool
	// entries, ends and rules are what agents told of connections, of their ends at Pods, and of each node's rules.
	entries map[pair][]entry
	ends    map[netip.AddrPort][]*record.Event
	rules   map[string][]*record.Event
	// choosers are the nodes whose rules choose for a client.
	choosers map[asker]string
	// refusals are the ICMP errors and resets that a node itself sent, no Pod of it; endpoints are what the API told of endpoints; kills are the test's own.
	refusals, endpoints, kills []*record.Event
	// accepted is the answer to the trigger, observed the end of the observation; nil for none.
	accepted, observed *record.Event
	// wants remembers what the API wanted of an endpoint, which many failures ask.
	wants map[wantedAt]wanted
}

func newView(r *record.Record) *view {
	v := &view{
		r: r, lives: livesOf(r), down: downOf(r.Events), asked: len(r.Agents) > 0, entries: indexEntries(r.Events), ends: indexEnds(r.Events),
		rules: map[string][]*record.Event{}, wants: map[wantedAt]wanted{},
	}
	v.choosers = indexChoosers(v.entries)
	for i := range r.Events {
		e := &r.Events[i]
		if e.Source == record.FromDataplane {
			v.rules[e.Node] = append(v.rules[e.Node], e)
		}
		switch e.Kind {
		case record.ProcessKilled:
			v.kills = append(v.kills, e)
		case record.TriggerAccepted:
			v.accepted = cmp.Or(v.accepted, e)
		case record.ObserveEnded:
			v.observed = cmp.Or(v.observed, e)
		}
		if (e.Kind == record.ICMPSent || e.Kind == record.ResetSent) && record.PodOf(e.Subject) == "" {
			v.refusals = append(v.refusals, e)
		}
		if _, isEndpoint := upAfter(*e); isEndpoint {
			v.endpoints = append(v.endpoints, e)
		}
	}
	for _, s := range r.Sources {
		if s.Name == string(record.FromKube) {
			v.watch = append(v.watch, s.Gaps...)
			if s.Ended != "" {
				// It is not recorded when it ended, so it heard nothing for certain.
				v.watch = append(v.watch, record.Gap{FromTNs: math.MinInt64})
			}
		}
	}
	return v
}

// deaf reports whether the watch had a gap between two times.
func (v *view) deaf(from, to int64) bool {
	return slices.ContainsFunc(v.watch, func(g record.Gap) bool { return g.FromTNs <= to && (g.ToTNs == nil || *g.ToTNs >= from) })
}

// finding is what one rule makes of one loss. Empty: it has nothing to do with it.
type finding struct {
	// sentence is set where the rule is proved, by the evidence.
	sentence string
	evidence []int
	// missing names the evidence that would prove it, and against what contradicts it.
	missing, against string
}

// proved makes a finding of a rule that fits.
func proved(sentence string, events ...*record.Event) finding {
	return finding{sentence: sentence, evidence: told(events...)}
}

// cause tries every rule. Two that fit contradict each other, and then neither is claimed.
func (v *view) cause(l loss) *record.Cause {
	var fit, unproved []finding
	var kinds []string
	for _, rule := range rules {
		if rule.agents && !v.asked {
			continue
		}
		switch x := rule.fits(v, l); {
		case x.sentence != "":
			fit, kinds = append(fit, x), append(kinds, rule.kind)
		case x.missing != "" || x.against != "":
			unproved = append(unproved, x)
		}
	}
	if len(fit) == 1 {
		return &record.Cause{Kind: kinds[0], Evidence: ordered(fit[0].evidence), Sentence: fit[0].sentence}
	}
	if len(fit) == 0 {
		return v.unattributed(l, unproved)
	}
	c := v.unattributed(l, nil)
	c.Sentence += "; the events fit " + strings.Join(kinds, " and ") + " alike"
	for _, x := range fit {
		c.Evidence = append(c.Evidence, x.evidence...)
	}
	c.Evidence = ordered(c.Evidence)
	return c
}

// when is the time at which a failure is placed among the events: when the client knew, or, where that was
// only that its patience had ended, when the request began.
func when(f record.Failure) int64 {
	if f.Outcome == record.ConnectTimeout || f.Outcome == record.ResponseTimeout {
		return began(f)
	}
	return f.TNs
}

// began is when the request left, or was due where it never did.
func began(f record.Failure) int64 {
	if f.SentTNs != nil {
		return *f.SentTNs
	}
	return f.PlannedTNs
}

// ordered sorts ids and drops doubles; never nil.
func ordered(ids []int) []int {
	out := append([]int{}, ids...)
	slices.Sort(out)
	return slices.Compact(out)
}

// told lists the ids of events, without those that were not seen.
func told(events ...*record.Event) []int {
	var ids []int
	for _, e := range events {
		if e != nil {
			ids = append(ids, e.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
