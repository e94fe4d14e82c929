package verdict

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

var clean = sync.OnceValue(records.RolloutClean)

// trials makes a test a trial, of 1,000 requests that were answered after the trigger each, and so many that were lost. They share nothing that a test edits.
func trials(failed ...int64) []record.Record {
	var list []record.Record
	for i, n := range failed {
		r := clean()
		r.ID = fmt.Sprintf("trial-%d", i+1)
		r.Requests, r.Users, r.Workload, r.Client, r.Config.Traffic = new(*r.Requests), new(*r.Users), new(*r.Workload), new(*r.Client), new(*r.Config.Traffic)
		r.Requests.Failed, r.Users.Hurt = n, int(min(n, 20))
		for range n {
			r.Failures = append(r.Failures, record.Failure{Outcome: record.Refused, PlannedTNs: 1e9})
		}
		list = append(list, r)
	}
	return list
}

func TestCompareCounts(t *testing.T) {
	before, after := trials(9, 12, 3), trials(0, 0, 1)
	for i := range after {
		after[i].Workload.PreStop, after[i].Workload.GraceNs = "web: sleep 10s", 45e9
	}
	c, err := Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	want := Side{
		Trials: 3, Requests: 3024, Failed: 24, Outcomes: map[record.RequestOutcome]int64{record.Refused: 24}, Users: 20,
		FailedEach: stats.Summary[float64]{N: 3, Median: 9, Min: 3, Max: 12},
		ShareEach:  stats.Summary[float64]{N: 3, Median: 9. / 1009, Min: 3. / 1003, Max: 12. / 1012},
		HurtEach:   stats.Summary[float64]{N: 3, Median: 9, Min: 3, Max: 12},
		P50Each:    c.Before.P50Each, P99Each: c.Before.P99Each,
	}
	if diff := cmp.Diff(want, c.Before, cmpopts.IgnoreUnexported(Side{})); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	if p, want := c.Before.P99Each, int64(*latencySince(clean(), 99)); p == nil || *p != (stats.Summary[int64]{N: 3, Median: want, Min: want, Max: want}) {
		t.Errorf("p99 is %+v", p)
	}
	if c.After.Failed != 1 || c.After.Requests != 3001 {
		t.Errorf("after: %d of %d", c.After.Failed, c.After.Requests)
	}
	if diff := cmp.Diff([]Difference{{"grace", "30 s", "45 s"}, {"preStop", "web: sleep 5s", "web: sleep 10s"}}, c.Changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if len(c.Same) != 11 || c.Same[0] != (Difference{"trigger", "rollout", "rollout"}) {
		t.Errorf("same: %v", c.Same)
	}
	if c.TrialsP == nil || math.Abs(*c.TrialsP-0.1) > 1e-12 || math.Abs(c.TrialsLeastP-0.1) > 1e-12 {
		t.Errorf("p by trial %v, at least %v", c.TrialsP, c.TrialsLeastP)
	}
	if want := stats.Fisher(24, 3000, 1, 3000); c.PooledP != want || c.PooledP > 1e-4 {
		t.Errorf("pooled p is %v, want %v", c.PooledP, want)
	}
}

// What is said is as strong as the trials allow, and no stronger.
func TestCompareSays(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after []int64
		want          []string
		not           []string
	}{
		{"one against one", []int64{9}, []int64{0}, []string{
			"Failed since the trigger: 9 of 1,009 requests (0.89 %) in 1 trial before, 0 of 1,000 requests (0 %) in 1 trial after.",
			"The counts differ, but one trial shows only itself", "Measure each side at least 4 times.", "Fisher's exact test): p = 0.0038",
		}, []string{"Fewer requests", "rank-sum"}},
		{"one against many", []int64{9}, []int64{0, 0, 0, 0, 0}, []string{"one trial shows only itself"}, []string{"Fewer requests"}},
		{"one against one, alike", []int64{9}, []int64{9}, []string{"The counts do not differ, but one trial shows only itself"}, nil},
		{"three against three", []int64{9, 12, 3}, []int64{0, 0, 1}, []string{
			"(exact rank-sum test, 3 v 3): p = 0.1. With 3 v 3 trials the smallest possible is p = 0.1, so even a clear difference cannot be told from chance, " +
				"although every trial after lost less than every trial before. Measure each side at least 4 times.",
		}, []string{"by more than chance"}},
		{"three against three, overlapping", []int64{9, 0, 3}, []int64{0, 7, 1}, []string{"cannot be told from chance. Measure"}, []string{"although"}},
		{"four against four", []int64{9, 12, 3, 5}, []int64{0, 0, 1, 0}, []string{"(exact rank-sum test, 4 v 4): p = 0.029. Fewer requests failed after, by more than chance between trials would give."}, nil},
		{"worse", []int64{0, 0, 1, 0}, []int64{9, 12, 3, 5}, []string{"p = 0.029. More requests failed after,"}, nil},
		{"four against four, overlapping", []int64{9, 0, 3, 0}, []int64{0, 7, 1, 2}, []string{"Chance between trials could give such a difference"}, []string{"Fewer", "More"}},
		{"nothing on either side", []int64{0, 0}, []int64{0, 0}, []string{"Neither side lost a request"}, []string{"p ="}},
		{"very many", make51(9), make51(0), []string{"the exact test takes up to 100 trials"}, []string{"rank-sum"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Compare(trials(c.before...), trials(c.after...))
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(got.Says, "\n")
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("it does not say %q:\n%s", w, text)
				}
			}
			for _, n := range c.not {
				if strings.Contains(text, n) {
					t.Errorf("it says %q:\n%s", n, text)
				}
			}
		})
	}
}

