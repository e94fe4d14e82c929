package trigger

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drainproof/drainproof/internal/fault"
)

const nodePath = "/api/v1/nodes/n1"

var drainTarget = Target{Namespace: "ns", WorkloadKind: "Deployment", Workload: "web", Node: "n1", Trial: "t1"}

// nodeWith is an API server with one node and its Pods.
type nodeWith struct {
	server

	node corev1.Node
	pods map[string]*corev1.Pod
	// blocked are Pods that a budget keeps.
	blocked map[string]bool
}

func newNodeWith(pods ...*corev1.Pod) *nodeWith {
	n := &nodeWith{node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}, pods: map[string]*corev1.Pod{}, blocked: map[string]bool{}}
	n.routes = map[string]func(http.ResponseWriter, []byte){
		"GET " + nodePath: func(w http.ResponseWriter, _ []byte) { _ = json.NewEncoder(w).Encode(n.node) },
		"PATCH " + nodePath: func(w http.ResponseWriter, body []byte) {
			n.patch(body)
			_ = json.NewEncoder(w).Encode(n.node)
		},
		"GET /api/v1": func(w http.ResponseWriter, _ []byte) {
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "pods/eviction", Kind: "Eviction", Group: "policy", Version: "v1"}}})
		},
		"GET /api/v1/pods": func(w http.ResponseWriter, _ []byte) {
			var list corev1.PodList
			for _, p := range n.pods {
				list.Items = append(list.Items, *p)
			}
			_ = json.NewEncoder(w).Encode(list)
		},
		"GET /apis/apps/v1/namespaces/ns/daemonsets/agent": func(w http.ResponseWriter, _ []byte) { _, _ = w.Write([]byte(`{}`)) },
		"GET /apis/apps/v1/namespaces/ns/daemonsets/gone":  func(w http.ResponseWriter, _ []byte) { status(404, metav1.StatusReasonNotFound)(w) },
	}
	for _, p := range pods {
		n.pods[p.Name] = p
		n.routes["GET /api/v1/namespaces/ns/pods/"+p.Name] = func(w http.ResponseWriter, _ []byte) {
			if now := n.pods[p.Name]; now != nil {
				_ = json.NewEncoder(w).Encode(now)
				return
			}
			status(404, metav1.StatusReasonNotFound)(w)
		}
		n.routes["POST /api/v1/namespaces/ns/pods/"+p.Name+"/eviction"] = func(w http.ResponseWriter, body []byte) {
			if n.blocked[p.Name] {
				status(429, metav1.StatusReasonTooManyRequests, metav1.StatusCause{Type: "DisruptionBudget", Message: "The disruption budget keep-one needs 1 healthy pods and has 1 currently"})(w)
				return
			}
			if !strings.Contains(string(body), "dryRun") {
				delete(n.pods, p.Name)
			}
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
		}
	}
	return n
}

// patch understands the cordon (a merge patch) and its undo (a JSON patch).
func (n *nodeWith) patch(body []byte) {
	var merge struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct{ Unschedulable bool }
	}
	if json.Unmarshal(body, &merge) == nil {
		n.node.Spec.Unschedulable = merge.Spec.Unschedulable
		if merge.Metadata.Annotations != nil {
			n.node.Annotations = merge.Metadata.Annotations
		}
		return
	}
	n.node.Spec.Unschedulable, n.node.Annotations = false, nil
}

func onNode(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid")}}
	ownedBy("ReplicaSet", "web")(p)
	for _, c := range change {
		c(p)
	}
	return p
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: new(true)}}
	}
}

