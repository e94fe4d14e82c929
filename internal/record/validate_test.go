package record_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestValidateFinds(t *testing.T) {
	for _, c := range []struct {
		where string
		// broken changes a sound record, whose flows 0-9 are severed and 10-19 rehomed.
		broken func(*record.Record)
	}{
		{"schema", func(r *record.Record) { r.Schema = "x" }},
		{"id", func(r *record.Record) { r.ID = "" }},
		{"tool.version", func(r *record.Record) { r.Tool.Version = "" }},
		{"completeness", func(r *record.Record) { r.Completeness = "nearly" }},
		{"missing", func(r *record.Record) { r.Missing = []string{"something"} }},
		{"missing", func(r *record.Record) { r.Completeness = record.Incomplete }},
		{"trigger", func(r *record.Record) { r.Trigger = nil }},
		{"events", func(r *record.Record) { r.Trigger = nil }},
		{"client", func(r *record.Record) { r.Client = nil }},
		{"set.repeat", func(r *record.Record) { r.Set = &record.Set{Arm: "a", Arms: []string{"a"}, Repeat: 6, Repeats: 5} }},
		{"set.arms", func(r *record.Record) { r.Set = &record.Set{Arm: "a", Arms: []string{"b"}, Repeat: 1, Repeats: 5} }},
		{"events[3].id", func(r *record.Record) { r.Events[3].ID = 9 }},
		{"events[3].t_ns", func(r *record.Record) { r.Events[3].TNs = r.Events[2].TNs - 1 }},
		{"events[0].t_ns", func(r *record.Record) { r.Events[0].TNs = math.MinInt64 }},
		{"events[0].kind", func(r *record.Record) { r.Events[0].Kind = "pod-vanished" }},
		{"events[0].source", func(r *record.Record) { r.Events[0].Source = "rumour" }},
		{"events[0].bound", func(r *record.Record) { r.Events[0].Bound = record.Exact }},
		{"events[0].bound", func(r *record.Record) { r.Events[0].Bound = record.Either }},
		{"events[0].uncertainty_ns", func(r *record.Record) { r.Events[0].UncertaintyNs = new(int64(-1)) }},
		{"flows[1].id", func(r *record.Record) { r.Flows[1].ID = r.Flows[0].ID }},
		{"flows[0].protocol", func(r *record.Record) { r.Flows[0].Protocol = "sctp" }},
		{"flows[0].outcome", func(r *record.Record) { r.Flows[0].Outcome = "other" }},
		{"flows[0].mechanism", func(r *record.Record) { r.Flows[0].Mechanism = record.FIN }},
		{"flows[0].mechanism", func(r *record.Record) { r.Flows[0].Mechanism = record.None }},
		{"flows[0].detail.end", func(r *record.Record) { r.Flows[0].Detail.End = "" }},
		{"flows[0].ended_t_ns", func(r *record.Record) { r.Flows[0].EndedTNs = nil }},
		{"flows[0].ended_t_ns", func(r *record.Record) { *r.Flows[0].EndedTNs++ }},
		{"flows[0].ended_t_ns", func(r *record.Record) { r.Flows[0].Outcome = record.Survived }},
		{"flows[0].ended_after_t_ns", func(r *record.Record) { r.Flows[0].EndedAfterTNs = new(*r.Flows[0].EndedTNs + 1) }},
		{"flows[0].opened_t_ns", func(r *record.Record) { r.Flows[0].OpenedTNs = nil }},
		{"flows[0].after_rehome", func(r *record.Record) { r.Flows[0].AfterRehome = &record.AfterRehome{} }},
		{"flows[10].after_rehome", func(r *record.Record) { r.Flows[10].AfterRehome = nil }},
		{"flows[0].heartbeats_answered", func(r *record.Record) { r.Flows[0].Answered = r.Flows[0].Sent + 1 }},
		{"summary.tcp", func(r *record.Record) { r.Summary.TCP[record.Severed]-- }},
		{"summary.udp", func(r *record.Record) { delete(r.Summary.UDP, record.Rehomed) }},
		{"summary.container_exit_code", func(r *record.Record) { r.Summary.ContainerExitCode = new(1) }},
		{"summary.container_exit_reason", func(r *record.Record) { r.Summary.ContainerExitReason = nil }},
		{"windows[0]", func(r *record.Record) { r.Windows[0].ToEvent = len(r.Events) + 1 }},
		{"windows[0]", func(r *record.Record) { r.Windows[0].FromEvent = 0 }},
		{"windows[0].why", func(r *record.Record) { r.Windows[0].Ns = nil }},
		{"windows[1].name", func(r *record.Record) { r.Windows[1].Name = r.Windows[0].Name }},
		{"notes", func(r *record.Record) { r.Notes = nil }},
		{"sources[0].gaps", func(r *record.Record) { r.Sources[0].Gaps = nil }},
		{"sources[0].gaps[0]", func(r *record.Record) { r.Sources[0].Gaps = []record.Gap{{FromTNs: 2, ToTNs: new(int64(1))}} }},
		{"environment.nodes", func(r *record.Record) { r.Environment.Nodes = nil }},
		{"client.fell_behind", func(r *record.Record) { r.Client.FellBehind = true }},
		{"config.arm", func(r *record.Record) { r.Config.Arm = "leave" }},
		{"config.trigger", func(r *record.Record) { r.Config.Trigger = "" }},
		{"config.path", func(r *record.Record) { r.Config.Path = "tunnel" }},
		{"config.vantage", func(r *record.Record) { r.Config.Vantage = "" }},
		{"config.readiness_on_term", func(r *record.Record) { r.Config.ReadinessOnTerm = "flap" }},
		{"config.probe.replicas", func(r *record.Record) { r.Config.Probe = &record.ProbeConfig{} }},
		{"trigger.kind", func(r *record.Record) { r.Trigger.Kind = "push" }},
		{"trigger.kind", func(r *record.Record) { r.Trigger.Kind = "evict" }},
		{"flows", func(r *record.Record) { r.Config.TCP = 11 }},
		{"flows", func(r *record.Record) { r.Flows = r.Flows[1:] }},
		{"windows[0].ns", func(r *record.Record) { *r.Windows[0].Ns++ }},
		{"windows[0].bound", func(r *record.Record) { r.Windows[0].Bound = record.Lower }},
		{"windows[0].uncertainty_ns", func(r *record.Record) { r.Windows[0].UncertaintyNs = nil }},
		{"flows[0].cause.kind", func(r *record.Record) {
			r.Flows[0].Cause = &record.Cause{Kind: "bad luck", Sentence: "x", Evidence: []int{1}}
		}},
		{"users", func(r *record.Record) { r.Users = &record.Users{} }},
		{"latency", func(r *record.Record) { r.Latency = &record.Latency{} }},
		{"failures", func(r *record.Record) { r.Failures = []record.Failure{{}} }},
		{"verdict.result", func(r *record.Record) { r.Verdict = &record.Verdict{Result: record.Pass, Reason: "x"} }},
	} {
		r := records.Exit()
		c.broken(&r)
		wantProblem(t, r, c.where)
	}
}

