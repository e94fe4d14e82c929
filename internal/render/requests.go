package render

import (
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/verdict"
)

// RequestsReport sums up the requests of an arm of tests. Each of its summaries is of one value a repeat; null where a repeat has none.
type RequestsReport struct {
	// Sent counts requests from the trigger on, Failed those of them that failed, Outcomes these by kind: over all repeats together.
	Sent     int64                           `json:"sent"`
	Failed   int64                           `json:"failed"`
	Outcomes map[record.RequestOutcome]int64 `json:"outcomes"`
	// Users is how many a repeat had; 0 where that was not recorded.
	Users         int                     `json:"users"`
	SentEach      *stats.Summary[float64] `json:"sent_each"`
	FailedEach    *stats.Summary[float64] `json:"failed_each"`
	ShareEach     *stats.Summary[float64] `json:"share_each"`
	HurtEach      *stats.Summary[float64] `json:"hurt_each"`
	P99DuringEach *stats.Summary[int64]   `json:"p99_during_each_ns"`
	// Verdicts has one entry a repeat; inconclusive where a record holds none.
	Verdicts []record.VerdictResult `json:"verdicts"`
}

// RequestsOf sums up the repeats of an arm of tests; nil for trials of flows.
func RequestsOf(trials []record.Record) *RequestsReport {
	var verdicts []record.VerdictResult
	var p99 []int64
	for _, r := range trials {
		if !r.IsTest() {
			return nil
		}
		result := record.Inconclusive
		if r.Verdict != nil {
			result = r.Verdict.Result
		}
		verdicts = append(verdicts, result)
		if r.Latency != nil && r.Latency.During != nil {
			p99 = append(p99, r.Latency.During.P99Ns)
		}
	}
	c, n := verdict.CountsOf(trials), len(trials)
	return &RequestsReport{
		Sent: c.Requests, Failed: c.Failed, Outcomes: c.Outcomes, Users: c.Users, Verdicts: verdicts,
		SentEach: stats.Whole(c.RequestsEach, n), FailedEach: stats.Whole(c.FailedEach, n), ShareEach: stats.Whole(c.ShareEach, n), HurtEach: stats.Whole(c.HurtEach, n),
		P99DuringEach: stats.Whole(p99, n),
	}
}
