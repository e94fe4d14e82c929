//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
)

// appImage loads this build's image into the shared cluster, so that the tests' own workloads can run it.
var appImage = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "drainproof-e2e-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "image.tar")
	ref, err := exec.Command(program, "image", "save", file).Output()
	if err != nil {
		return "", err
	}
	if out, err := exec.Command(program, "cluster", "load-image", file, clusterName).CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return strings.TrimSpace(string(ref)), nil
})

// app is a workload as a user would have one; the tests treat it as not theirs.
type app struct {
	kind, namespace string
	replicas        int
	// grace is the Pods' period, in seconds; 0 for 8.
	grace int
	// args of the probe, which plays the application.
	args []string
	// extra is YAML inside the Pod's spec, container inside the container's, both with their indentation.
	extra, container string
}

const appManifest = `apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: apps/v1
kind: %[2]s
metadata: {name: web, namespace: %[1]s}
spec:
%[3]s  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: %[8]d
%[4]s      containers:
        - name: web
          image: %[5]s
          imagePullPolicy: Never
          args: [%[6]s]
          ports: [{name: http, containerPort: 7080}]
          env:
            - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
          readinessProbe: {httpGet: {path: /readyz, port: 7081}, periodSeconds: 1, failureThreshold: 1}
%[7]s---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %[1]s}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
`

// deploy makes the workload in a namespace of its own and waits until it is ready.
func (a app) deploy(t *testing.T) {
	t.Helper()
	cluster(t)
	image, err := appImage()
	if err != nil {
		t.Fatal(err)
	}
	replicas, quoted := "", []string{}
	if a.kind != "DaemonSet" {
		replicas = fmt.Sprintf("  replicas: %d\n", a.replicas)
	}
	if a.kind == "StatefulSet" {
		replicas += "  serviceName: web\n"
	}
	for _, s := range append([]string{"probe", "--health=:7081"}, a.args...) {
		quoted = append(quoted, fmt.Sprintf("%q", s))
	}
	text := fmt.Sprintf(appManifest, a.namespace, a.kind, replicas, a.extra, image, strings.Join(quoted, ", "), a.container, cmp.Or(a.grace, 8))
	file := filepath.Join(t.TempDir(), "app.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = kubectlTry(t, clusterName, "delete", "namespace", a.namespace, "--wait=false") })
	kubectl(t, clusterName, "apply", "-f", file)
	kubectl(t, clusterName, "-n", a.namespace, "rollout", "status", strings.ToLower(a.kind)+"/web", "--timeout=90s")
}

// testArgs are the flags that all tests here share: short, and on the shared cluster.
func testArgs(namespace string, args ...string) []string {
	return append([]string{"test", "--cluster", clusterName, "-n", namespace, "--before", "2s", "--after", "2s", "--timeout", "90s", "--yes"}, args...)
}

const sleep3 = "          lifecycle: {preStop: {sleep: {seconds: 3}}}\n"

// TestE2ERollout: an application that exits at once loses requests in a rollout; the same one with a preStop sleep
// that covers the propagation, and that finishes what it has begun, loses none. Compared, the tool says so.
func TestE2ERollout(t *testing.T) {
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	lossy := app{kind: "Deployment", namespace: "e2e-rollout", replicas: 2, args: []string{"--on-term", "exit"}}
	lossy.deploy(t)
	junit := filepath.Join(dir, "junit.xml")
	r := do(t, testArgs(lossy.namespace, "deploy/web", "--rate", "200", "--budget", "failed=0,users=0,p99=10s", "--junit", junit, "--out", before)...)
	r.check(t, 1, nil)
	for _, w := range []string{"FAIL", "web", "rollout"} {
		if !strings.Contains(r.out, w) {
			t.Errorf("the summary does not say %q:\n%s", w, r.out)
		}
	}
	if b, err := os.ReadFile(junit); err != nil || !strings.Contains(string(b), "<failure") {
		t.Errorf("the JUnit file says no failure: %v\n%s", err, b)
	}
	rec := readRecord(t, before)
	if rec.Requests.Failed == 0 || rec.Users.Hurt == 0 || len(rec.FailuresFrom()) != int(rec.Requests.Failed) {
		t.Errorf("%d failed, %d users hurt, %d failures kept", rec.Requests.Failed, rec.Users.Hurt, len(rec.FailuresFrom()))
	}
	for _, f := range rec.Failures {
		if f.Cause == nil || f.Cause.Sentence == "" {
			t.Fatalf("a failure without a cause: %+v", f)
		}
	}
	if len(rec.Workload.Pods) != 2 || rec.Workload.Service != "web" || rec.Workload.Port != 80 {
		t.Errorf("workload %+v", rec.Workload)
	}
	// Of each Pod that was ended the API told both branches: the container's end and the endpoint's.
	for _, p := range rec.Workload.Pods {
		for _, k := range []record.EventKind{record.PodTerminating, record.EndpointNotReady, record.ContainerExited, record.EndpointRemoved} {
			if !slices.ContainsFunc(rec.Events, func(e record.Event) bool { return e.Kind == k && e.PodUID == p.UID && e.TNs >= 0 }) {
				t.Errorf("no event %s of pod %s", k, p.Name)
			}
		}
	}
	if n := len(rec.Requests.Instances); n < 4 {
		t.Errorf("%d instances answered, want two old and two new ones: %+v", n, rec.Requests.Instances)
	}

	repaired := lossy
	repaired.args, repaired.container = []string{"--on-term", "finish", "--drain-window", "4s"}, sleep3
	repaired.deploy(t)
	r = do(t, testArgs(lossy.namespace, "deploy/web", "--rate", "200", "--out", after)...)
	r.check(t, 0, nil)
	if fixed := readRecord(t, after); fixed.Requests.Failed != 0 || fixed.Verdict.Result != record.Pass {
		t.Errorf("after the fix: %d failed, %+v; %+v", fixed.Requests.Failed, fixed.Verdict, fixed.Failures)
	}
	compare := must(t, "report", "--compare", before, after)
	if !strings.Contains(compare.out, "one trial") {
		t.Errorf("a comparison of one trial each does not say what that proves:\n%s", compare.out)
	}
	noClaimLeft(t, lossy.namespace)
	noNamespaceLeft(t, clusterName)
}

// TestE2EModes: every mode of traffic is answered, and a control loses nothing.
func TestE2EModes(t *testing.T) {
	a := app{kind: "Deployment", namespace: "e2e-modes", replicas: 2, args: []string{"--on-term", "finish"}}
	a.deploy(t)
	for _, mode := range []string{"new-connection", "keep-alive", "http2", "grpc", "grpc-stream", "websocket"} {
		t.Run(mode, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "r")
			args := testArgs(a.namespace, "deploy/web", "--mode", mode, "--trigger", "none", "--rate", "50", "--out", out)
			if mode == "websocket" {
				args = append(args, "--http-path", "/ws")
			}
			do(t, args...).check(t, 0, nil)
			rec := readRecord(t, out)
			if rec.Requests.Total < 100 || rec.Requests.Outcomes[record.OK] != rec.Requests.Total {
				t.Errorf("%d requests, %v", rec.Requests.Total, rec.Requests.Outcomes)
			}
		})
	}
}

