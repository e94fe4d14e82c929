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

// Since counts the requests that were planned at or after the trigger and that the client could send, and those that were under way
// by then and failed: these count as failed since the trigger. The edges of a series'
// buckets lie at multiples of their width from the trigger; of one that spans it all the same, nothing is counted.
func Since(r record.Record) int64 {
	n, _ := sent(r)
	for _, f := range r.FailuresFrom() {
		if f.PlannedTNs < 0 {
			n++
		}
	}
	return n
}

// sent splits the requests that count by the trigger.
func sent(r record.Record) (since, before int64) {
	if r.Requests == nil || r.Requests.Series == nil {
		return 0, 0
	}
	s := r.Requests.Series
	for i, n := range s.Sent {
		switch from := s.FromTNs + int64(i)*s.BucketNs; {
		case from >= 0:
			since += n
		case from+s.BucketNs <= 0:
			before += n
		}
	}
	for _, f := range r.Failures {
		switch {
		case f.Outcome != record.ClientLimited:
		case f.PlannedTNs >= 0:
			since--
		default:
			before--
		}
	}
	return max(since, 0), max(before, 0)
}