// Each trial of an experiment has a namespace of its own, which is no difference; anybody else's is.
func TestNamespacesOfTrialsAreNoDifference(t *testing.T) {
	made := func(n int64) []record.Record {
		list := trials(n, n, n)
		for i := range list {
			list[i].ID = fmt.Sprintf("20261130-00000%d-%06d", i, n)
			w := *list[i].Workload
			w.Namespace, list[i].Workload = "drainproof-"+list[i].ID, &w
		}
		return list
	}
	before, after := made(9), made(0)
	c, err := Compare(before, after)
	if err != nil || len(c.Changed) != 0 {
		t.Fatalf("changed %v, %v", c.Changed, err)
	}
	before[1].Workload.Namespace = "shop"
	if _, err := Compare(before, after); err == nil {
		t.Error("a workload of another namespace is taken for the same")
	}
}

func make51(failed int64) []int64 {
	list := make([]int64, 51)
	for i := range list {
		list[i] = failed
	}
	return list
}

func TestPodsEnded(t *testing.T) {
	for trigger, c := range map[string]struct {
		count int
		want  string
	}{
		"delete": {0, "1"}, "evict": {2, "2"}, "scale": {0, "all"}, "rollout": {0, "all"}, "drain": {0, "those of a node"}, "none": {0, none},
	} {
		r := record.Record{Config: record.Config{Trigger: trigger, Traffic: &record.Traffic{TriggerCount: c.count}}}
		if got := ended(r); got != c.want {
			t.Errorf("%s, count %d: %q, want %q", trigger, c.count, got, c.want)
		}
	}
	if got := ended(record.Record{}); got != notKnown {
		t.Errorf("of a record that does not say: %q", got)
	}
}

func TestCompareRefusesOtherExperiments(t *testing.T) {
	for want, edit := range map[string]func(*record.Record){
		"trigger rollout v delete":   func(r *record.Record) { r.Config.Trigger = "delete" },
		"mode new-connection v grpc": func(r *record.Record) { r.Config.Traffic.Mode = "grpc" },
		"rate 100 v 20":              func(r *record.Record) { r.Config.Traffic.Rate = 20 },
		"users 20 v 5":               func(r *record.Record) { r.Config.Traffic.Users = 5 },
		"Kubernetes v1.37.2 v v1.30.0": func(r *record.Record) {
			r.Environment.Kubernetes = "v1.30.0"
		},
		"proxy mode iptables v nftables":  func(r *record.Record) { r.Environment.ProxyMode = new("nftables") },
		"proxy mode iptables v not known": func(r *record.Record) { r.Environment.ProxyMode = nil },
		"rate 100 v 20, users 20 v 5":     func(r *record.Record) { r.Config.Traffic.Rate, r.Config.Traffic.Users = 20, 5 },
	} {
		after := trials(0, 0)
		for i := range after {
			edit(&after[i])
		}
		_, err := Compare(trials(9, 9), after)
		if fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), "not the same experiment: "+want) {
			t.Errorf("%s: error is %v", want, err)
		}
		// Inside one side nothing at all may differ.
		_, err = Compare(append(trials(9), after[0]), trials(0))
		if fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), "the trials before are not of one experiment") {
			t.Errorf("%s, inside one side: error is %v", want, err)
		}
	}
	mixed := trials(9, 9)
	mixed[1].Workload.GraceNs = 5e9
	if _, err := Compare(mixed, trials(0)); fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), "grace 30 s and 5 s") {
		t.Errorf("two graces on one side: %v", err)
	}
}

func TestCompareRefusesWhatSaysNothing(t *testing.T) {
	incomplete := trials(9, 9, 9)
	incomplete[1].Completeness, incomplete[1].Missing = record.Incomplete, []string{"the watch broke"}
	behind := trials(9)
	behind[0].Client.FellBehind = true
	short := trials(0)
	short[0].Latency = nil
	for _, c := range []struct {
		name          string
		before, after []record.Record
		code          fault.Code
		want          string
	}{
		{"nothing before", nil, trials(0), fault.Usage, "there is no trial before"},
		{"nothing after", trials(9), nil, fault.Usage, "there is no trial after"},
		{"no test", trials(9), []record.Record{records.Exit()}, fault.Usage, "holds no requests"},
		{"incomplete", incomplete, trials(0), fault.Inconclusive, "1 of 3 trials before say nothing: trial-2: the trial is incomplete: the watch broke"},
		{"fell behind", trials(9), behind, fault.Inconclusive, "1 of 1 trials after say nothing: trial-1: the client fell behind"},
		{"ended at its trigger", trials(9), short, fault.Inconclusive, "no request ended after the trigger"},
	} {
		_, err := Compare(c.before, c.after)
		if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || fault.NextOf(err) == "" {
			t.Errorf("%s: error is %v, code %d, advice %q", c.name, err, fault.CodeOf(err), fault.NextOf(err))
		}
	}
}
