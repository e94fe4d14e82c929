package explain

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/record"
)

// life is what the events tell of one Pod; nil for what was not seen. All but added, ready and endpointReady are the first from the trigger on.
type life struct {
	name, uid string
	// The API's word, receipts all: the fact lies at or before.
	ending, killing, notReady, removed, exited, gone *record.Event
	added, ready, endpointReady                      *record.Event
	// The bundled probe's own word, exact on its clock.
	sigterm, listenClosed, forced, exiting, hookDrain *record.Event
	// probeClosed are the listeners that it wrote to have closed, in order.
	probeClosed []*record.Event
	// restarted: it was ready again after it had exited.
	restarted *record.Event
	// hookNs is how long its preStop hook takes; null where that is not written anywhere.
	hookNs *int64
	// node is where it runs, and addresses are what it has there.
	node      string
	addresses []netip.Addr
	// listens are the listeners that its node's kernel saw open and close, exits its processes' ends, signals those sent to the first process of
	// a container, starts and stops the API's word of containers; all in order of time.
	listens, exits, signals, starts, stops []*record.Event
}

// livesOf gathers every Pod that an event is about, in order of their first event. Pods are told apart by UID, so that a
// StatefulSet's new Pod is not taken for the old one of that name.
func livesOf(r *record.Record) []*life {
	var lives []*life
	for i := range r.Events {
		e := &r.Events[i]
		name := record.PodOf(e.Subject)
		if name == "" {
			continue
		}
		at := slices.IndexFunc(lives, func(l *life) bool { return l.name == name && (l.uid == e.PodUID || l.uid == "" || e.PodUID == "") })
		if at < 0 {
			at = len(lives)
			lives = append(lives, &life{name: name, uid: e.PodUID})
			if r.Workload != nil {
				lives[at].hookNs = r.Workload.PreStopSleepNs
			}
		}
		lives[at].add(e)
	}
	if r.Workload != nil {
		for _, p := range r.Workload.Pods {
			if at := slices.IndexFunc(lives, func(l *life) bool { return l.name == p.Name && (l.uid == p.UID || l.uid == "") }); at >= 0 {
				lives[at].node = cmp.Or(lives[at].node, p.Node)
				lives[at].at(p.IP)
			}
		}
	}
	return lives
}

// at notes an address of the Pod.
func (l *life) at(text string) {
	if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(l.addresses, a.Unmap()) {
		l.addresses = append(l.addresses, a.Unmap())
	}
}

func (l *life) add(e *record.Event) {
	if l.uid == "" {
		l.uid = e.PodUID
	}
	l.place(e)
	switch e.Kind {
	case record.ListenerOpened, record.ListenerClosed:
		l.listens = append(l.listens, e)
	case record.ProcessExited:
		l.exits = append(l.exits, e)
	case record.SignalSent:
		if isFirst(e) {
			l.signals = append(l.signals, e)
		}
	case record.ContainerStarted:
		l.starts = append(l.starts, e)
	case record.ContainerExited:
		l.stops = append(l.stops, e)
	case record.ProbeListenClosed:
		l.probeClosed = append(l.probeClosed, e)
	}
	if e.Kind == record.PodReady && l.exited != nil && l.restarted == nil {
		l.restarted = e
	}
	for _, f := range []struct {
		kind record.EventKind
		into **record.Event
		// ever: before the trigger counts as well.
		ever bool
	}{
		{record.PodAdded, &l.added, true}, {record.PodReady, &l.ready, true}, {record.EndpointReady, &l.endpointReady, true},
		{record.PodTerminating, &l.ending, false}, {record.KubeletKilling, &l.killing, false}, {record.EndpointNotReady, &l.notReady, false},
		{record.EndpointRemoved, &l.removed, false}, {record.ContainerExited, &l.exited, false}, {record.PodRemoved, &l.gone, false},
		{record.ProbeSigterm, &l.sigterm, false}, {record.ProbeListenClosed, &l.listenClosed, false},
		{record.ProbeForcedRST, &l.forced, false}, {record.ProbeExiting, &l.exiting, false}, {record.ProbeHookDrain, &l.hookDrain, false},
	} {
		if e.Kind == f.kind && *f.into == nil && (f.ever || e.TNs >= 0) {
			*f.into = e
		}
	}
}

// place notes where the Pod runs and its addresses. The node of a rule is another's.
func (l *life) place(e *record.Event) {
	switch e.Source {
	case record.FromKube, record.FromKernel:
		l.node = cmp.Or(e.Node, l.node)
	}
	if list, ok := e.Detail["addresses"].(string); ok {
		for _, text := range strings.Split(list, ",") {
			l.at(text)
		}
	}
}

// runs reports whether a container is one of the Pod's, by its id; true too where no id was told.
func (l *life) runs(id string) bool {
	named := false
	for _, s := range l.starts {
		told, _ := s.Detail["container_id"].(string)
		if _, bare, found := strings.Cut(told, "://"); found {
			told = bare
		}
		if told == id {
			return true
		}
		named = named || told != ""
	}
	return !named
}

// end is the first sign that the Pod, or its process, was ended; nil for one that lives.
func (l *life) end() *record.Event {
	if l.ending != nil {
		return l.ending
	}
	return l.exited
}

// farFrom is how far t lies from the Pod's end; further than anything for a Pod that lives.
func (l *life) farFrom(t int64) int64 {
	end := l.end()
	if end == nil {
		return math.MaxInt64
	}
	return max(t-end.TNs, end.TNs-t)
}

// endingAt reports whether the Pod was on its way out around t.
func (l *life) endingAt(t int64) bool {
	end := l.end()
	if end == nil || t < end.TNs-nearby {
		return false
	}
	for _, over := range []*record.Event{l.gone, l.restarted} {
		if over != nil && t > over.TNs+nearby {
			return false
		}
	}
	return true
}

// startingAt reports whether the Pod came after the trigger and was not yet ready around t.
func (l *life) startingAt(t int64) bool {
	return l.end() == nil && l.added != nil && l.added.TNs >= 0 && t >= l.added.TNs && (l.endpointReady == nil || t <= l.endpointReady.TNs+nearby)
}

// named gives the lives of a name: none, one, or more where a name was given again.
func (v *view) named(name string) []*life {
	var list []*life
	for _, l := range v.lives {
		if l.name == name {
			list = append(list, l)
		}
	}
	return list
}

// instance gives the one Pod that answered, or had answered on the connection; nil where that is not known, or the name is that of two.
func (v *view) instance(l loss) *life {
	if l.Instance == nil {
		return nil
	}
	list := v.named(*l.Instance)
	if l.flow != nil && l.flow.FirstPodUID != nil {
		list = slices.DeleteFunc(list, func(p *life) bool { return p.uid != "" && p.uid != *l.flow.FirstPodUID })
	}
	if len(list) == 1 {
		return list[0]
	}
	return nil
}
