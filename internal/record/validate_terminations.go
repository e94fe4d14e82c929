package record

import "fmt"

// terminations holds what is derived of Pods' ends to the events that it names.
func (c *checker) terminations(r Record) {
	seen := map[[2]string]bool{}
	for i, t := range r.Terminations {
		d := derived{checker: c, events: r.Events, at: fmt.Sprintf("terminations[%d]", i)}
		key := [2]string{t.Pod, t.UID}
		c.check(t.Pod != "" && !seen[key], d.at+".pod", "%q is empty or there twice", t.Pod)
		seen[key] = true
		d.instant("deleted", t.Deleted)
		d.instant("hook.started", t.Hook.Started)
		d.instant("hook.ended", t.Hook.Ended)
		d.instant("sandbox_gone", t.SandboxGone)
		d.instant("removed", t.Removed)
		d.grace(t.Grace)
		for k, e := range t.Containers {
			d.container(fmt.Sprintf("containers[%d]", k), e)
		}
		for k, l := range t.Listeners {
			at := fmt.Sprintf("listeners[%d]", k)
			oneOf(c, d.at+"."+at+".protocol", l.Protocol, Protocols())
			c.check(l.Port > 0 && l.Port < 1<<16, d.at+"."+at+".port", "%d is none", l.Port)
			d.instant(at+".closed", l.Closed)
		}
		for k, p := range t.Paths {
			at := fmt.Sprintf("paths[%d]", k)
			c.check(p.Node != "" && p.Front != "", d.at+"."+at, "names no node or no front")
			oneOf(c, d.at+"."+at+".protocol", p.Protocol, Protocols())
			c.check(p.Failed >= 0, d.at+"."+at+".failed", "is negative")
			d.instant(at+".rule_removed", p.RuleRemoved)
			d.span(at+".dead_endpoint", p.DeadEndpoint)
		}
		for k, n := range t.Conntrack {
			at := fmt.Sprintf("conntrack[%d]", k)
			c.check(n.Node != "", d.at+"."+at+".node", "is empty")
			oneOf(c, d.at+"."+at+".protocol", n.Protocol, Protocols())
			c.check(n.Entries > 0 && n.Left >= 0 && n.Left <= n.Entries, d.at+"."+at, "has %d entries, of which %d were left", n.Entries, n.Left)
			d.instant(at+".last_deleted", n.LastDeleted)
			d.span(at+".dead_conntrack", n.DeadConntrack)
		}
		for k, why := range t.Unseen {
			c.check(why != "", fmt.Sprintf("%s.unseen[%d]", d.at, k), "is empty")
		}
		for _, list := range []struct {
			name  string
			isNil bool
		}{
			{"containers", t.Containers == nil}, {"listeners", t.Listeners == nil}, {"paths", t.Paths == nil}, {"conntrack", t.Conntrack == nil}, {"unseen", t.Unseen == nil},
		} {
			c.check(!list.isNil, d.at+"."+list.name, "is null")
		}
	}
}

// derived checks one termination.
type derived struct {
	*checker
	events []Event
	at     string
}

func (d derived) container(at string, e ContainerEnd) {
	d.check(e.Name != "", d.at+"."+at+".name", "is empty")
	d.instant(at+".term", e.Term.Instant)
	d.instant(at+".kill", e.Kill.Instant)
	d.instant(at+".exit", e.Exit.Instant)
	d.span(at+".before_term", e.BeforeTerm)
	d.span(at+".term_to_exit", e.TermToExit)
	d.check(e.Killed == nil || e.Exit.TNs != nil, d.at+"."+at+".killed", "is known, yet its exit was not seen")
	for _, s := range []struct {
		name string
		of   StopSignal
	}{{"term", e.Term}, {"kill", e.Kill}} {
		d.check((s.of.TNs != nil) == (s.of.Signal != ""), d.at+"."+at+"."+s.name+".signal", "is not named exactly where it was seen")
	}
}

func (d derived) grace(g GraceUse) {
	d.span("grace.used", g.Used)
	known := g.GraceNs != nil && g.Used.Ns != nil
	d.check((g.LeftNs != nil) == known, d.at+".grace.left_ns", "is not known exactly where grace_ns and used are")
	d.check(g.LeftNs == nil || !known || *g.LeftNs == *g.GraceNs-*g.Used.Ns, d.at+".grace.left_ns", "is not grace_ns less what was used")
}

// instant holds one to its event.
func (d derived) instant(name string, t Instant) {
	at := d.at + "." + name
	oneOf(d.checker, at+".bound", t.Bound, Bounds())
	if t.TNs == nil {
		d.check(t.Why != "", at+".why", "is empty, yet it was not seen")
		d.check(t.Event == 0, at+".event", "is named, yet it was not seen")
		return
	}
	d.check(t.Why == "", at+".why", "is set, yet it was seen")
	if t.Event < 1 || t.Event > len(d.events) {
		d.add(at+".event", "refers to event %d of %d", t.Event, len(d.events))
		return
	}
	e := d.events[t.Event-1]
	d.check(*t.TNs == e.TNs, at+".t_ns", "is %d, but its event says %d", *t.TNs, e.TNs)
	d.check(same(t.UncertaintyNs, e.UncertaintyNs), at+".uncertainty_ns", "is not that of its event")
	d.check(t.Bound == e.Bound || t.Bound == Upper && e.Bound == Exact, at+".bound", "is %q, but its event is %q", t.Bound, e.Bound)
	d.check(t.NotBeforeTNs == nil || *t.NotBeforeTNs <= *t.TNs, at+".not_before_t_ns", "is after it")
}

// span holds one to its two events.
func (d derived) span(name string, s Span) {
	at := d.at + "." + name
	for _, id := range []int{s.FromEvent, s.ToEvent} {
		if id < 0 || id > len(d.events) {
			d.add(at, "refers to event %d of %d", id, len(d.events))
			return
		}
	}
	if s.Ns == nil {
		d.check(s.Why != "", at+".why", "is empty, yet it was not measured")
		d.check(s.AtLeastNs == nil && s.AtMostNs == nil, at, "is bounded, yet it was not measured")
		return
	}
	d.check(s.Why == "", at+".why", "is set, yet it was measured")
	if s.FromEvent == 0 || s.ToEvent == 0 {
		d.add(at, "has a length without both of its events")
		return
	}
	length := d.events[s.ToEvent-1].TNs - d.events[s.FromEvent-1].TNs
	d.check(*s.Ns == length, at+".ns", "is %d, but its events lie %d apart", *s.Ns, length)
	d.check(s.AtLeastNs == nil || *s.AtLeastNs <= *s.Ns, at+".at_least_ns", "is more than its length")
	d.check(s.AtMostNs == nil || *s.AtMostNs >= *s.Ns, at+".at_most_ns", "is less than its length")
}
