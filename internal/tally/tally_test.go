package tally

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

const (
	ms     = int64(1_000_000)
	second = 1000 * ms
)

// coded gives an outcome as samples hold it.
func coded(o record.RequestOutcome) uint8 { return uint8(slices.Index(record.RequestOutcomes(), o)) }

func TestFold(t *testing.T) {
	in := Input{
		Names: []string{"b", "a", "b"}, Reconnects: 3, Users: 10, DuringToTNs: new(2 * second),
		Samples: []request.Sample{
			{PlannedNs: -2 * second, LatencyNs: 5 * ms, User: 1, Instance: 0},
			{PlannedNs: -50 * ms, LatencyNs: 7 * ms, User: 2, Instance: -1, Outcome: coded(record.Refused)},
			{PlannedNs: -1, LatencyNs: 9 * ms, User: 3, Instance: 2, Outcome: coded(record.HTTPError)},
			{PlannedNs: 0, LatencyNs: 11 * ms, User: 7, Instance: 1, Outcome: coded(record.Truncated)},
			{PlannedNs: 10 * ms, LatencyNs: 13 * ms, User: 4, Instance: 1},
			{PlannedNs: 20 * ms, LatencyNs: 15 * ms, User: 5, Instance: 1},
			{PlannedNs: 30 * ms, LatencyNs: 1 * ms, User: 6, Instance: -1, Outcome: coded(record.ClientLimited)},
			{PlannedNs: 2*second - 1, LatencyNs: 17 * ms, User: 7, Instance: 99, Outcome: coded(record.GRPCError)},
			{PlannedNs: 2 * second, LatencyNs: -1, User: 4, Instance: 0},
		},
	}
	q, u, l := Fold(in)
	if q.Total != 9 || q.Failed != 3 || q.FailedBefore != 1 || q.Reconnects != 3 {
		t.Errorf("counts are %+v", q)
	}
	for _, d := range []string{
		cmp.Diff(map[record.RequestOutcome]int64{"ok": 4, "refused": 1, "http-error": 1, "truncated": 1, "client-limit": 1, "grpc-error": 1}, q.Outcomes),
		cmp.Diff([]record.InstanceCount{{Instance: "", Total: 3, Failed: 1}, {Instance: "a", Total: 3, Failed: 1}, {Instance: "b", Total: 3, Failed: 1}}, q.Instances),
		cmp.Diff(record.Users{Total: 10, Hurt: 2, HurtIDs: []int{3, 7}}, u),
	} {
		if d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	s := q.Series
	if s.FromTNs != -2*second || s.BucketNs != 100*ms || len(s.Sent) != 41 {
		t.Fatalf("series from %d, buckets of %d, %d of them", s.FromTNs, s.BucketNs, len(s.Sent))
	}
	for _, c := range []struct {
		bucket                 int
		sent, failed, p50, p99 int64
	}{{0, 1, 0, 5 * ms, 5 * ms}, {19, 2, 2, 9 * ms, 9 * ms}, {20, 4, 1, 13 * ms, 15 * ms}, {39, 1, 1, 17 * ms, 17 * ms}, {40, 1, 0, 0, 0}} {
		if s.Sent[c.bucket] != c.sent || s.Failed[c.bucket] != c.failed || *s.P50Ns[c.bucket] != c.p50 || *s.P99Ns[c.bucket] != c.p99 {
			t.Errorf("bucket %d: %d sent, %d failed, p50 %d, p99 %d", c.bucket, s.Sent[c.bucket], s.Failed[c.bucket], *s.P50Ns[c.bucket], *s.P99Ns[c.bucket])
		}
	}
	if s.P50Ns[1] != nil || s.P99Ns[1] != nil {
		t.Error("a bucket without answers has a latency")
	}
	if len(s.Instances) != 2 || s.Instances[0].Instance != "a" || s.Instances[0].Answered[20] != 2 || s.Instances[1].Answered[19] != 1 {
		t.Errorf("instances over time: %+v", s.Instances)
	}
	for name, c := range map[string]struct {
		q               *record.Quantiles
		count, min, max int64
	}{"before": {l.Before, 1, 5 * ms, 5 * ms}, "during": {l.During, 4, 9 * ms, 17 * ms}, "after": {l.After, 1, 0, 0}, "a": {l.Instances[0].Quantiles, 2, 13 * ms, 15 * ms}} {
		if c.q.Count != c.count || c.q.MinNs != c.min || c.q.MaxNs != c.max {
			t.Errorf("%s: %+v", name, c.q)
		}
	}
	if *l.DuringToTNs != 2*second || len(l.Instances) != 2 {
		t.Errorf("latency: %+v", l)
	}
	in.DuringToTNs = nil
	if _, _, l := Fold(in); l.After != nil || l.During.Count != 5 || l.DuringToTNs != nil {
		t.Errorf("without an end of the disruption: %+v", l)
	}
}

func TestFoldOfNothing(t *testing.T) {
	q, u, l := Fold(Input{Users: 4})
	if diff := cmp.Diff(record.Requests{Outcomes: map[record.RequestOutcome]int64{}, Instances: []record.InstanceCount{}}, q); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(record.Users{Total: 4, HurtIDs: []int{}}, u); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(record.Latency{Instances: []record.InstanceQuantile{}}, l); diff != "" {
		t.Errorf("latency (-want +got):\n%s", diff)
	}
}

func TestGrid(t *testing.T) {
	for _, c := range []struct {
		from, to int64
		want     grid
	}{
		{0, 0, grid{100 * ms, 0, 1}},
		{-1, 0, grid{100 * ms, -1, 2}},
		{0, 60*second - 1, grid{100 * ms, 0, 600}},
		{0, 60 * second, grid{200 * ms, 0, 301}},
		{-10 * second, 50 * second, grid{200 * ms, -50, 301}},
		{-3 * second, 200 * second, grid{500 * ms, -6, 407}},
		{-3 * second, 400 * second, grid{second, -3, 404}},
		{0, 3600*second - 1, grid{10 * second, 0, 360}},
	} {
		if got := newGrid(c.from, c.to); got != c.want {
			t.Errorf("from %d to %d: %+v, want %+v", c.from, c.to, got, c.want)
		}
	}
	// What junk may hold.
	if g := newGrid(math.MinInt64, math.MaxInt64); g.n > maxBuckets {
		t.Errorf("all of time takes %d buckets", g.n)
	}
}

// TestInstancesAreBounded: a header that is new in each response does not make a record of that size.
func TestInstancesAreBounded(t *testing.T) {
	t.Parallel()
	in := Input{Users: 1}
	for i := range 1000 {
		in.Names = append(in.Names, fmt.Sprintf("pod-%04d", i))
		for range 1 + i%2 + i/999 {
			in.Samples = append(in.Samples, request.Sample{PlannedNs: int64(i) * ms, LatencyNs: ms, Instance: int32(i)})
		}
	}
	q, _, l := Fold(in)
	if len(q.Instances) != record.MaxInstances+1 || len(l.Instances) != len(q.Instances) || len(q.Series.Instances) != len(q.Instances) {
		t.Fatalf("%d, %d and %d instances", len(q.Instances), len(l.Instances), len(q.Series.Instances))
	}
	var others, total int64
	for _, n := range q.Instances {
		total += n.Total
		if n.Instance == record.OtherInstances {
			others = n.Total
		}
	}
	// 500 Pods had two requests or more, and of these 200 are told apart; one of them had three.
	if want := int64(1501 - 401); others != want || total != 1501 {
		t.Errorf("others had %d of %d, want %d", others, total, want)
	}
	if !slices.ContainsFunc(q.Instances, func(n record.InstanceCount) bool { return n.Instance == "pod-0999" && n.Total == 3 }) {
		t.Error("the instance with the most requests is not among them")
	}
}

// drawInput makes any requests of a trial.
func drawInput(t *rapid.T) Input {
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", record.OtherInstances}), 0, 4).Draw(t, "names")
	sample := rapid.Custom(func(t *rapid.T) request.Sample {
		return request.Sample{
			PlannedNs: rapid.Int64Range(-90*second, 300*second).Draw(t, "planned"), LatencyNs: rapid.Int64Range(0, 90*second).Draw(t, "latency"),
			LateNs: rapid.Int64Range(-ms, second).Draw(t, "late"), User: rapid.Int32Range(0, 9).Draw(t, "user"),
			Instance: rapid.Int32Range(-1, int32(len(names))-1).Draw(t, "instance"),
			Outcome:  uint8(rapid.IntRange(0, len(record.RequestOutcomes())-1).Draw(t, "outcome")), Reused: rapid.Bool().Draw(t, "reused"),
		}
	})
	in := Input{Samples: rapid.SliceOfN(sample, 0, 200).Draw(t, "samples"), Names: names, Users: 10}
	if rapid.Bool().Draw(t, "ended") {
		in.DuringToTNs = new(rapid.Int64Range(0, 200*second).Draw(t, "during to"))
	}
	return in
}

func sum(list []int64) (n int64) {
	for _, v := range list {
		n += v
	}
	return n
}

// TestFoldAddsUp: every view of the requests counts the same requests.
func TestFoldAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		q, u, l := Fold(in)
		r := record.Record{Completeness: record.Incomplete, Requests: &q, Users: &u, Latency: &l, Failures: []record.Failure{}, Config: record.Config{Trigger: "delete", Traffic: &record.Traffic{Mode: "tcp", Rate: 1, Users: 10}}}
		for _, p := range record.Validate(r) {
			if top, _, _ := cutPath(p.Where); top == "requests" || top == "users" || top == "latency" {
				t.Fatalf("the record contradicts itself: %v", p)
			}
		}
		if q.Total != int64(len(in.Samples)) {
			t.Fatalf("%d of %d samples were counted", q.Total, len(in.Samples))
		}
		if q.Series == nil {
			return
		}
		if sum(q.Series.Sent) != q.Total || len(q.Series.Sent) > maxBuckets {
			t.Fatalf("the series has %d of %d in %d buckets", sum(q.Series.Sent), q.Total, len(q.Series.Sent))
		}
		var answered, named int64
		for _, n := range q.Series.Instances {
			answered += sum(n.Answered)
		}
		for _, n := range l.Instances {
			named += n.Quantiles.Count
		}
		if answered != named {
			t.Fatalf("instances answered %d over time and %d in their latencies", answered, named)
		}
	})
}

