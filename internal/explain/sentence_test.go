package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

const node = "; missing: which Pod the node sent it to (node evidence)"

func TestSentences(t *testing.T) {
	from := func(pod string, f record.Failure) record.Failure {
		f.Instance = &pod
		return f
	}
	status := func(o record.RequestOutcome, code int, atMs float64) record.Failure {
		f := failed(o, atMs-1, atMs)
		f.Status = &code
		return f
	}
	noHook := newTest().deleted(100, "web-1")
	hook := newTest().deleted(100, "web-1")
	hook.r.Workload.PreStopSleepNs = new(int64(5000 * ms))
	unknownHook := newTest().deleted(100, "web-1")
	unknownHook.r.Workload.PreStopSleepNs = nil
	crashed := newTest().kube(-5000, record.PodReady, "web-1").kube(30, record.ContainerExited, "web-1").kube(2000, record.PodReady, "web-1")

	for _, c := range []struct {
		name string
		b    *test
		f    record.Failure
		want string
	}{
		{"after the exit", noHook, failed(record.Refused, 411, 412),
			"refused 312 ms after web-1 was seen to be deleted: SIGTERM at about +50 ms (an estimate), its endpoint had been not ready since +41 ms at the latest, its container exited by +290 ms" + node},
		{"after the removal", noHook, failed(record.Refused, 449, 450),
			"refused 350 ms after web-1 was seen to be deleted: SIGTERM at about +50 ms (an estimate), its endpoint had been not ready since +41 ms at the latest, removed by +340 ms, its container exited by +290 ms" + node},
		{"before the news", noHook, failed(record.Unreachable, 89, 90),
			"unreachable 10 ms before web-1 was seen to be deleted: SIGTERM at about +50 ms (an estimate), the news that its endpoint is not ready came later (+41 ms), the news that its container exited came later (+290 ms)" + node},
		{"in the hook", hook, failed(record.Refused, 199, 200),
			"refused 100 ms after web-1 was seen to be deleted: SIGTERM at about +5.050 s (an estimate), its endpoint had been not ready since +41 ms at the latest, the news that its container exited came later (+290 ms)" + node},
		{"a hook of unknown length", unknownHook, failed(record.Refused, 199, 200),
			"refused 100 ms after web-1 was seen to be deleted: SIGTERM not known (a hook of unknown length began by +50 ms), its endpoint had been not ready since +41 ms at the latest, the news that its container exited came later (+290 ms)" + node},
		{"hardly anything seen", newTest().kube(100, record.PodTerminating, "web-1"), failed(record.Refused, 199, 200),
			"refused 100 ms after web-1 was seen to be deleted: SIGTERM not known, its endpoint was not seen to become not ready, its container was not seen to exit" + node},
		{"the probe's own word", newTest().deleted(100, "web-1").probe(130, record.ProbeSigterm, "web-1").probe(131, record.ProbeListenClosed, "web-1").probe(135, record.ProbeExiting, "web-1"), failed(record.Refused, 199, 200),
			"refused 100 ms after web-1 was seen to be deleted: SIGTERM at +30 ms, it had closed its listener at +31 ms, its endpoint had been not ready since +41 ms at the latest, it wrote that it exits at +35 ms, the news that its container exited came later (+290 ms)" + node},
		{"a known Pod", noHook, from("web-1", failed(record.ResetMidResponse, 199, 200)),
			"reset in the middle of its response, from web-1, 100 ms after it was seen to be deleted: SIGTERM at about +50 ms (an estimate), its endpoint had been not ready since +41 ms at the latest, the news that its container exited came later (+290 ms); " +
				"missing: what ended it there: the application, its exit or the node (node evidence)"},
		{"a known Pod that lives", newTest().kube(-5000, record.PodReady, "web-3"), from("web-3", status(record.HTTPError, 500, 1200)),
			"answered with status 500, from web-3, 1.200 s after the trigger: it was not seen to end; missing: why the workload answered so (its own log)"},
		{"a name that is no Pod's", noHook, from("gateway", status(record.HTTPError, 503, 1200)),
			"answered with status 503, from gateway, 1.200 s after the trigger: no Pod was seen to end or start then; missing: why the workload answered so (its own log), and which Pod gateway is"},
		{"a gateway's status", newTest(), status(record.HTTPError, 502, 1200),
			"answered with status 502, 1.200 s after the trigger: no Pod was seen to end or start then; missing: whether the workload or a proxy before it answered so"},
		{"gRPC", newTest(), status(record.GRPCError, 14, 1200),
			"answered with gRPC status 14, 1.200 s after the trigger: no Pod was seen to end or start then; missing: why the workload answered so (its own log)"},
		{"no status", newTest(), failed(record.GRPCError, 1199, 1200),
			"answered without a gRPC status, 1.200 s after the trigger: no Pod was seen to end or start then; missing: why the workload answered so (its own log)"},
		{"a timeout counts from when it began", noHook, failed(record.ResponseTimeout, 200, 10_200),
			"not answered in time, begun 100 ms after web-1 was seen to be deleted: SIGTERM at about +50 ms (an estimate), its endpoint had been not ready since +41 ms at the latest, the news that its container exited came later (+290 ms)" + node},
		{"before the trigger", noHook, failed(record.Refused, -1200, -1199), "refused 1.199 s before the trigger" + node},
		{"long after", noHook, failed(record.DNSFailure, 61_999, 62_000),
			"its name not resolved 62.0 s after the trigger: no Pod was seen to end or start then; missing: why the name was not resolved (the resolver's evidence)"},
		{"a process that died", crashed, failed(record.Refused, 129, 130),
			"refused 100 ms after web-1 was seen to have exited: its endpoint was not seen to become not ready" + node},
		{"a process that died and is back", crashed, failed(record.Refused, 4000, 4001), "refused 4.001 s after the trigger: no Pod was seen to end or start then" + node},
		{"others beside it", newTest().deleted(100, "web-1").deleted(150, "web-2").deleted(5000, "web-9").kube(120, record.PodAdded, "web-3").kube(400, record.PodReady, "web-3").kube(130, record.PodAdded, "web-4").kube(140, record.PodReady, "web-4"),
			failed(record.Refused, 179, 180),
			"refused 30 ms after web-2 was seen to be deleted: SIGTERM at about +50 ms (an estimate), the news that its endpoint is not ready came later (+41 ms), the news that its container exited came later (+290 ms), " +
				"new Pod web-4 had been ready for 40 ms, 1 other Pod ending then, 1 new Pod not ready yet (the first 220 ms later)" + node},
		{"only a new Pod", newTest().kube(20, record.PodAdded, "web-3"), failed(record.Refused, 179, 180),
			"refused 180 ms after the trigger: 1 new Pod not ready yet" + node},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.b.cause(c.f)
			if got.Kind != "unattributed" || got.Sentence != c.want {
				t.Errorf("%s (-want +got):\n%s", got.Kind, cmp.Diff(c.want, got.Sentence))
			}
		})
	}
}

