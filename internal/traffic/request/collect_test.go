package request

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
)

func httpPlan() Plan {
	return Plan{Mode: KeepAlive, Rate: 10, Users: 4, FirstUser: 100, Target: Target{Method: "GET"}, Expect: []StatusRange{{200, 299}}}
}

var (
	answered = End{Kind: EndAnswered, Phase: record.PhaseDone}
	reset    = End{Kind: EndErrno, Phase: record.PhaseFirstByte, Errno: "ECONNRESET", Message: "read: connection reset by peer"}
)

// takeAll takes everything in batches of at most n, and puts it together.
func takeAll(t *testing.T, c *Collector, n int) (samples []Sample, names []string, failures []Failed, reconnects int64) {
	t.Helper()
	for more := true; more; {
		var b Batch
		b, more = c.Take(n, n)
		if b.Count > n || len(b.Failures) > n {
			t.Fatalf("a batch has %d samples and %d failures", b.Count, len(b.Failures))
		}
		var err error
		if samples, err = DecodeSamples(b.Samples, b.Count, samples); err != nil {
			t.Fatal(err)
		}
		names, failures, reconnects = append(names, b.Names...), append(failures, b.Failures...), reconnects+b.Reconnects
	}
	return samples, names, failures, reconnects
}

func TestCollector(t *testing.T) {
	c := NewCollector(httpPlan())
	local, remote := netip.MustParseAddrPort("127.0.0.1:41000"), netip.MustParseAddrPort("[::1]:80")
	for _, r := range []Result{
		{User: 0, PlannedNs: 1000, SentNs: 1010, EndedNs: 3000, End: answered, Status: 200, Instance: "a"},
		{User: 1, PlannedNs: 2000, SentNs: 2030, EndedNs: 9000, End: reset, Reused: true, Instance: "b", Local: local, Remote: remote, ConnOpenedNs: 500, ConnRequests: 7},
		{User: 2, PlannedNs: 3000, EndedNs: 3500, End: End{Kind: EndClientLimit, Phase: record.PhaseConnect, Errno: "EMFILE"}},
		{User: 3, PlannedNs: 4000, SentNs: 4001, EndedNs: 5000, End: answered, Status: 503, Instance: "a", BytesReceived: 12},
	} {
		c.Done(r)
	}
	c.Reconnected()
	samples, names, failures, reconnects := takeAll(t, c, 3)
	want := []Sample{
		{PlannedNs: 1000, LatencyNs: 2000, LateNs: 10, User: 100, Instance: 0, Outcome: outcomeIndex[record.OK]},
		{PlannedNs: 2000, LatencyNs: 7000, LateNs: 30, User: 101, Instance: 1, Outcome: outcomeIndex[record.ResetBeforeResponse], Reused: true},
		{PlannedNs: 3000, LatencyNs: 500, User: 102, Instance: -1, Outcome: outcomeIndex[record.ClientLimited]},
		{PlannedNs: 4000, LatencyNs: 1000, LateNs: 1, User: 103, Instance: 0, Outcome: outcomeIndex[record.HTTPError]},
	}
	if diff := cmp.Diff(want, samples); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	wantFailed := []Failed{
		{PlannedNs: 2000, SentNs: 2030, EndedNs: 9000, User: 101, Outcome: record.ResetBeforeResponse, Phase: record.PhaseFirstByte, Kind: EndErrno,
			Errno: "ECONNRESET", Message: reset.Message, Reused: true, Retryable: true, Instance: "b", Local: "127.0.0.1:41000", Remote: "[::1]:80", ConnOpenedNs: 500, ConnRequests: 7},
		{PlannedNs: 3000, EndedNs: 3500, User: 102, Outcome: record.ClientLimited, Phase: record.PhaseConnect, Kind: EndClientLimit, Errno: "EMFILE"},
		{PlannedNs: 4000, SentNs: 4001, EndedNs: 5000, User: 103, Outcome: record.HTTPError, Phase: record.PhaseDone, Kind: EndAnswered, Status: 503, Answered: true, Instance: "a", BytesReceived: 12},
	}
	if diff := cmp.Diff(wantFailed, failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if !slices.Equal(names, []string{"a", "b"}) || reconnects != 1 {
		t.Errorf("names %q, %d reconnects", names, reconnects)
	}
	h := c.Health()
	if h.HeartbeatsSent != 3 || h.HeartbeatsAnswered != 2 || h.LateMaxNs != 30 || !h.FellBehind || h.Limits["EMFILE"] != 1 {
		t.Errorf("health is %+v", h)
	}
	// Only what is new since then.
	c.Done(Result{PlannedNs: 5000, SentNs: 5000, EndedNs: 5001, End: answered, Status: 200, Instance: "b"})
	if samples, names, failures, reconnects = takeAll(t, c, 3); len(samples) != 1 || samples[0].Instance != 1 || len(names)+len(failures) != 0 || reconnects != 0 {
		t.Errorf("then came %v, %q, %v, %d", samples, names, failures, reconnects)
	}
}

// TestCollectorKeepsPaceApart: a client is behind by how late it sends, not by how late it is answered.
func TestCollectorKeepsPaceApart(t *testing.T) {
	for name, c := range map[string]struct {
		lateNs, tookNs int64
		want           bool
	}{
		"slow answers":             {0, 20_000_000_000, false},
		"late by what is allowed":  {lateLimitNs / 2, 1000, false},
		"late by more than that":   {2 * lateLimitNs, 1000, true},
		"early, which is not late": {-2 * lateLimitNs, 1000, false},
	} {
		col := NewCollector(httpPlan())
		for i := range int64(200) {
			planned := (i + 1) * 1_000_000_000
			col.Done(Result{PlannedNs: planned, SentNs: planned + c.lateNs, EndedNs: planned + c.lateNs + c.tookNs, End: answered, Status: 200})
		}
		if h := col.Health(); h.FellBehind != c.want {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// TestCollectorLosesNothing: engines and a taker at once.
func TestCollectorLosesNothing(t *testing.T) {
	const engines, each = 4, 500
	c := NewCollector(httpPlan())
	var wg sync.WaitGroup
	for e := range engines {
		wg.Go(func() {
			for i := range each {
				end := answered
				if i%10 == 0 {
					end = reset
				}
				c.Done(Result{User: e, PlannedNs: int64(i + 1), SentNs: int64(i + 1), EndedNs: int64(i + 2), End: end, Status: 200, Instance: fmt.Sprint(i % 7)})
				c.Reconnected()
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var samples []Sample
	var names []string
	failures, reconnects := 0, int64(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		s, n, f, r := takeAll(t, c, 100)
		samples, names, failures, reconnects = append(samples, s...), append(names, n...), failures+len(f), reconnects+r
	}
	if len(samples) != engines*each || failures != engines*each/10 || reconnects != engines*each || len(names) != 7 {
		t.Errorf("%d samples, %d failures, %d reconnects, names %q", len(samples), failures, reconnects, names)
	}
	for _, s := range samples {
		if s.Instance < 0 || int(s.Instance) >= len(names) {
			t.Fatalf("instance %d of %d", s.Instance, len(names))
		}
	}
}
