package budget

import (
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

func of(w *model.Workload, floors Floors) Sum {
	s := Sum{
		Grace:     time.Duration(w.Pod.Grace.N) * time.Second,
		GraceSet:  w.Pod.Grace.Set,
		GraceFrom: "default",
		All:       reach(w, floors),
		Drain:     drain(w),
	}
	if s.GraceSet {
		s.GraceFrom = w.SpecPath() + ".terminationGracePeriodSeconds"
	}
	s.Hook, s.HookKnown = shortestHook(w)
	s.LongHook, s.LongHookKnown = longestHook(w)
	for i, f := range s.All {
		// A floor of 0 says that a path is there, not that it is fast.
		if f.Least > 0 && (s.Slowest == nil || f.Least > s.Slowest.Least) {
			s.Slowest = &s.All[i]
		}
	}
	return s
}

// serving gives the containers that clients talk to. Where the manifest does not say
// which they are, any container may be one.
func serving(w *model.Workload) (containers []*model.Container, sure bool) {
	if containers = w.Serving(); len(containers) > 0 {
		return containers, true
	}
	return w.Pod.Containers, len(w.Pod.Containers) == 1
}

// HookOf gives how long a container's preStop hook keeps its server from being stopped: no hook
// keeps it for 0 s. Where that is not known, took is what it surely keeps it.
func HookOf(c *model.Container) (took time.Duration, known bool) {
	switch {
	case c.PreStop == nil:
		return 0, true
	case c.PreStop.Known:
		return c.PreStop.Took, true
	default:
		// A hook that stops the server itself and then waits holds nothing open by its wait.
		return c.PreStop.SleepsFirst, false
	}
}

// shortestHook is known although one hook is not, where the unknown one surely takes longer.
func shortestHook(w *model.Workload) (time.Duration, bool) {
	containers, sure := serving(w)
	if !sure {
		return sameHook(containers)
	}
	var known, unknown []time.Duration
	for _, c := range containers {
		if took, ok := HookOf(c); ok {
			known = append(known, took)
		} else {
			unknown = append(unknown, took)
		}
	}
	if len(known) == 0 {
		return least(unknown), false
	}
	shortest := least(known)
	if len(unknown) > 0 && least(unknown) < shortest {
		return least(unknown), false
	}
	return shortest, true
}

func longestHook(w *model.Workload) (time.Duration, bool) {
	containers, sure := serving(w)
	if !sure {
		return sameHook(containers)
	}
	longest, known := time.Duration(0), true
	for _, c := range containers {
		took, ok := HookOf(c)
		if !ok {
			took = c.PreStop.AtLeast
		}
		longest, known = max(longest, took), known && ok
	}
	return longest, known
}

// sameHook is the hook of containers that all have the same one.
func sameHook(containers []*model.Container) (time.Duration, bool) {
	var all []time.Duration
	same := len(containers) > 0
	for _, c := range containers {
		took, ok := HookOf(c)
		same = same && ok && (len(all) == 0 || all[0] == took)
		all = append(all, took)
	}
	return least(all), same
}

func least(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	shortest := all[0]
	for _, d := range all[1:] {
		shortest = min(shortest, d)
	}
	return shortest
}

func (s Sum) document() finding.Budget {
	b := finding.Budget{GraceNs: int64(s.Grace), GraceFrom: s.GraceFrom}
	if s.LongHookKnown {
		b.HookNs = nanoseconds(s.LongHook)
	}
	if s.Slowest != nil {
		b.PropagationNs = nanoseconds(s.Slowest.Least)
		b.PropagationPath = s.Slowest.Path
		b.PropagationFrom = s.Slowest.Source
	}
	if s.Drain.Known {
		b.DrainNs, b.DrainFrom = nanoseconds(s.Drain.Took), s.Drain.From
	}
	if left, known := s.Fits(); known && s.LongHookKnown {
		b.LeftNs = nanoseconds(left)
	}
	return b
}

func nanoseconds(d time.Duration) *int64 {
	ns := int64(d)
	return &ns
}
