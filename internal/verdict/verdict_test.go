package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/tally"
	"github.com/drainproof/drainproof/internal/testkit/records"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

func budget(t *testing.T, s string) Budget {
	t.Helper()
	b, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Budget{
		"":          {Text: "failed=0", Limits: []Limit{{"failed", 0, "0"}}},
		"failed=10": {Text: "failed=10", Limits: []Limit{{"failed", 10, "10"}}},
		" failed = 0 , users=2,p99=1.5s": {Text: "failed = 0 , users=2,p99=1.5s", Limits: []Limit{
			{"failed", 0, "0"}, {"users", 2, "2"}, {"p99", 1.5e9, "1.5s"},
		}},
		"failed-share=0.1%,users-share=0.25": {Text: "failed-share=0.1%,users-share=0.25", Limits: []Limit{
			{"failed-share", 0.001, "0.1%"}, {"users-share", 0.25, "0.25"},
		}},
		"p50=5ms,p90=6ms,p99.9=1s,max=2s,refused=3,reset-mid-response=0": {Text: "p50=5ms,p90=6ms,p99.9=1s,max=2s,refused=3,reset-mid-response=0", Limits: []Limit{
			{"p50", 5e6, "5ms"}, {"p90", 6e6, "6ms"}, {"p99.9", 1e9, "1s"}, {"max", 2e9, "2s"}, {"refused", 3, "3"}, {"reset-mid-response", 0, "0"},
		}},
	} {
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"failed", "failed=", "failed=-1", "failed=1.5", "failed=0.1%", "failed=many", "failed=99999999999999999999", "failed=0,", ",", "failed=0,failed=1",
		"failed-share=-1%", "failed-share=101%", "failed-share=1.1", "failed-share=NaN", "failed-share=%", "p99=5", "p99=-5ms", "p99=0s", "p99=soon",
		"ok=5", "client-limit=0", "p42=5ms", "Failed=0", "failed=0;users=0", "=0",
	} {
		b, err := Parse(text)
		if err == nil {
			t.Errorf("%q is taken as %+v", text, b)
			continue
		}
		if fault.CodeOf(err) != fault.Usage || fault.NextOf(err) == "" {
			t.Errorf("%q: %v has code %d and advice %q", text, err, fault.CodeOf(err), fault.NextOf(err))
		}
	}
	if _, err := Parse("speed=1"); !strings.Contains(fault.NextOf(err), strings.Join(Names(), ", ")) {
		t.Errorf("the advice %q does not list the names", fault.NextOf(err))
	}
}

// Every outcome that counts against a workload can be limited, and no other.
func TestNamesCoverTheOutcomes(t *testing.T) {
	names := Names()
	for _, o := range record.RequestOutcomes() {
		if _, known := lookUp(string(o)); known != o.Failed() {
			t.Errorf("%s: can be limited: %t", o, known)
		}
	}
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			t.Errorf("%s is there twice", n)
		}
		seen[n] = true
	}
}

