// Package explain says why a request or flow was lost, from what a record holds. Pure.
//
// For now it has Kubernetes' evidence only: it places each failure among what
// the API told of Pods and endpoints, and says which evidence is missing. It never guesses.
//
// It must not know how anything was observed.
package explain

import (
	"math"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/record"
)

// nearby is how far apart two things may lie and still be named together: what the API tells arrives late, and a node follows
// it later still. It decides what a sentence names, never what a cause is.
const nearby = 1_000_000_000

// Attribute gives every failure of r its cause; what cannot be known from the events is unattributed, with a sentence that
// places it and names what is missing. r.Failures[i].Cause is set; nothing else is changed.
func Attribute(r *record.Record) {
	v := newView(r)
	for i := range r.Failures {
		r.Failures[i].Cause = v.cause(r.Failures[i])
	}
}

// view indexes what the causes ask for.
type view struct {
	r     *record.Record
	lives []*life
	// down are the times in which no endpoint was ready or serving.
	down []span
	// watch are the times in which the API may have told what nobody heard.
	watch []record.Gap
}

func newView(r *record.Record) *view {
	v := &view{r: r, lives: livesOf(r), down: downOf(r.Events)}
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

// cause tries every rule. Two that fit contradict each other, and then neither is claimed.
func (v *view) cause(f record.Failure) *record.Cause {
	var fit []*record.Cause
	for _, rule := range rules {
		if c := rule.fits(v, f); c != nil {
			c.Kind = rule.kind
			fit = append(fit, c)
		}
	}
	if len(fit) == 1 {
		return fit[0]
	}
	c := v.unattributed(f)
	if len(fit) > 1 {
		var kinds []string
		for _, x := range fit {
			kinds = append(kinds, x.Kind)
			c.Evidence = append(c.Evidence, x.Evidence...)
		}
		c.Sentence += "; the events fit " + strings.Join(kinds, " and ") + " alike"
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
