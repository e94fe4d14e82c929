package page

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
)

const ms = 1_000_000

func at(ms0 float64, bound record.Bound, id int) record.Instant {
	return record.Instant{TNs: new(int64(ms0 * ms)), UncertaintyNs: new(int64(0)), Bound: bound, Event: id}
}

var missing = record.Instant{Bound: record.Exact, Why: "not seen"}

// between is a span that lies between two lengths in milliseconds.
func between(least, most float64) record.Span {
	return record.Span{Ns: new(int64(most * ms)), AtLeastNs: new(int64(least * ms)), AtMostNs: new(int64(most * ms)), FromEvent: 1, ToEvent: 9}
}

func exactly(length float64) record.Span { return between(length, length) }

// path is a node's, with the rules removed at event 9.
func path(node string, dead record.Span, failed int) record.PathEnd {
	return record.PathEnd{Node: node, Front: "198.18.64.10:80", Backend: "198.18.65.11:8080", Protocol: record.TCP, RuleRemoved: at(1310, record.Upper, 9), DeadEndpoint: dead, Failed: failed}
}

// ended is a Pod of one container that was asked to end and did.
func ended() record.Termination {
	return record.Termination{
		Pod: "web-1", UID: "u", Node: "worker-1", Deleted: at(6, record.Upper, 1),
		Hook: record.Hook{Described: "web: sleep 1s", Started: missing, Ended: at(1033, record.Upper, 2)},
		Containers: []record.ContainerEnd{{
			Name: "web", Term: record.StopSignal{Instant: at(1033, record.Exact, 2), Signal: "SIGTERM", Sender: "runc", Result: "delivered"},
			Kill: record.StopSignal{Instant: missing}, Exit: record.ProcessExit{Instant: at(1240, record.Exact, 3), Code: new(0)},
			BeforeTerm: between(1027, 1033), TermToExit: exactly(207), Killed: new(false),
		}},
		Listeners:   []record.ListenerEnd{{Protocol: record.TCP, Port: 8080, Closed: at(1038, record.Exact, 4)}, {Protocol: record.TCP, Port: 9090, Closed: at(1239, record.Exact, 5)}},
		SandboxGone: at(1400, record.Exact, 6), Removed: at(1520, record.Upper, 7),
		Grace: record.GraceUse{GraceNs: new(int64(30_000 * ms)), Used: between(1234, 1240), LeftNs: new(int64(28_766 * ms))},
		Paths: []record.PathEnd{path("worker-2", between(271, 272), 31)},
	}
}

