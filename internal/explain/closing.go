package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/drainproof/drainproof/internal/record"
)

// atOnce is how soon after a process the kernel ends what it held, and after a listener what waited in its queue: both happen in the same
// call, which another task may interrupt.
const atOnce = 10_000_000

// closing is how a Pod had ceased to listen when a connection came.
type closing struct {
	// event shows it; nil where it does not hold.
	event *record.Event
	// own: the process closed its listener and lived on, for 100 ms at least. exit is the end of the process that closed it otherwise.
	own  bool
	exit *record.Event
	// perhaps is the end of a process that is not a container's first, at the same time: it may have been that one's listener.
	perhaps *record.Event
	// opened is the first listener, where there was none before.
	opened *record.Event
	// missing says why it is not known, against what contradicts it.
	missing, against string
}

// arrival is when a new connection reached its Pod: the time of the reset that answered it, else while it was under way.
func (v *view) arrival(l loss) (instant, *record.Event) {
	for _, e := range v.endsOf(l) {
		if e.Kind == record.ResetSent && noSocket(e) {
			return timeOf(e), e
		}
	}
	return l.underway(), nil
}

// noSocket reports whether a reset answered what no socket took.
func noSocket(e *record.Event) bool {
	there, ok := e.Detail["socket"].(bool)
	return ok && !there
}

// closingOf finds how the Pod that l led to had ceased to listen by then.
func (v *view) closingOf(l loss, at instant) closing {
	pod := l.to.life
	var before, after *record.Event
	for _, e := range pod.listens {
		if isUDP(e) != l.udp || !listensOn(e, l.to.pod) {
			continue
		}
		switch t := timeOf(e); {
		case t.before(at):
			before = e
		case !at.before(t):
			return closing{missing: fmt.Sprintf("whether the connection came before %s (%s) or after: their order lies within the bounds of the clocks, or of the time that it took",
				changed(e), clockTime(e.TNs))}
		case after == nil:
			after = e
		}
	}
	switch {
	case before == nil && after != nil && after.Kind == record.ListenerOpened:
		return closing{opened: after, against: pod.name + " had no listener before " + clockTime(after.TNs)}
	case after != nil && after.Kind == record.ListenerClosed:
		return closing{against: pod.name + " listened until " + clockTime(after.TNs)}
	case before != nil:
		if why := v.unseen(listeners, pod.node, before.TNs, at.hi); why != "" {
			return v.closingUnseen(l, at, before, why)
		}
		if before.Kind == record.ListenerOpened {
			return closing{against: pod.name + " had been listening since " + clockTime(before.TNs)}
		}
		return v.closedBy(pod, before)
	}
	return v.closingToldBy(l, at)
}

// closingUnseen is closingOf where a listener's last event is known, and why nothing may have been heard of a later one.
func (v *view) closingUnseen(l loss, at instant, last *record.Event, why string) closing {
	if told := v.closingToldBy(l, at); told.event != nil {
		return told
	}
	did := "listened again after "
	if last.Kind == record.ListenerOpened {
		did = "still listened, as it had since "
	}
	return closing{missing: "whether " + l.to.life.name + " " + did + clockTime(last.TNs) + " (" + why + ")"}
}

// changed names what an event of a listener tells.
func changed(e *record.Event) string {
	if e.Kind == record.ListenerOpened {
		return "the opening of the listener"
	}
	return "the closing of the listener"
}

// listensOn reports whether a listener takes connections to an address; without that one it is any.
func listensOn(e *record.Event, to netip.AddrPort) bool {
	on := endpointOf(e.Detail["address"])
	if !on.IsValid() || !to.IsValid() {
		return on.IsValid()
	}
	return on.Port() == to.Port() && (on.Addr().IsUnspecified() || on.Addr() == to.Addr())
}