// A StatefulSet gives a name again: the old Pod and the new one are not taken for each other.
func TestPodsOfOneName(t *testing.T) {
	b := newTest().deleted(100, "db-0").
		event(460, record.FromKube, record.PodAdded, "db-0", "uid-new", record.Upper, nil).
		event(2000, record.FromKube, record.PodReady, "db-0", "uid-new", record.Upper, nil)
	f := failed(record.EOFBeforeResponse, 600, 601)
	f.Instance = new("db-0")
	c := b.cause(f)
	for _, want := range []string{"closed without a response, from db-0, 501 ms after db-0 was seen to be deleted", "1 new Pod not ready yet (the first 1.399 s later)", "and which Pod db-0 is"} {
		if !strings.Contains(c.Sentence, want) {
			t.Errorf("it does not say %q:\n%s", want, c.Sentence)
		}
	}
}

// Every outcome has words of its own.
func TestEveryOutcomeIsTold(t *testing.T) {
	seen := map[string]record.RequestOutcome{}
	for _, o := range record.RequestOutcomes() {
		text := happened(record.Failure{Outcome: o, Status: new(500)})
		if other, twice := seen[text]; twice || text == "" || o.Failed() && text == string(o) && o != record.Refused && o != record.Unreachable {
			t.Errorf("%s is told as %q, like %q", o, text, other)
		}
		seen[text] = o
	}
}