// wantProblem: Validate finds fault with that place of r.
func wantProblem(t *testing.T, r record.Record, where string) {
	t.Helper()
	problems := record.Validate(r)
	if !slices.ContainsFunc(problems, func(p record.Problem) bool { return p.Where == where && p.What != "" }) {
		t.Errorf("a broken %s is not found; problems: %v", where, problems)
	}
}

func TestValidateFindsInTests(t *testing.T) {
	sound := []byte(encoded(t, records.RolloutLossy()))
	for _, c := range []struct {
		where string
		// broken changes a sound record with nine failures, the sixth a reset one, of five users.
		broken func(*record.Record)
	}{
		{"users", func(r *record.Record) { r.Users = nil }},
		{"latency", func(r *record.Record) { r.Latency = nil }},
		{"workload", func(r *record.Record) { r.Workload = nil }},
		{"verdict", func(r *record.Record) { r.Verdict = nil }},
		{"config.traffic", func(r *record.Record) { r.Config.Traffic = nil }},
		{"config.traffic.mode", func(r *record.Record) { r.Config.Traffic.Mode = "morse" }},
		{"config.traffic.rate", func(r *record.Record) { r.Config.Traffic.Rate = 0 }},
		{"config.traffic.users", func(r *record.Record) { r.Config.Traffic.Users = 0 }},
		{"config.trigger", func(r *record.Record) { r.Config.Trigger = "push" }},
		{"flows", func(r *record.Record) { r.Config.UDP = 1 }},
		{"requests.total", func(r *record.Record) { r.Requests.Total++ }},
		{"requests.outcomes", func(r *record.Record) { r.Requests.Outcomes["mishap"] = 1 }},
		{"requests.outcomes.truncated", func(r *record.Record) { r.Requests.Outcomes[record.Truncated] = 0 }},
		{"requests.outcomes", func(r *record.Record) { r.Requests.Outcomes = nil }},
		{"requests.failed", func(r *record.Record) { r.Requests.Failed-- }},
		{"requests.failed", func(r *record.Record) { r.Requests.Failed, r.Requests.FailedBefore = 10, -1 }},
		{"requests.reconnects", func(r *record.Record) { r.Requests.Reconnects = -1 }},
		{"requests.instances", func(r *record.Record) { r.Requests.Instances = nil }},
		{"requests.instances", func(r *record.Record) { r.Requests.Instances[1].Total++ }},
		{"requests.instances", func(r *record.Record) { r.Requests.Instances[0].Failed-- }},
		{"requests.instances[1].instance", func(r *record.Record) { r.Requests.Instances[1].Instance = r.Requests.Instances[0].Instance }},
		{"requests.instances[1].failed", func(r *record.Record) { r.Requests.Instances[1].Failed = r.Requests.Instances[1].Total + 1 }},
		{"requests.series", func(r *record.Record) { r.Requests.Series = nil }},
		{"requests.series.bucket_ns", func(r *record.Record) { r.Requests.Series.BucketNs = 0 }},
		{"requests.series.from_t_ns", func(r *record.Record) { r.Requests.Series.FromTNs++ }},
		{"requests.series.sent", func(r *record.Record) { r.Requests.Series.Sent[3]++ }},
		{"requests.series.failed", func(r *record.Record) { r.Requests.Series.Failed[3]++ }},
		{"requests.series.failed", func(r *record.Record) { r.Requests.Series.Failed = nil }},
		{"requests.series.failed[3]", func(r *record.Record) { r.Requests.Series.Failed[3] = r.Requests.Series.Sent[3] + 1 }},
		{"requests.series.p50_ns", func(r *record.Record) { r.Requests.Series.P50Ns = r.Requests.Series.P50Ns[1:] }},
		{"requests.series.p50_ns[2]", func(r *record.Record) { r.Requests.Series.P50Ns[2] = nil }},
		{"requests.series.p50_ns[2]", func(r *record.Record) { *r.Requests.Series.P50Ns[2] = *r.Requests.Series.P99Ns[2] + 1 }},
		{"requests.series.instances", func(r *record.Record) { r.Requests.Series.Instances = nil }},
		{"requests.series.instances[0].answered", func(r *record.Record) { r.Requests.Series.Instances[0].Answered = nil }},
		{"requests.series.instances[0].instance", func(r *record.Record) { r.Requests.Series.Instances[0].Instance = "stranger" }},
		{"users.hurt", func(r *record.Record) { r.Users.Hurt++ }},
		{"users.hurt_ids", func(r *record.Record) { r.Users.HurtIDs = nil }},
		{"users.hurt_ids", func(r *record.Record) { r.Users.HurtIDs[0] = 1 }},
		{"users.hurt_ids[0]", func(r *record.Record) { r.Users.HurtIDs[0] = -1 }},
		{"users.hurt_ids[1]", func(r *record.Record) { r.Users.HurtIDs[1] = r.Users.HurtIDs[0] }},
		{"failures", func(r *record.Record) { r.Failures = r.Failures[1:] }},
		{"failures", func(r *record.Record) { r.Failures[0].TNs = -1 }},
		{"failures[1].t_ns", func(r *record.Record) { r.Failures[1].TNs = r.Failures[0].TNs - 1 }},
		{"failures[0].sent_t_ns", func(r *record.Record) { *r.Failures[0].SentTNs = r.Failures[0].TNs + 1 }},
		{"failures[0].outcome", func(r *record.Record) { r.Failures[0].Outcome = record.OK }},
		{"failures[0].outcome", func(r *record.Record) { r.Failures[0].Outcome = "mishap" }},
		{"failures[0].phase", func(r *record.Record) { r.Failures[0].Phase = "lunch" }},
		{"failures[0].connection", func(r *record.Record) { r.Failures[0].Connection = "" }},
		{"failures[0].connection_requests", func(r *record.Record) { r.Failures[0].ConnectionRequests = 3 }},
		{"failures[0].connection_requests", func(r *record.Record) { r.Failures[0].ConnectionRequests = -3 }},
		{"failures[0].connection_age_ns", func(r *record.Record) { r.Failures[0].ConnectionAgeNs = -1 }},
		{"failures[0].bytes_received", func(r *record.Record) { r.Failures[0].BytesReceived = -1 }},
		{"failures[0].uncertainty_ns", func(r *record.Record) { r.Failures[0].UncertaintyNs = new(int64(-1)) }},
		{"failures[0].status", func(r *record.Record) { r.Failures[0].Outcome = record.HTTPError }},
		{"failures[0].user", func(r *record.Record) { r.Failures[0].User = r.Users.Total }},
		{"failures[5].cause.kind", func(r *record.Record) { r.Failures[5].Cause.Kind = "bad luck" }},
		{"failures[5].cause.sentence", func(r *record.Record) { r.Failures[5].Cause.Sentence = "" }},
		{"failures[5].cause.evidence", func(r *record.Record) { r.Failures[5].Cause.Evidence = nil }},
		{"failures[5].cause.evidence", func(r *record.Record) { r.Failures[5].Cause.Evidence[0] = len(r.Events) + 1 }},
		{"latency", func(r *record.Record) { r.Latency.During.Count++ }},
		{"latency.before.count", func(r *record.Record) { r.Latency.Before.Count = 0 }},
		{"latency.before", func(r *record.Record) { r.Latency.Before.P50Ns = r.Latency.Before.MaxNs + 1 }},
		{"latency.before", func(r *record.Record) { r.Latency.Before.MinNs = -1 }},
		{"latency.after.histogram", func(r *record.Record) { r.Latency.After.Histogram = "" }},
		{"latency.after", func(r *record.Record) { r.Latency.DuringToTNs = nil }},
		{"latency.during_to_t_ns", func(r *record.Record) { *r.Latency.DuringToTNs = -1 }},
		{"latency.instances", func(r *record.Record) { r.Latency.Instances = nil }},
		{"latency.instances", func(r *record.Record) { r.Latency.Instances[0].Quantiles.Count = 1192 }},
		{"latency.instances[1].instance", func(r *record.Record) { r.Latency.Instances[1].Instance = "" }},
		{"workload.kind", func(r *record.Record) { r.Workload.Kind = "CronJob" }},
		{"workload.name", func(r *record.Record) { r.Workload.Name = "" }},
		{"workload.strategy", func(r *record.Record) { r.Workload.Strategy = "Hope" }},
		{"workload.replicas", func(r *record.Record) { r.Workload.Replicas = -1 }},
		{"workload.grace_ns", func(r *record.Record) { r.Workload.GraceNs = -1 }},
		{"workload.pre_stop_sleep_ns", func(r *record.Record) { *r.Workload.PreStopSleepNs = -1 }},
		{"workload.images", func(r *record.Record) { r.Workload.Images = nil }},
		{"workload.budgets", func(r *record.Record) { r.Workload.Budgets = nil }},
		{"workload.pods", func(r *record.Record) { r.Workload.Pods = nil }},
		{"workload.pods[1].name", func(r *record.Record) { r.Workload.Pods[1].Name = "" }},
		{"verdict.result", func(r *record.Record) { r.Verdict.Result = "maybe" }},
		{"verdict.result", func(r *record.Record) { r.Verdict.Result = record.Pass }},
		{"verdict.result", func(r *record.Record) { r.Verdict.Checks = r.Verdict.Checks[2:] }},
		{"verdict.reason", func(r *record.Record) { r.Verdict.Reason = "" }},
		{"verdict.checks", func(r *record.Record) { r.Verdict.Checks = nil }},
		{"verdict.checks[0].name", func(r *record.Record) { r.Verdict.Checks[0].Name = "" }},
		{"verdict.checks[0].ok", func(r *record.Record) { r.Verdict.Checks[0].OK = true }},
		{"verdict.checks[2].ok", func(r *record.Record) { r.Verdict.Checks[2].Seen = nil }},
		{"verdict.result", func(r *record.Record) {
			*r = records.RolloutClean()
			r.Completeness, r.Missing = record.Incomplete, []string{"something"}
		}},
	} {
		var r record.Record
		if err := json.Unmarshal(sound, &r); err != nil {
			t.Fatal(err)
		}
		c.broken(&r)
		wantProblem(t, r, c.where)
	}
}

