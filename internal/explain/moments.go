package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// Moment is a time in which failures lie close together.
type Moment struct {
	// FromTNs and ToTNs are the first and the last failure.
	FromTNs, ToTNs int64
	Failed         int
	// Outcomes are in order of their number, the most frequent first.
	Outcomes []OutcomeCount
	// Users is how many different ones were hurt.
	Users int
	// Before are the nearest events before it, one of a kind, in order of time.
	Before []record.Event
	// Sentence tells all of it.
	Sentence string
}

// OutcomeCount counts failures of one outcome.
type OutcomeCount struct {
	Outcome record.RequestOutcome
	Failed  int
}

const (
	// apart is how long no request fails between two moments.
	apart = 1_000_000_000
	// worst is how many moments are told.
	worst = 3
	// signs is how many kinds of events before a moment are named.
	signs = 2
)

// Moments gives the worst moments of a test, those with most failures first: at most three. Failures before the trigger do not count.
func Moments(r record.Record) []Moment {
	failures := r.FailuresFrom()
	slices.SortStableFunc(failures, func(a, b record.Failure) int { return cmp.Compare(when(a), when(b)) })
	var list []Moment
	for from := 0; from < len(failures); {
		to := from + 1
		for to < len(failures) && when(failures[to])-when(failures[to-1]) < apart {
			to++
		}
		list = append(list, momentOf(r, failures[from:to]))
		from = to
	}
	slices.SortStableFunc(list, func(a, b Moment) int { return cmp.Compare(b.Failed, a.Failed) })
	return list[:min(len(list), worst)]
}

// momentOf takes failures in order.
func momentOf(r record.Record, failures []record.Failure) Moment {
	m := Moment{FromTNs: max(when(failures[0]), 0), // under way when the trigger was sent
		ToTNs: when(failures[len(failures)-1]), Failed: len(failures)}
	users := map[int]bool{}
	counts := map[record.RequestOutcome]int{}
	for _, f := range failures {
		users[f.User] = true
		counts[f.Outcome]++
	}
	m.Users = len(users)
	for _, o := range record.RequestOutcomes() {
		if counts[o] > 0 {
			m.Outcomes = append(m.Outcomes, OutcomeCount{o, counts[o]})
		}
	}
	slices.SortStableFunc(m.Outcomes, func(a, b OutcomeCount) int { return cmp.Compare(b.Failed, a.Failed) })
	m.Before = signsBefore(r.Events, m.FromTNs)
	m.Sentence = m.sentence()
	return m
}

// signsBefore finds the last event of each telling kind before t, and keeps the nearest.
func signsBefore(events []record.Event, t int64) []record.Event {
	var last []record.Event
	for _, kind := range []record.EventKind{
		record.PodTerminating, record.ProbeSigterm, record.EndpointNotReady, record.EndpointRemoved, record.ContainerExited, record.PodReady,
	} {
		for _, e := range slices.Backward(events) {
			if e.Kind == kind && e.TNs >= 0 && e.TNs <= t {
				last = append(last, e)
				break
			}
		}
	}
	slices.SortStableFunc(last, func(a, b record.Event) int { return cmp.Compare(a.TNs, b.TNs) })
	return last[max(0, len(last)-signs):]
}

func (m Moment) sentence() string {
	var outcomes []string
	for _, o := range m.Outcomes {
		outcomes = append(outcomes, figure.Count(int64(o.Failed))+" "+string(o.Outcome))
	}
	text := fmt.Sprintf("%s at +%s: %s, of %s", figure.Count(int64(m.Failed)), figure.Precise(m.FromTNs, m.ToTNs), strings.Join(outcomes, ", "), figure.Plural(m.Users, "user"))
	var before []string
	named := ""
	for _, e := range slices.Backward(m.Before) {
		pod := record.PodOf(e.Subject)
		before = append(before, length(m.FromTNs-e.TNs)+" after "+happening(e, pod, pod == named))
		named = pod
	}
	if len(before) > 0 {
		text += "; it began " + strings.Join(before, ", ")
	}
	return text
}

// happening says in words what an event of signsBefore tells of a Pod, which the words before may have named.
func happening(e record.Event, pod string, named bool) string {
	whose := pod + "'s"
	if named {
		pod, whose = "it", "its"
	}
	switch e.Kind {
	case record.PodTerminating:
		return pod + " was deleted"
	case record.ProbeSigterm:
		return pod + " got SIGTERM"
	case record.EndpointNotReady:
		return whose + " endpoint became not ready"
	case record.EndpointRemoved:
		return whose + " endpoint was removed"
	case record.ContainerExited:
		return whose + " container exited"
	default:
		return pod + " became ready"
	}
}