func TestMoments(t *testing.T) {
	r := records.RolloutLossy()
	got := Moments(r)
	if len(got) != 3 {
		t.Fatalf("%d moments", len(got))
	}
	want := "3 at +2.261–2.291 s: 3 refused, of 3 users; began ≥ 29 ms after web-6d8f9c7b5-2kxqp's endpoint became not ready, ≥ 43 ms after its deletion"
	if got[0].Sentence != want {
		t.Errorf("the first (-want +got):\n%s", cmp.Diff(want, got[0].Sentence))
	}
}

func TestMomentsAreTheWorst(t *testing.T) {
	var failures []record.Failure
	lose := func(n int, o record.RequestOutcome, atMs float64) {
		for i := range n {
			f := failed(o, atMs-1, atMs+float64(i)*10)
			f.User = i % 2
			failures = append(failures, f)
		}
	}
	lose(5, record.Refused, -3000) // before the trigger
	lose(1, record.Refused, 500)
	lose(2, record.ClientLimited, 550)
	lose(4, record.Refused, 3000)
	lose(6, record.ResetMidResponse, 3900) // within a second of those before: one moment
	lose(2, record.Truncated, 8000)
	lose(2, record.Refused, 12_000)
	r := newTest().deleted(2900, "web-1").kube(2990, record.PodReady, "web-2").kube(-50, record.PodReady, "web-0").fails(failures...)
	type short struct {
		From, To int64
		Failed   int
		Outcomes []OutcomeCount
		Users    int
		Before   []record.EventKind
	}
	var got []short
	for _, m := range Moments(r) {
		s := short{m.FromTNs / ms, m.ToTNs / ms, m.Failed, m.Outcomes, m.Users, nil}
		for _, sign := range m.before {
			s.Before = append(s.Before, sign.kind)
		}
		got = append(got, s)
	}
	want := []short{
		{3000, 3950, 10, []OutcomeCount{{record.ResetMidResponse, 6}, {record.Refused, 4}}, 2, []record.EventKind{record.EndpointNotReady, record.PodReady}},
		{8000, 8010, 2, []OutcomeCount{{record.Truncated, 2}}, 2, []record.EventKind{record.ContainerExited, record.EndpointRemoved}},
		{12_000, 12_010, 2, []OutcomeCount{{record.Refused, 2}}, 2, []record.EventKind{record.ContainerExited, record.EndpointRemoved}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("moments (-want +got):\n%s", diff)
	}
	if got := Moments(newTest().fails()); len(got) != 0 {
		t.Errorf("no failure gives %v", got)
	}
}

// Where an agent saw when a Pod was asked to end, a moment is counted from there, and not from what the Pod itself wrote of it later.
func TestMomentsCountFromTheTermination(t *testing.T) {
	r := newTest().deleted(100, "web-1").probe(140, record.ProbeSigterm, "web-1").fails(failed(record.Refused, 148, 150))
	r.Terminations = []record.Termination{{
		Pod: "web-1", Deleted: record.Instant{TNs: new(int64(60 * ms)), Bound: record.Upper},
		Containers: []record.ContainerEnd{{Name: "web", Term: record.StopSignal{Instant: record.Instant{TNs: new(int64(130 * ms)), Bound: record.Exact}}}},
	}}
	want := "1 at +150.0 ms: 1 refused, of 1 user; began ≥ 9 ms after web-1's endpoint became not ready, 20 ms after it got SIGTERM"
	if got := Moments(r)[0].Sentence; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
