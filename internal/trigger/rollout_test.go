package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drainproof/drainproof/internal/fault"
)

const webPath = "/apis/apps/v1/namespaces/ns/deployments/web"

var web = Target{Namespace: "ns", WorkloadKind: "Deployment", Workload: "web"}

// rolling is an API server with one Deployment, whose rollout is done or not as the test says.
type rolling struct {
	server

	annotations map[string]string
	done        bool
	// heals: the controller finishes as soon as the annotation is what it was before.
	heals bool
}

func newRolling(annotations map[string]string) *rolling {
	r := &rolling{annotations: annotations, done: true}
	r.routes = map[string]func(http.ResponseWriter, []byte){"GET " + webPath: r.get, "PATCH " + webPath: r.patch}
	return r
}

func (r *rolling) get(w http.ResponseWriter, _ []byte) {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "w1"}}
	d.Spec.Replicas = new(int32(1))
	d.Spec.Template.Annotations = r.annotations
	if d.Status.Replicas = 1; r.done {
		d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 1, 1
	}
	_ = json.NewEncoder(w).Encode(d)
}

// patch understands the two patches that a restart sends.
func (r *rolling) patch(w http.ResponseWriter, body []byte) {
	defer r.get(w, nil)
	var merge struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	if json.Unmarshal(body, &merge) == nil {
		r.annotations, r.done = merge.Spec.Template.Annotations, false
		return
	}
	var ops []struct{ Op, Path, Value string }
	if json.Unmarshal(body, &ops) != nil || len(ops) != 2 || ops[0].Op != "test" || r.annotations[restartedAt] != ops[0].Value {
		return
	}
	r.done = r.heals
	if r.annotations = nil; ops[1].Op == "replace" {
		r.annotations = map[string]string{restartedAt: ops[1].Value}
	}
}

func fireRollout(t *testing.T, r *rolling) Trigger {
	t.Helper()
	tr, err := New(t.Context(), Rollout, start(t, &r.server), web)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Undo(t.Context()); err != nil {
		t.Fatalf("undo before fire: %v", err)
	}
	before := len(r.seen())
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := r.seen()[before:]
	if len(got) != 1 || !strings.Contains(got[0], `"uid":"w1"`) || r.annotations[restartedAt] == "" {
		t.Fatalf("requests %q, annotations %v", got, r.annotations)
	}
	return tr
}

func TestACompleteRolloutIsLeftAlone(t *testing.T) {
	r := newRolling(nil)
	tr := fireRollout(t, r)
	r.done = true
	if err := tr.Undo(t.Context()); err != nil || r.annotations[restartedAt] == "" {
		t.Errorf("undo: %v, annotations %v", err, r.annotations)
	}
}

func TestARolloutThatHangsIsPutBack(t *testing.T) {
	for _, before := range []map[string]string{nil, {restartedAt: "2026-01-02T12:00:00Z"}} {
		r := newRolling(before)
		r.heals = true
		tr := fireRollout(t, r)
		for range 2 { // twice is safe
			if err := tr.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(r.annotations) != fmt.Sprint(before) {
			t.Errorf("annotations %v, want %v", r.annotations, before)
		}
	}
}

func TestARolloutThatDoesNotComeBackIsTold(t *testing.T) {
	r := newRolling(nil)
	tr := fireRollout(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := tr.Undo(ctx)
	if fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "0 of 1 replicas are updated") || !strings.Contains(fault.NextOf(err), "deployment/web") {
		t.Errorf("error %v, next %q", err, fault.NextOf(err))
	}
}

func TestAnothersRolloutIsLeftAlone(t *testing.T) {
	r := newRolling(nil)
	tr := fireRollout(t, r)
	r.annotations = map[string]string{restartedAt: "somebody else's"}
	if err := tr.Undo(t.Context()); err != nil || r.annotations[restartedAt] != "somebody else's" {
		t.Errorf("undo: %v, annotations %v", err, r.annotations)
	}
}

func TestARestartThatWouldDoNothingIsRefused(t *testing.T) {
	tests := []struct {
		kind, path string
		object     any
		want       string
	}{
		{"Deployment", "deployments", appsv1.Deployment{Spec: appsv1.DeploymentSpec{Paused: true}}, "paused"},
		{"StatefulSet", "statefulsets", appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"}}}, "OnDelete"},
		{"StatefulSet", "statefulsets", appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
			Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))},
		}}}, "partition of its update strategy is 2"},
		{"DaemonSet", "daemonsets", appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: "OnDelete"}}}, "OnDelete"},
	}
	for _, tt := range tests {
		s := &server{routes: map[string]func(http.ResponseWriter, []byte){
			"GET /apis/apps/v1/namespaces/ns/" + tt.path + "/web": func(w http.ResponseWriter, _ []byte) { _ = json.NewEncoder(w).Encode(tt.object) },
		}}
		_, err := New(t.Context(), Rollout, start(t, s), Target{Namespace: "ns", WorkloadKind: tt.kind, Workload: "web"})
		if fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.kind, err, tt.want)
		}
	}
}

func TestAPatchForAnotherUIDNamesIt(t *testing.T) {
	r := newRolling(nil)
	tr, err := New(t.Context(), Rollout, start(t, &r.server), web)
	if err != nil {
		t.Fatal(err)
	}
	r.routes["PATCH "+webPath] = func(w http.ResponseWriter, _ []byte) {
		status(422, metav1.StatusReasonInvalid, metav1.StatusCause{Type: "FieldValueInvalid", Field: "metadata.uid", Message: "field is immutable"})(w)
	}
	if err := tr.Fire(t.Context()); err == nil || !strings.Contains(err.Error(), "another object has this name") {
		t.Errorf("error %v", err)
	}
}