// TestE2EManyClients: a load shared by three Pods is one record, with every user once.
func TestE2EManyClients(t *testing.T) {
	a := app{kind: "Deployment", namespace: "e2e-clients", replicas: 2, args: []string{"--on-term", "finish"}, container: sleep3}
	a.deploy(t)
	out := filepath.Join(t.TempDir(), "r")
	do(t, testArgs(a.namespace, "deploy/web", "--trigger", "none", "--clients", "3", "--users", "31", "--rate", "93", "--out", out)...).check(t, 0, nil)
	rec := readRecord(t, out)
	clients := 0
	for _, c := range rec.Clocks {
		if strings.HasPrefix(c.Name, "client-") && c.OffsetNs != nil {
			clients++
		}
	}
	if clients != 3 || rec.Users.Total != 31 {
		t.Errorf("%d clients with a measured clock, %d users", clients, rec.Users.Total)
	}
	// Four seconds at 93 a second; the clients begin and end a moment apart.
	if n := rec.Requests.Total; n < 330 || n > 470 {
		t.Errorf("%d requests", n)
	}
}

// TestE2ETriggers: each trigger does what it says to each kind of workload, and everything is put back.
func TestE2ETriggers(t *testing.T) {
	for _, a := range []struct {
		app
		triggers []string
	}{
		{app{kind: "Deployment", namespace: "e2e-deploy", replicas: 2}, []string{"delete", "force-delete", "evict", "scale", "kill", "drain"}},
		{app{kind: "StatefulSet", namespace: "e2e-sts", replicas: 2}, []string{"delete", "scale", "rollout"}},
		{app{kind: "DaemonSet", namespace: "e2e-ds"}, []string{"delete", "rollout"}},
	} {
		a.args, a.container = []string{"--on-term", "finish"}, "          lifecycle: {preStop: {sleep: {seconds: 1}}}\n"
		t.Run(a.kind, func(t *testing.T) {
			a.deploy(t)
			for _, trigger := range a.triggers {
				t.Run(trigger, func(t *testing.T) {
					out := filepath.Join(t.TempDir(), "r")
					args := testArgs(a.namespace, strings.ToLower(a.kind)+"/web", "--trigger", trigger, "--rate", "50", "--budget", "failed-share=100%", "--out", out)
					if trigger == "scale" {
						args = append(args, "--count", "1")
					}
					r := do(t, args...)
					r.check(t, 0, nil)
					rec := readRecord(t, out)
					if rec.Completeness != record.Complete {
						t.Errorf("incomplete: %v", rec.Missing)
					}
					if trigger != "kill" && !has(rec, record.PodTerminating) {
						t.Error("no Pod was seen to terminate")
					}
					if trigger == "kill" && !has(rec, record.ContainerExited) {
						t.Error("no container was seen to exit")
					}
					if a.kind != "DaemonSet" {
						if got := kubectl(t, clusterName, "-n", a.namespace, "get", strings.ToLower(a.kind), "web", "-o", "jsonpath={.spec.replicas}"); got != "2" {
							t.Errorf("%s replicas afterwards, want 2", got)
						}
					}
					noCordon(t)
					noClaimLeft(t, a.namespace)
				})
			}
		})
	}
	noNamespaceLeft(t, clusterName)
}

