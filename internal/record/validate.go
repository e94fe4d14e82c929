package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Problem is one broken invariant of a record.
type Problem struct {
	// Where is a path such as flows[3].outcome.
	Where string
	What  string
}

// maxRepeats is what an experiment file may ask for; whoever reads a set makes a list that long.
const maxRepeats = 1000

func (p Problem) String() string { return p.Where + ": " + p.What }

// Validate checks every invariant that the schema cannot express, and those that it
// can, so that a record in memory is judged like one on disk. A sound record gives none.
func Validate(r Record) []Problem {
	c := &checker{}
	c.head(r)
	c.events(r)
	c.flows(r)
	c.summary(r)
	c.windows(r)
	c.terminations(r)
	c.config(r)
	c.causes(r)
	c.test(r)
	c.notNil(r)
	return c.problems
}

type checker struct{ problems []Problem }

func (c *checker) add(where, format string, args ...any) {
	c.problems = append(c.problems, Problem{Where: where, What: fmt.Sprintf(format, args...)})
}

// check adds a problem unless ok.
func (c *checker) check(ok bool, where, format string, args ...any) {
	if !ok {
		c.add(where, format, args...)
	}
}

// oneOf checks a closed list.
func oneOf[T ~string](c *checker, where string, v T, list []T) {
	c.check(slices.Contains(list, v), where, "%q is none of %q", v, list)
}

func (c *checker) head(r Record) {
	c.check(r.Schema == Schema, "schema", "is %q, not %s", r.Schema, Schema)
	c.check(r.ID != "", "id", "is empty")
	c.check(!r.StartedAt.IsZero(), "started_at", "is not set")
	c.check(r.Tool.Name != "", "tool.name", "is empty")
	c.check(r.Tool.Version != "", "tool.version", "is empty")
	oneOf(c, "completeness", r.Completeness, Completenesses())
	switch r.Completeness {
	case Complete:
		c.check(len(r.Missing) == 0, "missing", "says what is missing, yet the record is complete")
		c.check(r.Trigger != nil, "trigger", "is null, yet the record is complete")
		c.check(r.Client != nil, "client", "is null, yet the record is complete")
		c.check(r.Client == nil || !r.Client.FellBehind, "client.fell_behind", "is true, yet the record is complete")
	case Incomplete:
		c.check(len(r.Missing) > 0, "missing", "is empty, yet the record is incomplete")
	}
	if s := r.Set; s != nil {
		c.check(s.Repeat >= 1 && s.Repeat <= s.Repeats, "set.repeat", "%d is not in 1..%d", s.Repeat, s.Repeats)
		c.check(s.Repeats <= maxRepeats, "set.repeats", "%d is over %d, which no experiment may ask for", s.Repeats, maxRepeats)
		c.check(s.Arm != "", "set.arm", "is empty")
		c.check(len(s.Arms) == 0 || slices.Contains(s.Arms, s.Arm), "set.arms", "does not hold the arm %q", s.Arm)
	}
	if t := r.Trigger; t != nil {
		oneOf(c, "trigger.kind", t.Kind, TriggerKinds())
		c.check(!t.At.IsZero(), "trigger.at", "is not set")
		c.check(t.AcceptedNs == nil || *t.AcceptedNs >= 0, "trigger.accepted_t_ns", "is before the trigger")
	}
	for i, s := range r.Sources {
		c.check(s.Events >= 0, fmt.Sprintf("sources[%d].events", i), "is negative")
		for j, g := range s.Gaps {
			c.check(g.ToTNs == nil || *g.ToTNs >= g.FromTNs, fmt.Sprintf("sources[%d].gaps[%d]", i, j), "ends before it begins")
		}
	}
}

// config checks the closed lists. A trial without an arm was a test of somebody's own workload, or never got as far as a request.
func (c *checker) config(r Record) {
	f := r.Config
	if f.Arm != "" {
		oneOf(c, "config.arm", f.Arm, Arms())
		oneOf(c, "config.path", f.Path, Paths())
		oneOf(c, "config.vantage", f.Vantage, Vantages())
		oneOf(c, "config.readiness_on_term", f.ReadinessOnTerm, ReadinessOnTerms())
	}
	if f.Arm != "" || r.IsTest() {
		oneOf(c, "config.trigger", f.Trigger, TriggerKinds())
		c.check(r.Trigger == nil || r.Trigger.Kind == f.Trigger, "trigger.kind", "is not the %q that was asked for", f.Trigger)
	}
	if t := f.Traffic; t != nil {
		oneOf(c, "config.traffic.mode", t.Mode, Modes())
		c.check(t.Rate > 0, "config.traffic.rate", "is not above zero")
		c.check(t.Users > 0, "config.traffic.users", "is not above zero")
	}
	if p := f.Probe; p != nil {
		c.check(p.Replicas > 0, "config.probe.replicas", "is not above zero")
	}
}

// longest is more than any trial takes, in ns: what is further away is no time, and sums with it would overflow.
const longest = int64(366 * 24 * time.Hour)

