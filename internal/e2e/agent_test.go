//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
)

// events picks those of a kind that are about a Pod.
func events(rec record.Record, kind record.EventKind, podUID string) (found []record.Event) {
	for _, e := range rec.Events {
		if e.Kind == kind && (podUID == "" || e.PodUID == podUID) {
			found = append(found, e)
		}
	}
	return found
}

// TestE2EAgent: on a local cluster a test has the nodes' evidence without being asked for it. Of each Pod that was ended the kernel told the signal,
// its sender and the exit, each node's rules told when they stopped to choose it, and nearly every failure has its cause.
func TestE2EAgent(t *testing.T) {
	dir := t.TempDir()
	lossy := app{kind: "Deployment", namespace: "e2e-agent", replicas: 2, args: []string{"--on-term", "exit"}}
	lossy.deploy(t)
	out := filepath.Join(dir, "rollout")
	do(t, testArgs(lossy.namespace, "deploy/web", "--rate", "200", "--agent", "required", "--out", out)...).check(t, 1, nil)
	rec := readRecord(t, out)
	if len(rec.Agents) != 3 {
		t.Fatalf("agents of %d nodes, want 3: %+v", len(rec.Agents), rec.Agents)
	}
	for _, a := range rec.Agents {
		if a.Ended != "" || len(a.Lost) != 0 || a.CPUNs == nil {
			t.Errorf("node %s: ended %q, lost %v", a.Node, a.Ended, a.Lost)
		}
		for _, s := range a.Sights {
			if !s.Seen {
				t.Logf("node %s does not see %s: %s", a.Node, s.Name, s.Why)
			}
		}
	}
	for _, p := range rec.Workload.Pods {
		for _, kind := range []record.EventKind{record.SignalSent, record.ProcessExited, record.ListenerClosed} {
			if len(events(rec, kind, p.UID)) == 0 {
				t.Errorf("no %s of pod %s", kind, p.Name)
			}
		}
		signals := events(rec, record.SignalSent, p.UID)
		if !slices.ContainsFunc(signals, func(e record.Event) bool {
			return e.Detail["signal_name"] == "SIGTERM" && e.Detail["first_process"] == true && e.Subject == "container/"+p.Name+"/web" && e.Detail["sender_comm"] != "" && e.TNs > 0
		}) {
			t.Errorf("no SIGTERM to the first process of pod %s after the trigger: %+v", p.Name, signals)
		}
		nodes := map[string]bool{}
		for _, e := range events(rec, record.RuleRemoved, p.UID) {
			nodes[e.Node] = true
		}
		if len(nodes) != 3 {
			t.Errorf("rules of %d nodes stopped to choose pod %s, want 3", len(nodes), p.Name)
		}
	}
	attributed, kinds := 0, map[string]int{}
	for _, f := range rec.FailuresFrom() {
		kinds[f.Cause.Kind]++
		if f.Cause.Kind != "unattributed" {
			attributed++
			if len(f.Cause.Evidence) == 0 {
				t.Errorf("cause %s without evidence: %s", f.Cause.Kind, f.Cause.Sentence)
			}
		} else {
			t.Logf("%s", f.Cause.Sentence)
		}
	}
	if n := len(rec.FailuresFrom()); n == 0 || attributed*10 < n*9 {
		t.Errorf("%d of %d failures attributed: %v", attributed, n, kinds)
	}
	t.Logf("causes: %v", kinds)
	howTheyEnded(t, rec)
}

