// Package journal gathers events from all sources while a trial runs, with each
// source's proof of life, and puts them in order at the end.
//
// It must not know what an event means or where it came from.
package journal

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
)

// entry is an event before the trial's zero is known.
type entry struct {
	monoNs int64 // on this process's clock
	event  record.Event
}

// Journal gathers events from all sources while the trial runs. Safe for concurrent use.
type Journal struct {
	mu      sync.Mutex
	entries []entry
	// counts and ended prove each source's life.
	counts map[record.EventFrom]int
	ended  map[record.EventFrom]string
	gaps   map[record.EventFrom][]Gap
	// changed is signalled (never blocking) at each entry.
	changed chan struct{}
}

// Gap is a time in which a source was not listening, on this process's clock; ToMonoNs is 0 while it lasts.
type Gap struct {
	FromMonoNs, ToMonoNs int64
	// What was down, such as pods, and Why.
	What, Why string
}

// Changed is signalled (never blocking) at each entry and each loss.
func (j *Journal) Changed() <-chan struct{} { return j.changed }

// New makes an empty one.
func New() *Journal {
	return &Journal{
		counts: map[record.EventFrom]int{}, ended: map[record.EventFrom]string{},
		gaps: map[record.EventFrom][]Gap{}, changed: make(chan struct{}, 1),
	}
}

// Add takes an event that happened at monoNs of this process's clock.
func (j *Journal) Add(monoNs int64, e record.Event) {
	j.mu.Lock()
	j.entries = append(j.entries, entry{monoNs, e})
	j.counts[e.Source]++
	j.mu.Unlock()
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// Harness notes what the trial itself did, now, and returns the time.
func (j *Journal) Harness(kind record.EventKind, subject string, detail map[string]any) int64 {
	now := clock.MonoNs()
	j.HarnessAt(now, kind, subject, detail)
	return now
}

// HarnessAt notes what the trial itself did at monoNs.
func (j *Journal) HarnessAt(monoNs int64, kind record.EventKind, subject string, detail map[string]any) {
	j.Add(monoNs, record.Event{
		Source: record.FromHarness, Kind: kind, Subject: subject, Bound: record.Exact, UncertaintyNs: new(int64), Detail: detail,
	})
}

// Alive marks a source as started, so that its silence is seen as silence.
func (j *Journal) Alive(s record.EventFrom) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.counts[s]; !ok {
		j.counts[s] = 0
	}
}

// Lost says that a source ended before the trial did.
func (j *Journal) Lost(s record.EventFrom, why string) {
	j.mu.Lock()
	j.ended[s] = why
	j.mu.Unlock()
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// Down notes a gap of a source, at its begin and again at its end.
func (j *Journal) Down(s record.EventFrom, g Gap) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A gap is told twice, at its begin and at its end; several watches may be down at once.
	for i, open := range j.gaps[s] {
		if open.ToMonoNs == 0 && open.FromMonoNs == g.FromMonoNs && open.What == g.What {
			j.gaps[s][i] = g
			return
		}
	}
	j.gaps[s] = append(j.gaps[s], g)
}

// Saw reports whether an event that match accepts is there.
func (j *Journal) Saw(match func(record.Event) bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.entries, func(e entry) bool { return match(e.event) })
}

// Events gives all entries in order of time, numbered, relative to zero.
func (j *Journal) Events(zeroMonoNs int64) []record.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	sorted := slices.Clone(j.entries)
	slices.SortStableFunc(sorted, func(a, b entry) int { return cmp.Compare(a.monoNs, b.monoNs) })
	out := make([]record.Event, 0, len(sorted))
	for i, e := range sorted {
		e.event.ID, e.event.TNs = i+1, e.monoNs-zeroMonoNs
		out = append(out, e.event)
	}
	return out
}

// Sources gives the proof of life of every source, sorted by name.
func (j *Journal) Sources(zeroMonoNs int64) []record.Source {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]record.Source, 0, len(j.counts))
	for _, name := range slices.Sorted(maps.Keys(j.counts)) {
		s := record.Source{Name: string(name), Events: j.counts[name], Gaps: []record.Gap{}, Ended: j.ended[name]}
		for _, g := range j.gaps[name] {
			rg := record.Gap{FromTNs: g.FromMonoNs - zeroMonoNs, Why: g.What + ": " + g.Why}
			if g.ToMonoNs != 0 {
				rg.ToTNs = new(g.ToMonoNs - zeroMonoNs)
			}
			s.Gaps = append(s.Gaps, rg)
		}
		out = append(out, s)
	}
	return out
}