func (c *checker) events(r Record) {
	triggers := 0
	for i, e := range r.Events {
		at := func(field string) string { return fmt.Sprintf("events[%d].%s", i, field) }
		c.check(e.ID == i+1, at("id"), "is %d, not %d", e.ID, i+1)
		c.check(i == 0 || r.Events[i-1].TNs <= e.TNs, at("t_ns"), "is earlier than the event before it")
		c.check(-longest <= e.TNs && e.TNs <= longest, at("t_ns"), "is %d, which is more than a year from the trigger", e.TNs)
		oneOf(c, at("source"), e.Source, EventSources())
		oneOf(c, at("kind"), e.Kind, EventKinds())
		oneOf(c, at("bound"), e.Bound, Bounds())
		c.check(e.UncertaintyNs == nil || *e.UncertaintyNs >= 0, at("uncertainty_ns"), "is negative")
		c.check(e.Source != FromKube || e.Bound == Upper, at("bound"), "of a receipt is %q, not %q", e.Bound, Upper)
		if e.Kind == TriggerSent {
			triggers++
			c.check(e.TNs == 0, at("t_ns"), "of %s is %d, not 0", TriggerSent, e.TNs)
		}
	}
	want := 0
	if r.Trigger != nil {
		want = 1
	}
	c.check(triggers == want, "events", "hold %d %s, not %d", triggers, TriggerSent, want)
}

// mechanismsOf lists which mechanisms may carry an outcome.
func mechanismsOf(o Outcome) []Mechanism {
	switch o {
	case Drained:
		// The announcement counts; a reset may follow it.
		return []Mechanism{AnnouncedFIN, RST, BrokenPipe}
	case Closed:
		return []Mechanism{FIN}
	case Severed:
		return []Mechanism{FINMidMessage, RST, BrokenPipe, ICMPPort, ICMPHost, Silence}
	case Rehomed:
		return []Mechanism{OtherInstance}
	case ReadTimeout:
		return []Mechanism{Silence}
	case Survived:
		return []Mechanism{None}
	default:
		// Where no outcome is claimed, any mechanism may be known.
		return append(Mechanisms(), None)
	}
}

func (c *checker) flows(r Record) {
	ids := map[string]bool{}
	ended := map[string]int64{}
	for _, e := range r.Events {
		if e.Kind == FlowEnded || e.Kind == FlowRehomed {
			if _, seen := ended[string(e.Kind)+e.Subject]; !seen {
				ended[string(e.Kind)+e.Subject] = e.TNs
			}
		}
	}
	if r.Completeness == Complete {
		counts := map[Protocol]int{}
		for _, f := range r.Flows {
			counts[f.Protocol]++
		}
		c.check(counts[TCP] == r.Config.TCP, "flows", "hold %d of protocol tcp, and %d were asked for", counts[TCP], r.Config.TCP)
		c.check(counts[UDP] == r.Config.UDP, "flows", "hold %d of protocol udp, and %d were asked for", counts[UDP], r.Config.UDP)
	}
	for i, f := range r.Flows {
		at := func(field string) string { return fmt.Sprintf("flows[%d].%s", i, field) }
		c.check(f.ID != "" && !ids[f.ID], at("id"), "%q is empty or used twice", f.ID)
		ids[f.ID] = true
		oneOf(c, at("protocol"), f.Protocol, Protocols())
		oneOf(c, at("outcome"), f.Outcome, Outcomes())
		oneOf(c, at("mechanism"), f.Mechanism, mechanismsOf(f.Outcome))
		oneOf(c, at("detail.end"), f.Detail.End, RawEnds())
		c.check(f.Answered <= f.Sent, at("heartbeats_answered"), "is more than were sent")
		c.check((f.AfterRehome != nil) == (f.Outcome == Rehomed), at("after_rehome"), "is not null exactly for rehomed flows")
		switch f.Outcome {
		case Survived:
			c.check(f.EndedTNs == nil, at("ended_t_ns"), "is set, yet the flow survived")
		case NotMeasured:
		default:
			c.check(f.OpenedTNs != nil, at("opened_t_ns"), "is null")
			c.check(f.EndedTNs != nil, at("ended_t_ns"), "is null, yet the flow is %s", f.Outcome)
		}
		if f.EndedTNs != nil && f.Outcome != NotMeasured {
			c.check(f.EndedAfterTNs == nil || *f.EndedAfterTNs <= *f.EndedTNs, at("ended_after_t_ns"), "is later than the end")
			t, ok := ended[string(endKind(f))+"flow/"+f.ID]
			c.check(ok, at("ended_t_ns"), "has no event %s", endKind(f))
			c.check(!ok || t == *f.EndedTNs, at("ended_t_ns"), "is %d, but its event says %d", *f.EndedTNs, t)
		}
	}
}

func (c *checker) summary(r Record) {
	want := Summarize(r, "")
	for _, s := range []struct {
		where     string
		got, want map[Outcome]int
	}{{"summary.tcp", r.Summary.TCP, want.TCP}, {"summary.udp", r.Summary.UDP, want.UDP}} {
		c.check(maps.Equal(s.got, s.want), s.where, "is %s, but the flows say %s", counted(s.got), counted(s.want))
	}
	c.check(same(r.Summary.ContainerExitCode, want.ContainerExitCode), "summary.container_exit_code", "is not what the events say")
	c.check(same(r.Summary.ContainerExitReason, want.ContainerExitReason), "summary.container_exit_reason", "is not what the events say")
}