// howTheyEnded holds what a test of a workload with agents derives of its Pods: in its order, each step by the kernel's word, each node's rules against
// the listener that they led to, and every dead endpoint's requests at one of them.
func howTheyEnded(t *testing.T, rec record.Record) {
	t.Helper()
	dead, lost := 0, 0
	for _, f := range rec.Failures {
		if f.Cause.Kind == "dead-endpoint" {
			lost++
		}
	}
	if len(rec.Terminations) != len(rec.Workload.Pods) {
		t.Errorf("%d terminations of %d Pods", len(rec.Terminations), len(rec.Workload.Pods))
	}
	for _, x := range rec.Terminations {
		if len(x.Containers) != 1 || x.Containers[0].Exit.Code == nil || x.Containers[0].Killed == nil || *x.Containers[0].Killed || len(x.Unseen) > 0 {
			t.Errorf("%s: %+v, unseen %q", x.Pod, x.Containers, x.Unseen)
			continue
		}
		c := x.Containers[0]
		last := int64(0)
		for _, i := range []record.Instant{c.Term.Instant, c.Exit.Instant, x.SandboxGone} {
			if i.TNs == nil || i.Bound != record.Exact || *i.TNs < last {
				t.Errorf("%s: %+v after %d", x.Pod, i, last)
				continue
			}
			last = *i.TNs
		}
		if x.Deleted.TNs == nil || x.Removed.TNs == nil || c.Term.Signal != "SIGTERM" || c.Term.Sender == "" || x.Grace.LeftNs == nil {
			t.Errorf("%s: deleted %+v, removed %+v, term %+v, grace %+v", x.Pod, x.Deleted, x.Removed, c.Term, x.Grace)
		}
		if len(x.Paths) != 3 {
			t.Errorf("%s: rules of %d nodes, want 3: %+v", x.Pod, len(x.Paths), x.Paths)
		}
		for _, p := range x.Paths {
			dead += p.Failed
			if p.RuleRemoved.TNs == nil || p.DeadEndpoint.AtLeastNs == nil || p.DeadEndpoint.AtMostNs == nil {
				t.Errorf("%s at node %s: %+v", x.Pod, p.Node, p)
			}
		}
	}
	if dead != lost {
		t.Errorf("%d of %d requests of cause dead-endpoint are at a node", dead, lost)
	}
	for _, p := range record.Validate(rec) {
		t.Error(p)
	}
}

// TestE2EAgentLeavesNothing: install, status, uninstall; and sessions that nobody ended: an agent is killed, then the trial itself. Of none of them anything is
// left in a kernel or on a node.
func TestE2EAgentLeavesNothing(t *testing.T) {
	a := app{kind: "Deployment", namespace: "e2e-leaves", replicas: 1, args: []string{"--on-term", "exit"}}
	a.deploy(t)
	nodes := machines(t)
	before, pins, rules := loadedBPF(t), pinned(t, nodes), map[string]string{}
	for _, m := range nodes {
		rules[m.name] = m.foreignRules(t)
	}
	do(t, "agent", "install", "--cluster", clusterName).check(t, 0, nil)
	if idle := loadedBPF(t).without(before); !idle.empty() {
		t.Logf("loaded while no trial of this test runs: %+v", idle) // another's, on this kernel
	}
	var during bpf
	_, errOut := atPhases(t, map[string]func(*exec.Cmd){
		"before": func(*exec.Cmd) {
			during = loadedBPF(t).without(before)
			if n := nodes[1].killSessions(); n != 1 {
				t.Errorf("%d sessions were killed on node %s, want 1", n, nodes[1].name)
			}
		},
		"trigger": func(cmd *exec.Cmd) {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		},
	}, testArgs(a.namespace, "deploy/web", "--vantage", "host", "--trigger", "none", "--agent", "required", "--out", filepath.Join(t.TempDir(), "r"))...)
	if len(during.programs) == 0 || len(during.maps) == 0 || len(during.links) == 0 {
		t.Errorf("a trial loaded %+v\n%s", during, errOut)
	}
	during.gone(t)
	for _, m := range nodes {
		if left := m.sessions(); len(left) > 0 {
			t.Errorf("sessions go on on node %s: %v", m.name, left)
		}
		if now := m.foreignRules(t); now != rules[m.name] {
			t.Errorf("the rules of node %s were\n%s\nand are\n%s", m.name, rules[m.name], now)
		}
	}
	if now := pinned(t, nodes); !slices.Equal(now, pins) {
		t.Errorf("pinned were %v, and are %v", pins, now)
	}
	must(t, "cleanup", "--cluster", clusterName)
	r := do(t, "agent", "status", "--cluster", clusterName)
	r.check(t, 0, nil)
	if strings.Count(r.out, "ready") != 3 {
		t.Errorf("status:\n%s", r.out)
	}
	do(t, "agent", "uninstall", "--cluster", clusterName).check(t, 0, nil)
	if out, err := kubectlTry(t, clusterName, "get", "namespace", "drainproof-agent"); err == nil {
		t.Errorf("the namespace is still there:\n%s", out)
	}
	do(t, "agent", "status", "--cluster", clusterName).check(t, 3, nil)
	do(t, "agent", "uninstall", "--cluster", clusterName).check(t, 0, nil) // safe to call again
}
