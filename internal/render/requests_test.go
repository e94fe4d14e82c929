package render

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestRequestsOfRepeats(t *testing.T) {
	lossy, clean := records.RolloutLossy(), records.RolloutClean()
	q := RequestsOf([]record.Record{lossy, clean, clean})
	if q.Failed != lossy.Requests.Failed || *q.FailedEach != (stats.Summary[float64]{N: 3, Min: 0, Median: 0, Max: float64(lossy.Requests.Failed)}) || q.HurtEach.Max != float64(lossy.Users.Hurt) {
		t.Errorf("%+v", q)
	}
	if d := cmp.Diff([]record.VerdictResult{record.Fail, record.Pass, record.Pass}, q.Verdicts); d != "" {
		t.Error(d)
	}
	if q = RequestsOf([]record.Record{lossy, clean}); q.FailedEach.Median != float64(lossy.Requests.Failed)/2 {
		t.Errorf("the median of two is %v", q.FailedEach.Median)
	}
	clean.Latency, clean.Verdict, clean.Users = nil, nil, nil
	q = RequestsOf([]record.Record{lossy, clean})
	if q.P99DuringEach != nil || q.HurtEach != nil || q.FailedEach == nil || q.Verdicts[1] != record.Inconclusive {
		t.Errorf("what a repeat lacks is summed up all the same: %+v", q)
	}
	clean.Requests = nil
	if q = RequestsOf([]record.Record{clean}); q == nil || q.SentEach != nil || len(q.Verdicts) != 1 {
		t.Errorf("a test that sent nothing: %+v", q)
	}
	if q = RequestsOf([]record.Record{records.Exit()}); q != nil {
		t.Errorf("a trial of flows has requests: %+v", q)
	}
}

// Sets of tests and of flows are one document.
func TestJSONOfBothKinds(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, inputs(records.RolloutLossy(), records.Exit())); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Sets []struct {
			Arms []struct {
				Requests, TCP, Workload *struct{}
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	tests, flows := 0, 0
	for _, s := range doc.Sets {
		for _, a := range s.Arms {
			switch {
			case a.Requests != nil && a.Workload != nil && a.TCP == nil:
				tests++
			case a.Requests == nil && a.TCP != nil:
				flows++
			}
		}
	}
	if tests != 1 || flows != 1 {
		t.Errorf("%d arms of tests, %d of flows:\n%s", tests, flows, b.String())
	}
}

// What agents told of nodes is in the JSON as in the tables; without agents there is nothing.
func TestJSONOfNodes(t *testing.T) {
	watched := records.RolloutWatched()
	explain.Record(&watched)
	rep, err := New(inputs(watched))
	if err != nil {
		t.Fatal(err)
	}
	lost, windows := 0, 0
	for _, x := range watched.Terminations {
		for _, p := range x.Paths {
			if p.DeadEndpoint.Ns != nil {
				lost, windows = lost+p.Failed, windows+1
			}
		}
	}
	gotLost, gotWindows, last := 0, 0, ""
	for _, n := range rep.Sets[0].Arms[0].DeadEndpoints {
		gotLost, gotWindows = gotLost+n.Failed, gotWindows+len(n.WindowsNs)
		if n.Node <= last {
			t.Errorf("%q after %q", n.Node, last)
		}
		last = n.Node
	}
	if lost == 0 || gotLost != lost || gotWindows != windows {
		t.Errorf("%d lost in %d windows, want %d in %d", gotLost, gotWindows, lost, windows)
	}
	if rep, err = New(inputs(records.RolloutLossy())); err != nil || rep.Sets[0].Arms[0].DeadEndpoints != nil || rep.Sets[0].Arms[0].Conntrack != nil {
		t.Errorf("without agents: %+v, %v", rep.Sets[0].Arms[0], err)
	}
}
