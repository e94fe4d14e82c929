package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	compare "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/record"
)

// triggered says what ended the Pods, and that the observation ended at 60 s.
func (b *test) triggered(kind, subject string) *test {
	b.r.Config.Trigger, b.r.Trigger = kind, &record.Trigger{Kind: kind, Subject: subject}
	for _, e := range []struct {
		atMs float64
		kind record.EventKind
	}{{0, record.TriggerSent}, {6, record.TriggerAccepted}, {60_000, record.ObserveEnded}} {
		b.event(e.atMs, record.FromHarness, e.kind, "", "", record.Exact, nil)
		b.r.Events[len(b.r.Events)-1].Subject = subject
	}
	return b
}

// terminating adds the news that a Pod was deleted, with 30 s.
func (b *test) terminating(atMs float64, pod string) *test {
	return b.event(atMs, record.FromKube, record.PodTerminating, pod, "uid-"+pod, record.Upper, map[string]any{"grace_seconds": 30})
}

// pauseExits adds the end of a Pod's sandbox.
func (b *test) pauseExits(atMs float64, pod string) *test {
	b.kernel(atMs, record.ProcessExited, pod, map[string]any{"comm": "pause", "container_id": "5a", "first_process": false, "signal": 9})
	b.r.Events[len(b.r.Events)-1].Subject = "pod/" + pod
	return b
}

// datagrams adds what the client's node told of an entry for a flow of datagrams from a port.
func (b *test) datagrams(atMs float64, kind record.EventKind, port string, bound record.Bound) *test {
	b.entry(atMs, kind, "udp", "web-1", map[string]any{"original_source": "198.18.0.1:" + port})
	b.r.Events[len(b.r.Events)-1].Bound = bound
	return b
}

// slept is web-1, which is deleted, whose hook takes a second, which has SIGTERM at 1.033 s, closes its listener 5 ms later and exits at 1.24 s. The client's
// node names it until 1.31 s, and sent it a connection at 1.2 s.
func slept() *test {
	b := newWatched().triggered("delete", "pod/web-1").
		rule(-8000, record.RuleAdded, "web-1").rule(-8000, record.RuleAdded, "web-2").
		listener(-8000, record.ListenerOpened, "web-1").
		datagrams(-5000, record.ConntrackNew, "5001", record.Upper).datagrams(-5000, record.ConntrackNew, "5002", record.Upper).datagrams(-4000, record.ConntrackNew, "5003", record.Upper).
		terminating(25, "web-1").
		endpoint(30, record.EndpointNotReady, "web-1", false, true).
		datagrams(900, record.ConntrackDeleted, "5003", record.Exact).
		signal(1033, "web-1", 15, "runc").
		listener(1038, record.ListenerClosed, "web-1").
		entry(1200.3, record.ConntrackNew, "tcp", "web-1", nil).
		exits(1240, "web-1", 0).
		rule(1310, record.RuleRemoved, "web-1").
		pauseExits(1400, "web-1").
		kube(1500, record.ContainerExited, "web-1").
		kube(1520, record.PodRemoved, "web-1").
		datagrams(3000, record.ConntrackDeleted, "5001", record.Exact).datagrams(3500, record.ConntrackDeleted, "5002", record.Exact)
	b.r.Workload.PreStop, b.r.Workload.PreStopSleepNs = "web: sleep 1s", new(int64(1000*ms))
	return b
}

// inMs prints a time in milliseconds.
func inMs(ns *int64) string {
	if ns == nil {
		return "?"
	}
	return fmt.Sprint(float64(*ns) / ms)
}

func (b *test) instantText(r record.Record, i record.Instant) string {
	if i.TNs == nil {
		return "no: " + i.Why
	}
	text := map[record.Bound]string{record.Upper: "≤", record.Lower: "≥"}[i.Bound] + inMs(i.TNs)
	if i.NotBeforeTNs != nil {
		text += " (≥" + inMs(i.NotBeforeTNs) + ")"
	}
	return text + " " + string(r.Events[i.Event-1].Kind)
}

