package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// Terminations derives how each Pod that was ended came to its end, in order of time. It counts by the causes that Attribute has set; what
// r.Terminations holds is not looked at, and nothing is changed.
func Terminations(r *record.Record) []record.Termination { return newView(r).terminations() }

func (v *view) terminations() []record.Termination {
	deaths := v.deaths()
	entries := v.ledToPods()
	var list []record.Termination
	for _, l := range v.lives {
		if v.wasEnded(l) {
			list = append(list, v.termination(l, deaths, entries))
		}
	}
	slices.SortStableFunc(list, func(a, b record.Termination) int {
		return cmp.Or(cmp.Compare(firstSign(a), firstSign(b)), strings.Compare(a.Pod, b.Pod), strings.Compare(a.UID, b.UID))
	})
	return list
}

// firstSign is the time by which terminations are in order.
func firstSign(t record.Termination) int64 {
	first := int64(never)
	for _, i := range []record.Instant{t.Deleted, t.Removed} {
		if i.TNs != nil {
			first = min(first, *i.TNs)
		}
	}
	for _, c := range t.Containers {
		if c.Exit.TNs != nil {
			first = min(first, *c.Exit.TNs)
		}
	}
	return first
}

// wasEnded reports whether a Pod was deleted in the trial, or one that was there before it had a container that exited.
func (v *view) wasEnded(l *life) bool {
	if l.ending != nil || l.gone != nil {
		return true
	}
	return (l.added == nil || l.added.TNs < 0) && slices.ContainsFunc(slices.Concat(l.stops, l.exits), func(e *record.Event) bool {
		return e.TNs >= 0 && (e.Kind == record.ContainerExited || isFirst(e))
	})
}

// terminated is what the parts of one termination ask each other.
type terminated struct {
	v *view
	*life
	// deletion is without an event where the Pod was not deleted, or that was not seen.
	deletion   point
	containers []ended
	// out is the exit of the last container, and sandboxGone the end of the sandbox.
	out, sandboxGone point
}

// ended is one container's end.
type ended struct {
	name             string
	term, kill, exit point
	// byRuntime is the runtime's first stop signal, which comes after the hook.
	byRuntime *record.Event
}

func (v *view) termination(l *life, deaths map[death]int, entries map[netip.Addr][]entry) record.Termination {
	e := &terminated{v: v, life: l, deletion: v.deletion(l)}
	e.containers = e.allEnded()
	e.signalled()
	e.out = e.lastExit()
	e.sandboxGone = e.sandbox()
	ports := e.listeners()
	t := record.Termination{
		Pod: l.name, UID: l.uid, Node: l.node, Deleted: e.deletion.recorded(), Hook: e.hook(), Containers: []record.ContainerEnd{},
		Listeners: []record.ListenerEnd{}, SandboxGone: e.sandboxGone.recorded(), Removed: e.removed().recorded(), Grace: e.grace(), Unseen: []string{},
	}
	for _, c := range e.containers {
		t.Containers = append(t.Containers, e.recorded(c))
	}
	for _, p := range ports {
		t.Listeners = append(t.Listeners, record.ListenerEnd{Protocol: p.protocol, Port: int(p.port), Closed: p.closed.recorded()})
	}
	t.Paths = e.paths(ports, deaths)
	t.Conntrack = e.conntrack(entries)
	if len(ports) == 0 {
		t.Unseen = append(t.Unseen, "listeners: "+cmp.Or(e.unseen(listeners, v.over()), "none was seen"))
	}
	for _, sight := range []string{ruleSight, conntrack} {
		if why := v.blind(sight); why != "" {
			t.Unseen = append(t.Unseen, sight+": "+why)
		}
	}
	return t
}

// unseen says why the kernel of the Pod's node may not have been seen to do something to it from the trigger until a time; empty where all of that was watched.
func (e *terminated) unseen(sight string, until int64) string {
	return cmp.Or(e.v.unseen(sight, e.node, 0, until), e.v.unfound(e.life))
}

