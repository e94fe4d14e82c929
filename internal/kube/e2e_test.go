//go:build e2e

package kube

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/trigger"
)

// These tests need a real API server and its controllers ($KUBECONFIG); those
// that need a node say so.

func realCluster(t *testing.T) *Cluster {
	t.Helper()
	testkit.Require(t, testkit.Env("KUBECONFIG"))
	path := os.Getenv("KUBECONFIG")
	c, err := Connect(t.Context(), Options{KubeconfigPath: path, UserAgent: "drainproof/e2e"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ownTrial makes a namespace for one test and puts it away afterwards.
func ownTrial(t *testing.T, c *Cluster, trial string) string {
	t.Helper()
	name := "drainproof-" + trial
	if _, err := c.EnsureNamespace(t.Context(), name, trial, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // t's own has ended
		defer cancel()
		if err := c.Undo(ctx, name, trial); err != nil {
			t.Error(err)
		}
		if _, err := c.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace is still there: %v", err)
		}
	})
	return name
}

func e2eSpec(ns, trial string) ProbeSpec {
	s := spec
	s.Namespace, s.Trial, s.Image = ns, trial, "drainproof.invalid/none:x"
	return s
}

func TestE2EEnvironmentAndRights(t *testing.T) {
	c := realCluster(t)
	env, err := c.Environment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(env.Kubernetes, "v1.") || len(env.ClusterUID) != 36 || env.ProxyModeFrom == "" {
		t.Errorf("environment %+v", env)
	}
	for _, trig := range []string{"delete", "evict", "scale", "none"} {
		missing, err := c.Missing(t.Context(), "drainproof-none", trig)
		if err != nil || len(missing) != 0 {
			t.Errorf("%s: missing %q, %v", trig, missing, err)
		}
	}
}

func TestE2EQuotaIsNamedAtOnce(t *testing.T) {
	c := realCluster(t)
	ns := ownTrial(t, c, "e2e-quota")
	_, err := c.client.CoreV1().ResourceQuotas(ns).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "no-pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.DeployProbe(t.Context(), e2eSpec(ns, "e2e-quota"), time.Minute)
	if fault.CodeOf(err) != fault.Unmeasurable || err == nil || !strings.Contains(err.Error(), "no-pods") {
		t.Errorf("error %v, want one that names the quota", err)
	}
}

// Pod Security restricted must admit both Pods: the API server says so without a node.
func TestE2EPodsAreAdmittedAndWatched(t *testing.T) {
	c := realCluster(t)
	const trial = "e2e-watch"
	ns := ownTrial(t, c, trial)
	facts := make(chan Fact, 100)
	stop, err := c.Watch(t.Context(), WatchSpec{
		Namespace: ns, Service: NameProbe, Deployment: NameProbe, PodSelector: LabelManaged + "=" + trial + "," + LabelApp + "=" + NameProbe,
		OnFact:   func(f Fact) { facts <- f },
		OnHealth: func(h WatchHealth) { t.Errorf("gap: %+v", h) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, err = c.DeployProbe(t.Context(), e2eSpec(ns, trial), 5*time.Second)
	if fault.CodeOf(err) != fault.Unmeasurable {
		t.Errorf("a probe without an image: %v", err)
	}
	t.Logf("deploy says: %v; next: %s", err, fault.NextOf(err))
	first := awaitFact(t, facts, "pod-added")
	if _, err := c.client.CoreV1().Pods(ns).Create(t.Context(), workerPod(WorkerSpec{Namespace: ns, Trial: trial, Image: "drainproof.invalid/none:x"}), metav1.CreateOptions{}); err != nil {
		t.Errorf("the worker is not admitted: %v", err)
	}
	name := strings.TrimPrefix(first.Subject, "pod/")
	target := trigger.Target{Namespace: ns, Pod: name, PodUID: first.PodUID, Deployment: NameProbe}

	wrong := target
	wrong.PodUID = "00000000-0000-0000-0000-000000000000"
	for _, k := range []trigger.Kind{trigger.Delete, trigger.Evict} {
		tr, err := trigger.New(t.Context(), k, c.Clientset(), wrong)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Fire(t.Context()); err == nil || !strings.Contains(err.Error(), "another object") {
			t.Errorf("%s with another UID: %v", k, err)
		}
	}
	fire(t, c, trigger.Evict, target)
	if gone := awaitFact(t, facts, "pod-removed"); gone.PodUID != first.PodUID {
		t.Errorf("removed %s, want %s", gone.PodUID, first.PodUID)
	}
	scale := fire(t, c, trigger.Scale, target)
	if f := awaitFact(t, facts, "workload-scaled"); f.Detail["spec_replicas"] != int32(0) {
		t.Errorf("scaled to %v", f.Detail)
	}
	if err := scale.Undo(t.Context()); err != nil {
		t.Error(err)
	}
	if f := awaitFact(t, facts, "workload-scaled"); f.Detail["spec_replicas"] != int32(1) {
		t.Errorf("put back to %v", f.Detail)
	}
}

func TestE2EBudgetIsNamed(t *testing.T) {
	c := realCluster(t)
	const trial = "e2e-budget"
	ns := ownTrial(t, c, trial)
	labels := labelsOf(trial, NameWorker)
	unplaced := workerPod(WorkerSpec{Namespace: ns, Trial: trial, Image: "drainproof.invalid/none:x"})
	// No scheduler serves this name: nothing else writes the Pod's status beside the test.
	unplaced.Spec.SchedulerName = "drainproof.dev/none"
	p, err := c.client.CoreV1().Pods(ns).Create(t.Context(), unplaced, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A budget protects Pods that run: the test plays the kubelet of a Pod that no node has.
	status := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	if _, err := c.client.CoreV1().Pods(ns).Patch(t.Context(), p.Name, types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	_, err = c.client.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "keep-all"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trigger.New(t.Context(), trigger.Evict, c.Clientset(), trigger.Target{Namespace: ns, Pod: p.Name, PodUID: string(p.UID)})
	if err != nil {
		t.Fatal(err)
	}
	// Until the controller has seen the budget, the server says "later".
	for deadline := time.Now().Add(30 * time.Second); ; {
		err = tr.Fire(t.Context())
		if err == nil || !strings.Contains(err.Error(), "put off") || time.Now().After(deadline) {
			break
		}
		sleep(t.Context(), pollEvery)
	}
	if err == nil || !strings.Contains(err.Error(), "keep-all") {
		t.Errorf("error %v, want one that names the budget", err)
	}
}

func fire(t *testing.T, c *Cluster, k trigger.Kind, target trigger.Target) trigger.Trigger {
	t.Helper()
	tr, err := trigger.New(t.Context(), k, c.Clientset(), target)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tr
}

func awaitFact(t *testing.T, facts <-chan Fact, kind string) Fact {
	t.Helper()
	for {
		select {
		case f := <-facts:
			t.Logf("%s %s %v", f.Kind, f.Subject, f.Detail)
			if string(f.Kind) == kind {
				return f
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("no %s", kind)
		}
	}
}

// The whole way with a real kubelet: needs nodes that have $DRAINPROOF_IMAGE.
func TestE2EProbeAndWorkerOnNodes(t *testing.T) {
	c := realCluster(t)
	testkit.Require(t, testkit.Env("DRAINPROOF_IMAGE"))
	image := os.Getenv("DRAINPROOF_IMAGE")
	const trial = "e2e-nodes"
	ns := ownTrial(t, c, trial)
	s := e2eSpec(ns, trial)
	s.Image, s.NodePort, s.PreStopSleep, s.Grace = image, true, 0, 6*time.Second
	s.Args = []string{"probe", "--on-term", "exit"}
	p, err := c.DeployProbe(t.Context(), s, time.Minute)
	if err != nil {
		t.Fatalf("%v; next: %s", err, fault.NextOf(err))
	}
	t.Logf("%+v", p)
	if p.Pod.IP == "" || p.Pod.Node == "" || p.Pod.NodeIP == "" || p.Pod.ImageID == "" || p.ClusterIP == "" || p.NodePortTCP == 0 || p.NodePortUDP == 0 {
		t.Errorf("something is missing in %+v", p)
	}
	w, err := c.DeployWorker(t.Context(), WorkerSpec{Namespace: ns, Trial: trial, Image: image, Args: []string{"worker", "--idle", "10m"}, AwayFrom: p.Pod.Node}, time.Minute)
	if err != nil {
		t.Fatalf("%v; next: %s", err, fault.NextOf(err))
	}
	if w.Node == p.Pod.Node && schedulable(t, c) > 1 {
		t.Errorf("the worker is on the probe's node %s", w.Node)
	}
	var out, errs strings.Builder
	if err := c.Exec(t.Context(), ns, w.Name, []string{"/drainproof", "version"}, nil, &out, &errs); err != nil || out.Len() == 0 {
		t.Errorf("exec: %q, %q, %v", out.String(), errs.String(), err)
	}
	if err := c.Exec(t.Context(), ns, w.Name, []string{"/drainproof", "no-such-command"}, nil, &out, &errs); err == nil {
		t.Error("exec of a failing command: no error")
	}

	lines := make(chan string, 100)
	followed := make(chan error, 1)
	go func() {
		followed <- c.FollowLog(t.Context(), ns, p.Pod.Name, func(b []byte) { lines <- string(b) })
	}()
	facts := make(chan Fact, 100)
	stop, err := c.Watch(t.Context(), WatchSpec{
		Namespace: ns, Service: p.Service, Deployment: p.Deployment, PodSelector: LabelManaged + "=" + trial + "," + LabelApp + "=" + NameProbe,
		OnFact: func(f Fact) { facts <- f }, OnHealth: func(h WatchHealth) { t.Errorf("gap: %+v", h) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if line := <-lines; !strings.Contains(line, `"started"`) {
		t.Errorf("the log begins %q", line)
	}
	fire(t, c, trigger.Delete, trigger.Target{Namespace: ns, Pod: p.Pod.Name, PodUID: p.Pod.UID, Deployment: p.Deployment})
	seen := map[string]bool{}
	for !seen["pod-removed"] || !seen["container-exited"] || !seen["endpoint-removed"] || !seen["kubelet-killing"] {
		select {
		case f := <-facts:
			t.Logf("%s %s %v", f.Kind, f.Subject, f.Detail)
			if f.PodUID == p.Pod.UID {
				seen[string(f.Kind)] = true
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("of the deleted Pod only %v", seen)
		}
	}
	if err := <-followed; err != nil {
		t.Errorf("the log's end: %v", err)
	}
}

// schedulable counts the nodes that take a Pod without tolerations.
func schedulable(t *testing.T, c *Cluster) (n int) {
	t.Helper()
	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if len(node.Spec.Taints) == 0 && !node.Spec.Unschedulable {
			n++
		}
	}
	return n
}
