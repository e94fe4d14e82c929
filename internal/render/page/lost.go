package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// Lost sums up the failures of one outcome.
type Lost struct {
	// Users is how many were hurt so.
	Users int
	// FirstTNs and LastTNs are when the first and the last of them was due.
	FirstTNs, LastTNs int64
	// Connection says whether their connections were new or reused, or how many of each.
	Connection string
}

// LostBy sums up failures by outcome.
func LostBy(failures []record.Failure) map[record.RequestOutcome]Lost {
	type sum struct {
		users         map[int]bool
		first, last   int64
		fresh, reused int64
	}
	sums := map[record.RequestOutcome]*sum{}
	for _, f := range failures {
		s := sums[f.Outcome]
		if s == nil {
			s = &sum{users: map[int]bool{}, first: f.PlannedTNs, last: f.PlannedTNs}
			sums[f.Outcome] = s
		}
		s.users[f.User] = true
		s.first, s.last = min(s.first, f.PlannedTNs), max(s.last, f.PlannedTNs)
		if f.Connection == record.ReusedConnection {
			s.reused++
		} else {
			s.fresh++
		}
	}
	lost := map[record.RequestOutcome]Lost{}
	for o, s := range sums {
		connection := "new"
		switch {
		case s.reused > 0 && s.fresh > 0:
			connection = fmt.Sprintf("%s new, %s reused", figure.Count(s.fresh), figure.Count(s.reused))
		case s.reused > 0:
			connection = "reused"
		}
		lost[o] = Lost{len(s.users), s.first, s.last, connection}
	}
	return lost
}

// Cells are users, connection and when due, as tables of outcomes show them.
func (l Lost) Cells() []string {
	return []string{figure.Count(int64(l.Users)), l.Connection, figure.Precise(l.FirstTNs, l.LastTNs)}
}

// Outcomes lists those that occurred: the good one, then the most frequent first; words that this version does not know last.
func Outcomes(counts map[record.RequestOutcome]int64) []record.RequestOutcome {
	known := record.RequestOutcomes()
	rank := func(o record.RequestOutcome) int {
		if i := slices.Index(known, o); i >= 0 {
			return i
		}
		return len(known)
	}
	list := slices.DeleteFunc(slices.Collect(maps.Keys(counts)), func(o record.RequestOutcome) bool { return counts[o] == 0 })
	slices.SortFunc(list, func(a, b record.RequestOutcome) int {
		good := func(o record.RequestOutcome) int { return min(rank(o), 1) }
		return cmp.Or(cmp.Compare(good(a), good(b)), cmp.Compare(counts[b], counts[a]), cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	return list
}

// Answered is from when to when an instance answered, to the width of a bucket.
func Answered(s *record.Series, instance string) (fromTNs, toTNs int64, ok bool) {
	if s == nil {
		return 0, 0, false
	}
	i := slices.IndexFunc(s.Instances, func(x record.InstanceSeries) bool { return x.Instance == instance })
	if i < 0 {
		return 0, 0, false
	}
	for b, n := range s.Instances[i].Answered {
		if n == 0 {
			continue
		}
		if !ok {
			fromTNs, ok = s.FromTNs+int64(b)*s.BucketNs, true
		}
		toTNs = s.FromTNs + int64(b+1)*s.BucketNs
	}
	return fromTNs, toTNs, ok
}

// Strategy is a workload's, with what limits it.
func Strategy(w record.Workload) string {
	if w.MaxUnavailable == "" && w.MaxSurge == "" {
		return w.Strategy
	}
	return fmt.Sprintf("%s (maxUnavailable %s, maxSurge %s)", w.Strategy, cmp.Or(w.MaxUnavailable, "not set"), cmp.Or(w.MaxSurge, "not set"))
}
