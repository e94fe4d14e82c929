package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// minSince is how many requests after the trigger a judgement needs. Where none of 20 failed, a workload may still
// lose up to one in seven (with 95 % confidence: 0.86^20 is 0.05); with fewer, a pass says next to nothing.
const minSince = 20

// Judge judges a trial. A trial that is incomplete, whose client fell behind, that had more failures before its trigger than the
// budget allows, or that sent fewer than 20 requests after it is inconclusive; no data never passes. Every
// limit has its check with what was seen, whatever the result. A latency that is over its limit by no more than the client's own
// lateness is the workload's only perhaps: inconclusive.
func Judge(b Budget, r record.Record) record.Verdict {
	v := record.Verdict{Budget: b.Text, Checks: []record.Check{}}
	var good, bad, late, unseen []string
	for _, l := range b.Limits {
		c := record.Check{Name: l.Name, Limit: l.Max}
		n, known := lookUp(l.Name)
		if known && r.Requests != nil {
			c.Seen = n.seen(r)
		}
		if c.Seen == nil {
			unseen = append(unseen, l.Name)
			v.Checks = append(v.Checks, c)
			continue
		}
		c.OK = *c.Seen <= c.Limit
		text := fmt.Sprintf("%s (budget %s)", n.clause(r, *c.Seen), cmp.Or(l.Text, fmt.Sprint(l.Max)))
		switch {
		case c.OK:
			good = append(good, text)
		case n.kind == latency && r.Client != nil && *c.Seen-float64(r.Client.LateMaxNs) <= c.Limit:
			// Latencies count from the planned time: with the client's own lateness taken away, the limit may hold.
			late = append(late, text)
		default:
			bad = append(bad, text)
		}
		v.Checks = append(v.Checks, c)
	}
	trouble := unfit(r)
	if trouble == "" {
		trouble = cmp.Or(failedBefore(b, r), tooFew(r))
	}
	switch {
	case trouble != "":
		v.Result, v.Reason = record.Inconclusive, trouble
	case len(bad) > 0:
		v.Result, v.Reason = record.Fail, sentence(bad)
	case len(late) > 0:
		v.Result = record.Inconclusive
		v.Reason = sentence(late) + ", but the client itself sent up to " + figure.Nanoseconds(r.Client.LateMaxNs) + " late"
	case len(unseen) > 0 || len(good) == 0:
		v.Result, v.Reason = record.Inconclusive, notSeen(unseen)
	default:
		v.Result, v.Reason = record.Pass, sentence(good)
	}
	return v
}

// unfit says why nothing may be concluded from r, whatever the budget; "" where something may.
func unfit(r record.Record) string {
	switch {
	case r.Completeness != record.Complete && len(r.Missing) > 0:
		return "the trial is incomplete: " + r.Missing[0]
	case r.Completeness != record.Complete:
		return "the trial is incomplete"
	case r.Requests == nil || r.Requests.Total == 0:
		return "no request was sent"
	case r.Client == nil:
		return "it was not recorded whether the client kept up"
	case r.Client.FellBehind:
		return "the client fell behind, so no loss can be blamed on the workload: " + behind(*r.Client)
	}
	return ""
}

// Again judges a record anew, by the budget that it was judged by.
func Again(r *record.Record) {
	if r.Verdict == nil || r.Requests == nil {
		return
	}
	if b, err := Parse(r.Verdict.Budget); err == nil {
		v := Judge(b, *r)
		r.Verdict = &v
	}
}

// behind says by how much a client fell behind, or on what limits of its own.
func behind(h record.ClientHealth) string {
	var limits []string
	for _, name := range slices.Sorted(maps.Keys(h.Limits)) {
		limits = append(limits, fmt.Sprintf("%s × %s", figure.Count(int64(h.Limits[name])), name))
	}
	if len(limits) > 0 {
		return "its own limits were " + strings.Join(limits, ", ")
	}
	return "requests left up to " + figure.Nanoseconds(h.LateMaxNs) + " late"
}

// failedBefore tells of a workload that lost requests before anything was done to it.
func failedBefore(b Budget, r record.Record) string {
	failed := float64(r.Requests.FailedBefore)
	_, before := settled(r)
	allowed := 0.0
	for _, l := range b.Limits {
		switch l.Name {
		case "failed":
			allowed = max(allowed, l.Max)
		case "failed-share":
			allowed = max(allowed, l.Max*float64(before))
		}
	}
	if failed <= allowed {
		return ""
	}
	return fmt.Sprintf("it failed before the trigger: %s of %s requests", figure.Count(r.Requests.FailedBefore), figure.Count(before))
}

func tooFew(r record.Record) string {
	if n := Since(r); n < minSince {
		return fmt.Sprintf("only %s ended after the trigger, and a verdict needs %d", figure.Plural(int(n), "request"), minSince)
	}
	return ""
}

func notSeen(names []string) string {
	if len(names) == 0 {
		return "the budget limits nothing"
	}
	return strings.Join(names, ", ") + " could not be measured"
}

// sentence joins clauses.
func sentence(clauses []string) string {
	if len(clauses) == 1 {
		return clauses[0]
	}
	last := len(clauses) - 1
	return strings.Join(clauses[:last], ", ") + " and " + clauses[last]
}
