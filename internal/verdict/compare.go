package verdict

import (
	"fmt"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
)

// Comparison is what two sets of trials of one experiment show beside each other. All counts are from the trigger on.
type Comparison struct {
	// Same are the conditions that both sides share, Changed those that differ and may.
	Same    []Difference `json:"same"`
	Changed []Difference `json:"changed"`
	Before  Side         `json:"before"`
	After   Side         `json:"after"`
	// PooledP is Fisher's exact test, two-sided, on failed against not failed requests of all trials together. It takes
	// requests as independent, which those of one trial are not.
	PooledP float64 `json:"pooled_p"`
	// TrialsP is the exact rank-sum test, two-sided, on the share of failed requests of each trial; null with
	// fewer than two trials on a side, or more than the test takes. TrialsLeastP is the smallest value that it can have with so many trials.
	TrialsP      *float64 `json:"trials_p"`
	TrialsLeastP float64  `json:"trials_least_p"`
	// Says is what can be said and what cannot, a sentence each.
	Says []string `json:"says"`
}

// Side is one of two sets of trials.
type Side struct {
	Trials int `json:"trials"`
	// Requests and Failed are of all trials together.
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed"`
	// Outcomes counts those failures.
	Outcomes map[record.RequestOutcome]int64 `json:"outcomes"`
	// The rest has one value for each trial. Users is the number of users of a trial.
	FailedEach stats.Summary[float64] `json:"failed_each"`
	ShareEach  stats.Summary[float64] `json:"share_each"`
	HurtEach   stats.Summary[float64] `json:"hurt_each"`
	Users      int                    `json:"users"`
	// P50Each and P99Each are latencies in nanoseconds; null where a trial has none.
	P50Each *stats.Summary[int64] `json:"p50_each_ns"`
	P99Each *stats.Summary[int64] `json:"p99_each_ns"`

	shares []float64
}

// Difference is one condition with its value on both sides.
type Difference struct {
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Compare sets trials before a change beside trials after it. It refuses, as wrong use, trials that are not of one experiment, and, as
// inconclusive, trials from which nothing may be concluded: a set with a hole is not summed up.
func Compare(before, after []record.Record) (Comparison, error) {
	for _, side := range []struct {
		name   string
		trials []record.Record
	}{{"before", before}, {"after", after}} {
		if err := usable(side.name, side.trials); err != nil {
			return Comparison{}, err
		}
	}
	same, changed, err := conditions(before[0], after[0])
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{Same: same, Changed: changed, Before: sideOf(before), After: sideOf(after)}
	c.PooledP = stats.Fisher(c.Before.Failed, c.Before.Requests-c.Before.Failed, c.After.Failed, c.After.Requests-c.After.Failed)
	c.TrialsLeastP = stats.SmallestRankSum(c.Before.Trials, c.After.Trials)
	if c.Before.Trials > 1 && c.After.Trials > 1 {
		if p, ok := stats.RankSum(c.Before.shares, c.After.shares); ok {
			c.TrialsP = &p
		}
	}
	c.Says = says(c)
	return c, nil
}

// usable refuses a side that is empty, holds trials that say nothing, or is itself a mixture.
func usable(name string, trials []record.Record) error {
	if len(trials) == 0 {
		return fault.Usagef("give a folder with at least one record of `drainproof test` for each side", "there is no trial %s", name)
	}
	var bad []string
	for _, r := range trials {
		if r.Requests == nil {
			return fault.Usagef("give records of `drainproof test`", "the record %s (%s) holds no requests", r.ID, name)
		}
		why := unfit(r)
		if why == "" && Since(r) == 0 {
			why = "no request ended after the trigger"
		}
		if why != "" {
			bad = append(bad, r.ID+": "+why)
		}
	}
	if len(bad) > 0 {
		return fault.Inconclusivef("measure them again, or leave them out on purpose", "%d of %d trials %s say nothing: %s", len(bad), len(trials), name, strings.Join(bad, "; "))
	}
	for _, r := range trials[1:] {
		var differ []string
		for _, c := range allConditions() {
			if a, b := c.of(trials[0]), c.of(r); a != b {
				differ = append(differ, fmt.Sprintf("%s %s and %s", c.what, a, b))
			}
		}
		if len(differ) > 0 {
			return fault.Usagef("give each side trials of one configuration only", "the trials %s are not of one experiment: %s", name, strings.Join(differ, ", "))
		}
	}
	return nil
}

func sideOf(trials []record.Record) Side {
	c := CountsOf(trials)
	s := Side{Trials: len(trials), Requests: c.Requests, Failed: c.Failed, Outcomes: c.Outcomes, Users: c.Users, shares: c.ShareEach}
	s.FailedEach, _ = stats.Summarize(c.FailedEach)
	s.ShareEach, _ = stats.Summarize(c.ShareEach)
	s.HurtEach, _ = stats.Summarize(c.HurtEach)
	var p50, p99 []int64
	for _, r := range trials {
		for _, q := range []struct {
			percent float64
			into    *[]int64
		}{{50, &p50}, {99, &p99}} {
			if v := latencySince(r, q.percent); v != nil {
				*q.into = append(*q.into, int64(*v))
			}
		}
	}
	s.P50Each, s.P99Each = stats.Whole(p50, len(trials)), stats.Whole(p99, len(trials))
	return s
}

// conditions compares one trial of each side.
func conditions(a, b record.Record) (same, changed []Difference, err error) {
	same, changed = []Difference{}, []Difference{}
	var refused []string
	for _, c := range allConditions() {
		d := Difference{c.what, c.of(a), c.of(b)}
		switch {
		case d.Before == d.After:
			if c.fixed {
				same = append(same, d)
			}
		case c.fixed:
			refused = append(refused, fmt.Sprintf("%s %s v %s", d.What, d.Before, d.After))
		default:
			changed = append(changed, d)
		}
	}
	if len(refused) > 0 {
		return nil, nil, fault.Usagef("compare trials that differ in what was mended, and in nothing else that decides how much is lost", "not the same experiment: %s", strings.Join(refused, ", "))
	}
	return same, changed, nil
}
