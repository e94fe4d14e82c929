//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/record"
)

// onEachWorker keeps the Pods of a revision on nodes of their own.
const onEachWorker = `      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: DoNotSchedule
          nodeTaintsPolicy: Honor
          labelSelector: {matchLabels: {app: web}}
          matchLabelKeys: [pod-template-hash]
`

// podOn gives the workload's Pod on a node.
func podOn(t *testing.T, namespace, node string) string {
	t.Helper()
	out := kubectl(t, clusterName, "-n", namespace, "get", "pods", "-l", "app=web", "--field-selector", "spec.nodeName="+node, "-o", "jsonpath={.items[*].metadata.name}")
	names := strings.Fields(out)
	if len(names) != 1 {
		t.Fatalf("pods on node %s: %q, want one", node, out)
	}
	return names[0]
}

// agentOf gives what a record says of a node's agent.
func agentOf(t *testing.T, rec record.Record, node string) record.Agent {
	t.Helper()
	for _, a := range rec.Agents {
		if a.Node == node {
			return a
		}
	}
	t.Fatalf("the record has no agent of node %s", node)
	return record.Agent{}
}

// lostOn gives the failures from the trigger on that were sent to a Pod on a node, as the record tells.
func lostOn(rec record.Record, node string) (list []record.Failure) {
	for _, f := range rec.FailuresFrom() {
		if explain.Backend(&rec, f).Node == node {
			list = append(list, f)
		}
	}
	return list
}

// lastWordOf gives from when on the kernel of a node was not heard any more.
func lastWordOf(rec record.Record, node string) int64 {
	from := int64(math.MaxInt64)
	for _, s := range rec.Sources {
		for _, g := range s.Gaps {
			if s.Name == string(record.FromKernel) && strings.HasPrefix(g.Why, "node "+node+": ") {
				from = min(from, g.FromTNs)
			}
		}
	}
	return from
}

// attributedMostly demands that nine in ten failures have a cause of those kinds, and the others none.
func attributedMostly(t *testing.T, failures []record.Failure, kinds ...string) {
	t.Helper()
	counts, of := map[string]int{}, 0
	for _, f := range failures {
		counts[f.Cause.Kind]++
		switch {
		case slices.Contains(kinds, f.Cause.Kind):
			of++
			if len(f.Cause.Evidence) == 0 && f.Cause.Kind != "proxy-error" && f.Cause.Kind != "client-limit" {
				t.Errorf("cause %s without evidence: %s", f.Cause.Kind, f.Cause.Sentence)
			}
		case f.Cause.Kind != "unattributed":
			t.Errorf("cause %s, want %v: %s", f.Cause.Kind, kinds, f.Cause.Sentence)
		default:
			t.Logf("%s", f.Cause.Sentence)
		}
	}
	if len(failures) == 0 || of*10 < len(failures)*9 {
		t.Errorf("%d of %d failures are %v: %v", of, len(failures), kinds, counts)
	}
	t.Logf("causes: %v", counts)
}

// endsAs demands that a trial measured all, and ended with an exit code. Where this machine was so busy that the client itself was late, nobody may be blamed: that
// must be all that it lacks, and its verdict none.
func endsAs(t *testing.T, rec record.Record, want, code int, errOut string) {
	t.Helper()
	lacks := 0
	if rec.Client != nil && rec.Client.FellBehind {
		t.Logf("the client fell behind: %v", rec.Missing)
		want, lacks = 3, 1
	}
	if code != want || len(rec.Missing) != lacks {
		t.Errorf("exit code %d, want %d; the record lacks %v\n%s", code, want, rec.Missing, errOut)
	}
}

// unattributedFor counts the failures that have no cause for a reason which names the node and says why.
func unattributedFor(failures []record.Failure, node, why string) (n int) {
	for _, f := range failures {
		if f.Cause.Kind == "unattributed" && strings.Contains(f.Cause.Sentence, "node "+node) && strings.Contains(f.Cause.Sentence, why) {
			n++
		}
	}
	return n
}

