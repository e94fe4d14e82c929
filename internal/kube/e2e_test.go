//go:build e2e

package kube

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	if line := <-lines; !strings.Contains(line, `"starting"`) {
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

// serve deploys n replicas of the probe as if they were a user's, each with the image that the nodes have.
func serve(t *testing.T, c *Cluster, trial string, n int32, change ...func(*ProbeSpec)) (ns string) {
	t.Helper()
	testkit.Require(t, testkit.Env("DRAINPROOF_IMAGE"))
	ns = ownTrial(t, c, trial)
	s := e2eSpec(ns, trial)
	s.Image, s.Replicas, s.PreStopSleep, s.Grace = os.Getenv("DRAINPROOF_IMAGE"), int(n), 0, 5*time.Second
	s.Args = []string{"probe", "--on-term", "exit"}
	for _, f := range change {
		f(&s)
	}
	if _, err := c.DeployProbe(t.Context(), s, time.Minute); err != nil {
		t.Fatalf("%v; next: %s", err, fault.NextOf(err))
	}
	return ns
}

func resolved(t *testing.T, c *Cluster, ref Ref) *Workload {
	t.Helper()
	w, err := c.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatalf("%v; next: %s", err, fault.NextOf(err))
	}
	return w
}

func awaitWithin(t *testing.T, c *Cluster, w *Workload, condition Condition, limit time.Duration, gone ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return c.Await(ctx, w, condition, gone)
}

func uids(w *Workload) (all []string) {
	for _, p := range w.Facts.Pods {
		all = append(all, p.UID)
	}
	return all
}