func spanText(s record.Span) string {
	if s.Ns == nil {
		return "no: " + s.Why
	}
	return inMs(s.Ns) + " [" + inMs(s.AtLeastNs) + ", " + inMs(s.AtMostNs) + "]"
}

// lines tells all of a termination, a line each.
func (b *test) lines(r record.Record, t record.Termination) []string {
	at := func(i record.Instant) string { return b.instantText(r, i) }
	lines := []string{
		t.Pod + " " + t.UID + " on " + t.Node, "deleted " + at(t.Deleted),
		"hook " + t.Hook.Described, "hook started " + at(t.Hook.Started), "hook ended " + at(t.Hook.Ended),
	}
	for _, c := range t.Containers {
		killed := "?"
		if c.Killed != nil {
			killed = fmt.Sprint(*c.Killed)
		}
		code := "?"
		if c.Exit.Code != nil {
			code = fmt.Sprint(*c.Exit.Code)
		}
		lines = append(lines,
			strings.TrimRight(fmt.Sprintf("%s term %s %s %s %s", c.Name, at(c.Term.Instant), c.Term.Signal, c.Term.Sender, c.Term.Result), " "),
			strings.TrimRight(fmt.Sprintf("%s kill %s %s %s", c.Name, at(c.Kill.Instant), c.Kill.Signal, c.Kill.Sender), " "),
			fmt.Sprintf("%s exit %s, code %s %s, killed %s", c.Name, at(c.Exit.Instant), code, c.Exit.Signal, killed),
			c.Name+" before term "+spanText(c.BeforeTerm), c.Name+" term to exit "+spanText(c.TermToExit))
	}
	for _, l := range t.Listeners {
		lines = append(lines, fmt.Sprintf("port %s %d %s", l.Protocol, l.Port, at(l.Closed)))
	}
	lines = append(lines, "sandbox "+at(t.SandboxGone), "removed "+at(t.Removed),
		"grace "+inMs(t.Grace.GraceNs)+", used "+spanText(t.Grace.Used)+", left "+inMs(t.Grace.LeftNs))
	for _, p := range t.Paths {
		lines = append(lines, fmt.Sprintf("%s %s to %s: removed %s", p.Node, p.Front, p.Backend, at(p.RuleRemoved)), fmt.Sprintf("%s dead %s, failed %d", p.Node, spanText(p.DeadEndpoint), p.Failed))
	}
	for _, c := range t.Conntrack {
		lines = append(lines, fmt.Sprintf("%s %s %d entries, %d left, last %s, dead %s", c.Node, c.Protocol, c.Entries, c.Left, at(c.LastDeleted), spanText(c.DeadConntrack)))
	}
	for _, u := range t.Unseen {
		lines = append(lines, "unseen "+u)
	}
	return lines
}

// derived gives the record with what is derived of it.
func (b *test) derived(failures ...record.Failure) record.Record {
	r := b.fails(failures...)
	Attribute(&r)
	r.Terminations = Terminations(&r)
	return r
}

