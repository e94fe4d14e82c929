package trial

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

// journal gathers events from all sources while the trial runs. Safe for concurrent use.
type journal struct {
	mu      sync.Mutex
	entries []entry
	// counts and ended prove each source's life.
	counts map[record.EventFrom]int
	ended  map[record.EventFrom]string
	gaps   map[record.EventFrom][]gap
	// changed is signalled (never blocking) at each entry.
	changed chan struct{}
}

type gap struct {
	fromMonoNs, toMonoNs int64
	what, why            string
}

func newJournal() *journal {
	return &journal{
		counts: map[record.EventFrom]int{}, ended: map[record.EventFrom]string{},
		gaps: map[record.EventFrom][]gap{}, changed: make(chan struct{}, 1),
	}
}

func (j *journal) add(monoNs int64, e record.Event) {
	j.mu.Lock()
	j.entries = append(j.entries, entry{monoNs, e})
	j.counts[e.Source]++
	j.mu.Unlock()
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// harness notes what the trial itself did, now, and returns the time.
func (j *journal) harness(kind record.EventKind, subject string, detail map[string]any) int64 {
	now := clock.MonoNs()
	j.harnessAt(now, kind, subject, detail)
	return now
}

func (j *journal) harnessAt(monoNs int64, kind record.EventKind, subject string, detail map[string]any) {
	j.add(monoNs, record.Event{
		Source: record.FromHarness, Kind: kind, Subject: subject, Bound: record.Exact, UncertaintyNs: new(int64), Detail: detail,
	})
}

// alive marks a source as started, so that its silence is seen as silence.
func (j *journal) alive(s record.EventFrom) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.counts[s]; !ok {
		j.counts[s] = 0
	}
}

// lost says that a source ended before the trial did.
func (j *journal) lost(s record.EventFrom, why string) {
	j.mu.Lock()
	j.ended[s] = why
	j.mu.Unlock()
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

func (j *journal) gap(s record.EventFrom, g gap) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A gap is told twice, at its begin and at its end; several watches may be down at once.
	for i, open := range j.gaps[s] {
		if open.toMonoNs == 0 && open.fromMonoNs == g.fromMonoNs && open.what == g.what {
			j.gaps[s][i] = g
			return
		}
	}
	j.gaps[s] = append(j.gaps[s], g)
}

// saw reports whether an event that match accepts is there.
func (j *journal) saw(match func(record.Event) bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.entries, func(e entry) bool { return match(e.event) })
}

// events gives all entries in order of time, numbered, relative to zero.
func (j *journal) events(zeroMonoNs int64) []record.Event {
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

// sources gives the proof of life of every source, sorted by name.
func (j *journal) sources(zeroMonoNs int64) []record.Source {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]record.Source, 0, len(j.counts))
	for _, name := range slices.Sorted(maps.Keys(j.counts)) {
		s := record.Source{Name: string(name), Events: j.counts[name], Gaps: []record.Gap{}, Ended: j.ended[name]}
		for _, g := range j.gaps[name] {
			rg := record.Gap{FromTNs: g.fromMonoNs - zeroMonoNs, Why: g.what + ": " + g.why}
			if g.toMonoNs != 0 {
				rg.ToTNs = new(g.toMonoNs - zeroMonoNs)
			}
			s.Gaps = append(s.Gaps, rg)
		}
		out = append(out, s)
	}
	return out
}
