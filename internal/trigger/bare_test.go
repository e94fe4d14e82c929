package trigger

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drainproof/drainproof/internal/fault"
)

const (
	podPath  = "/api/v1/namespaces/ns/pods/alone"
	podsPath = "/api/v1/namespaces/ns/pods"
)

var alone = Target{Namespace: "ns", WorkloadKind: "Pod", Workload: "alone", Pod: "alone", PodUID: "p1"}

// alonePod is a Pod as the API server gives it back, with what it and others have added.
func alonePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "alone", UID: "p1", ResourceVersion: "7",
			Labels:      map[string]string{"app": "alone", "drainproof.dev/test": "t1", "drainproof.dev/test-until": "1"},
			Annotations: map[string]string{"note": "kept"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1",
			Volumes: []corev1.Volume{
				{Name: "data"},
				{Name: "kube-api-access-x2x4z", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
			},
			Containers: []corev1.Container{{Name: "web", Image: "web:1", VolumeMounts: []corev1.VolumeMount{
				{Name: "data", MountPath: "/data"}, {Name: "kube-api-access-x2x4z", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// housing is an API server with one bare Pod, nil where it is gone.
type housing struct {
	server

	pod  *corev1.Pod
	made *corev1.Pod
	// slow: the Pod goes on terminating until that many reads have been answered.
	slow int
}

func newHousing() *housing {
	h := &housing{pod: alonePod()}
	h.routes = map[string]func(http.ResponseWriter, []byte){
		"GET " + podPath: func(w http.ResponseWriter, _ []byte) {
			if h.pod != nil && h.pod.DeletionTimestamp != nil {
				if h.slow--; h.slow < 0 {
					h.pod = nil
				}
			}
			if h.pod == nil {
				status(404, metav1.StatusReasonNotFound)(w)
				return
			}
			_ = json.NewEncoder(w).Encode(h.pod)
		},
		"DELETE " + podPath: func(w http.ResponseWriter, _ []byte) {
			h.pod.DeletionTimestamp = new(metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)))
			_ = json.NewEncoder(w).Encode(h.pod)
		},
		"POST " + podsPath: func(w http.ResponseWriter, body []byte) {
			h.made = &corev1.Pod{}
			_ = json.Unmarshal(body, h.made)
			_, _ = w.Write(body)
		},
	}
	return h
}

func fireAtAlone(t *testing.T, h *housing, k Kind) Trigger {
	t.Helper()
	tr, err := New(t.Context(), k, start(t, &h.server), alone)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Undo(t.Context()); err != nil || h.made != nil {
		t.Fatalf("undo before fire: %v, made %v", err, h.made)
	}
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestABarePodIsMadeAgainOnceItIsGone(t *testing.T) {
	for _, k := range []Kind{Delete, ForceDelete} {
		h := newHousing()
		tr := fireAtAlone(t, h, k)
		h.slow = 1
		for range 2 { // twice is safe
			if err := tr.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			h.pod = alonePod()
			h.pod.UID = "p2"
		}
		want := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "alone", Labels: map[string]string{"app": "alone"}, Annotations: map[string]string{"note": "kept"}},
			Spec: corev1.PodSpec{
				Volumes:    []corev1.Volume{{Name: "data"}},
				Containers: []corev1.Container{{Name: "web", Image: "web:1", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			},
		}
		h.made.TypeMeta = metav1.TypeMeta{}
		if d := cmp.Diff(want, h.made); d != "" {
			t.Errorf("%s: made (-want +got):\n%s", k, d)
		}
	}
}

func TestABarePodThatAnotherHasMadeIsLeftAlone(t *testing.T) {
	h := newHousing()
	tr := fireAtAlone(t, h, Delete)
	h.pod = alonePod()
	h.pod.UID = "another"
	if err := tr.Undo(t.Context()); err != nil || h.made != nil {
		t.Errorf("undo: %v, made %v", err, h.made)
	}
}

func TestABarePodThatWasNotEndedIsLeftAlone(t *testing.T) {
	h := newHousing()
	h.routes["POST "+podPath+"/eviction"] = func(w http.ResponseWriter, _ []byte) { status(429, metav1.StatusReasonTooManyRequests)(w) }
	tr, err := New(t.Context(), Evict, start(t, &h.server), alone)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Fire(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if err := tr.Undo(t.Context()); err != nil || h.made != nil {
		t.Errorf("undo: %v, made %v", err, h.made)
	}
}

func TestABarePodThatCannotBePutBackIsTold(t *testing.T) {
	h := newHousing()
	tr := fireAtAlone(t, h, Delete)
	h.routes["POST "+podsPath] = func(w http.ResponseWriter, _ []byte) { status(403, metav1.StatusReasonForbidden)(w) }
	err := tr.Undo(t.Context())
	if fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "pod ns/alone was ended and is not put back") {
		t.Errorf("error %v", err)
	}

	h = newHousing()
	tr = fireAtAlone(t, h, Delete)
	h.slow = 1 << 30
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := tr.Undo(ctx); err == nil || !strings.Contains(err.Error(), "not put back") {
		t.Errorf("one that never goes: %v", err)
	}
}

func TestAPodWithAControllerIsNotMadeAgain(t *testing.T) {
	h := newHousing()
	h.pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
	tr := fireAtAlone(t, h, Delete)
	if err := tr.Undo(t.Context()); err != nil || h.made != nil {
		t.Errorf("undo: %v, made %v", err, h.made)
	}
}

func TestAnotherPodOfThatNameIsRefused(t *testing.T) {
	h := newHousing()
	h.pod.UID = "another"
	if _, err := New(t.Context(), Delete, start(t, &h.server), alone); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("error %v", err)
	}
}
