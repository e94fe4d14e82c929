package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/drainproof/drainproof/internal/fault"
)

// furnished is a cluster with trial t1 in its own namespace, trial t2 in
// somebody's namespace, and somebody's own objects.
func furnished() *fake.Clientset {
	meta := func(ns, name, trial string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: ns, Name: name}
		if trial != "" {
			m.Labels = map[string]string{LabelManaged: trial}
		}
		return m
	}
	owned := &corev1.Pod{ObjectMeta: meta("theirs", "probe-1", "t2")}
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "probe", Controller: new(true)}}
	return fake.NewClientset(
		ownNamespace("own", "t1"), &corev1.Namespace{ObjectMeta: meta("", "theirs", "")},
		&appsv1.Deployment{ObjectMeta: meta("theirs", "probe", "t2")}, &corev1.Service{ObjectMeta: meta("theirs", "probe", "t2")}, owned,
		&corev1.Pod{ObjectMeta: meta("theirs", "innocent", "")}, &appsv1.Deployment{ObjectMeta: meta("theirs", "web", "")},
	)
}

func left(t *testing.T, c *fake.Clientset) string {
	t.Helper()
	var names []string
	ns, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range ns.Items {
		names = append(names, n.Name)
	}
	pods, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		names = append(names, p.Name)
	}
	deps, err := c.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deps.Items {
		names = append(names, d.Name)
	}
	return strings.Join(names, " ")
}

func TestUndoTakesTheTrialAndNothingElse(t *testing.T) {
	client := furnished()
	c := &Cluster{client: client}
	for range 2 { // twice is safe
		if err := c.Undo(t.Context(), "theirs", "t2"); err != nil {
			t.Fatal(err)
		}
	}
	if got := left(t, client); got != "own theirs innocent web" {
		t.Errorf("left: %s", got)
	}
	for range 2 {
		if err := c.Undo(t.Context(), "own", "t1"); err != nil {
			t.Fatal(err)
		}
	}
	if got := left(t, client); got != "theirs innocent web" {
		t.Errorf("left: %s", got)
	}
	if err := c.Undo(t.Context(), "theirs", ""); err == nil {
		t.Error("a trial without an id was put away")
	}
}

func TestUndoSaysWhatIsStillThere(t *testing.T) {
	client := furnished()
	client.PrependReactor("delete", "pods", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, nil }) // it never ends
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := (&Cluster{client: client}).Undo(ctx, "theirs", "t2")
	if fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "pod probe-1") || !strings.Contains(fault.NextOf(err), LabelManaged+"=t2") {
		t.Errorf("error %v, next %q", err, fault.NextOf(err))
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v hides the deadline", err)
	}
}

func TestLeftoversAndCleanup(t *testing.T) {
	client := furnished()
	c := &Cluster{client: client}
	names := func(ls []Leftover) string {
		var s []string
		for _, l := range ls {
			s = append(s, l.Kind+" "+l.Namespace+"/"+l.Name+" "+l.Trial)
		}
		return strings.Join(s, ", ")
	}
	found, err := c.Leftovers(t.Context())
	if want := "namespace own/own t1, deployment theirs/probe t2, service theirs/probe t2"; err != nil || names(found) != want {
		t.Errorf("found %s, %v; want %s", names(found), err, want)
	}
	if _, err := c.Cleanup(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if got := left(t, client); got != "own theirs innocent web" {
		t.Errorf("left after a clean-up except t1: %s", got)
	}
	if _, err := c.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, err := c.Leftovers(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("left after a clean-up: %s, %v", names(found), err)
	}
}

func TestEnsureNamespace(t *testing.T) {
	c := &Cluster{client: furnished()}
	if _, err := c.EnsureNamespace(t.Context(), "fresh", "t3", true); err != nil {
		t.Fatal(err)
	}
	ns, err := c.client.CoreV1().Namespaces().Get(t.Context(), "fresh", metav1.GetOptions{})
	if err != nil || ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" || ns.Labels[LabelManaged] != "t3" {
		t.Errorf("labels %v, %v", ns.Labels, err)
	}
	if _, err := c.EnsureNamespace(t.Context(), "own", "t3", true); err == nil || !strings.Contains(err.Error(), "not this trial's") {
		t.Errorf("another trial's namespace: %v", err)
	}
	if _, err := c.EnsureNamespace(t.Context(), "none", "t3", false); fault.CodeOf(err) != fault.Usage {
		t.Errorf("no such namespace: %v", err)
	}
	if _, err := c.EnsureNamespace(t.Context(), "theirs", "t3", false); err != nil {
		t.Errorf("an existing namespace: %v", err)
	}
	if _, err := c.client.CoreV1().Namespaces().Get(t.Context(), "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("looking up made a namespace: %v", err)
	}
}