func TestE2EResolveClaimAndRollOut(t *testing.T) {
	c := realCluster(t)
	ns := serve(t, c, "e2e-rollout", 2)
	ref := Ref{"Deployment", ns, NameProbe}
	w := resolved(t, c, ref)
	t.Logf("%+v", w)
	if len(w.Facts.Pods) != 2 || w.Ready != 2 || len(w.Services) != 1 || w.Services[0].ReadyEndpoints != 2 || w.Services[0].Ports[0].PodPort == 0 || w.Facts.Pods[0].NodeIP == "" {
		t.Errorf("workload %+v", w)
	}
	if _, err := c.Resolve(t.Context(), Ref{"Deployment", ns, "prob"}); fault.CodeOf(err) != fault.Usage || !strings.Contains(fault.NextOf(err), NameProbe) {
		t.Errorf("a name with a slip: %v, next %q", err, fault.NextOf(err))
	}
	for _, k := range trigger.KindsForTest() {
		if missing, err := c.MissingForTest(t.Context(), ref, string(k)); err != nil || len(missing) != 0 {
			t.Errorf("%s: missing %q, %v", k, missing, err)
		}
	}

	claim := Claim{Trial: "e2e-a", Until: time.Now().Add(time.Hour), Replicas: new(2)}
	release, err := c.Claim(t.Context(), w, claim)
	if err != nil {
		t.Fatal(err)
	}
	other := claim
	other.Trial = "e2e-b"
	if _, err := c.Claim(t.Context(), w, other); err == nil || !strings.Contains(err.Error(), "e2e-a") {
		t.Errorf("a second claim: %v", err)
	}
	target := trigger.Target{Namespace: ns, WorkloadKind: "Deployment", Workload: NameProbe}
	tr := fire(t, c, trigger.Rollout, target)
	if err := awaitWithin(t, c, w, RolledOut, time.Minute, uids(w)...); err != nil {
		t.Fatal(err)
	}
	after := resolved(t, c, ref)
	for _, uid := range uids(after) {
		if slices.Contains(uids(w), uid) {
			t.Errorf("Pod %s has survived the rollout", uid)
		}
	}
	if err := tr.Undo(t.Context()); err != nil {
		t.Error(err)
	}
	if err := awaitWithin(t, c, w, RolledOut, 5*time.Second, uids(w)...); err != nil {
		t.Errorf("undo of a complete rollout began another: %v", err)
	}
	if got := uids(resolved(t, c, ref)); strings.Join(got, " ") != strings.Join(uids(after), " ") {
		t.Errorf("Pods %v, want %v", got, uids(after))
	}
	for range 2 {
		if err := release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	// Nothing of the claim stays, neither on the workload nor on what its controller makes.
	d, err := c.client.AppsV1().Deployments(ns).Get(t.Context(), NameProbe, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sets, err := c.client.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{fmt.Sprint(d.Labels, d.Annotations, d.Spec.Template.Labels)}
	for _, rs := range sets.Items {
		texts = append(texts, fmt.Sprint(rs.Labels, rs.Annotations))
	}
	for _, text := range texts {
		if strings.Contains(text, LabelTest) {
			t.Errorf("a mark is left: %s", text)
		}
	}
}

func TestE2ERolloutThatHangsGoesBack(t *testing.T) {
	c := realCluster(t)
	ns := serve(t, c, "e2e-hang", 1)
	w := resolved(t, c, Ref{"Deployment", ns, NameProbe})
	target := trigger.Target{Namespace: ns, WorkloadKind: "Deployment", Workload: NameProbe}
	tr, err := trigger.New(t.Context(), trigger.Rollout, c.Clientset(), target)
	if err != nil {
		t.Fatal(err)
	}
	// A quota that leaves no room for the Pod of the new revision.
	if _, err := c.client.CoreV1().ResourceQuotas(ns).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; sleep(t.Context(), pollEvery) {
		q, err := c.client.CoreV1().ResourceQuotas(ns).Get(t.Context(), "full", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the quota does not count")
		}
	}
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = awaitWithin(t, c, w, RolledOut, 3*time.Second)
	t.Logf("await says: %v", err)
	if err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("error %v, want one that names the quota", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := tr.Undo(ctx); err != nil {
		t.Fatalf("%v; next: %s", err, fault.NextOf(err))
	}
	if got := uids(resolved(t, c, w.Ref)); len(got) != 1 || got[0] != uids(w)[0] {
		t.Errorf("Pods %v, want the one of before, %v", got, uids(w))
	}
}

// A patch that names another object's UID must not be obeyed, and its refusal be understood.
func TestE2ERolloutOfAnotherObjectIsRefused(t *testing.T) {
	c := realCluster(t)
	ns := serve(t, c, "e2e-uid", 1)
	target := trigger.Target{Namespace: ns, WorkloadKind: "Deployment", Workload: NameProbe}
	tr, err := trigger.New(t.Context(), trigger.Rollout, c.Clientset(), target)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.client.AppsV1().Deployments(ns).Get(t.Context(), NameProbe, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.client.AppsV1().Deployments(ns).Delete(t.Context(), NameProbe, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: ns, Labels: d.Labels}, Spec: d.Spec}
	for deadline := time.Now().Add(30 * time.Second); ; sleep(t.Context(), pollEvery) {
		if _, err = c.client.AppsV1().Deployments(ns).Create(t.Context(), again, metav1.CreateOptions{}); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if err := tr.Fire(t.Context()); err == nil || !strings.Contains(err.Error(), "another object has this name") {
		t.Errorf("error %v", err)
	}
}

func TestE2EDrainIsBlockedByABudgetAndUndone(t *testing.T) {
	c := realCluster(t)
	ns := serve(t, c, "e2e-drain", 1, func(s *ProbeSpec) { s.BudgetMinAvailable = new(1) })
	w := resolved(t, c, Ref{"Deployment", ns, NameProbe})
	if strings.Join(w.Facts.Budgets, "") != NameProbe+" (minAvailable 1)" {
		t.Errorf("budgets %v", w.Facts.Budgets)
	}
	pod := w.Facts.Pods[0]
	target := trigger.Target{Namespace: ns, WorkloadKind: "Deployment", Workload: NameProbe, Pod: pod.Name, PodUID: pod.UID, Node: pod.Node, Trial: "e2e-drain"}
	unschedulable := func() bool {
		n, err := c.client.CoreV1().Nodes().Get(t.Context(), pod.Node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n.Spec.Unschedulable
	}
	tr := fire(t, c, trigger.Drain, target)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // t's own has ended
		defer cancel()
		if err := tr.Undo(ctx); err != nil {
			t.Error(err)
		}
	})
	if !unschedulable() {
		t.Error("the node is not cordoned")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	err := tr.(trigger.Lengthy).Finish(ctx)
	t.Logf("finish says: %v", err)
	if fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "pod "+ns+"/"+pod.Name+" is blocked by a PodDisruptionBudget (The disruption budget "+NameProbe) {
		t.Errorf("error %v, want one that names the Pod and the budget", err)
	}
	if left, err := c.Leftovers(t.Context()); err != nil || !slices.ContainsFunc(left, func(l Leftover) bool { return l.Kind == leftCordon && l.Name == pod.Node }) {
		t.Errorf("leftovers %+v, %v: want the cordon", left, err)
	}
	if err := tr.Undo(t.Context()); err != nil || unschedulable() {
		t.Errorf("undo: %v, still cordoned %v", err, unschedulable())
	}

	// Without the budget, the drain goes through.
	if err := c.client.PolicyV1().PodDisruptionBudgets(ns).Delete(t.Context(), NameProbe, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	tr = fire(t, c, trigger.Drain, target)
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := tr.(trigger.Lengthy).Finish(limited); err != nil {
		t.Fatal(err)
	}
	if err := awaitWithin(t, c, w, Gone, time.Minute, pod.UID); err != nil {
		t.Error(err)
	}
	if err := tr.Undo(t.Context()); err != nil || unschedulable() {
		t.Errorf("undo: %v, still cordoned %v", err, unschedulable())
	}
	if err := awaitWithin(t, c, w, Ready, time.Minute, pod.UID); err != nil {
		t.Error(err)
	}
}

func TestE2EBarePodIsMadeAgain(t *testing.T) {
	c := realCluster(t)
	testkit.Require(t, testkit.Env("DRAINPROOF_IMAGE"))
	const trial = "e2e-bare"
	ns := ownTrial(t, c, trial)
	ref, err := c.DeployWorker(t.Context(), WorkerSpec{Namespace: ns, Trial: trial, Image: os.Getenv("DRAINPROOF_IMAGE"), Args: []string{"worker", "--idle", "10m"}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	w := resolved(t, c, Ref{"Pod", ns, ref.Name})
	release, err := c.Claim(t.Context(), w, Claim{Trial: trial, Until: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []trigger.Kind{trigger.Delete, trigger.Evict, trigger.ForceDelete} {
		w = resolved(t, c, w.Ref)
		tr := fire(t, c, k, trigger.Target{Namespace: ns, WorkloadKind: "Pod", Workload: ref.Name, Pod: ref.Name, PodUID: uids(w)[0]})
		if err := awaitWithin(t, c, w, Gone, 30*time.Second, uids(w)...); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		for range 2 {
			if err := tr.Undo(t.Context()); err != nil {
				t.Errorf("%s: %v", k, err)
			}
		}
		if err := awaitWithin(t, c, w, Ready, time.Minute, uids(w)...); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	if err := release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestE2EWorkersAndKiller(t *testing.T) {
	c := realCluster(t)
	testkit.Require(t, testkit.Env("DRAINPROOF_IMAGE"))
	image := os.Getenv("DRAINPROOF_IMAGE")
	const trial = "e2e-workers"
	ns := ownTrial(t, c, trial)
	refs, err := c.DeployWorkers(t.Context(), WorkerSpec{Namespace: ns, Trial: trial, Image: image, Args: []string{"worker", "--idle", "10m"}}, 3, time.Minute)
	if err != nil {
		t.Fatalf("%v; next: %s", err, fault.NextOf(err))
	}
	nodes := map[string]bool{}
	for i, r := range refs {
		nodes[r.Node] = true
		if !strings.HasPrefix(r.Name, fmt.Sprintf("%s-%d-", NameWorker, i)) {
			t.Errorf("worker %d is %s", i, r.Name)
		}
	}
	if len(refs) != 3 || len(nodes) < min(2, schedulable(t, c)) {
		t.Errorf("workers %+v", refs)
	}
	if missing, err := c.MissingForWorkers(t.Context()); err != nil || len(missing) != 0 {
		t.Errorf("missing %q, %v", missing, err)
	}

	killer, err := c.DeployKiller(t.Context(), ns, trial, image, refs[0].Node, time.Minute)
	if err != nil {
		t.Fatalf("%v; next: %s", err, fault.NextOf(err))
	}
	if killer.Node != refs[0].Node {
		t.Errorf("the killer is on %s, want %s", killer.Node, refs[0].Node)
	}
	status := func() corev1.ContainerStatus {
		p, err := c.client.CoreV1().Pods(ns).Get(t.Context(), refs[0].Name, metav1.GetOptions{})
		if err != nil || len(p.Status.ContainerStatuses) != 1 {
			t.Fatalf("pod %s: %+v, %v", refs[0].Name, p, err)
		}
		return p.Status.ContainerStatuses[0]
	}
	var out, errs strings.Builder
	kill := trigger.NewKill(trigger.Target{Namespace: ns, Pod: refs[0].Name, Container: NameWorker, Node: killer.Node}, func(ctx context.Context) error {
		return c.Exec(ctx, ns, killer.Name, []string{"/drainproof", "kill-container", status().ContainerID}, nil, &out, &errs)
	})
	if err := kill.Fire(t.Context()); err != nil {
		t.Fatalf("%v: %s %s", err, out.String(), errs.String())
	}
	for deadline := time.Now().Add(30 * time.Second); ; sleep(t.Context(), pollEvery) {
		end := status().State.Terminated
		if end != nil && end.ExitCode == 137 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the container of %s was killed, but is %+v", refs[0].Name, status().State)
		}
	}
}