func cutPath(where string) (top, rest string, more bool) {
	for i, c := range where {
		if c == '.' || c == '[' {
			return where[:i], where[i:], true
		}
	}
	return where, "", false
}

// TestFoldKnowsNoOrder: neither the order of the samples nor the batches in which they came change the numbers, and nothing is changed in them.
func TestFoldKnowsNoOrder(t *testing.T) {
	t.Parallel()
	type all struct {
		Q record.Requests
		U record.Users
		L record.Latency
	}
	fold := func(in Input) (a all) {
		a.Q, a.U, a.L = Fold(in)
		return a
	}
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		kept := slices.Clone(in.Samples)
		want := fold(in)
		if !slices.Equal(kept, in.Samples) {
			t.Fatal("the samples were changed")
		}
		var batched []request.Sample
		for rest := rapid.Permutation(kept).Draw(t, "order"); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			var err error
			if batched, err = request.DecodeSamples(request.EncodeSamples(rest[:n]), n, batched); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		in.Samples = batched
		if diff := cmp.Diff(want, fold(in)); diff != "" {
			t.Fatalf("in batches, in another order (-want +got):\n%s", diff)
		}
	})
}

// TestHistogramHoldsTheQuantiles: what other tools read out of the histogram is what the record says, to three digits.
func TestHistogramHoldsTheQuantiles(t *testing.T) {
	var in Input
	for i := range int64(5000) {
		in.Samples = append(in.Samples, request.Sample{PlannedNs: i, LatencyNs: (i*i%7919 + 1) * 10_007, Instance: -1})
	}
	_, _, l := Fold(in)
	h, err := hdrhistogram.Decode([]byte(l.During.Histogram))
	if err != nil {
		t.Fatal(err)
	}
	if h.TotalCount() != l.During.Count {
		t.Errorf("the histogram counts %d of %d", h.TotalCount(), l.During.Count)
	}
	for q, want := range map[float64]int64{50: l.During.P50Ns, 90: l.During.P90Ns, 99: l.During.P99Ns, 99.9: l.During.P999Ns, 100: l.During.MaxNs} {
		if got := h.ValueAtQuantile(q); math.Abs(float64(got-want)) > float64(want)/1000 {
			t.Errorf("quantile %v: %d in the histogram, %d in the record", q, got, want)
		}
	}
}