func TestEndings(t *testing.T) {
	const steps = "deleted ≤ 6.0 ms, SIGTERM from runc 1.033 s, tcp port 8080 closed 1.038 s, exit 0 1.240 s, sandbox gone 1.400 s, removed ≤ 1.520 s"
	const grace = "grace 30 s: 1.03 s to SIGTERM (preStop web: sleep 1s), 207 ms from SIGTERM to the exit, 28.76–28.77 s left, not killed"
	const late = "worker-2 stopped sending to it 271–272 ms after it had closed: 31 requests lost"
	for _, c := range []struct {
		name string
		edit func(*record.Termination)
		all  bool
		want []string
	}{
		{"whole", func(*record.Termination) {}, false, []string{steps, grace, late}},
		{"a signal that is ignored, and SIGKILL", func(t *record.Termination) {
			c := &t.Containers[0]
			c.Term.Result, c.Kill = "ignored", record.StopSignal{Instant: at(30_020, record.Exact, 8), Signal: "SIGKILL", Sender: "runc"}
			c.Exit, c.Killed = record.ProcessExit{Instant: at(30_021, record.Exact, 3), Signal: "SIGKILL"}, new(true)
			c.TermToExit, t.Hook.Described, t.Listeners, t.Paths = exactly(28_988), "", nil, nil
			t.Grace.Used, t.Grace.LeftNs = between(30_015, 30_021), new(int64(-15*ms))
			t.SandboxGone = t.Removed
		}, false, []string{
			"deleted ≤ 6.0 ms, SIGTERM from runc, which it ignores, 1.033 s, removed ≤ 1.520 s, SIGKILL from runc 30.020 s, ended by SIGKILL 30.021 s",
			"grace 30 s: 1.03 s to SIGTERM, 28.99 s from SIGTERM to the exit, overrun by 15–21 ms, killed",
		}},
		{"only the API told", func(t *record.Termination) {
			c := &t.Containers[0]
			c.Term, c.BeforeTerm, c.TermToExit = record.StopSignal{Instant: missing}, record.Span{Why: "not seen"}, record.Span{Why: "not seen"}
			c.Exit, c.Killed = record.ProcessExit{Instant: at(1500, record.Upper, 3)}, nil
			t.Listeners, t.Paths, t.SandboxGone = nil, nil, t.Removed
			t.Grace.Used = record.Span{Ns: t.Grace.Used.Ns, FromEvent: 1, ToEvent: 3}
			t.Unseen = []string{"listeners: no agent on node worker-1", "rules: no agent on any node"}
		}, true, []string{
			"deleted ≤ 6.0 ms, exit ≤ 1.500 s, removed ≤ 1.520 s", "grace 30 s: preStop web: sleep 1s, ~ 28.77 s left",
			"not seen: listeners: no agent on node worker-1; rules: no agent on any node",
		}},
		{"not deleted", func(t *record.Termination) {
			t.Deleted, t.Removed, t.SandboxGone, t.Grace = missing, missing, missing, record.GraceUse{}
			t.Paths[0].DeadEndpoint.ToEvent = 12 // it listened again
			t.Paths[0].Failed = 1
		}, false, []string{
			"SIGTERM from runc 1.033 s, tcp port 8080 closed 1.038 s, exit 0 1.240 s", "worker-2 went on sending to it while nothing listened, for 271–272 ms: 1 request lost",
		}},
		{"two containers", func(t *record.Termination) {
			second := t.Containers[0]
			second.Name, second.Exit.Instant, second.TermToExit, second.Exit.Code = "mesh", at(5000, record.Exact, 8), exactly(3967), new(3)
			t.Containers, t.Paths, t.Listeners, t.SandboxGone = append(t.Containers, second), nil, nil, missing
		}, false, []string{
			"deleted ≤ 6.0 ms, web: SIGTERM from runc 1.033 s, mesh: SIGTERM from runc 1.033 s, web: exit 0 1.240 s, removed ≤ 1.520 s, mesh: exit 3 5.000 s",
			"grace 30 s: 1.03 s to SIGTERM (preStop web: sleep 1s), 3.97 s from SIGTERM to the exit, 28.76–28.77 s left, not killed",
		}},
		{"nodes in time, unsure, never and not known", func(t *record.Termination) {
			never := path("worker-5", record.Span{Ns: new(int64(9e9)), AtLeastNs: new(int64(9e9)), FromEvent: 4, ToEvent: 20}, 2)
			never.RuleRemoved = missing
			unknown := path("worker-6", record.Span{Why: "a gap"}, 1)
			t.Paths = []record.PathEnd{
				path("worker-2", between(-4790, -4780), 0), path("worker-3", between(-160, -138), 0), path("worker-4", between(-3, 3), 0), never, unknown,
				path("worker-7", record.Span{Why: "a gap"}, 0), path("worker-8", record.Span{Ns: new(int64(272 * ms))}, 0),
			}
		}, false, []string{
			steps, grace, "worker-5 never stopped sending to it, ≥ 9.00 s from when it had closed to the end: 2 requests lost",
			"worker-2, worker-3 had stopped sending to it 0.14–4.78 s before it closed",
			"whether worker-8 stopped sending to it before it closed or after is not sure (~ 272 ms)",
			"whether worker-4 stopped sending to it before it closed or after is not sure (-3.0 to 3.0 ms)",
			"worker-6 stopped sending to it at a time that is not known: a gap: 1 request lost",
		}},
		{"more nodes than fit", func(t *record.Termination) {
			t.Paths = nil
			for i := range 6 {
				t.Paths = append(t.Paths, path(fmt.Sprintf("worker-%d", i), exactly(float64(10*i+10)), max(0, i-3)))
				t.Paths = append(t.Paths, path(fmt.Sprintf("early-%d", i), exactly(float64(-10*i-10)), 0))
			}
		}, false, []string{
			steps, grace, "worker-5 stopped sending to it 60 ms after it had closed: 2 requests lost", "worker-4 stopped sending to it 50 ms after it had closed: 1 request lost",
			"worker-3 stopped sending to it 40 ms after it had closed", "and on 3 paths more it was so, for 10–30 ms", "6 nodes had stopped sending to it 10–60 ms before it closed",
		}},
		{"two fronts on a node", func(t *record.Termination) {
			other := path("worker-2", exactly(-10), 0)
			other.Front = "198.18.64.10:443"
			t.Paths = append(t.Paths, other)
		}, false, []string{
			steps, grace, "worker-2, for tcp 198.18.64.10:80, stopped sending to it 271–272 ms after it had closed: 31 requests lost",
			"worker-2, for tcp 198.18.64.10:443, had stopped sending to it 10 ms before it closed",
		}},
		{"entries", func(t *record.Termination) {
			t.Conntrack = []record.ConntrackEnd{
				{Node: "worker-2", Protocol: record.UDP, Entries: 10, DeadConntrack: exactly(2260)}, {Node: "worker-3", Protocol: record.UDP, Entries: 3, Left: 2, DeadConntrack: exactly(9000)},
				{Node: "worker-4", Protocol: record.UDP, Entries: 1, Left: 1, DeadConntrack: exactly(9000)}, {Node: "worker-5", Protocol: record.TCP, Entries: 7, Left: 7, DeadConntrack: exactly(9000)},
			}
		}, false, []string{
			steps, grace, late, "worker-2's connection tracking still led 10 entries of udp to it after its exit, the last until 2.26 s after",
			"worker-3's connection tracking still led 3 entries of udp to it after its exit, 2 of them there at the end",
			"worker-4's connection tracking still led 1 entry of udp to it after its exit, all there at the end",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := ended()
			c.edit(&x)
			list, more := Endings(record.Record{Terminations: []record.Termination{x}}, c.all)
			if len(list) != 1 || more != 0 || list[0].Head != "web-1 on worker-1" {
				t.Fatalf("%+v and %d more", list, more)
			}
			if diff := cmp.Diff(c.want, list[0].Lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The Pods to which most was lost are told of first, no more than fit, and none of which only the API told; asked for, all are.
func TestEndingsAreFew(t *testing.T) {
	var r record.Record
	for i := range 200 {
		x := ended()
		x.Pod = fmt.Sprintf("web-%03d", i)
		x.Paths[0].Failed = i % 7
		r.Terminations = append(r.Terminations, x)
	}
	apiOnly := record.Termination{Pod: "quiet", Deleted: at(1, record.Upper, 1), Removed: at(2, record.Upper, 2)}
	r.Terminations = append(r.Terminations, apiOnly)
	r.Agents = []record.Agent{{Node: "worker-1"}}
	r.Terminations[6].Unseen = []string{"rules: node worker-3 cannot show rules: IPVS", "conntrack: the same"}
	list, more := Endings(r, false)
	if len(list) != 2 || more != 198 || list[0].Head != "web-006 on worker-1" || list[1].Head != "web-013 on worker-1" {
		t.Errorf("%d Pods and %d more: %+v", len(list), more, list)
	}
	if last := list[0].Lines[len(list[0].Lines)-1]; last != "not all seen: rules, conntrack (report -v says why)" {
		t.Errorf("what was not seen: %q", last)
	}
	if got := MoreEndings(more); got != "and 198 Pods more, in the record (report -v tells of each)" {
		t.Error(got)
	}
	if list, more := Endings(r, true); len(list) != 201 || more != 0 {
		t.Errorf("all are %d, and %d more", len(list), more)
	}
	var b strings.Builder
	for _, e := range list {
		e.Terminal(&b, Ink{}, 72)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 72 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	testkit.Golden(t, "endings.txt", []byte(b.String()))
}