// TestE2EBarePod: a Pod that nothing would make again is put back.
func TestE2EBarePod(t *testing.T) {
	cluster(t)
	image, err := appImage()
	if err != nil {
		t.Fatal(err)
	}
	const ns = "e2e-pod"
	t.Cleanup(func() { _, _ = kubectlTry(t, clusterName, "delete", "namespace", ns, "--wait=false") })
	kubectl(t, clusterName, "create", "namespace", ns)
	kubectl(t, clusterName, "-n", ns, "run", "web", "--image", image, "--image-pull-policy=Never", "--labels=app=web", "--port=7080", "--", "probe", "--on-term", "exit")
	kubectl(t, clusterName, "-n", ns, "expose", "pod", "web", "--port=7080")
	kubectl(t, clusterName, "-n", ns, "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
	uid := kubectl(t, clusterName, "-n", ns, "get", "pod", "web", "-o", "jsonpath={.metadata.uid}")
	out := filepath.Join(t.TempDir(), "r")
	do(t, testArgs(ns, "pod/web", "--trigger", "delete", "--wait-for", "gone", "--out", out)...).check(t, 1, nil)
	readRecord(t, out)
	kubectl(t, clusterName, "-n", ns, "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
	if now := kubectl(t, clusterName, "-n", ns, "get", "pod", "web", "-o", "jsonpath={.metadata.uid}"); now == uid || now == "" {
		t.Errorf("pod web has the UID %q, and had %q: it was not ended and made again", now, uid)
	}
}

// TestE2ETestRefuses: what cannot be tested is refused with a reason, before anything is disturbed.
func TestE2ETestRefuses(t *testing.T) {
	a := app{kind: "Deployment", namespace: "e2e-refuse", replicas: 1, args: []string{"--on-term", "finish"}}
	a.deploy(t)
	kubectl(t, clusterName, "-n", a.namespace, "create", "deployment", "unready", "--image=drainproof.invalid/none:x", "--port=80")
	kubectl(t, clusterName, "-n", a.namespace, "expose", "deployment", "unready", "--port=80")
	generation := kubectl(t, clusterName, "-n", a.namespace, "get", "deployment", "web", "-o", "jsonpath={.metadata.generation}")
	for _, c := range []struct {
		name  string
		code  int
		words []string
		args  []string
	}{
		{"no such workload", 2, []string{"wep", "web"}, []string{"deploy/wep"}},
		{"no such kind", 2, []string{"job"}, []string{"job/web"}},
		{"no such port", 2, []string{"81", "http/80"}, []string{"deploy/web", "--port", "81"}},
		{"no such Service", 2, []string{"shop", "web"}, []string{"deploy/web", "--service", "shop"}},
		{"no such Pod", 2, []string{"web-0"}, []string{"deploy/web", "--trigger", "delete", "--pod", "web-0"}},
		{"nothing is ready", 4, []string{"ready"}, []string{"deploy/unready"}},
		{"it answers 404", 4, []string{"404", "--http-path"}, []string{"deploy/web", "--http-path", "/none"}},
		{"nothing listens", 4, []string{"refused"}, []string{"deploy/web", "--url", "http://127.0.0.1:9", "--vantage", "pod"}},
		{"no such mode", 2, []string{"--mode"}, []string{"deploy/web", "--mode", "smoke"}},
		{"a budget that is none", 2, []string{"failure"}, []string{"deploy/web", "--budget", "failure=0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fails(t, c.code, c.words, testArgs(a.namespace, append(c.args, "--out", filepath.Join(t.TempDir(), "r"))...)...)
		})
	}
	if now := kubectl(t, clusterName, "-n", a.namespace, "get", "deployment", "web", "-o", "jsonpath={.metadata.generation}"); now != generation {
		t.Errorf("the workload was changed: generation %s, then %s", generation, now)
	}
	noClaimLeft(t, a.namespace)
	noNamespaceLeft(t, clusterName)
}

// TestE2EBlockedDrain: a budget that never allows an eviction ends in no verdict, and the node is as it was.
func TestE2EBlockedDrain(t *testing.T) {
	a := app{kind: "Deployment", namespace: "e2e-pdb", replicas: 1, args: []string{"--on-term", "finish"}}
	a.deploy(t)
	kubectl(t, clusterName, "-n", a.namespace, "create", "pdb", "keep-all", "--selector=app=web", "--min-available=1")
	out := filepath.Join(t.TempDir(), "r")
	r := do(t, testArgs(a.namespace, "deploy/web", "--trigger", "drain", "--timeout", "8s", "--out", out)...)
	r.check(t, 3, []string{"keep-all"})
	if rec := readRecord(t, out); rec.Verdict == nil || rec.Verdict.Result != record.Inconclusive || rec.Requests.Failed != 0 {
		t.Errorf("verdict %+v, %d failed", rec.Verdict, rec.Requests.Failed)
	}
	noCordon(t)
	noClaimLeft(t, a.namespace)
}

// TestE2EStuckRollout: a rollout that never gets ready ends in no verdict, and the old revision stands again.
func TestE2EStuckRollout(t *testing.T) {
	a := app{kind: "Deployment", namespace: "e2e-stuck", replicas: 1, args: []string{"--on-term", "finish"}}
	a.deploy(t)
	// A quota of the Pods that there are: the rollout's new one cannot be made.
	kubectl(t, clusterName, "-n", a.namespace, "create", "quota", "full", "--hard=pods=1")
	out := filepath.Join(t.TempDir(), "r")
	r := do(t, testArgs(a.namespace, "deploy/web", "--timeout", "10s", "--out", out)...)
	r.check(t, 3, []string{"quota"})
	if got := kubectl(t, clusterName, "-n", a.namespace, "rollout", "status", "deployment/web", "--timeout=30s"); !strings.Contains(got, "successfully") {
		t.Errorf("the workload is not as it was: %s", got)
	}
	noClaimLeft(t, a.namespace)
}

// TestE2ETestInterrupted: Ctrl-C half way puts everything back; a kill -9 leaves what cleanup then puts back.
func TestE2ETestInterrupted(t *testing.T) {
	// Its Pods stay for their whole grace period: so long the workload is scaled to zero, for the test to see it.
	a := app{kind: "Deployment", namespace: "e2e-cut", replicas: 2, args: []string{"--on-term", "ignore"}}
	a.deploy(t)
	testkit.Require(t, testkit.Linux)
	replicas := func() string {
		return kubectl(t, clusterName, "-n", a.namespace, "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}")
	}
	start := func(t *testing.T, out string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, program, testArgs(a.namespace, "deploy/web", "--trigger", "scale", "--after", "60s", "--out", out)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); replicas() != "0"; time.Sleep(200 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the trigger was not sent within a minute")
			}
		}
		return cmd
	}
	t.Run("two at once", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "r")
		first := start(t, out)
		fails(t, 4, []string{"cleanup"}, testArgs(a.namespace, "deploy/web", "--trigger", "none", "--out", filepath.Join(t.TempDir(), "second"))...)
		if err := first.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := first.Wait(); err == nil || first.ProcessState.ExitCode() != 4 {
			t.Errorf("interrupted: %v", err)
		}
		if got := replicas(); got != "2" {
			t.Errorf("%s replicas after Ctrl-C", got)
		}
		if rec := readRecord(t, out); rec.Completeness != record.Incomplete || !has(rec, record.Interrupted) {
			t.Errorf("the record does not say that it was interrupted: %v", rec.Missing)
		}
		noClaimLeft(t, a.namespace)
	})
	t.Run("kill -9", func(t *testing.T) {
		cmd := start(t, filepath.Join(t.TempDir(), "r"))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if dry := must(t, "cleanup", "--cluster", clusterName, "--dry-run"); !strings.Contains(dry.out, a.namespace) {
			t.Errorf("the dry run does not name the workload:\n%s", dry.out)
		}
		must(t, "cleanup", "--cluster", clusterName)
		if got := replicas(); got != "2" {
			t.Errorf("%s replicas after the clean-up", got)
		}
		noClaimLeft(t, a.namespace)
		noNamespaceLeft(t, clusterName)
	})
}