// counted writes counts in order of their names, such as 2 closed, 8 severed.
func counted(m map[Outcome]int) string {
	if len(m) == 0 {
		return "empty"
	}
	var parts []string
	for _, o := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d %s", m[o], o))
	}
	return strings.Join(parts, ", ")
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (c *checker) windows(r Record) {
	names := map[string]bool{}
	for i, w := range r.Windows {
		at := fmt.Sprintf("windows[%d]", i)
		c.check(w.Name != "" && !names[w.Name], at+".name", "%q is empty or used twice", w.Name)
		names[w.Name] = true
		oneOf(c, at+".bound", w.Bound, append(Bounds(), Either))
		inside := true
		for _, id := range []int{w.FromEvent, w.ToEvent} {
			inside = inside && id >= 0 && id <= len(r.Events)
			c.check(id >= 0 && id <= len(r.Events), at, "refers to event %d of %d", id, len(r.Events))
		}
		switch both := w.FromEvent > 0 && w.ToEvent > 0; {
		case w.Ns == nil:
			c.check(w.Why != "", at+".why", "is empty, yet the window was not measured")
			continue
		case !both:
			c.add(at, "has a length without both of its events")
		case inside:
			c.length(at, w, r)
		}
		c.check(w.Why == "", at+".why", "is set, yet the window was measured")
	}
}

// length holds a window to its two events. A name that this program does not know is passed over.
func (c *checker) length(at string, w Window, r Record) {
	defs := WindowDefs()
	i := slices.IndexFunc(defs, func(d WindowDef) bool { return d.Name == w.Name })
	if i < 0 {
		return
	}
	ns, uncertainty, bound := defs[i].between(r.Events[w.FromEvent-1], r.Events[w.ToEvent-1], r.Config)
	c.check(*w.Ns == *ns, at+".ns", "is %d, but its events lie %d apart", *w.Ns, *ns)
	c.check(same(w.UncertaintyNs, uncertainty), at+".uncertainty_ns", "is not the sum of its events' bounds")
	c.check(w.Bound == bound, at+".bound", "is %q, but its events make it %q", w.Bound, bound)
}

// causes checks why flows and requests were lost.
func (c *checker) causes(r Record) {
	for i, f := range r.Flows {
		c.cause(r, f.Cause, "flows", i)
	}
	for i, f := range r.Failures {
		c.cause(r, f.Cause, "failures", i)
	}
}

func (c *checker) cause(r Record, cause *Cause, of string, i int) {
	if cause == nil {
		return
	}
	at := func(field string) string { return fmt.Sprintf("%s[%d].cause.%s", of, i, field) }
	oneOf(c, at("kind"), cause.Kind, CauseKinds())
	c.check(cause.Sentence != "", at("sentence"), "is empty")
	c.check(cause.Evidence != nil, at("evidence"), "is null")
	for _, id := range cause.Evidence {
		c.check(id >= 1 && id <= len(r.Events), at("evidence"), "refers to event %d of %d", id, len(r.Events))
	}
}

// notNil checks that lists and maps are written as [] and {}, not null.
func (c *checker) notNil(r Record) {
	for _, field := range []struct {
		where string
		isNil bool
	}{
		{"events", r.Events == nil}, {"flows", r.Flows == nil}, {"windows", r.Windows == nil},
		{"clocks", r.Clocks == nil}, {"sources", r.Sources == nil},
		{"notes", r.Notes == nil}, {"missing", r.Missing == nil},
		{"environment.nodes", r.Environment.Nodes == nil},
		{"summary.tcp", r.Summary.TCP == nil}, {"summary.udp", r.Summary.UDP == nil},
		{"client.limits", r.Client != nil && r.Client.Limits == nil},
		{"set.arms", r.Set != nil && r.Set.Arms == nil},
		{"requests.outcomes", r.Requests != nil && r.Requests.Outcomes == nil},
		{"requests.instances", r.Requests != nil && r.Requests.Instances == nil},
		{"failures", r.Requests != nil && r.Failures == nil},
		{"users.hurt_ids", r.Users != nil && r.Users.HurtIDs == nil},
		{"latency.instances", r.Latency != nil && r.Latency.Instances == nil},
		{"verdict.checks", r.Verdict != nil && r.Verdict.Checks == nil},
		{"workload.images", r.Workload != nil && r.Workload.Images == nil},
		{"workload.budgets", r.Workload != nil && r.Workload.Budgets == nil},
		{"workload.pods", r.Workload != nil && r.Workload.Pods == nil},
	} {
		c.check(!field.isNil, field.where, "is null")
	}
	for i, s := range r.Sources {
		c.check(s.Gaps != nil, fmt.Sprintf("sources[%d].gaps", i), "is null")
	}
}
