package explain

import (
	"cmp"
	"fmt"
	"maps"
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
	// before are the nearest signs before it, one of a kind, in order of time.
	before []sign
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
	all := signsOf(r)
	var list []Moment
	for from := 0; from < len(failures); {
		to := from + 1
		for to < len(failures) && when(failures[to])-when(failures[to-1]) < apart {
			to++
		}
		list = append(list, momentOf(failures[from:to], all))
		from = to
	}
	slices.SortStableFunc(list, func(a, b Moment) int { return cmp.Compare(b.Failed, a.Failed) })
	return list[:min(len(list), worst)]
}

// momentOf takes failures in order, and the signs of the whole trial.
func momentOf(failures []record.Failure, all []sign) Moment {
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
	m.before = signsBefore(all, m.FromTNs)
	m.Sentence = m.sentence()
	return m
}

// sign is what happened to a Pod: the kind of event that tells it without agents, and when.
type sign struct {
	kind  record.EventKind
	pod   string
	tNs   int64
	bound record.Bound
}

func signOf(kind record.EventKind, e record.Event) sign {
	return sign{kind, record.PodOf(e.Subject), e.TNs, e.Bound}
}

// signsOf lists a trial's signs. When a Pod was deleted, got SIGTERM and exited, its termination knows best.
func signsOf(r record.Record) (all []sign) {
	known := map[record.EventKind]map[string]bool{record.PodTerminating: {}, record.ProbeSigterm: {}}
	for _, x := range r.Terminations {
		best := func(kind record.EventKind, i record.Instant) {
			if i.TNs != nil {
				all, known[kind][x.Pod] = append(all, sign{kind, x.Pod, *i.TNs, i.Bound}), true
			}
		}
		best(record.PodTerminating, x.Deleted)
		for _, c := range x.Containers {
			best(record.ProbeSigterm, c.Term.Instant)
		}
	}
	for _, e := range r.Exits() {
		all = append(all, signOf(record.ContainerExited, e))
	}
	for _, e := range r.Events {
		switch e.Kind {
		case record.PodTerminating, record.ProbeSigterm:
			if !known[e.Kind][record.PodOf(e.Subject)] {
				all = append(all, signOf(e.Kind, e))
			}
		case record.EndpointNotReady, record.EndpointRemoved, record.PodReady:
			all = append(all, signOf(e.Kind, e))
		}
	}
	return all
}

// signsBefore finds the last sign of each kind before t, and keeps the nearest.
func signsBefore(all []sign, t int64) []sign {
	last := map[record.EventKind]sign{}
	for _, s := range all {
		if was, ok := last[s.kind]; s.tNs >= 0 && s.tNs <= t && (!ok || s.tNs >= was.tNs) {
			last[s.kind] = s
		}
	}
	nearest := slices.SortedFunc(maps.Values(last), func(a, b sign) int { return cmp.Or(cmp.Compare(a.tNs, b.tNs), cmp.Compare(a.kind, b.kind)) })
	return nearest[max(0, len(nearest)-signs):]
}

func (m Moment) sentence() string {
	var outcomes []string
	for _, o := range m.Outcomes {
		outcomes = append(outcomes, figure.Count(int64(o.Failed))+" "+string(o.Outcome))
	}
	// Of what was given up only the begin says where it belongs.
	begun := ""
	if !slices.ContainsFunc(m.Outcomes, func(o OutcomeCount) bool {
		return o.Outcome != record.ConnectTimeout && o.Outcome != record.ResponseTimeout
	}) {
		begun = "begun "
	}
	text := fmt.Sprintf("%s %sat +%s: %s, of %s", figure.Count(int64(m.Failed)), begun, figure.Precise(m.FromTNs, m.ToTNs), strings.Join(outcomes, ", "), figure.Plural(m.Users, "user"))
	var before []string
	named := ""
	for _, s := range slices.Backward(m.before) {
		atLeast := ""
		if s.bound == record.Upper {
			atLeast = "≥ "
		}
		before = append(before, atLeast+length(m.FromTNs-s.tNs)+" after "+s.happening(s.pod == named))
		named = s.pod
	}
	if len(before) > 0 {
		text += "; began " + strings.Join(before, ", ")
	}
	return text
}

// happening says it in words, which may have named the Pod before.
func (s sign) happening(named bool) string {
	pod, whose := s.pod, s.pod+"'s"
	if named {
		pod, whose = "it", "its"
	}
	switch s.kind {
	case record.PodTerminating:
		return whose + " deletion"
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