func TestTerminationIsToldWhole(t *testing.T) {
	b := slept()
	r := b.derived(through(record.Refused, 1200, 1200.6))
	if kind := r.Failures[0].Cause.Kind; kind != "dead-endpoint" {
		t.Fatalf("the failure is %s: %s", kind, r.Failures[0].Cause.Sentence)
	}
	if len(r.Terminations) != 1 {
		t.Fatalf("%d Pods were ended, want 1: %+v", len(r.Terminations), r.Terminations)
	}
	want := []string{
		"web-1 uid-web-1 on worker-1",
		"deleted ≤6 (≥0) trigger-accepted",
		"hook web: sleep 1s", "hook started no: no event tells when it began", "hook ended ≤1033 signal-sent",
		"web term 1033 signal-sent signal 15 runc",
		"web kill no: no SIGKILL was seen",
		"web exit 1240 process-exited, code 0 , killed false",
		"web before term 1027 [1027, 1033]", "web term to exit 207 [207, 207]",
		"port tcp 8080 1038 listener-closed",
		"sandbox 1400 process-exited", "removed ≤1520 pod-removed",
		"grace 30000, used 1234 [1234, 1240], left 28766",
		"worker-2 198.18.64.10:80 to 198.18.65.11:8080: removed ≤1310 (≥1309) rule-removed",
		"worker-2 dead 272 [271, 272], failed 1",
		"worker-2 tcp 1 entries, 1 left, last no: none was seen to be deleted, dead 58760 [58760, ?]",
		"worker-2 udp 2 entries, 0 left, last 3500 conntrack-deleted, dead 2260 [2260, 2260]",
	}
	if diff := compare.Diff(want, b.lines(r, r.Terminations[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each part without its evidence, or with other evidence: what is said then. A line that ends in … is a beginning.
func TestTerminationSaysWhatIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*test)
		says []string
	}{
		{"no agent", func(b *test) {
			b.r.Agents = nil
			b.r.Events = slices.DeleteFunc(b.r.Events, func(e record.Event) bool { return e.Source.AtNodes() })
			b.change(record.ContainerExited, func(e *record.Event) { e.Detail = map[string]any{"exit_code": 137} })
		}, []string{
			"web term no: no signal that asks it to end was seen (no agent on node worker-1)", "web exit ≤1500 container-exited, code 137 , killed true",
			"web before term no: no signal that asks…", "sandbox ≤1520 pod-removed", "grace 30000, used 1494 [?, 1500], left 28506",
			"hook ended no: the runtime's stop signal, which follows it, was not seen",
			"unseen listeners: no agent on node worker-1", "unseen rules: no agent on any node", "unseen conntrack: no agent on any node",
		}},
		{"the bundled probe's word", func(b *test) {
			b.r.Agents = nil
			b.r.Events = slices.DeleteFunc(b.r.Events, func(e record.Event) bool { return e.Source.AtNodes() })
			b.probe(300, record.ProbeHookDrain, "web-1").probe(1034, record.ProbeSigterm, "web-1").probe(1239, record.ProbeExiting, "web-1")
			b.event(1039, record.FromProbe, record.ProbeListenClosed, "web-1", "uid-web-1", record.Exact, map[string]any{"address": "[::]:8080"})
		}, []string{
			"hook started ≤300 probe-hook-drain", "web term ≤1034 probe-sigterm SIGTERM", "port tcp 8080 ≤1039 probe-listener-closed",
			"web exit ≤1500 (≥1239) container-exited, code ? , killed ?", "web before term 1028 [?, 1034]", "web term to exit 466 [205, ?]",
		}},
		{"a node that shows no signals", func(b *test) { b.without(record.SignalSent, "").blind(podNode, signals) }, []string{
			"web term no: no signal that asks it to end was seen (node worker-1 cannot show signals: the kernel has no BTF)", "web term to exit no: no signal…",
		}},
		{"a Pod that its agent never found", func(b *test) {
			b.without(record.SignalSent, "").without(record.ListenerClosed, "").without(record.ListenerOpened, "")
			b.r.Sources[1].Gaps = []record.Gap{{FromTNs: -9000 * ms, Why: "pod web-1: the agent of node worker-1 found no process of it"}}
		}, []string{
			"web term no: no signal that asks it to end was seen (the agent of node worker-1 found no process of it)", "unseen listeners: the agent of node worker-1 found no process of it",
		}},
		{"no hook", func(b *test) { b.r.Workload.PreStop = "" }, []string{"hook ", "hook started no: it has no preStop hook", "hook ended no: it has no preStop hook"}},
		{"a hook that used the grace up", func(b *test) {
			b.change(record.PodTerminating, func(e *record.Event) { e.Detail["grace_seconds"] = 1 })
		}, []string{"hook ended no: the stop signal came when the grace period was nearly used up…", "grace 1000, used 1234 [1234, 1240], left -234"}},
		{"a hook that ends the process itself", func(b *test) {
			b.without(record.SignalSent, "").signal(700, "web-1", 3, "nginx")
		}, []string{"web term 700 signal-sent signal 3 nginx", "hook ended no: the runtime's stop signal…"}},
		{"a signal of its own, sent by the runtime", func(b *test) {
			b.without(record.SignalSent, "").signal(1033, "web-1", 28, "containerd-shim")
		}, []string{"web term 1033 signal-sent signal 28 containerd-shim"}},
		{"a signal that asks for nothing", func(b *test) { b.signal(500, "web-1", 17, "").signal(600, "web-1", 23, "web") }, []string{"web term 1033 signal-sent signal 15 runc"}},
		{"SIGKILL", func(b *test) {
			b.without(record.ProcessExited, "").signal(31_000, "web-1", 9, "runc").exits(31_001, "web-1", 9)
			b.change(record.ProcessExited, func(e *record.Event) { e.Detail["signal_name"] = "SIGKILL" })
		}, []string{
			"web kill 31000 signal-sent signal 9 runc", "web exit 31001 process-exited, code ? SIGKILL, killed true", "web term to exit 29968 [29968, 29968]",
			"grace 30000, used 30995 [30995, 31001], left -995", "sandbox ≤1520 pod-removed",
		}},
		{"a kernel that kills", func(b *test) { b.signal(1239, "web-1", 9, "") }, []string{"web kill 1239 signal-sent signal 9 the kernel"}},
		{"the news of the deletion came late", func(b *test) {
			b.r.Trigger.Subject = "deployment/web"
			b.change(record.PodTerminating, func(e *record.Event) { e.TNs = 1100 * ms })
		}, []string{"deleted ≤1033 signal-sent", "web before term 0 [0, ?]"}},
		{"another's deletion", func(b *test) { b.r.Trigger.Subject = "deployment/web" }, []string{"deleted ≤25 pod-terminating", "web before term 1008 [1008, ?]"}},
		{"only the answer to the trigger", func(b *test) { b.without(record.PodTerminating, "") }, []string{"deleted ≤6 (≥0) trigger-accepted", "grace 30000, used 1234…"}},
		{"by force", func(b *test) { b.r.Config.Trigger = "force-delete"; b.pauseless() }, []string{"sandbox no: it was not seen, and the API let the Pod go at once…"}},
		{"a sandbox that was not seen", func(b *test) { b.pauseless().without(record.PodRemoved, "") }, []string{"sandbox no: it was not seen", "removed no: the API still showed it at the end"}},
		{"a removal that nobody may have heard of", func(b *test) {
			b.without(record.PodRemoved, "")
			b.r.Sources[0].Gaps = []record.Gap{{FromTNs: 1400 * ms, Why: "the API server went away"}}
		}, []string{"removed no: it was not seen, and the API's watch had a gap"}},
		{"rules that were gone before", func(b *test) { b.without(record.RuleRemoved, "").rule(900, record.RuleRemoved, "web-1") }, []string{
			"worker-2 198.18.64.10:80 to 198.18.65.11:8080: removed ≤900 (≥899) rule-removed", "worker-2 dead -138 [-139, -138], failed 0",
		}},
		{"rules that were gone, and came again, before", func(b *test) {
			b.rule(500, record.RuleRemoved, "web-1").rule(600, record.RuleAdded, "web-1")
		}, []string{"worker-2 198.18.64.10:80 to 198.18.65.11:8080: removed ≤1310 (≥1309) rule-removed"}},
		{"rules that never ceased", func(b *test) { b.without(record.RuleRemoved, "") }, []string{
			"worker-2 198.18.64.10:80 to 198.18.65.11:8080: removed no: never in the trial: the node's rules named it to the end", "worker-2 dead 58962 [58962, ?], failed 1",
		}},
		{"rules that were not watched to the end", func(b *test) { b.without(record.RuleRemoved, "").gap(record.FromDataplane, clientNode, 41, 45) }, []string{
			"worker-2 198.18.64.10:80 to 198.18.65.11:8080: removed no: it was not seen (source dataplane of node worker-2 had a gap…", "worker-2 dead no: it was not seen…",
			"unseen rules: source dataplane of node worker-2 had a gap…",
		}},
		{"no rule ever", func(b *test) {
			b.without(record.RuleRemoved, "").without(record.RuleAdded, "").blind(podNode, ruleSight).blind(clientNode, ruleSight)
		}, []string{
			"unseen rules: node worker-1 cannot show rules: the kernel has no BTF; and 1 other node likewise",
		}},
		{"an order that lies within the bounds", func(b *test) {
			b.change(record.RuleRemoved, func(e *record.Event) {
				e.TNs, e.Detail["not_before_t_ns"], e.UncertaintyNs = 1040*ms, int64(1036*ms), new(int64(1*ms))
			})
		}, []string{"worker-2 dead 2 [-3, 3], failed 0"}},
		{"a clock that could not be measured", func(b *test) { b.change(record.ListenerClosed, func(e *record.Event) { e.UncertaintyNs = nil }) }, []string{"worker-2 dead 272 [?, ?], failed 0"}},
		{"no listener's event", func(b *test) { b.without(record.ListenerClosed, "").without(record.ListenerOpened, "") }, []string{
			"worker-2 dead 70 [69, 70], failed 0", "unseen listeners: none was seen",
		}},
		{"a listener that was not seen to be closed", func(b *test) { b.without(record.ListenerClosed, "") }, []string{"port tcp 8080 no: it was not seen to be closed", "worker-2 dead 70…"}},
		{"another Pod's listener, in the namespace that has its number", func(b *test) { b.listener(2000, record.ListenerOpened, "web-1") }, []string{"port tcp 8080 1038 listener-closed"}},
		{"entries that stay", func(b *test) {
			b.r.Events = slices.DeleteFunc(b.r.Events, func(e record.Event) bool { return e.Kind == record.ConntrackDeleted && e.TNs == 3500*ms })
		}, []string{"worker-2 udp 2 entries, 1 left, last 3000 conntrack-deleted, dead 58760 [58760, ?]"}},
		{"entries that nobody watched", func(b *test) {
			b.without(record.ConntrackDeleted, "").gap(record.FromConntrack, clientNode, 2000, 2001)
		}, []string{"unseen conntrack: source conntrack of node worker-2 had a gap…"}},
		{"a deletion too near to tell", func(b *test) {
			b.change(record.ConntrackDeleted, func(e *record.Event) { e.TNs, e.Bound = 1300*ms, record.Upper })
		}, []string{"unseen-free"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := slept()
			c.edit(b)
			r := b.derived(through(record.Refused, 1200, 1200.6))
			if len(r.Terminations) != 1 {
				t.Fatalf("%d terminations", len(r.Terminations))
			}
			got := b.lines(r, r.Terminations[0])
			for _, want := range c.says {
				if want == "unseen-free" {
					if i := slices.IndexFunc(got, func(l string) bool { return strings.Contains(l, " udp ") }); i >= 0 {
						t.Errorf("it says %q of entries whose order is not known", got[i])
					}
					continue
				}
				head, open := strings.CutSuffix(want, "…")
				if !slices.ContainsFunc(got, func(l string) bool { return l == want || open && strings.HasPrefix(l, head) }) {
					t.Errorf("it does not say %q, but:\n%s", want, strings.Join(got, "\n"))
				}
			}
		})
	}
}

// pauseless takes the end of the sandbox's process away.
func (b *test) pauseless() *test {
	b.r.Events = slices.DeleteFunc(b.r.Events, func(e record.Event) bool { return e.Detail["comm"] == "pause" })
	return b
}

// To what is left of a process that exits the kernel sends SIGKILL itself, which is nobody's kill.
func TestKernelsSignalToAnExitingProcessIsNoKill(t *testing.T) {
	b := slept().signal(1239.9, "web-1", 9, "")
	b.change(record.SignalSent, func(e *record.Event) {
		if e.Detail["from_kernel"] == true {
			e.Detail["result"] = "ignored"
		}
	})
	r := b.derived()
	got := strings.Join(b.lines(r, r.Terminations[0]), "\n")
	for _, want := range []string{"web kill no: no SIGKILL was seen", "killed false"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q, but:\n%s", want, got)
		}
	}
}

