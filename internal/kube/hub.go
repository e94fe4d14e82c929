package kube

import (
	"sync"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
)

// hub brings what several watches receive into one order: the time of receipt
// is taken as each thing is queued, and one goroutine, started by newHub,
// compares and calls back, so that a slow callback delays no receipt.
type hub struct {
	spec WatchSpec

	mu     sync.Mutex
	queue  []arrival
	closed bool
	wake   chan struct{} // capacity 1
	done   chan struct{}

	// Of the goroutine alone:
	pods    map[string]bool   // UIDs seen
	waiting map[string][]Fact // of Pods not seen yet, by UID
}

// arrival is one thing received; exactly one of facts, health and reached is set.
type arrival struct {
	monoNs int64
	// seenBy is list or relist, or empty where a watch delivered it.
	seenBy  string
	facts   func() []Fact
	health  *WatchHealth
	reached chan struct{}
}

func newHub(spec WatchSpec) *hub {
	h := &hub{spec: spec, wake: make(chan struct{}, 1), done: make(chan struct{}), pods: map[string]bool{}, waiting: map[string][]Fact{}}
	go h.run()
	return h
}

// push queues an arrival and gives its time of receipt.
func (h *hub) push(a arrival) int64 {
	h.mu.Lock()
	a.monoNs = clock.MonoNs()
	h.queue = append(h.queue, a)
	h.mu.Unlock()
	h.signal()
	return a.monoNs
}

func (h *hub) signal() {
	select {
	case h.wake <- struct{}{}:
	default: // it is awake already
	}
}

// down reports that a watch does not run; up that it runs again.
func (h *hub) down(resource, why string) WatchHealth {
	at := h.push(arrival{health: &WatchHealth{Resource: resource, Why: why}})
	return WatchHealth{Resource: resource, Why: why, FromMonoNs: at}
}

func (h *hub) up(gap WatchHealth) { h.push(arrival{health: &gap}) }

// flush waits until everything queued so far has been called back.
func (h *hub) flush() {
	reached := make(chan struct{})
	h.push(arrival{reached: reached})
	<-reached
}

// close calls back what is queued, then ends the goroutine and waits for it.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.signal()
	<-h.done
}

func (h *hub) run() {
	defer close(h.done)
	for range h.wake {
		h.mu.Lock()
		batch, closed := h.queue, h.closed
		h.queue = nil
		h.mu.Unlock()
		for _, a := range batch {
			h.deliver(a)
		}
		if closed {
			return
		}
	}
}

func (h *hub) deliver(a arrival) {
	switch {
	case a.reached != nil:
		close(a.reached)
	case a.health != nil:
		gap := *a.health
		if gap.FromMonoNs == 0 {
			gap.FromMonoNs = a.monoNs
		} else {
			gap.ToMonoNs = a.monoNs
		}
		if h.spec.OnHealth != nil {
			h.spec.OnHealth(gap)
		}
	default:
		for _, f := range a.facts() {
			f.MonoNs = a.monoNs
			if a.seenBy != "" {
				if f.Detail == nil {
					f.Detail = map[string]any{}
				}
				f.Detail["seen_by"] = a.seenBy
			}
			h.emit(f)
		}
	}
}

// emit calls back, except for the kubelet's words about Pods that are not
// ours; as these come on another watch, they wait until the Pod is known.
func (h *hub) emit(f Fact) {
	if f.Kind == record.KubeletKilling && !h.pods[f.PodUID] {
		h.waiting[f.PodUID] = append(h.waiting[f.PodUID], f)
		return
	}
	h.spec.OnFact(f)
	if f.Kind != record.PodAdded {
		return
	}
	h.pods[f.PodUID] = true
	for _, late := range h.waiting[f.PodUID] {
		h.spec.OnFact(late)
	}
	delete(h.waiting, f.PodUID)
}
