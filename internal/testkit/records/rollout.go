package records

import (
	"fmt"
	"slices"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/tally"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// The traffic of a test: 100 requests per second of 20 users in turn, from 2 s before the trigger to 10 s after it.
const (
	testRequests = 1200
	testUsers    = 20
	everyMs      = 10
	testBeforeMs = 2000
	testAfterMs  = 10000
)

// webPod is a Pod of Deployment web.
type webPod struct {
	name, uid, ip string
	// fromMs and toMs are when its endpoint began and ceased to be ready.
	fromMs, toMs float64
}

func (p webPod) workload(node string) record.WorkloadPod {
	return record.WorkloadPod{Name: p.name, UID: p.uid, IP: p.ip, Node: node}
}

// webPods are three old Pods and the three that replace them one by one.
func webPods(rollout bool) []webPod {
	pods := []webPod{
		{"web-6d8f9c7b5-2kxqp", "0b1e7a52-8c1d-4a0f-9f2e-51c0d7a1e001", "198.18.65.11", -60_000, 2232},
		{"web-6d8f9c7b5-9wzlm", "0b1e7a52-8c1d-4a0f-9f2e-51c0d7a1e002", "198.18.66.12", -60_000, 4432},
		{"web-6d8f9c7b5-tt4vd", "0b1e7a52-8c1d-4a0f-9f2e-51c0d7a1e003", "198.18.65.13", -60_000, 6622},
	}
	if !rollout {
		for i := range pods {
			pods[i].toMs = testAfterMs + 1000
		}
		return pods
	}
	return append(pods,
		webPod{"web-74c5dd9f6-5hn8r", "7c2d90f4-3b6a-4e55-8d1b-92aa63f0b001", "198.18.66.21", 2180, testAfterMs + 1000},
		webPod{"web-74c5dd9f6-d7c2j", "7c2d90f4-3b6a-4e55-8d1b-92aa63f0b002", "198.18.65.22", 4380, testAfterMs + 1000},
		webPod{"web-74c5dd9f6-mq6ks", "7c2d90f4-3b6a-4e55-8d1b-92aa63f0b003", "198.18.66.23", 6570, testAfterMs + 1000},
	)
}

// lost is one request that failed.
type lost struct {
	// k is its number in the schedule; pod the old Pod that was ending then.
	k, pod  int
	outcome record.RequestOutcome
}

// losses hit users 6, 7, 9, 10 and 12, in three groups, one as each old Pod ends.
func losses() []lost {
	return []lost{
		{426, 0, record.Refused}, {427, 0, record.Refused}, {429, 0, record.Refused},
		{647, 1, record.Refused}, {649, 1, record.Refused}, {650, 1, record.ResetBeforeResponse},
		{866, 2, record.Refused}, {870, 2, record.Refused}, {872, 2, record.ResetBeforeResponse},
	}
}

// RolloutLossy is a test of Deployment web, three Pods that exit at once on SIGTERM, under `rollout restart`: of 1,200 requests 7
// were refused and 2 reset, and 5 of 20 users were hurt.
func RolloutLossy() record.Record {
	b := newTest("20261129T170000Z-rollout-lossy", "rollout")
	b.rollout(0)
	b.requests(losses())
	b.r.Verdict = b.missed()
	return b.done(testAfterMs + 12)
}

// RolloutClean is the same test after a preStop sleep of five seconds was added: nothing was lost.
func RolloutClean() record.Record {
	b := newTest("20261129T171000Z-rollout-clean", "rollout")
	b.r.Workload.PreStop, b.r.Workload.PreStopSleepNs = "web: sleep 5s", new(ns(5000))
	b.rollout(5000)
	b.requests(nil)
	b.r.Verdict = b.passed()
	return b.done(testAfterMs + 2100)
}

// Baseline is the control of a test: the same traffic, and nothing was done to the workload.
func Baseline() record.Record {
	b := newTest("20261129T172000Z-baseline", "none")
	b.r.Trigger.AcceptedNs = new(int64(0))
	b.requests(nil)
	b.r.Verdict = b.passed()
	return b.done(testAfterMs + 12)
}

// Tests lists the samples of tests with the names of their files, in a fixed order.
func Tests() []Sample {
	return []Sample{{"rollout-lossy", RolloutLossy()}, {"rollout-clean", RolloutClean()}, {"baseline", Baseline()}}
}

// testBuilder makes a test out of a trial.
type testBuilder struct {
	*builder
	pods []webPod
}

func newTest(id, trigger string) *testBuilder {
	b := &testBuilder{builder: newBuilder(id, 0), pods: webPods(trigger == "rollout")}
	b.workload, b.r.Events = "workload/web", []record.Event{}
	b.r.Environment.Namespace, b.r.Environment.NamespaceUID = "shop", "c40d"
	b.r.Environment.Image, b.r.Environment.ImageID = "", nil
	b.r.Config = record.Config{
		Trigger: trigger, Path: "clusterip", Vantage: "host", Namespace: new("shop"),
		Traffic: &record.Traffic{
			Mode: "new-connection", Rate: 1000 / everyMs, Users: testUsers, Workers: 1, URL: "http://198.18.64.40:80/", Method: "GET", Expect: "2xx",
			DNSNs: ns(2000), ConnectNs: ns(2000), TLSNs: ns(3000), FirstByteNs: ns(10e3), WholeNs: ns(15e3),
			BeforeNs: ns(testBeforeMs), AfterNs: ns(3000), WaitFor: "rolled-out", WaitNs: ns(300e3),
		},
	}
	b.r.Workload = &record.Workload{
		Kind: "Deployment", Namespace: "shop", Name: "web", UID: "e5a1c2d0-77b4-4d0e-b0d3-6a1f9c3e0001", Replicas: 3,
		Strategy: "RollingUpdate", MaxUnavailable: "0", MaxSurge: "1", GraceNs: ns(30e3), PreStopSleepNs: new(int64(0)), ReadinessProbe: true,
		Images: []string{"registry.example/web:v1"}, Budgets: []string{"web (minAvailable 2)"}, Service: "web", Port: 80,
	}
	for i, p := range b.pods {
		b.nodes[p.uid] = []string{oldNode, newNode}[i%2]
		if p.fromMs < 0 {
			b.r.Workload.Pods = append(b.r.Workload.Pods, p.workload(b.nodes[p.uid]))
		}
	}
	b.r.Trigger.Kind, b.r.Trigger.Subject = trigger, "deployment/web"
	b.event(0, record.FromHarness, record.TriggerSent, "deployment/web", record.Exact, "", map[string]any{"kind": trigger})
	if trigger == "none" {
		b.r.Config.Traffic.WaitFor = "none"
		return b
	}
	b.event(6.2, record.FromHarness, record.TriggerAccepted, "deployment/web", record.Exact, "", nil)
	return b
}

// rollout adds what the API shows of three Pods that are replaced one by one; each container exits 30 ms
// after its SIGTERM, which the hook delays by hookMs.
func (b *testBuilder) rollout(hookMs float64) {
	for _, p := range b.pods {
		if p.fromMs > 0 {
			b.kube(p.fromMs-2130, record.PodAdded, "pod/"+p.name, p.uid, nil)
			b.kube(p.fromMs-2120, record.PodScheduled, "pod/"+p.name, p.uid, nil)
			b.kube(p.fromMs-1100, record.ContainerStarted, "container/"+p.name+"/web", p.uid, nil)
			b.kube(p.fromMs-20, record.PodReady, "pod/"+p.name, p.uid, nil)
			b.kube(p.fromMs, record.EndpointReady, "endpoint/"+p.name, p.uid, nil)
			continue
		}
		b.kube(p.toMs-14, record.PodTerminating, "pod/"+p.name, p.uid, map[string]any{"grace_seconds": b.r.Workload.GraceNs / 1e9})
		b.kube(p.toMs, record.EndpointTerminating, "endpoint/"+p.name, p.uid, nil)
		b.kube(p.toMs, record.EndpointNotReady, "endpoint/"+p.name, p.uid, nil)
		b.kube(p.toMs+3, record.KubeletKilling, "pod/"+p.name, p.uid, nil)
		b.kube(p.toMs+hookMs+210, record.ContainerExited, "container/"+p.name+"/web", p.uid, map[string]any{record.DetailExitCode: 0, record.DetailReason: "Completed"})
		b.kube(p.toMs+hookMs+260, record.EndpointRemoved, "endpoint/"+p.name, p.uid, nil)
		b.kube(p.toMs+hookMs+264, record.PodRemoved, "pod/"+p.name, p.uid, nil)
	}
}

// requests sends all requests, of which those in fail failed.
func (b *testBuilder) requests(fail []lost) {
	b.r.Failures = []record.Failure{}
	in := tally.Input{Users: testUsers}
	if b.r.Config.Trigger != "none" {
		in.DuringToTNs = new(ns(7000))
	}
	for _, p := range b.pods {
		in.Names = append(in.Names, p.name)
	}
	outcomes := map[record.RequestOutcome]uint8{}
	for i, o := range record.RequestOutcomes() {
		outcomes[o] = uint8(i)
	}
	for k := range testRequests {
		planned := ns(float64(k*everyMs - testBeforeMs))
		s := request.Sample{PlannedNs: planned, LatencyNs: 1_900_000 + int64(k%97)*31_000, LateNs: 40_000, User: int32(k % testUsers), Instance: b.answering(k)}
		if in.DuringToTNs != nil && 0 <= planned && planned < *in.DuringToTNs {
			s.LatencyNs += int64(k%41) * 90_000 // new Pods are slower at first
		}
		if i := slices.IndexFunc(fail, func(f lost) bool { return f.k == k }); i >= 0 {
			s.LatencyNs, s.Instance, s.Outcome = 620_000, -1, outcomes[fail[i].outcome]
			b.r.Failures = append(b.r.Failures, b.failure(fail[i], s))
		}
		in.Samples = append(in.Samples, s)
	}
	q, u, l := tally.Fold(in)
	b.r.Requests, b.r.Users, b.r.Latency = &q, &u, &l
	b.r.Client.HeartbeatsSent, b.r.Client.HeartbeatsAnswered = testRequests, uint64(testRequests-len(fail))
}

// answering gives the number of the Pod that takes request k: those that are ready, in turn.
func (b *testBuilder) answering(k int) int32 {
	at := float64(k*everyMs - testBeforeMs)
	var ready []int32
	for i, p := range b.pods {
		if p.fromMs <= at && at < p.toMs {
			ready = append(ready, int32(i))
		}
	}
	return ready[k%len(ready)]
}

func (b *testBuilder) failure(l lost, s request.Sample) record.Failure {
	f := record.Failure{
		TNs: s.PlannedNs + s.LatencyNs, PlannedTNs: s.PlannedNs, SentTNs: new(s.PlannedNs + s.LateNs), Outcome: l.outcome, Phase: record.PhaseConnect,
		Connection: record.NewConnection, User: int(s.User), Errno: "ECONNREFUSED", Local: fmt.Sprintf("198.18.0.1:%d", 41000+l.k), Remote: "198.18.64.40:80",
		ConnectionAgeNs: s.LatencyNs - s.LateNs, Retryable: true, UncertaintyNs: new(int64(0)),
	}
	if l.outcome == record.ResetBeforeResponse {
		f.Phase, f.Errno, f.Retryable = record.PhaseFirstByte, "ECONNRESET", false
	}
	p := b.pods[l.pod]
	f.Cause = &record.Cause{Kind: "unattributed", Sentence: fmt.Sprintf(
		"%s %.0f ms after the API showed %s as terminating; which Pod the node sent it to is not known: that needs the node's evidence",
		l.outcome, float64(f.TNs)/1e6-(p.toMs-14), p.name)}
	return f
}

func (b *testBuilder) missed() *record.Verdict {
	return &record.Verdict{
		Result: record.Fail, Reason: "9 of 1,000 requests failed (budget 0), of 5 users (budget 0)", Budget: "failed=0,users=0,p99=500ms",
		Checks: []record.Check{{Name: "failed", Limit: 0, Seen: new(9.0)}, {Name: "users", Limit: 0, Seen: new(5.0)}, b.p99(500e6)},
	}
}

func (b *testBuilder) passed() *record.Verdict {
	return &record.Verdict{
		Result: record.Pass, Reason: "0 of 1,000 requests failed (budget 0)", Budget: "failed=0,users=0,p99=500ms",
		Checks: []record.Check{{Name: "failed", Limit: 0, Seen: new(0.0), OK: true}, {Name: "users", Limit: 0, Seen: new(0.0), OK: true}, b.p99(500e6)},
	}
}

// p99 checks the slower of during and after, which is what an upper bound over both may be.
func (b *testBuilder) p99(limitNs float64) record.Check {
	seen := float64(b.r.Latency.During.P99Ns)
	if after := b.r.Latency.After; after != nil {
		seen = max(seen, float64(after.P99Ns))
	}
	return record.Check{Name: "p99", Limit: limitNs, Seen: &seen, OK: seen <= limitNs}
}

// done finishes the record, and names each cause's evidence: the news that the Pod was terminating, and that its endpoint was not ready.
func (b *testBuilder) done(observeMs float64) record.Record {
	r := b.builder.done(observeMs)
	for i := range r.Failures {
		pod := b.pods[losses()[i].pod]
		for _, e := range r.Events {
			if e.PodUID == pod.uid && (e.Kind == record.PodTerminating || e.Kind == record.EndpointNotReady) {
				r.Failures[i].Cause.Evidence = append(r.Failures[i].Cause.Evidence, e.ID)
			}
		}
	}
	return r
}