// A Pod whose process is killed and started again was not deleted. Its node's rules were wrong for as long as nothing listened.
func TestKilledContainerIsNotADeletion(t *testing.T) {
	b := newWatched().triggered("kill", "container/web-1/web").
		rule(-8000, record.RuleAdded, "web-1").
		signal(10, "web-1", 9, "drainproof").exits(11, "web-1", 9).
		listener(12, record.ListenerClosed, "web-1").
		listener(900, record.ListenerOpened, "web-1").
		kube(950, record.ContainerExited, "web-1")
	r := b.derived()
	if len(r.Terminations) != 1 {
		t.Fatalf("%d Pods, want 1", len(r.Terminations))
	}
	got := strings.Join(b.lines(r, r.Terminations[0]), "\n")
	for _, want := range []string{
		"deleted no: it was not deleted", "web kill 10 signal-sent signal 9 drainproof", "killed true", "port tcp 8080 12 listener-closed", "removed no: it was not deleted",
		"worker-2 dead 888 [888, 888], failed 0", "removed no: never in the trial", "grace ?, used no: it was not deleted", "hook started no: no hook runs for it",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q, but:\n%s", want, got)
		}
	}
}

// Pods of one name, as a StatefulSet makes them, are told apart; new Pods and those that live are none; several containers each have their end.
func TestWhichPodsWereEnded(t *testing.T) {
	b := newWatched().triggered("rollout", "statefulset/web").
		terminating(100, "web-1").signal(110, "web-1", 15, "runc").exits(150, "web-1", 0).kube(400, record.PodRemoved, "web-1").
		terminating(50, "web-2")
	b.event(500, record.FromKube, record.PodAdded, "web-1", "uid-new", record.Upper, nil)
	b.event(600, record.FromKube, record.ContainerExited, "web-1", "uid-new", record.Upper, map[string]any{"exit_code": 0}) // of an init container
	for _, c := range []struct {
		atMs float64
		kind record.EventKind
		d    map[string]any
	}{
		{120, record.SignalSent, map[string]any{"first_process": true, "signal": 15, "sender_comm": "runc"}},
		{4000, record.ProcessExited, map[string]any{"first_process": true, "exit_code": 3}},
	} {
		b.kernel(c.atMs, c.kind, "web-1", c.d)
		b.r.Events[len(b.r.Events)-1].Subject = "container/web-1/mesh"
	}
	// One that had ended long before has no part in it.
	b.kernel(-5000, record.ContainerStarted, "web-2", nil)
	b.r.Events[len(b.r.Events)-1].Subject = "container/web-2/once"
	r := b.derived()
	var pods []string
	for _, x := range r.Terminations {
		pods = append(pods, x.Pod+" "+x.UID)
	}
	if diff := compare.Diff([]string{"web-2 uid-web-2", "web-1 uid-web-1"}, pods); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	got := strings.Join(b.lines(r, r.Terminations[1]), "\n")
	for _, want := range []string{
		"mesh term 120 ", "mesh exit 4000 process-exited, code 3", "mesh term to exit 3880", "web term 110 ", "web exit 150 ", "web term to exit 40 ",
		"used 3900 ", // to the exit of the last
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q, but:\n%s", want, got)
		}
	}
}

