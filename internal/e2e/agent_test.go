//go:build e2e

package e2e

import (
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
}

// TestE2EAgentLeavesNothing: install, status, uninstall.
func TestE2EAgentLeavesNothing(t *testing.T) {
	cluster(t)
	do(t, "agent", "install", "--cluster", clusterName).check(t, 0, nil)
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