func unmanaged(p *corev1.Pod) { p.OwnerReferences = nil }
func client(p *corev1.Pod)    { p.Labels = map[string]string{LabelTrial: "t1", LabelApp: AppWorker} }
func emptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func TestDrainEvictsAllButWhatItMustNot(t *testing.T) {
	n := newNodeWith(
		onNode("web-1"), onNode("web-2", emptyDir), onNode("agent-1", ownedBy("DaemonSet", "agent")),
		onNode("worker", client, unmanaged), onNode("theirs", func(p *corev1.Pod) { p.Labels = map[string]string{LabelApp: AppWorker} }),
	)
	tr, err := New(t.Context(), Drain, start(t, &n.server), drainTarget)
	if err != nil {
		t.Fatal(err)
	}
	before := len(n.seen())
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n.seen()[before:]; len(got) != 1 || !strings.Contains(got[0], `"uid":"u1"`) {
		t.Fatalf("requests of the cordon %q, want one with the UID", got)
	}
	if !n.node.Spec.Unschedulable || n.node.Annotations[AnnotationCordonedBy] != "t1" || len(n.pods) != 5 {
		t.Errorf("after the cordon: %+v, %d Pods", n.node, len(n.pods))
	}
	if err := tr.(Lengthy).Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(n.pods) != 2 || n.pods["agent-1"] == nil || n.pods["worker"] == nil {
		t.Errorf("left: %v", n.pods)
	}
	for range 2 { // twice is safe
		if err := tr.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n.node.Spec.Unschedulable || len(n.node.Annotations) != 0 {
		t.Errorf("after undo: %+v", n.node)
	}
}

func TestDrainNamesTheBudgetThatBlocks(t *testing.T) {
	n := newNodeWith(onNode("web-1"), onNode("web-2"))
	n.blocked["web-1"] = true
	tr, err := New(t.Context(), Drain, start(t, &n.server), drainTarget)
	if err != nil {
		t.Fatal(err)
	}
	tr.(*draining).again = 10 * time.Millisecond
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = tr.(Lengthy).Finish(ctx)
	if fault.CodeOf(err) != fault.Unmeasurable {
		t.Fatalf("error %v, want exit code 4", err)
	}
	for _, want := range []string{"node n1", "pod ns/web-1 is blocked", "keep-one"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if n.pods["web-1"] == nil || n.pods["web-2"] != nil {
		t.Errorf("left: %v", n.pods)
	}
}

func TestDrainRefusesBeforeItTouchesAnything(t *testing.T) {
	tests := []struct {
		name string
		node *nodeWith
		want string
	}{
		{"a Pod that nothing makes again", newNodeWith(onNode("web-1"), onNode("mine", unmanaged)), "no controller: ns/mine"},
		{"a Pod whose DaemonSet is gone", newNodeWith(onNode("agent-1", ownedBy("DaemonSet", "gone"))), "DaemonSet that is gone"},
		{"another trial's cordon", func() *nodeWith {
			n := newNodeWith()
			n.node.Spec.Unschedulable, n.node.Annotations = true, map[string]string{AnnotationCordonedBy: "t0"}
			return n
		}(), "cordoned by trial t0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(t.Context(), Drain, start(t, &tt.node.server), drainTarget)
			if fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), tt.want) || fault.NextOf(err) == "" {
				t.Errorf("error %v, want one with %q and an advice", err, tt.want)
			}
			for _, r := range tt.node.seen() {
				if !strings.HasPrefix(r, "GET ") {
					t.Errorf("sent %q", r)
				}
			}
		})
	}
	if _, err := New(t.Context(), Drain, start(t, &newNodeWith().server), Target{Node: "n1"}); fault.CodeOf(err) != fault.Usage {
		t.Errorf("a drain without a trial: %v", err)
	}
}

func TestDrainEvictsTheBarePodUnderTestAndMakesItAgain(t *testing.T) {
	n := newNodeWith(onNode("alone", unmanaged, func(p *corev1.Pod) { p.UID = "p1" }))
	made := 0
	n.routes["POST "+podsPath] = func(w http.ResponseWriter, body []byte) {
		made++
		_, _ = w.Write(body)
	}
	at := alone
	at.Node, at.Trial = "n1", "t1"
	tr, err := New(t.Context(), Drain, start(t, &n.server), at)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tr.(Lengthy).Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tr.Undo(t.Context()); err != nil || made != 1 || n.node.Spec.Unschedulable {
		t.Errorf("undo: %v, made %d, node %+v", err, made, n.node)
	}
}

func TestAnothersCordonStays(t *testing.T) {
	n := newNodeWith(onNode("web-1"))
	n.node.Spec.Unschedulable = true
	tr, err := New(t.Context(), Drain, start(t, &n.server), drainTarget)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tr.Undo(t.Context()); err != nil || !n.node.Spec.Unschedulable || len(n.node.Annotations) != 0 {
		t.Errorf("undo: %v, node %+v", err, n.node)
	}
}