// deletes reports whether a trigger of that kind deletes the Pod that it names.
func deletes(kind string) bool { return kind == "delete" || kind == "evict" || kind == "force-delete" }

// deletion is when the API server had accepted a Pod's deletion: by the answer to the trigger, where that was about this Pod, or by the watch.
func (v *view) deletion(l *life) point {
	var p point
	switch {
	case l.ending != nil:
		p = seen(l.ending)
	case l.gone != nil:
		p.why = "the API was not seen to show it as terminating"
	case v.deaf(0, v.over()):
		p.why = "the API was not seen to show it as terminating, and its watch had a gap"
	default:
		p.why = "it was not deleted"
	}
	t := v.r.Trigger
	if t == nil || t.Subject != "pod/"+l.name || !deletes(t.Kind) || l.added != nil && l.added.TNs >= 0 {
		return p
	}
	if v.accepted != nil && (p.event == nil || v.accepted.TNs < p.event.TNs) {
		p = atLatest(v.accepted)
	}
	if p.event != nil && p.event.TNs >= 0 {
		p.lo = max(p.lo, 0) // it was the trigger that did it
	}
	return p
}

// signalled takes the runtime's stop signal for the sign of a deletion of which the news came after it, within the time by which news may be late: the
// signal follows the deletion.
func (e *terminated) signalled() {
	for _, c := range e.containers {
		at := e.deletion.event
		if s := c.byRuntime; s != nil && at != nil && s.TNs < at.TNs && s.TNs >= at.TNs-settled {
			lo := e.deletion.lo
			e.deletion = atLatest(s)
			e.deletion.lo = lo
		}
	}
}

// containerOf gives the container that an event is about; empty where it is about none of this Pod.
func (l *life) containerOf(e *record.Event) string {
	name, _ := strings.CutPrefix(e.Subject, "container/"+l.name+"/")
	if name == e.Subject {
		return ""
	}
	return name
}