// Whatever part of whatever evidence is there: every instant names an event that has its time, every span two, nothing is both known and not; the same record gives the same, and
// is not changed. Without an event, no instant names it.
func TestTerminationsNameTheirEvents(t *testing.T) {
	makers := []func() *test{slept, dead, cutOff, killed, race, none, stale, soon}
	rapid.Check(t, func(t *rapid.T) {
		b := makers[rapid.IntRange(0, len(makers)-1).Draw(t, "scenario")]()
		other := makers[rapid.IntRange(0, len(makers)-1).Draw(t, "other")]()
		if rapid.Bool().Draw(t, "with another") {
			b.r.Events = append(b.r.Events, other.r.Events...)
		}
		if rapid.Bool().Draw(t, "triggered") && b.r.Trigger == nil {
			b.triggered(rapid.SampledFrom([]string{"delete", "kill", "rollout", "force-delete"}).Draw(t, "trigger"), "pod/web-1")
		}
		damage(t, b)
		if rapid.IntRange(0, 3).Draw(t, "no agents") == 0 {
			b.r.Agents = nil
		}
		r := b.derived(through(record.Refused, 41, 42))
		for _, p := range record.Validate(r) {
			if strings.HasPrefix(p.Where, "terminations") {
				t.Fatal(p)
			}
		}
		before := encoded(t, r)
		if again := Terminations(&r); compare.Diff(r.Terminations, again) != "" {
			t.Fatalf("the same record gives:\n%s", compare.Diff(r.Terminations, again))
		}
		if encoded(t, r) != before {
			t.Fatal("the record was changed")
		}
		if len(r.Terminations) == 0 || r.Terminations[0].Deleted.Event == 0 {
			return
		}
		// The same without that event tells of it by another, or not at all.
		gone := r.Events[r.Terminations[0].Deleted.Event-1]
		without := r
		without.Events = slices.Clone(r.Events)
		without.Events[gone.ID-1].Kind = record.Interrupted
		for _, x := range Terminations(&without) {
			if x.Deleted.Event == gone.ID {
				t.Fatalf("%s is deleted by an event that is none", x.Pod)
			}
		}
	})
}

