package render

import (
	"cmp"
	"slices"

	"github.com/drainproof/drainproof/internal/record"
)

// flowGroup is all flows of a trial that ended the same way.
type flowGroup struct {
	protocol  record.Protocol
	outcome   record.Outcome
	mechanism record.Mechanism
	flows     []record.Flow
	// first and last end, where all of them have one.
	ended       bool
	first, last int64
}

// mechanismText is the mechanism where it adds to the outcome.
func (g flowGroup) mechanismText() string {
	switch g.mechanism {
	case record.OtherInstance, record.AnnouncedFIN, record.WindowClosed:
		return ""
	}
	return string(g.mechanism)
}

// flowGroups sorts a trial's flows into groups: TCP first, then by their first end, those without one last.
func flowGroups(r record.Record) []flowGroup {
	var groups []flowGroup
	for _, f := range r.Flows {
		i := slices.IndexFunc(groups, func(g flowGroup) bool {
			return g.protocol == f.Protocol && g.outcome == f.Outcome && g.mechanism == f.Mechanism
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, flowGroup{protocol: f.Protocol, outcome: f.Outcome, mechanism: f.Mechanism, ended: true})
		}
		g := &groups[i]
		g.flows = append(g.flows, f)
		switch {
		case f.EndedTNs == nil || f.Outcome == record.Survived || f.Outcome == record.NotMeasured:
			g.ended = false
		case len(g.flows) == 1:
			g.first, g.last = *f.EndedTNs, *f.EndedTNs
		default:
			g.first, g.last = min(g.first, *f.EndedTNs), max(g.last, *f.EndedTNs)
		}
	}
	late := func(g flowGroup) int {
		if g.ended {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(groups, func(a, b flowGroup) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(late(a), late(b)), cmp.Compare(a.first, b.first),
			cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.mechanism, b.mechanism))
	})
	return groups
}

// instances lists who answered a group's flows first and last, without doubles, in order of their names.
func (g flowGroup) instances() (first, last []string) {
	for _, f := range g.flows {
		if f.FirstInstance != nil {
			first = append(first, *f.FirstInstance)
		}
		if f.LastInstance != nil {
			last = append(last, *f.LastInstance)
		}
	}
	slices.Sort(first)
	slices.Sort(last)
	return slices.Compact(first), slices.Compact(last)
}