// TestE2ENoRights: an account that may not delete is told what it lacks, and nothing is touched.
func TestE2ENoRights(t *testing.T) {
	a := app{kind: "Deployment", namespace: "e2e-rights", replicas: 1, args: []string{"--on-term", "finish"}}
	a.deploy(t)
	kubectl(t, clusterName, "-n", a.namespace, "create", "serviceaccount", "reader")
	kubectl(t, clusterName, "create", "clusterrolebinding", "e2e-reader", "--clusterrole=view", "--serviceaccount="+a.namespace+":reader")
	t.Cleanup(func() { _, _ = kubectlTry(t, clusterName, "delete", "clusterrolebinding", "e2e-reader") })
	token := strings.TrimSpace(kubectl(t, clusterName, "-n", a.namespace, "create", "token", "reader"))
	admin := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(admin, []byte(must(t, "cluster", "kubeconfig", clusterName).out), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, clusterName, "--kubeconfig", admin, "config", "set-credentials", "reader", "--token", token)
	kubectl(t, clusterName, "--kubeconfig", admin, "config", "set-context", "production", "--cluster", clusterOf(t, admin), "--user", "reader")
	fails(t, 2, []string{"production", "--yes"}, "test", "--kubeconfig", admin, "--context", "production", "-n", a.namespace, "deploy/web", "--trigger", "delete")
	fails(t, 4, []string{"delete pods"}, "test", "--kubeconfig", admin, "--context", "production", "-n", a.namespace, "deploy/web", "--trigger", "delete", "--yes",
		"--out", filepath.Join(t.TempDir(), "r"))
}

// clusterOf reads the name of a kubeconfig's first cluster.
func clusterOf(t *testing.T, kubeconfig string) string {
	t.Helper()
	return strings.TrimSpace(kubectl(t, clusterName, "--kubeconfig", kubeconfig, "config", "view", "-o", "jsonpath={.clusters[0].name}"))
}

// noCordon demands that every node takes Pods.
func noCordon(t *testing.T) {
	t.Helper()
	out := kubectl(t, clusterName, "get", "nodes", "-o", "jsonpath={range .items[*]}{.metadata.name}={.spec.unschedulable} {end}")
	for _, n := range strings.Fields(out) {
		if strings.HasSuffix(n, "=true") {
			t.Errorf("node %s is still cordoned", n)
		}
	}
}

// noClaimLeft demands that no workload carries a test's mark.
func noClaimLeft(t *testing.T, namespace string) {
	t.Helper()
	out := kubectl(t, clusterName, "-n", namespace, "get", "deployments,statefulsets,daemonsets,pods", "-l", "drainproof.dev/test", "-o", "name")
	if left := strings.Fields(out); slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, "/") }) {
		t.Errorf("still marked: %s", out)
	}
}