// closedBy says whether a listener was closed by the end of a process.
func (v *view) closedBy(pod *life, closed *record.Event) closing {
	t := timeOf(closed)
	var perhaps *record.Event
	for _, e := range pod.exits {
		x := timeOf(e)
		again := slices.ContainsFunc(pod.listens, func(o *record.Event) bool {
			return o.Kind == record.ListenerOpened && x.before(timeOf(o)) && timeOf(o).before(t)
		})
		switch {
		case again || t.later(withExit).before(x):
		case isFirst(e) && (v.oneContainer() || !x.later(atOnce).before(t)):
			return closing{event: closed, exit: e}
		case !t.before(x) && !x.later(atOnce).before(t):
			perhaps = e
		}
	}
	if why := v.unseen(exits, pod.node, closed.TNs-atOnce, closed.TNs+withExit); why != "" {
		return closing{missing: "whether " + pod.name + "'s process closed its listener or exited (" + why + ")"}
	}
	return closing{event: closed, own: true, perhaps: perhaps}
}

// isFirst reports whether an event is about the first process of a container.
func isFirst(e *record.Event) bool {
	first, _ := e.Detail["first_process"].(bool)
	return first
}

// closingToldBy asks those who tell less than the kernel: the bundled probe's log, the exit of the only container, the Pod's removal.
func (v *view) closingToldBy(l loss, at instant) closing {
	pod := l.to.life
	if e := pod.listenClosed; e != nil && timeOf(e).before(at) && !startedSince(pod, e, at) {
		return closing{event: e, own: true}
	}
	for _, list := range [][]*record.Event{pod.exits, pod.stops} {
		if len(list) == 0 || !v.oneContainer() {
			continue
		}
		e := list[len(list)-1]
		if e.Kind == record.ProcessExited && !isFirst(e) {
			continue
		}
		if timeOf(e).before(at) && !startedSince(pod, e, at) {
			return closing{event: e, exit: e}
		}
	}
	// A Pod's object outlives its containers, unless it was deleted by force.
	if e := pod.gone; e != nil && timeOf(e).before(at) && v.r.Config.Trigger != "force-delete" {
		return closing{event: e, exit: e}
	}
	return closing{missing: because("when "+pod.name+" ceased to listen: no listener of that port was seen to close before", cmp.Or(v.unseen(listeners, pod.node, at.lo, at.hi), v.unfound(pod)))}
}

// oneContainer reports whether the end of one container is the end of what serves.
func (v *view) oneContainer() bool {
	return v.r.Workload == nil || len(v.r.Workload.Images) <= 1
}

// startedSince reports whether a container of the Pod may have started again.
func startedSince(pod *life, e *record.Event, at instant) bool {
	for _, s := range pod.starts {
		if s.TNs > e.TNs && s.TNs <= at.hi+nearby {
			return true
		}
	}
	return false
}

// terminating gives the first sign, surely before t, that the Pod was being terminated.
func (v *view) terminating(pod *life, t instant) *record.Event {
	var signs []*record.Event
	for _, s := range pod.signals {
		if !isKill(s) && byRuntime(s) {
			signs = append(signs, s)
			break
		}
	}
	for _, e := range append(signs, pod.ending, pod.sigterm, pod.notReady) {
		if e != nil && timeOf(e).before(t) {
			return e
		}
	}
	return nil
}

// closedWords tells of a closing, counted back from t.
func closedWords(c closing, t int64) string {
	switch {
	case c.own:
		return "had closed its listener " + length(max(0, t-c.event.TNs)) + " before"
	case c.event != c.exit && c.event.TNs < c.exit.TNs:
		return "had closed its listener " + length(max(0, t-c.event.TNs)) + " before, on the way to its exit"
	case c.event.Kind == record.PodRemoved:
		return "was gone " + length(max(0, t-c.event.TNs)) + " before at the latest"
	case c.event.Source == record.FromKube:
		return "had exited " + length(max(0, t-c.event.TNs)) + " before at the latest"
	default:
		return "had exited, and closed its listener with it, " + length(max(0, t-c.event.TNs)) + " before"
	}
}
