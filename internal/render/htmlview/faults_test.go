package htmlview

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// written writes a record as JSON after a change to it, and reads it again as the command does.
func written(t *testing.T, r record.Record, change func(map[string]any)) (record.Record, error) {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	change(all)
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), record.FileName)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return record.Read(path)
}

// A record of a release before or after this one opens where its schema is this one's, without what it does not have.
func TestOtherReleasesRecordsOpen(t *testing.T) {
	later, err := written(t, records.RolloutLossy(), func(all map[string]any) {
		all["weather"] = map[string]any{"sky": "grey-sky"}
		all["events"].([]any)[0].(map[string]any)["mood"] = "grey-mood"
	})
	if err != nil {
		t.Fatal(err)
	}
	if page := plainOf(t, later); page != plainOf(t, records.RolloutLossy()) {
		t.Error("fields that nobody knows change the page")
	}
	first, err := written(t, records.RolloutLossy(), func(all map[string]any) {
		for _, name := range []string{"agents", "terminations", "workload", "users", "latency", "verdict", "sources", "client", "clocks"} {
			delete(all, name)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	page := plainOf(t, first)
	for _, want := range []string{
		"Not judged", "The record holds no verdict.", "The record holds no count of users.", "The record holds no latency.", "The record holds no description of the workload.",
		"The record holds no proof of life of its sources.", "Whether the client kept up was not measured.", "No agent was on the nodes",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, number := range []string{"8.1 ms", "4.8 ms", "of 20 users", "3 replicas", "1.9 ms late"} {
		if strings.Contains(page, number) {
			t.Errorf("%q is shown, and the record does not hold it", number)
		}
	}
}

// Of another schema nothing is guessed.
func TestOtherSchemasAreRefused(t *testing.T) {
	for _, schema := range []any{"drainproof.dev/record/v2", "drainproof.dev/record/v0", "", nil} {
		_, err := written(t, records.RolloutLossy(), func(all map[string]any) { all["schema"] = schema })
		e, ok := errors.AsType[*record.SchemaError](err)
		if !ok || !strings.Contains(err.Error(), record.Schema) || e.Found != "" && !strings.Contains(err.Error(), e.Found) {
			t.Errorf("%v: %v", schema, err)
		}
	}
}

func TestMissingSourcesAreTold(t *testing.T) {
	r := records.Drain()
	r.Events = slices.DeleteFunc(r.Events, func(e record.Event) bool { return e.Source == record.FromProbe })
	for i := range r.Sources {
		if r.Sources[i].Name == string(record.FromKube) {
			r.Sources[i].Gaps = []record.Gap{{FromTNs: 1e9, ToTNs: new(int64(3e9)), Why: "the watch was opened again"}}
		}
	}
	r.Agents = []record.Agent{{Node: "n1", Sights: []record.Sight{{Name: "signals", Why: "the kernel has no such tracepoint"}}, Lost: map[string]uint64{"conntrack": 12}, Ended: "its Pod was evicted"}}
	page := plainOf(t, r)
	for _, want := range []string{
		"kube-watch did not listen from 1.000 s to 3.000 s: the watch was opened again", "The agent on n1 ended early: its Pod was evicted",
		"signals was not watched on n1: the kernel has no such tracepoint", "The agent on n1 lost 12 conntrack events.", `class="s-gap"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, ">SIGTERM<") {
		t.Error("a signal is shown that nobody told")
	}
}

// A flow whose end was not seen has no end, whatever stands in its record for when the observation was over.
func TestAFlowThatWasNotMeasuredHasNoEnd(t *testing.T) {
	r := records.Incomplete()
	for i := range r.Flows {
		if r.Flows[i].Outcome == record.NotMeasured {
			r.Flows[i].EndedTNs = new(int64(3_141_592_653))
		}
	}
	if strings.Contains(plainOf(t, r), "3.142 s") {
		t.Error("the page has an end that was not measured")
	}
}

// million is a test of a million requests of which one in a hundred failed.
func million() record.Record {
	r := crowded(10_000)
	r.Requests.Total = 1_000_000
	r.Requests.Outcomes[record.OK] = 990_000
	s := *r.Requests.Series
	each := r.Requests.Total / int64(len(s.Sent))
	s.Sent = make([]int64, len(s.Sent))
	for i := range s.Sent {
		s.Sent[i] = each
	}
	s.Sent[0] += r.Requests.Total - each*int64(len(s.Sent))
	r.Requests.Series = &s
	return r
}

// The record of a million requests holds those that failed and the counts of all, and the page says so.
func TestAMillionRequestsOpen(t *testing.T) {
	r := million()
	page := pageOf(t, r)
	if want := "1,000,000 requests were sent. Each of the 10,000 that failed is a mark, where many lie upon each other they are one; the others are counted, in steps of 100 ms."; !strings.Contains(page, want) {
		t.Errorf("the page does not say %q", want)
	}
	if strings.Contains(page, "and holds") {
		t.Error("a whole record is doubted")
	}
	if len(page) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
	r.Failures = r.Failures[:9_000]
	if want := "The record counts 10,000 failed requests and holds 9,000 of them"; !strings.Contains(plainOf(t, r), want) {
		t.Errorf("the page does not say %q", want)
	}
}

// crowded is a test of ten times n requests in which n failed, no two of them alike: what a page has most to do with.
func crowded(n int) record.Record {
	r := records.RolloutLossy()
	base := r.Failures
	x := rand.New(rand.NewPCG(1, 2))
	q := *r.Requests
	q.Total, q.Failed, q.FailedBefore = int64(n)*10, int64(n), 0
	q.Outcomes = map[record.RequestOutcome]int64{record.OK: int64(n) * 9, record.Refused: int64(n - n/4), record.ResetBeforeResponse: int64(n / 4)}
	r.Requests = &q
	r.Users.Total = 5000
	r.Failures = make([]record.Failure, n)
	end := int64(0)
	for i := range r.Failures {
		f := base[i%len(base)]
		f.PlannedTNs = int64(i)*8_000_000_000/int64(n) + x.Int64N(80_000)
		f.TNs = max(end, f.PlannedTNs+400_000+x.Int64N(3_000_000))
		end = f.TNs
		f.SentTNs = new(f.PlannedTNs + 20_000 + x.Int64N(90_000))
		f.ConnectionAgeNs, f.ConnectionRequests, f.Connection = x.Int64N(4_000_000_000), x.IntN(40), record.ReusedConnection
		f.User = x.IntN(5000)
		f.Local = "198.18.0.1:" + strconv.Itoa(32768+x.IntN(28232))
		f.Outcome = record.Refused
		if i%4 == 3 {
			f.Outcome = record.ResetBeforeResponse
		}
		f.Cause = &record.Cause{Kind: "unattributed", Evidence: base[i%len(base)].Cause.Evidence, Sentence: strings.Replace(base[i%len(base)].Cause.Sentence, "43", strconv.Itoa(x.IntN(5000)), 1)}
		r.Failures[i] = f
	}
	return r
}