func TestJudge(t *testing.T) {
	incomplete := records.RolloutLossy()
	incomplete.Completeness, incomplete.Missing = record.Incomplete, []string{"the watch broke"}
	interrupted := record.Record{Completeness: record.Incomplete}
	behind := records.RolloutLossy()
	behind.Client.FellBehind, behind.Client.LateMaxNs = true, 812e6
	limited := records.RolloutClean()
	limited.Client.FellBehind, limited.Client.Limits = true, map[string]int{"EMFILE": 3, "EADDRNOTAVAIL": 1200}
	sick := records.RolloutClean()
	sick.Requests.FailedBefore = 4
	nothing := records.RolloutClean()
	nothing.Requests = &record.Requests{Outcomes: map[record.RequestOutcome]int64{}}
	few := records.RolloutClean()
	few.Latency.During.Count, few.Latency.After = 19, nil
	one := records.RolloutClean()
	one.Latency.During, one.Latency.After = nil, nil
	one.Requests.Failed = 1
	unanswered := records.RolloutLossy()
	unanswered.Latency.During.Histogram = ""
	garbled := records.RolloutClean()
	garbled.Latency.During.Histogram = "bm90IG9uZQ=="
	noHealth := records.RolloutClean()
	noHealth.Client = nil

	for _, c := range []struct {
		name, budget string
		r            record.Record
		want         record.VerdictResult
		reason       string
	}{
		{"nothing lost", "", records.RolloutClean(), record.Pass, "0 of 1,000 requests since the trigger failed (budget 0)"},
		{"the control", "failed=0,users=0", records.Baseline(), record.Pass, "0 of 1,000 requests since the trigger failed (budget 0) and 0 of 20 users were hurt (budget 0)"},
		{"lost", "", records.RolloutLossy(), record.Fail, "9 of 1,000 requests since the trigger failed (budget 0)"},
		{"what failed is told, what held is not", "failed=0,users=0,p99=500ms", records.RolloutLossy(), record.Fail, "9 of 1,000 requests since the trigger failed (budget 0) and 5 of 20 users were hurt (budget 0)"},
		{"exactly the budget", "failed=9,users=5", records.RolloutLossy(), record.Pass, "9 of 1,000 requests since the trigger failed (budget 9) and 5 of 20 users were hurt (budget 5)"},
		{"a share", "failed-share=0.5%", records.RolloutLossy(), record.Fail, "0.9 % of the requests since the trigger failed (budget 0.5%)"},
		{"a share that holds", "failed-share=0.9%,users-share=25%", records.RolloutLossy(), record.Pass, "0.9 % of the requests since the trigger failed (budget 0.9%) and 25 % of the users were hurt (budget 25%)"},
		{"one outcome", "refused=7,reset-before-response=1", records.RolloutLossy(), record.Fail, "2 requests ended as reset-before-response (budget 1)"},
		{"latency", "p99=1ms", records.RolloutClean(), record.Fail, "p99 was " + figure.Nanoseconds(int64(*latencySince(records.RolloutClean(), 99))) + " (budget 1ms)"},
		{"incomplete", "", incomplete, record.Inconclusive, "the trial is incomplete: the watch broke"},
		{"interrupted at once", "", interrupted, record.Inconclusive, "the trial is incomplete"},
		{"late", "", behind, record.Inconclusive, "the client fell behind, so no loss can be blamed on the workload: requests left up to 812 ms late"},
		{"its own limits", "", limited, record.Inconclusive, "the client fell behind, so no loss can be blamed on the workload: its own limits were 1,200 × EADDRNOTAVAIL, 3 × EMFILE"},
		{"health not recorded", "", noHealth, record.Inconclusive, "it was not recorded whether the client kept up"},
		{"sick before", "", sick, record.Inconclusive, "it failed before the trigger: 4 of 204 requests"},
		{"sick before, within the budget", "failed=4", sick, record.Pass, "0 of 1,000 requests since the trigger failed (budget 4)"},
		{"sick before, within the share", "failed-share=2%", sick, record.Pass, "0 % of the requests since the trigger failed (budget 2%)"},
		{"sick before, beyond the share", "failed-share=1.9%", sick, record.Inconclusive, "it failed before the trigger: 4 of 204 requests"},
		{"sick before, and only latency limited", "p99=1s", sick, record.Inconclusive, "it failed before the trigger: 4 of 204 requests"},
		{"no data", "", nothing, record.Inconclusive, "no request was sent"},
		{"too little data", "", few, record.Inconclusive, "only 19 requests ended after the trigger, and a verdict needs 20"},
		{"hardly any data", "", one, record.Inconclusive, "only 1 request ended after the trigger, and a verdict needs 20"},
		{"no latency", "p99=500ms,max=1s", unanswered, record.Inconclusive, "p99, max could not be measured"},
		{"no latency, but a loss", "p99=500ms,failed=0", unanswered, record.Fail, "9 of 1,000 requests since the trigger failed (budget 0)"},
		{"a histogram that is none", "p99=500ms", garbled, record.Inconclusive, "p99 could not be measured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Judge(budget(t, c.budget), c.r)
			if v.Result != c.want || v.Reason != c.reason {
				t.Errorf("got %s: %s\nwant %s: %s", v.Result, v.Reason, c.want, c.reason)
			}
			if v.Budget != budget(t, c.budget).Text || len(v.Checks) != len(budget(t, c.budget).Limits) {
				t.Errorf("budget %q, %d checks", v.Budget, len(v.Checks))
			}
			for _, check := range v.Checks {
				if check.OK && (check.Seen == nil || *check.Seen > check.Limit) {
					t.Errorf("%+v is called good", check)
				}
			}
		})
	}
	if v := Judge(Budget{}, records.RolloutClean()); v.Result != record.Inconclusive || v.Reason != "the budget limits nothing" {
		t.Errorf("a budget without limits gives %s: %s", v.Result, v.Reason)
	}
}

