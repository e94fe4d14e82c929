package verdict

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// names is the table of what a budget can limit. Everything counts from the trigger on, and what the client itself could not do counts nowhere.
func names() []named {
	list := []named{
		{"failed", count,
			func(r record.Record) *float64 { return new(float64(r.Requests.Failed)) },
			func(r record.Record, seen float64) string {
				return fmt.Sprintf("%s of %s requests since the trigger failed", figure.Count(int64(seen)), figure.Count(Since(r)))
			}},
		{"failed-share", share,
			func(r record.Record) *float64 { return part(r.Requests.Failed, Since(r)) },
			func(_ record.Record, seen float64) string {
				return figure.Share(seen) + " of the requests since the trigger failed"
			}},
		{"users", count,
			func(r record.Record) *float64 {
				if r.Users == nil {
					return nil
				}
				return new(float64(r.Users.Hurt))
			},
			func(r record.Record, seen float64) string {
				return fmt.Sprintf("%s of %s users were hurt", figure.Count(int64(seen)), figure.Count(int64(r.Users.Total)))
			}},
		{"users-share", share,
			func(r record.Record) *float64 {
				if r.Users == nil {
					return nil
				}
				return part(int64(r.Users.Hurt), int64(r.Users.Total))
			},
			func(_ record.Record, seen float64) string { return figure.Share(seen) + " of the users were hurt" }},
	}
	for _, q := range []struct {
		name    string
		percent float64
	}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}} {
		list = append(list, named{q.name, latency,
			func(r record.Record) *float64 { return latencySince(r, q.percent) },
			func(_ record.Record, seen float64) string { return q.name + " was " + figure.Nanoseconds(int64(seen)) }})
	}
	for _, o := range record.RequestOutcomes() {
		if !o.Failed() {
			continue
		}
		list = append(list, named{string(o), count,
			func(r record.Record) *float64 {
				n := 0
				for _, f := range r.FailuresFrom() {
					if f.Outcome == o {
						n++
					}
				}
				return new(float64(n))
			},
			func(_ record.Record, seen float64) string {
				return fmt.Sprintf("%s ended as %s", figure.Plural(int(seen), "request"), o)
			}})
	}
	return list
}

// Text prints a value of a check in the unit of its name; of a name that is not known as a bare number.
func Text(name string, v float64) string {
	n, known := lookUp(name)
	switch {
	case !known:
		return figure.Trimmed(v)
	case n.kind == share:
		return figure.Share(v)
	case n.kind == latency:
		return figure.Nanoseconds(int64(v))
	}
	return figure.Count(int64(v))
}

// part is n of all as a share; null where there is nothing to share.
func part(n, all int64) *float64 {
	if all <= 0 {
		return nil
	}
	return new(float64(n) / float64(all))
}

// Since counts the requests that ended at or after the trigger and that the client could send, whenever they were due: those that failed count by
// their ends, and so do those that did not.
func Since(r record.Record) int64 {
	n, _ := settled(r)
	return n
}

// settled splits the requests that count by the trigger. The latencies are of those that were answered, also with a failure.
func settled(r record.Record) (since, before int64) {
	if r.Requests == nil {
		return 0, 0
	}
	since, before = r.Requests.Failed, r.Requests.FailedBefore
	if r.Latency == nil {
		return since, before
	}
	since += answered(r.Latency.During) + answered(r.Latency.After)
	before += answered(r.Latency.Before)
	for _, f := range r.Failures {
		switch {
		case !f.Outcome.Failed() || !f.Outcome.Answered():
		case f.TNs >= 0:
			since--
		default:
			before--
		}
	}
	return max(since, 0), max(before, 0)
}

func answered(q *record.Quantiles) int64 {
	if q == nil {
		return 0
	}
	return q.Count
}