// allEnded finds each container's end. One that had ended before the deletion, by more than the API's news may be late, has no part in it; of a Pod that was
// not deleted only those are told that exited.
func (e *terminated) allEnded() []ended {
	var names []string
	for _, list := range [][]*record.Event{e.starts, e.signals, e.exits, e.stops} {
		for _, event := range list {
			if name := e.containerOf(event); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	var list []ended
	for _, name := range names {
		c := e.endOf(name, len(names) == 1)
		switch x := c.exit.event; {
		case x == nil && e.deletion.event == nil:
		case x != nil && e.deletion.event != nil && x.TNs < e.deletion.event.TNs-settled:
		default:
			list = append(list, c)
		}
	}
	return list
}

// endOf finds one container's end: the last exit of a Pod that was deleted, the first of one that was not.
func (e *terminated) endOf(name string, only bool) ended {
	c := ended{name: name}
	var seenExits, toldExits []*record.Event
	for _, x := range e.exits {
		if x.TNs >= 0 && isFirst(x) && e.containerOf(x) == name {
			seenExits = append(seenExits, x)
		}
	}
	for _, x := range e.stops {
		if x.TNs >= 0 && e.containerOf(x) == name {
			toldExits = append(toldExits, x)
		}
	}
	pick := func(list []*record.Event) int {
		if e.deletion.event != nil {
			return len(list) - 1
		}
		return 0
	}
	var before *record.Event
	switch {
	case len(seenExits) > 0:
		i := pick(seenExits)
		c.exit = seen(seenExits[i])
		if i > 0 {
			before = seenExits[i-1]
		}
	case len(toldExits) > 0:
		c.exit = seen(toldExits[pick(toldExits)])
		if w := e.exiting; only && w != nil {
			if doubt, ok := doubtOf(c.exit.instant, timeOf(w)); ok && w.TNs-doubt <= c.exit.event.TNs {
				c.exit.lo = w.TNs - doubt // it writes so while it lives
			}
		}
	default:
		c.exit.why = because("its exit was not seen", e.unseen(exits, e.v.over()))
	}
	e.signalsTo(&c, before, only)
	return c
}

// signalsTo finds what asked a container's first process to end, and what killed it, from one exit to the next.
func (e *terminated) signalsTo(c *ended, before *record.Event, only bool) {
	for _, s := range e.signals {
		switch {
		case s.TNs < 0 || e.containerOf(s) != c.name || before != nil && s.ID < before.ID:
		case c.exit.event != nil && c.exit.event.Kind == record.ProcessExited && s.ID > c.exit.event.ID:
		case isKill(s) && s.Detail["from_kernel"] == true && s.Detail["result"] == "ignored":
			// The kernel's own, to what is left of a process that exits: it ends nothing.
		case isKill(s):
			if c.kill.event == nil {
				c.kill = seen(s)
			}
		case asksToEnd(s):
			if c.term.event == nil {
				c.term = seen(s)
			}
			if c.byRuntime == nil && byRuntime(s) {
				c.byRuntime = s
			}
		}
	}
	to := e.v.over()
	if c.exit.event != nil {
		to = c.exit.event.TNs
	}
	blind := e.unseen(signals, to)
	if c.term.event == nil {
		if e.sigterm != nil && only {
			c.term = atLatest(e.sigterm) // it writes so when it has it
		} else {
			c.term.why = because("no signal that asks it to end was seen", blind)
		}
	}
	if c.kill.event == nil {
		c.kill.why = because("no SIGKILL was seen", blind)
	}
}

// The numbers of signals that ask a process to end, whoever sends them.
const (
	sigint  = 2
	sigquit = 3
	sigterm = 15
)

// asksToEnd reports whether a signal asks a process to end: an image may have its own (STOPSIGNAL), which then the runtime sends.
func asksToEnd(e *record.Event) bool {
	n, ok := record.Integer(e.Detail["signal"])
	return byRuntime(e) && !isKill(e) || ok && (n == sigint || n == sigquit || n == sigterm)
}

// recorded gives a container's end as a record holds it.
func (e *terminated) recorded(c ended) record.ContainerEnd {
	t := record.ContainerEnd{
		Name: c.name, Term: stopSignal(c.term), Kill: stopSignal(c.kill), Exit: record.ProcessExit{Instant: c.exit.recorded()},
		BeforeTerm: span(e.deletion, c.term), TermToExit: span(c.term, c.exit),
	}
	x := c.exit.event
	if x == nil {
		return t
	}
	code, known := record.Integer(x.Detail[record.DetailExitCode])
	switch {
	case x.Kind == record.ProcessExited:
		t.Killed = new(isKill(x))
		if name, ok := x.Detail["signal_name"].(string); ok {
			t.Exit.Signal = name
		} else if known {
			t.Exit.Code = new(int(code))
		}
	case known:
		// 137 is how a runtime tells of SIGKILL.
		t.Exit.Code, t.Killed = new(int(code)), new(code == 128+sigkill)
	}
	return t
}

func stopSignal(p point) record.StopSignal {
	s := record.StopSignal{Instant: p.recorded()}
	if p.event == nil {
		return s
	}
	if p.event.Source == record.FromProbe {
		s.Signal = "SIGTERM"
		return s
	}
	n, _ := record.Integer(p.event.Detail["signal"])
	name, _ := p.event.Detail["signal_name"].(string)
	s.Signal = cmp.Or(name, fmt.Sprintf("signal %d", n))
	s.Sender, _ = p.event.Detail["sender_comm"].(string)
	if kernel, _ := p.event.Detail["from_kernel"].(bool); kernel {
		s.Sender = "the kernel"
	}
	s.Result, _ = p.event.Detail["result"].(string)
	return s
}

// lastExit is when no container of the Pod ran any more.
func (e *terminated) lastExit() point {
	last := point{why: "the exit of none of its containers was seen"}
	for _, c := range e.containers {
		switch {
		case c.exit.event == nil:
			return point{why: "container " + c.name + ": " + c.exit.why}
		case last.event == nil || c.exit.event.ID > last.event.ID:
			last = c.exit
		}
	}
	return last
}

// hook tells what is known of the preStop hooks. That one runs shows nowhere: the kubelet itself sleeps and sends its requests, and a command's process looks like
// that of a readiness probe. But the runtime's stop signal comes after it.
func (e *terminated) hook() record.Hook {
	h := record.Hook{Described: e.v.hookOf()}
	none := func(why string) record.Hook {
		h.Started, h.Ended = point{why: why}.recorded(), point{why: why}.recorded()
		return h
	}
	switch {
	case e.deletion.event == nil:
		return none("no hook runs for it: " + e.deletion.why)
	case h.Described == "":
		return none("it has no preStop hook")
	}
	started := point{why: "no event tells when it began"}
	if e.hookDrain != nil {
		started = atLatest(e.hookDrain)
	}
	h.Started, h.Ended = started.recorded(), e.hookEnded().recorded()
	return h
}

// hookOf describes the hooks of the workload's Pods.
func (v *view) hookOf() string {
	switch c := v.r.Config; {
	case v.r.Workload != nil:
		return v.r.Workload.PreStop
	case c.PreStopSleepNs > 0:
		return "sleep " + figure.Setting(c.PreStopSleepNs)
	}
	return ""
}

func (e *terminated) hookEnded() point {
	var last *record.Event
	for _, c := range e.containers {
		if c.byRuntime == nil {
			return point{why: "the runtime's stop signal, which follows it, was not seen"}
		}
		if last == nil || c.byRuntime.ID > last.ID {
			last = c.byRuntime
		}
	}
	if last == nil {
		return point{why: "no container of it was seen to end"}
	}
	// The kubelet waits for a hook no longer than the grace period.
	if grace, ok := e.v.graceOf(e.life); !ok || !timeOf(last).before(e.deletion.soonest().later(grace-wholeSeconds)) {
		return point{why: "the stop signal came when the grace period was nearly used up, for which the kubelet does not wait for a hook"}
	}
	return atLatest(last)
}

// grace reckons what of the grace period was used.
func (e *terminated) grace() record.GraceUse {
	g := record.GraceUse{Used: span(e.deletion, e.out)}
	if e.deletion.event == nil {
		return g
	}
	if ns, ok := e.v.graceOf(e.life); ok {
		g.GraceNs = &ns
		if g.Used.Ns != nil {
			g.LeftNs = new(ns - *g.Used.Ns)
		}
	}
	return g
}

// pause is the name of the process that holds a sandbox's namespaces.
const pause = "pause"

// sandbox is when the Pod's sandbox was gone: by the exit of the process that held it, or by the removal of the Pod's object, which the kubelet lets go only then.
func (e *terminated) sandbox() point {
	for _, x := range slices.Backward(e.exits) {
		_, unnamed := x.Detail["container_id"].(string) // the API names no sandbox
		if comm, _ := x.Detail["comm"].(string); x.TNs >= 0 && unnamed && comm == pause {
			return seen(x)
		}
	}
	grace, known := int64(0), false
	if e.ending != nil {
		grace, known = record.Integer(e.ending.Detail["grace_seconds"])
	}
	switch {
	case e.deletion.event == nil && e.gone == nil:
		return point{why: e.deletion.why}
	case e.gone != nil && (e.v.r.Config.Trigger == "force-delete" || known && grace == 0):
		return point{why: "it was not seen, and the API let the Pod go at once, which tells nothing of it"}
	case e.gone != nil:
		return atLatest(e.gone)
	}
	return point{why: because("it was not seen", e.unseen(exits, e.v.over()))}
}

// removed is when the API showed the Pod no more.
func (e *terminated) removed() point {
	switch {
	case e.gone != nil:
		return seen(e.gone)
	case e.deletion.event == nil:
		return point{why: e.deletion.why}
	case e.v.deaf(e.deletion.event.TNs, e.v.over()):
		return point{why: "it was not seen, and the API's watch had a gap"}
	}
	return point{why: "the API still showed it at the end"}
}
