package agent

import (
	"net/netip"
	"slices"

	"github.com/drainproof/drainproof/internal/agent/dataplane"
	"github.com/drainproof/drainproof/internal/record"
)

// ruleStates turns states of fronts into what came and went.
type ruleStates struct {
	last map[dataplane.Front]dataplane.State
}

// take tells which backends a front gained and lost, and whether it began or ended to turn connections away.
func (r *ruleStates) take(c dataplane.Change, say func(Fact)) {
	if r.last == nil {
		r.last = map[dataplane.Front]dataplane.State{}
	}
	before := r.last[c.State.Front]
	r.last[c.State.Front] = c.State
	tell := func(kind record.EventKind, detail map[string]any) {
		detail["front"], detail["proxy"], detail["protocol"] = c.State.Front.Addr.String(), c.State.Plane, protocolName(c.State.Front.Protocol)
		if c.ByComm != "" {
			detail["by_comm"], detail["by_pid"] = c.ByComm, c.ByPID
		}
		f := Fact{MonoNs: c.MonoNs, Event: record.Event{Source: record.FromDataplane, Kind: kind, Bound: record.Upper, Detail: detail}}
		if c.First {
			detail["first"] = true // it was so when it was first looked at
		} else {
			f.NotBeforeMonoNs = c.NotBeforeNs
			detail["commits"] = c.Commits
		}
		say(f)
	}
	backends := all(c.State)
	for _, b := range all(before) {
		if !slices.Contains(backends, b) {
			tell(record.RuleRemoved, map[string]any{"backend": b.String(), "backends_left": len(backends)})
		}
	}
	for _, b := range backends {
		if !slices.Contains(all(before), b) {
			tell(record.RuleAdded, map[string]any{"backend": b.String(), "backends": len(backends)})
		}
	}
	if c.State.Verdict != before.Verdict {
		if before.Verdict != "" {
			tell(record.RuleRejectRemoved, map[string]any{"verdict": before.Verdict})
		}
		if c.State.Verdict != "" {
			tell(record.RuleRejects, map[string]any{"verdict": c.State.Verdict})
		}
	}
}

// all lists whom any connection to the front may be sent to.
func all(s dataplane.State) []netip.AddrPort {
	list := slices.Concat(s.Backends, s.LocalBackends)
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}