// TestQuantilesAreThoseOfTheSample: exact, by the definition in package stats.
func TestQuantilesAreThoseOfTheSample(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 2, 3, 10, 99, 100, 101, 999, 1000, 1001} {
		in := Input{}
		var ns []int64
		for i := range n {
			v := (i*i%7919 + i%3) % 60 // in no order, with many alike
			ns = append(ns, v)
			in.Samples = append(in.Samples, request.Sample{LatencyNs: v, Instance: -1})
		}
		_, _, l := Fold(in)
		for q, got := range map[float64]int64{0: l.During.MinNs, 0.5: l.During.P50Ns, 0.9: l.During.P90Ns, 0.99: l.During.P99Ns, 0.999: l.During.P999Ns, 1: l.During.MaxNs} {
			if want, _ := stats.Quantile(ns, q); got != want {
				t.Errorf("quantile %v of %d is %d, not %d", q, n, got, want)
			}
		}
	}
}

// million makes a million requests that so many Pods answered.
func million(pods int) Input {
	rnd := rand.New(rand.NewPCG(1, 2))
	in := Input{Users: 5000, DuringToTNs: new(150 * second), Samples: make([]request.Sample, 1_000_000)}
	for i := range pods {
		in.Names = append(in.Names, fmt.Sprintf("web-%03d", i))
	}
	for i := range in.Samples {
		in.Samples[i] = request.Sample{
			PlannedNs: int64(i)*200_000 - 20*second, LatencyNs: 1 + rnd.Int64N(second), User: int32(i % in.Users), Instance: rnd.Int32N(int32(pods)+1) - 1,
			Outcome: uint8(max(0, rnd.IntN(300)-300+len(record.RequestOutcomes()))),
		}
	}
	return in
}

// TestFoldOfAMillionIsLean: beside the samples, counting a million of them allocates less than a hundred megabytes, what
// was let go of meanwhile included.
func TestFoldOfAMillionIsLean(t *testing.T) {
	in := million(20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	q, _, _ := Fold(in)
	runtime.ReadMemStats(&after)
	if q.Total != 1_000_000 {
		t.Errorf("total is %d", q.Total)
	}
	if spent := (after.TotalAlloc - before.TotalAlloc) >> 20; spent >= 100 {
		t.Errorf("%d MB were allocated", spent)
	}
}

func BenchmarkFold(b *testing.B) {
	in := million(400)
	b.ReportAllocs()
	for b.Loop() {
		Fold(in)
	}
}