// rulesAreSteady demands that no node's rules were told to have lost a Pod that lived, or to have gained or lost one twice in a row. Those that were ended may
// come back: while no other Pod is ready, kube-proxy sends to them again.
func rulesAreSteady(t *testing.T, rec record.Record) {
	t.Helper()
	ended := map[string]bool{}
	for _, e := range rec.Events {
		if e.Kind == record.PodTerminating {
			ended[e.PodUID] = true
		}
	}
	type named struct{ node, front, backend, pod string }
	last := map[named]record.EventKind{}
	for _, e := range rec.Events {
		if e.Kind != record.RuleAdded && e.Kind != record.RuleRemoved {
			continue
		}
		k := named{e.Node, fmt.Sprint(e.Detail["front"]), fmt.Sprint(e.Detail["backend"]), e.PodUID}
		if before, known := last[k]; before == e.Kind || known && !ended[e.PodUID] || !known && e.Kind == record.RuleRemoved {
			t.Errorf("%s of %s on node %s at %v, after %q", e.Kind, e.Subject, e.Node, time.Duration(e.TNs), before)
		}
		last[k] = e.Kind
	}
	if len(last) == 0 {
		t.Error("no node's rules were seen")
	}
}

// everyEventIsItsPods demands that what kernels told of Pods is of the Pods that the API put on that node.
func everyEventIsItsPods(t *testing.T, rec record.Record) {
	t.Helper()
	type pod struct{ name, node string }
	pods := map[string]pod{}
	for _, p := range rec.Workload.Pods {
		pods[p.UID] = pod{p.Name, p.Node}
	}
	for _, e := range rec.Events {
		if name := record.PodOf(e.Subject); e.Source == record.FromKube && e.PodUID != "" && name != "" && e.Node != "" {
			pods[e.PodUID] = pod{name, e.Node}
		}
	}
	for _, e := range rec.Events {
		if e.Source != record.FromKernel || e.PodUID == "" {
			continue
		}
		if got := (pod{record.PodOf(e.Subject), e.Node}); got != pods[e.PodUID] {
			t.Errorf("%s of %s: told of %+v, and the API of %+v", e.Kind, e.Subject, got, pods[e.PodUID])
		}
	}
}

// briefPods are of the workload as far as their label goes: one whose container ends at once, and one that is deleted as soon as it was made. Neither is ever
// ready.
const briefPods = `apiVersion: v1
kind: Pod
metadata: {name: brief, namespace: %[1]s, labels: {app: web}}
spec:
  nodeName: %[2]s
  restartPolicy: Never
  containers:
    - {name: web, image: %[3]s, imagePullPolicy: Never, args: [version], readinessProbe: {tcpSocket: {port: 9}}}
---
apiVersion: v1
kind: Pod
metadata: {name: fleeting, namespace: %[1]s, labels: {app: web}}
spec:
  nodeName: %[2]s
  restartPolicy: Never
  containers:
    - {name: web, image: %[3]s, imagePullPolicy: Never, args: [probe], readinessProbe: {tcpSocket: {port: 9}}}
`

