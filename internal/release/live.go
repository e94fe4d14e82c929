package release

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/record"
)

// Live is a look at a trial while requests are sent.
type Live struct {
	Phase Phase
	// SinceTrigger is negative before it; its size is then how long requests have been sent.
	SinceTrigger time.Duration
	Fired        bool
	// Rate is requests per second that ended since the look before.
	Rate   float64
	Counts map[record.RequestOutcome]int64
	Pods   []PodState
}

// PodState is what the API last told of one Pod.
type PodState struct {
	Name string
	// State is pending, running, ready, terminating or gone.
	State string
}

// podStates follows the workload's Pods. Safe for concurrent use.
type podStates struct {
	mu     sync.Mutex
	states map[string]string // by name
	order  []string
	noted  map[string]bool
	// containers holds, by Pod and name, the id that the container of that name got when it started last.
	containers map[string]map[string]string
	// ends counts, by Pod, containers that ended.
	ends map[string]int
}

func (p *podStates) take(f kube.Fact) {
	switch f.Kind {
	case record.ContainerStarted:
		p.started(f)
	case record.ContainerExited:
		p.mu.Lock()
		if p.ends == nil {
			p.ends = map[string]int{}
		}
		p.ends[record.PodOf(f.Subject)]++
		p.mu.Unlock()
	}
	state := ""
	switch f.Kind {
	case record.PodAdded:
		state = "pending"
	case record.ContainerStarted:
		state = "running"
	case record.PodReady:
		state = "ready"
	case record.PodNotReady:
		state = "running"
	case record.PodTerminating:
		state = "terminating"
	case record.PodRemoved:
		state = "gone"
	default:
		return
	}
	name := record.PodOf(f.Subject)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.states == nil {
		p.states = map[string]string{}
	}
	before, known := p.states[name]
	if !known {
		p.order = append(p.order, name)
	}
	// A Pod that terminates stays so, whatever its containers do.
	if before == "terminating" && state != "gone" {
		return
	}
	p.states[name] = state
}

func (p *podStates) started(f kube.Fact) {
	id, _ := f.Detail["container_id"].(string)
	parts := strings.Split(f.Subject, "/") // container/POD/NAME
	if id == "" || len(parts) != 3 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.containers == nil {
		p.containers = map[string]map[string]string{}
	}
	if p.containers[parts[1]] == nil {
		p.containers[parts[1]] = map[string]string{}
	}
	p.containers[parts[1]][parts[2]] = id
}

// running gives the ids of the Pod's containers that were seen to start, by name.
func (p *podStates) running(pod string) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.containers[pod])
}

// exits counts the ends of the Pod's containers.
func (p *podStates) exits(pod string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends[pod]
}

// onceNote passes a sentence on the first time that it is said.
func (p *podStates) onceNote(sentence string, note func(string, ...any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noted == nil {
		p.noted = map[string]bool{}
	}
	if !p.noted[sentence] {
		p.noted[sentence] = true
		note("%s", sentence)
	}
}

// shown lists the Pods that are there, and those gone last.
func (p *podStates) shown() []PodState {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []PodState
	for _, name := range p.order {
		out = append(out, PodState{name, p.states[name]})
	}
	slices.SortStableFunc(out, func(a, b PodState) int {
		gone := func(s PodState) int {
			if s.State == "gone" {
				return 1
			}
			return 0
		}
		return cmp.Compare(gone(a), gone(b))
	})
	return out
}

const liveEvery = 500 * time.Millisecond

// startLive tells how it goes until the returned function is called.
func (r *running) startLive() (stop func()) {
	if r.deps.Live == nil {
		return func() {}
	}
	began := clock.MonoNs()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(liveEvery)
		defer t.Stop()
		var before int64
		last := began
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			now := clock.MonoNs()
			phase, zero := r.now()
			l := Live{Phase: phase, Counts: r.tally.counts(), Pods: r.pods.shown(), SinceTrigger: time.Duration(began - now)}
			if zero != 0 {
				l.Fired, l.SinceTrigger = true, time.Duration(now-zero)
			}
			var total int64
			for _, n := range l.Counts {
				total += n
			}
			l.Rate = float64(total-before) / (float64(now-last) / 1e9)
			before, last = total, now
			r.deps.Live(l)
		}
	}()
	return func() { close(done); <-ended }
}
