package testview

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/testkit/records"
	"github.com/drainproof/drainproof/internal/verdict"
)

// judged gives a sample the causes, the terminations and the verdict that the product gives it now.
func judged(t testing.TB, r record.Record, budget string) record.Record {
	t.Helper()
	b, err := verdict.Parse(budget)
	if err != nil {
		t.Fatal(err)
	}
	r.Failures = slices.Clone(r.Failures)
	explain.Record(&r)
	r.Verdict = new(verdict.Judge(b, r))
	return r
}

func in(r record.Record) render.Input {
	return render.Input{Path: "out/" + r.ID + "/record.json", Record: r}
}

var lossy, clean = sync.OnceValue(records.RolloutLossy), sync.OnceValue(records.RolloutClean)

// broken is a test that was interrupted, whose client fell behind and whose watch broke.
func broken(t testing.TB) record.Record {
	r := lossy()
	r.Completeness, r.Missing = record.Incomplete, []string{"interrupted by a signal"}
	r.Client = new(*r.Client)
	r.Client.FellBehind = true
	r.Sources = slices.Clone(r.Sources)
	r.Sources[2].Gaps, r.Sources[2].Ended = []record.Gap{{FromTNs: 3e9, Why: "connection refused"}}, "the API server went away"
	r.Notes = []string{"Two of the workload's Pods were ended before the traffic began.", "A note.", "Another note."}
	return judged(t, r, "failed=0,p99=500ms")
}

// huge is a test in which everything that a table can hold occurred, with names as long as Kubernetes allows.
func huge(t testing.TB) record.Record {
	r := lossy()
	q := *r.Requests
	q.Outcomes, q.Instances = map[record.RequestOutcome]int64{}, nil
	s := *q.Series
	s.Instances = nil
	for i, o := range record.RequestOutcomes() {
		q.Outcomes[o] = int64(1_000_000 * (i + 1))
		r.Failures = append(slices.Clone(r.Failures), record.Failure{Outcome: o, TNs: int64(i) * 3e8, PlannedTNs: int64(i) * 3e8, User: i, Connection: record.ReusedConnection, Retryable: true})
	}
	for i := range 40 {
		name := fmt.Sprintf("a-workload-with-a-very-long-name-that-goes-on-for-as-long-as-allowed-%02d", i)
		q.Instances = append(q.Instances, record.InstanceCount{Instance: name, Total: 1_000_000, Failed: int64(i)})
		answered := make([]int64, len(s.Sent))
		answered[i], answered[i+20] = 5, 5
		s.Instances = append(s.Instances, record.InstanceSeries{Instance: name, Answered: answered})
		r.Events = append(slices.Clone(r.Events), record.Event{ID: len(r.Events) + 1, TNs: 9e9, Kind: record.PodTerminating, Subject: "pod/" + name, Bound: record.Upper})
	}
	q.Series = &s
	r.Requests = &q
	for i := range 12 {
		r.Notes = append(slices.Clone(r.Notes), fmt.Sprintf("Note %d of a harness that has a great deal to say about what it did to the cluster and why that was needed.", i))
	}
	return judged(t, r, "failed=0,users=0,p50=1ms,p99=1ms,max=1ms,refused=0,reset-mid-response=0")
}

// set is an experiment of tests: three arms of three repeats.
func set(t testing.TB) []render.Input {
	arms := []string{"exits at once", "preStop 5 s", "control"}
	control := sync.OnceValue(records.Baseline)
	var list []render.Input
	for a, build := range []func() record.Record{lossy, clean, control} {
		for repeat := range 3 {
			r := judged(t, build(), "")
			r.ID = fmt.Sprintf("%s-%d", r.ID, repeat+1)
			r.StartedAt = r.StartedAt.Add(time.Duration(len(list)) * time.Minute)
			r.Config.Traffic = new(*r.Config.Traffic)
			r.Config.Traffic.URL = fmt.Sprintf("http://198.18.64.%d:80/", 10+len(list))
			r.Set = &record.Set{Experiment: "blast-radius", ExperimentSha256: "c0ffee", Arms: arms, Arm: arms[a], Repeat: repeat + 1, Repeats: 3}
			if a == 0 {
				lose(&r, repeat)
			}
			list = append(list, in(r))
		}
	}
	return list
}

// lose takes a few failures off, so that repeats differ.
func lose(r *record.Record, fewer int) {
	r.Failures = r.Failures[fewer:]
	r.Requests, r.Users = new(*r.Requests), new(*r.Users)
	r.Requests.Failed -= int64(fewer)
	r.Users.Hurt -= fewer
	l, q := *r.Latency, *r.Latency.During
	h, err := hdrhistogram.Decode([]byte(q.Histogram))
	if err != nil {
		panic(err)
	}
	_ = h.RecordValues(q.P50Ns, int64(fewer)) // within its range
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(err)
	}
	q.Count, q.Histogram = q.Count+int64(fewer), string(text)
	l.During, r.Latency = &q, &l
}

// comparison is four trials against four.
func comparison(t testing.TB) verdict.Comparison {
	var before, after []record.Record
	for i := range 4 {
		b := judged(t, lossy(), "")
		lose(&b, i)
		before, after = append(before, b), append(after, judged(t, clean(), ""))
	}
	c, err := verdict.Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// written gives what write writes.
func written(t testing.TB, write func(w io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What the causes and the verdict add is sound.
func TestJudgedSamplesAreValid(t *testing.T) {
	for _, s := range append(records.Tests(), records.Sample{Name: "rollout-watched", Record: records.RolloutWatched()}) {
		for _, budget := range []string{"", "failed=0,users=0,p99=500ms", "failed=9,users-share=50%", "p99=1ns"} {
			if problems := record.Validate(judged(t, s.Record, budget)); len(problems) > 0 {
				t.Errorf("%s under %q: %v", s.Name, budget, problems)
			}
		}
	}
}