// TestValidateOfAnUnfinishedTest: a test that ended early lacks things, and what it has may not fit together yet.
func TestValidateOfAnUnfinishedTest(t *testing.T) {
	r := records.RolloutLossy()
	r.Completeness, r.Missing = record.Incomplete, []string{"worker 2 was lost, and what it had not told yet"}
	r.Failures, r.Verdict, r.Workload = r.Failures[:4], nil, nil
	for _, p := range record.Validate(r) {
		t.Error(p)
	}
	r.Verdict = &record.Verdict{Result: record.Inconclusive, Reason: "the trial is incomplete", Checks: []record.Check{}}
	r.Requests, r.Users, r.Latency, r.Failures = nil, nil, nil, nil
	for _, p := range record.Validate(r) {
		t.Errorf("without requests: %v", p)
	}
}

// Validate must judge any record, however broken, and never crash on one.
func TestValidateBearsAnything(t *testing.T) {
	if got := record.Validate(record.Record{}); len(got) < 10 {
		t.Errorf("an empty record has only %v", got)
	}
	for _, r := range []record.Record{
		{Requests: &record.Requests{}, Users: &record.Users{}, Latency: &record.Latency{}, Verdict: &record.Verdict{}, Workload: &record.Workload{}, Failures: []record.Failure{{}}},
		{Requests: &record.Requests{Total: 2, Series: &record.Series{BucketNs: 1, Sent: []int64{1, 2, 3}, P50Ns: []*int64{nil}, Instances: []record.InstanceSeries{{}}}}, Failures: []record.Failure{{Cause: &record.Cause{}}}},
		{Windows: []record.Window{{Name: record.DeleteToTerm, Ns: new(int64(1)), FromEvent: 1, ToEvent: 7}}, Events: []record.Event{{}}},
	} {
		if len(record.Validate(r)) == 0 {
			t.Errorf("nothing is wrong with %+v", r)
		}
	}
	odd := record.Record{Flows: []record.Flow{{}}, Events: []record.Event{{Kind: record.FlowEnded}}, Windows: []record.Window{{FromEvent: -1}}, Sources: []record.Source{{}}}
	var text []string
	for _, p := range record.Validate(odd) {
		text = append(text, p.String())
	}
	if !strings.Contains(strings.Join(text, "\n"), "windows[0]: refers to event -1 of 1") {
		t.Errorf("problems:\n%s", strings.Join(text, "\n"))
	}
}