// Losses of the client itself are no part of the requests that a share is of.
// TestALateClientBlamesNobody: what the client's own lateness may explain is no failure of the workload.
func TestALateClientBlamesNobody(t *testing.T) {
	b, err := Parse("p99=100us")
	if err != nil {
		t.Fatal(err)
	}
	r := records.RolloutClean()
	seen := Judge(b, r).Checks[0].Seen
	if seen == nil || *seen <= 100e3 {
		t.Fatalf("p99 of the sample is %v ns: this test needs more than 100 µs", *seen)
	}
	r.Client.LateMaxNs = 0
	if v := Judge(b, r); v.Result != record.Fail {
		t.Errorf("a client in time: %+v", v)
	}
	r.Client.LateMaxNs = int64(*seen)
	if v := Judge(b, r); v.Result != record.Inconclusive || !strings.Contains(v.Reason, "late") {
		t.Errorf("a late client: %+v", v)
	}
}

func TestClientLimitsAreLeftOut(t *testing.T) {
	r := records.RolloutClean()
	since, before := settled(r)
	r.Failures = append(r.Failures, record.Failure{Outcome: record.ClientLimited, PlannedTNs: 5e9, TNs: 5e9}, record.Failure{Outcome: record.ClientLimited, PlannedTNs: -1e9, TNs: -1e9})
	if s, b := settled(r); s != since || b != before || since+before != r.Requests.Total {
		t.Errorf("%d since and %d before, of %d; then %d and %d", since, before, r.Requests.Total, s, b)
	}
}

// What was under way at the trigger counts since then, whether it was answered or lost, and an answer that is a failure counts once.
func TestWhatWasUnderWayCounts(t *testing.T) {
	const planned, took = -1e9, int64(3e9)
	samples := make([]request.Sample, 0, 40)
	for i := range 40 {
		s := request.Sample{PlannedNs: planned + int64(i)*1e8, LatencyNs: took}
		if i < 5 {
			s.LatencyNs = 1e8 // over before the trigger
		}
		samples = append(samples, s)
	}
	of := func(o record.RequestOutcome) record.Record {
		var r record.Record
		mixed := slices.Clone(samples)
		for i := range mixed {
			if i%2 == 1 {
				mixed[i].Outcome = uint8(slices.Index(record.RequestOutcomes(), o))
				r.Failures = append(r.Failures, record.Failure{Outcome: o, PlannedTNs: mixed[i].PlannedNs, TNs: mixed[i].PlannedNs + mixed[i].LatencyNs})
			}
		}
		q, u, l := tally.Fold(tally.Input{Samples: mixed, Users: 1})
		r.Requests, r.Users, r.Latency = &q, &u, &l
		return r
	}
	for _, o := range []record.RequestOutcome{record.OK, record.HTTPError, record.Refused} {
		if since, before := settled(of(o)); since != 35 || before != 5 {
			t.Errorf("%s: %d since and %d before, want 35 and 5", o, since, before)
		}
	}
}

func TestLatencyIsThatOfBothPhases(t *testing.T) {
	quantiles := func(ns ...int64) *record.Quantiles {
		return &record.Quantiles{Count: int64(len(ns)), MaxNs: ns[len(ns)-1], Histogram: stats.ExportHistogram(ns)}
	}
	during, after := make([]int64, 98), make([]int64, 102)
	for i := range during {
		during[i] = 1e6
	}
	for i := range after {
		after[i] = 100e6 + int64(i)*1e6
	}
	r := record.Record{Latency: &record.Latency{During: quantiles(during...), After: quantiles(after...), Before: quantiles(9e9)}}
	for percent, want := range map[float64]float64{49: 1e6, 50: 101e6, 90: 181e6, 99: 199e6, 100: 201e6} {
		got := latencySince(r, percent)
		if got == nil || *got < want || *got > want*1.001 {
			t.Errorf("p%v is %v, want %v within a thousandth", percent, got, want)
		}
	}
	r.Latency.After = nil
	if got := latencySince(r, 99); got == nil || *got < 1e6 || *got > 1.001e6 {
		t.Errorf("one phase alone: p99 is %v", got)
	}
	r.Latency.During.Count++
	if got := latencySince(r, 99); got != nil {
		t.Errorf("a histogram that holds another count gives %v", *got)
	}
}