func encoded(t *rapid.T, r record.Record) string {
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Times of one node's agent are on one clock, whatever its bound; of two, the bounds of both count, and open ends stay open.
func TestSpans(t *testing.T) {
	at := func(ms0 float64, source record.EventFrom, node string, doubtMs float64) *record.Event {
		return &record.Event{ID: int(ms0), TNs: int64(ms0 * ms), Source: source, Node: node, Bound: record.Exact, UncertaintyNs: new(int64(doubtMs * ms))}
	}
	one, two := at(10, record.FromKernel, "a", 5), at(30, record.FromConntrack, "a", 5)
	far := at(40, record.FromKernel, "b", 2)
	late := at(50, record.FromKube, "", 0)
	late.Bound = record.Upper
	unmeasured := at(60, record.FromProbe, "c", 0)
	unmeasured.UncertaintyNs = nil
	for _, c := range []struct {
		name     string
		from, to point
		want     string
	}{
		{"one clock", seen(one), seen(two), "20 [20, 20]"},
		{"two clocks", seen(one), seen(far), "30 [23, 37]"},
		{"the other order", seen(far), seen(one), "-30 [-37, -23]"},
		{"to a receipt", seen(far), seen(late), "10 [?, 12]"},
		{"from a receipt", seen(late), seen(far), "-10 [-12, ?]"},
		{"from what can only be before", atLatest(one), seen(two), "20 [20, ?]"},
		{"an unmeasured clock", seen(one), seen(unmeasured), "50 [?, ?]"},
		{"nothing at its beginning", point{why: "no event"}, seen(two), "no: no event"},
		{"nothing at all, for one reason", point{why: "no event"}, point{why: "no event"}, "no: no event"},
		{"nothing at all, for two", point{why: "no event"}, point{why: "no other"}, "no: no event; no other"},
	} {
		if got := spanText(span(c.from, c.to)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	order := []record.Span{span(seen(one), seen(far)), span(seen(far), seen(one)), span(seen(one), seen(unmeasured))}
	got := fmt.Sprint(order[0].Surely(), order[0].SurelyNone(), order[1].Surely(), order[1].SurelyNone(), order[2].Surely(), order[2].SurelyNone())
	if want := "true false false true false false"; cmp.Compare(got, want) != 0 {
		t.Errorf("surely: %s, want %s", got, want)
	}
}
