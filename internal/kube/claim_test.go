package kube

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/trigger"
)

func claimBy(trial string, lasts time.Duration) Claim {
	return Claim{Trial: trial, Until: time.Now().Add(lasts)}
}

func webAsItIs(t *testing.T, c *Cluster) *appsv1.Deployment {
	t.Helper()
	d, err := c.client.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestClaimMarksAndReleases(t *testing.T) {
	theirs := map[string]string{"team": "shop"}
	c := with(webDeployment(func(d *appsv1.Deployment) { d.Labels = maps.Clone(theirs) }))
	w := &Workload{Ref: webRef}
	w.Facts.UID = "d1"
	claim := claimBy("t1", time.Hour)
	claim.Replicas = new(2)
	release, err := c.Claim(t.Context(), w, claim)
	if err != nil {
		t.Fatal(err)
	}
	d := webAsItIs(t, c)
	held, marked := claimOf(d.Labels)
	if !marked || held.Trial != "t1" || held.Until.Unix() != claim.Until.Unix() || *held.Replicas != 2 || d.Labels["team"] != "shop" {
		t.Errorf("labels %v", d.Labels)
	}
	if diff := cmp.Diff(webDeployment().Spec, d.Spec); diff != "" || len(d.Annotations) != 0 {
		t.Errorf("more was changed than the labels: annotations %v, spec %s", d.Annotations, diff)
	}
	for range 2 { // twice is safe
		if err := release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d := webAsItIs(t, c); !maps.Equal(d.Labels, theirs) {
		t.Errorf("labels after the release: %v", d.Labels)
	}
}

func TestClaimOfWhatIsTaken(t *testing.T) {
	until := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
	tests := []struct {
		name   string
		labels map[string]string
		want   string // of the error; empty for none
	}{
		{"held", map[string]string{LabelTest: "t0", labelTestUntil: until(time.Hour)}, "being tested by trial t0 until 2"},
		{"held by the trial itself", map[string]string{LabelTest: "t1", labelTestUntil: until(time.Hour)}, ""},
		{"over", map[string]string{LabelTest: "t0", labelTestUntil: until(-time.Hour), labelTestReplicas: "2"}, ""},
		{"over, with replicas to put back", map[string]string{LabelTest: "t0", labelTestUntil: until(-time.Hour), labelTestReplicas: "3"}, "left Deployment shop/web at 2 of 3 replicas"},
		{"no end", map[string]string{LabelTest: "t0"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := with(webDeployment(func(d *appsv1.Deployment) { d.Labels = tt.labels }))
			_, err := c.Claim(t.Context(), &Workload{Ref: webRef}, claimBy("t1", time.Hour))
			if tt.want != "" {
				if fault.CodeOf(err) != fault.Unmeasurable || err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(fault.NextOf(err), "drainproof cleanup") {
					t.Errorf("error %v, next %q; want %q", err, fault.NextOf(err), tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			labels := webAsItIs(t, c).Labels
			if _, left := labels[labelTestReplicas]; labels[LabelTest] != "t1" || left {
				t.Errorf("labels %v", labels)
			}
		})
	}
}

func TestClaimOfAnotherObject(t *testing.T) {
	w := &Workload{Ref: webRef}
	w.Facts.UID = "another"
	if _, err := with(webDeployment()).Claim(t.Context(), w, claimBy("t1", time.Hour)); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("error %v", err)
	}
}

// The API server refuses a patch of a version that is no longer the newest: the claim reads again.
func TestClaimSurvivesItsController(t *testing.T) {
	client := fake.NewClientset(webDeployment())
	conflict := func(times int) {
		client.PrependReactor("patch", "deployments", func(a ktesting.Action) (bool, runtime.Object, error) {
			if !strings.Contains(string(a.(ktesting.PatchAction).GetPatch()), `"resourceVersion"`) {
				t.Error("the claim names no version")
			}
			if times--; times < 0 {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "web", nil)
		})
	}
	c := &Cluster{client: client}
	conflict(2)
	if _, err := c.Claim(t.Context(), &Workload{Ref: webRef}, claimBy("t1", time.Hour)); err != nil {
		t.Errorf("two conflicts: %v", err)
	}
	conflict(1 << 30)
	if _, err := c.Claim(t.Context(), &Workload{Ref: webRef}, claimBy("t1", time.Hour)); fault.CodeOf(err) != fault.Unmeasurable || err == nil {
		t.Errorf("conflicts for ever: %v", err)
	}
}

func TestReleaseLeavesAnothersMark(t *testing.T) {
	c := with(webDeployment())
	release, err := c.Claim(t.Context(), &Workload{Ref: webRef}, claimBy("t1", -time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Claim(t.Context(), &Workload{Ref: webRef}, claimBy("t2", time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := release(t.Context()); err != nil || webAsItIs(t, c).Labels[LabelTest] != "t2" {
		t.Errorf("release: %v, labels %v", err, webAsItIs(t, c).Labels)
	}
	if err := c.client.AppsV1().Deployments("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := release(t.Context()); err != nil {
		t.Errorf("release of what is gone: %v", err)
	}
}

func TestCleanupPutsBackWhatTestsLeft(t *testing.T) {
	marked := map[string]string{LabelTest: "t7", labelTestSince: "1767355200", labelTestUntil: "1767355300"}
	scaled := maps.Clone(marked)
	scaled[labelTestReplicas] = "2"
	other := map[string]string{LabelTest: "t8"}
	cordoned := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{annotationCordonedBy: "t7", "note": "kept"}}, Spec: corev1.NodeSpec{Unschedulable: true}}
	theirs := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	c := with(
		webDeployment(func(d *appsv1.Deployment) { d.Labels, d.Spec.Replicas = scaled, new(int32(0)) }),
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Labels: other}},
		webPod("alone", func(p *corev1.Pod) { p.OwnerReferences, p.Labels = nil, marked }),
		cordoned, theirs,
	)
	found, err := c.Leftovers(t.Context(), "t8")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range found {
		names = append(names, fmt.Sprintf("%s %s %s %s", l.Kind, l.Namespace, l.Name, l.Trial))
	}
	if got, want := strings.Join(names, ", "), "claim shop deployment/web t7, claim shop pod/alone t7, cordon  n1 t7"; got != want || found[0].Created.Unix() != 1767355200 {
		t.Errorf("found %s, created %v; want %s", got, found[0].Created, want)
	}
	if _, err := c.Cleanup(t.Context(), "t8"); err != nil {
		t.Fatal(err)
	}
	if d := webAsItIs(t, c); len(d.Labels) != 0 || *d.Spec.Replicas != 2 {
		t.Errorf("labels %v, replicas %d", d.Labels, *d.Spec.Replicas)
	}
	for name, want := range map[string]bool{"n1": false, "n2": true} {
		n, err := c.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || n.Spec.Unschedulable != want || n.Annotations[annotationCordonedBy] != "" {
			t.Errorf("node %s: %+v, %v", name, n, err)
		}
	}
	if left, err := c.Leftovers(t.Context()); err != nil || len(left) != 1 || left[0].Trial != "t8" {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// trigger and kube do not know each other, but write and read the same marks.
func TestMarksAreTheSameInTrigger(t *testing.T) {
	theirs := []string{trigger.LabelTrial, trigger.LabelApp, trigger.AppWorker, trigger.AppKiller, trigger.AnnotationCordonedBy}
	if d := cmp.Diff([]string{LabelManaged, LabelApp, NameWorker, NameKiller, annotationCordonedBy}, theirs); d != "" {
		t.Errorf("marks (-kube +trigger):\n%s", d)
	}
}