// TestE2EAgentFaults: whatever happens to agents, their nodes and what they watch, a trial ends as it would have, its record says what was missed, what needed
// it has no cause, and all else has. The client is this machine, so that the control plane's rules choose for it.
func TestE2EAgentFaults(t *testing.T) {
	a := app{kind: "Deployment", namespace: "e2e-faults", replicas: 2, grace: 4, args: []string{"--on-term", "exit"}, extra: onEachWorker}
	a.deploy(t)
	image, err := appImage()
	if err != nil {
		t.Fatal(err)
	}
	nodes := machines(t)
	chooser, ill, sound := nodes[0], nodes[1], nodes[2]
	args := func(more ...string) []string {
		return append([]string{
			"test", "deploy/web", "--cluster", clusterName, "-n", a.namespace, "--yes", "--vantage", "host", "--agent", "required",
			"--rate", "200", "--before", "1s", "--after", "1s", "--timeout", "60s",
		}, more...)
	}

	t.Run("killed agent with restarted proxy and brief Pods", func(t *testing.T) {
		out := filepath.Join(t.ArtifactDir(), "r")
		kubectl := kubectlOf(t, clusterName)
		manifest := filepath.Join(t.TempDir(), "brief.yaml")
		if err := os.WriteFile(manifest, fmt.Appendf(nil, briefPods, a.namespace, sound.name, image), 0o644); err != nil {
			t.Fatal(err)
		}
		var behind sync.WaitGroup
		code, errOut := atPhases(t, map[string]func(*exec.Cmd){
			"attach": func(*exec.Cmd) {
				behind.Go(func() {
					if out, err := kubectl("apply", "-f", manifest); err != nil {
						t.Errorf("making brief Pods: %v\n%s", err, out)
					}
				})
			},
			"before": func(*exec.Cmd) { // the API is being watched
				behind.Wait()
				if out, err := kubectl("-n", a.namespace, "delete", "pod", "fleeting", "--grace-period=0", "--force"); err != nil {
					t.Errorf("deleting one of them: %v\n%s", err, out)
				}
			},
			"trigger": func(*exec.Cmd) { // the Pods are being deleted: on a fast machine they have exited before the next phase is told
				if n := ill.killSessions(); n != 1 {
					t.Errorf("%d sessions were killed on node %s, want 1", n, ill.name)
				}
			},
			"observe": func(*exec.Cmd) {
				if err := syscall.Kill(chooser.proxy, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
				behind.Go(func() {
					if err := repair(); err != nil {
						t.Error(err)
					}
				})
			},
		}, args("--trigger", "delete", "--count", "2", "--out", out)...)
		behind.Wait()
		rec := readRecord(t, out)
		endsAs(t, rec, 1, code, errOut)
		why := agentOf(t, rec, ill.name).Ended
		if !strings.HasPrefix(why, "its session ended early: ") || !strings.HasSuffix(why, "exit code 137") || agentOf(t, rec, chooser.name).Ended != "" || agentOf(t, rec, sound.name).Ended != "" {
			t.Errorf("agents %+v", rec.Agents)
		}
		if !slices.ContainsFunc(rec.Sources, func(s record.Source) bool {
			return s.Name == string(record.FromKernel) && slices.ContainsFunc(s.Gaps, func(g record.Gap) bool { return g.Why == "node "+ill.name+": "+why })
		}) {
			t.Errorf("no source says from when on node %s was not heard: %+v", ill.name, rec.Sources)
		}
		if n := unattributedFor(lostOn(rec, ill.name), ill.name, why); n == 0 {
			t.Errorf("no failure on node %s lacks a cause for want of its agent", ill.name)
		}
		attributedMostly(t, lostOn(rec, sound.name), "dead-endpoint", "listener-closed-early", "cut-by-exit")
		rulesAreSteady(t, rec)
		everyEventIsItsPods(t, rec)
		kubectl("-n", a.namespace, "delete", "pod", "brief", "--ignore-not-found")
		for _, pod := range []string{"brief", "fleeting"} {
			known := slices.ContainsFunc(rec.Events, func(e record.Event) bool { return record.PodOf(e.Subject) == pod })
			if !known {
				t.Errorf("the record does not know pod %s", pod)
			}
		}
	})

	// Two hundred connections end at one instant, and the buffer between kernel and agent has room for some twenty of their ends.
	t.Run("overrun", func(t *testing.T) {
		const agents = "drainproof-agent"
		ring := func(value string) {
			kubectl(t, clusterName, "-n", agents, "set", "env", "daemonset/agent", "DRAINPROOF_AGENT_RING_BYTES"+value)
			kubectl(t, clusterName, "-n", agents, "rollout", "status", "daemonset/agent", "--timeout=60s")
		}
		ring("=4096")
		defer ring("-")
		out := filepath.Join(t.ArtifactDir(), "r")
		r := do(t, args("--trigger", "delete", "--pod", podOn(t, a.namespace, sound.name), "--mode", "websocket", "--http-path", "/ws", "--users", "400",
			"--budget", "failed-share=100%", "--out", out)...)
		rec := readRecord(t, out)
		endsAs(t, rec, 0, r.code, r.errOut)
		if lost := agentOf(t, rec, sound.name).Lost; lost["sockets"]+lost["resets"] == 0 {
			t.Errorf("node %s lost %v, and should have lost ends of connections", sound.name, lost)
		}
		failures := lostOn(rec, sound.name)
		if n := unattributedFor(failures, sound.name, "lost"); n == 0 {
			t.Errorf("of %d failures none lacks a cause for what the kernel lost", len(failures))
		}
		for _, f := range failures {
			if f.Cause.Kind != "cut-by-exit" {
				continue
			}
			if !slices.ContainsFunc(f.Cause.Evidence, func(id int) bool {
				e := rec.Events[id-1]
				return (e.Kind == record.SocketClosed || e.Kind == record.ResetSent) && e.Detail["remote"] != nil
			}) {
				t.Errorf("cut-by-exit without the end of its connection: %s", f.Cause.Sentence)
			}
		}
	})

	// A node goes down, with one Pod and its agent, while the other Pod is deleted, and comes up again.
	t.Run("rebooted node", func(t *testing.T) {
		out := filepath.Join(t.ArtifactDir(), "r")
		var behind sync.WaitGroup
		code, errOut := atPhases(t, map[string]func(*exec.Cmd){
			"observe": func(*exec.Cmd) {
				behind.Go(func() {
					if err := ill.powerOff(); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second)
					if err := ill.powerOn(); err != nil {
						t.Error(err)
					}
					if err := repair(); err != nil {
						t.Error(err)
					}
				})
			},
		}, args("--trigger", "delete", "--pod", podOn(t, a.namespace, sound.name), "--wait-for", "gone", "--after", "2s", "--connect-timeout", "1s",
			"--first-byte-timeout", "1s", "--out", out)...)
		behind.Wait()
		rec := readRecord(t, out)
		endsAs(t, rec, 1, code, errOut)
		why := agentOf(t, rec, ill.name).Ended
		if why == "" || agentOf(t, rec, chooser.name).Ended != "" || agentOf(t, rec, sound.name).Ended != "" {
			t.Errorf("agents %+v", rec.Agents)
		}
		t.Logf("the agent of node %s: %s", ill.name, why)
		failures := lostOn(rec, ill.name)
		if n := unattributedFor(failures, ill.name, why); n == 0 {
			t.Errorf("of %d failures on node %s none lacks a cause for want of its agent", len(failures), ill.name)
		}
		// Where the trial lasts until the kubelet tells of it, the API's word proves the rest. That agent's cannot.
		last := lastWordOf(rec, ill.name)
		for _, f := range failures {
			for _, id := range f.Cause.Evidence {
				if e := rec.Events[id-1]; f.Cause.Kind != "unattributed" && e.Node == ill.name && e.Source == record.FromKernel && e.TNs > last {
					t.Errorf("%s by event %d of an agent that had ended: %s", f.Cause.Kind, id, f.Cause.Sentence)
				}
			}
		}
		attributedMostly(t, lostOn(rec, sound.name), "dead-endpoint", "listener-closed-early", "cut-by-exit")
		kubectl(t, clusterName, "wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
		kubectl(t, clusterName, "-n", a.namespace, "rollout", "status", "deployment/web", "--timeout=60s")
	})
	noClaimLeft(t, a.namespace)
	noNamespaceLeft(t, clusterName)
}
