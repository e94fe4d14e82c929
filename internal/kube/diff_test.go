package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

var noon = metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))

// pod makes a Pod named after its UID, in the state that the options give.
func pod(uid string, opts ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "probe-" + uid, UID: types.UID(uid), Labels: labelsOf("t1", NameProbe),
	}}
	for _, o := range opts {
		o(p)
	}
	return p
}

func onNode(p *corev1.Pod) { p.Spec.NodeName = "n1" }

func ready(s corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: s, Reason: "R"}}
	}
}

func terminating(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &noon, new(int64(30))
}

func running(id string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "probe", ContainerID: id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: noon}}}}
	}
}

func ended(id string, code int32) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ContainerID: id, ExitCode: code, Reason: "Error", FinishedAt: noon}
}

func exitedWith(id string, code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "probe", ContainerID: id, State: corev1.ContainerState{Terminated: ended(id, code)}}}
	}
}

// restarted: the first run ended with code, the second runs already.
func restarted(p *corev1.Pod) {
	running("c2")(p)
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated = ended("c1", 137)
}

func unknownEnd(p *corev1.Pod) {
	exitedWith("", 137)(p)
	p.Status.ContainerStatuses[0].State.Terminated.Reason = statusUnknown
}

// brief writes facts as "kind subject" with the exit code and grace where there is one.
func brief(facts []Fact) []string {
	var out []string
	for _, f := range facts {
		s := string(f.Kind) + " " + f.Subject
		for _, k := range []string{"exit_code", "grace_seconds", "spec_replicas", "seen_by"} {
			if v, ok := f.Detail[k]; ok {
				s += fmt.Sprintf(" %s=%v", k, v)
			}
		}
		out = append(out, s)
	}
	return out
}

func TestDiffPod(t *testing.T) {
	tests := []struct {
		name     string
		old, now *corev1.Pod
		want     []string
	}{
		{"first sight of a fresh one", nil, pod("a"), []string{"pod-added pod/probe-a"}},
		{"first sight of one that serves", nil, pod("a", onNode, ready("True"), running("c1")),
			[]string{"pod-added pod/probe-a", "pod-scheduled pod/probe-a", "container-started container/probe-a/probe", "pod-ready pod/probe-a"}},
		{"nothing changed", pod("a", onNode, running("c1")), pod("a", onNode, running("c1")), nil},
		{"a node was found", pod("a"), pod("a", onNode), []string{"pod-scheduled pod/probe-a"}},
		{"ready by condition", pod("a", ready("False")), pod("a", ready("True")), []string{"pod-ready pod/probe-a"}},
		{"not ready", pod("a", ready("True")), pod("a", ready("False")), []string{"pod-not-ready pod/probe-a"}},
		{"unknown is not ready", pod("a", ready("True")), pod("a", ready("Unknown")), []string{"pod-not-ready pod/probe-a"}},
		{"deletion began", pod("a"), pod("a", terminating), []string{"pod-terminating pod/probe-a grace_seconds=30"}},
		{"deletion goes on", pod("a", terminating), pod("a", terminating), nil},
		{"exit", pod("a", running("c1")), pod("a", exitedWith("c1", 137)), []string{"container-exited container/probe-a/probe exit_code=137"}},
		{"exit is told once", pod("a", exitedWith("c1", 0)), pod("a", exitedWith("c1", 0)), nil},
		{"exit and restart in one update", pod("a", running("c1")), pod("a", restarted),
			[]string{"container-exited container/probe-a/probe exit_code=137", "container-started container/probe-a/probe"}},
		{"exit, then restart", pod("a", exitedWith("c1", 137)), pod("a", restarted), []string{"container-started container/probe-a/probe"}},
		{"exit first seen together with deletion and readiness", pod("a", running("c1"), ready("True")), pod("a", terminating, exitedWith("c1", 0), ready("False")),
			[]string{"pod-terminating pod/probe-a grace_seconds=30", "container-exited container/probe-a/probe exit_code=0", "pod-not-ready pod/probe-a"}},
		{"an invented exit code is left out", pod("a"), pod("a", unknownEnd), []string{"container-exited container/probe-a/probe"}},
		{"removed", pod("a"), nil, []string{"pod-removed pod/probe-a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := diffPod(tt.old, tt.now)
			if d := cmp.Diff(tt.want, brief(got)); d != "" {
				t.Errorf("facts (-want +got):\n%s", d)
			}
			for _, f := range got {
				if f.PodUID != "a" {
					t.Errorf("%s has Pod UID %q", f.Kind, f.PodUID)
				}
			}
		})
	}
}

// slice makes an EndpointSlice of one family.
func slice(uid string, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: uid, UID: types.UID(uid)},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: eps,
	}
}

// ep makes an endpoint; conditions are r (ready), s (serving), t (terminating),
// in capitals for true; those that are left out are nil.
func ep(uid, conditions string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{"10.0.0.1"}, NodeName: new("n1"),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "probe-" + uid, UID: types.UID(uid)},
	}
	for _, c := range conditions {
		is := new(strings.ToUpper(string(c)) == string(c))
		switch strings.ToLower(string(c)) {
		case "r":
			e.Conditions.Ready = is
		case "s":
			e.Conditions.Serving = is
		case "t":
			e.Conditions.Terminating = is
		}
	}
	return e
}

func TestDiffEndpoints(t *testing.T) {
	type all = []*discoveryv1.EndpointSlice
	tests := []struct {
		name     string
		old, now all
		want     []string
	}{
		{"added, serving", nil, all{slice("s1", ep("a", "RSt"))}, []string{"endpoint-added", "endpoint-ready", "endpoint-serving"}},
		{"added, not ready", nil, all{slice("s1", ep("a", "rst"))}, []string{"endpoint-added"}},
		{"nothing said means ready and serving", nil, all{slice("s1", ep("a", ""))}, []string{"endpoint-added", "endpoint-ready", "endpoint-serving"}},
		{"serving unsaid is as ready", nil, all{slice("s1", ep("a", "r"))}, []string{"endpoint-added"}},
		{"terminating while serving", all{slice("s1", ep("a", "RSt"))}, all{slice("s1", ep("a", "rST"))}, []string{"endpoint-terminating", "endpoint-not-ready"}},
		{"stops serving", all{slice("s1", ep("a", "rST"))}, all{slice("s1", ep("a", "rsT"))}, []string{"endpoint-not-serving"}},
		{"recovers", all{slice("s1", ep("a", "rst"))}, all{slice("s1", ep("a", "RSt"))}, []string{"endpoint-ready", "endpoint-serving"}},
		{"removed", all{slice("s1", ep("a", "rsT"))}, all{slice("s1")}, []string{"endpoint-removed"}},
		{"moved to another slice", all{slice("s1", ep("a", "RSt")), slice("s2")}, all{slice("s1"), slice("s2", ep("a", "RSt"))}, nil},
		{"no Pod behind it", nil, all{slice("s1", discoveryv1.Endpoint{Addresses: []string{"10.0.0.9"}})}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, f := range diffEndpoints(endpointsOf(tt.old), endpointsOf(tt.now)) {
				if f.Subject != "endpoint/probe-a" || f.PodUID != "a" || f.Node != "n1" {
					t.Errorf("fact %+v is not about Pod a on n1", f)
				}
				got = append(got, string(f.Kind))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("kinds (-want +got):\n%s", d)
			}
		})
	}
}

func TestDiffDeployment(t *testing.T) {
	scaled := func(n *int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: appsv1.DeploymentSpec{Replicas: n}}
	}
	if got := diffDeployment(nil, scaled(new(int32(1)))); got != nil {
		t.Errorf("the first sight is no change: %v", got)
	}
	if got := diffDeployment(scaled(nil), scaled(new(int32(1)))); got != nil {
		t.Errorf("unsaid replicas are 1: %v", got)
	}
	want := []string{"workload-scaled workload/probe spec_replicas=0"}
	if d := cmp.Diff(want, brief(diffDeployment(scaled(new(int32(1))), scaled(new(int32(0)))))); d != "" {
		t.Error(d)
	}
}

func TestDiffStatefulSet(t *testing.T) {
	scaled := func(n int32) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: &n}}
	}
	if got := diffStatefulSet(nil, scaled(3)); got != nil {
		t.Errorf("the first sight is no change: %v", got)
	}
	if d := cmp.Diff([]string{"workload-scaled workload/db spec_replicas=2"}, brief(diffStatefulSet(scaled(3), scaled(2)))); d != "" {
		t.Error(d)
	}
}

func TestRevisionOfAPod(t *testing.T) {
	for _, label := range []string{"pod-template-hash", "controller-revision-hash"} {
		p := pod("a", func(p *corev1.Pod) { p.Labels[label] = "7d9" })
		if got := diffPod(nil, p)[0].Detail["revision"]; got != "7d9" {
			t.Errorf("%s: revision %v", label, got)
		}
	}
	if got, ok := diffPod(nil, pod("a"))[0].Detail["revision"]; ok {
		t.Errorf("a bare Pod has revision %v", got)
	}
}

func TestDiffEvent(t *testing.T) {
	event := func(reason string, count int32) *corev1.Event {
		return &corev1.Event{
			Reason: reason, Message: "Stopping container probe", Count: count, FirstTimestamp: noon, Source: corev1.EventSource{Host: "n1"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "probe-a", UID: "a", FieldPath: "spec.containers{probe}"},
		}
	}
	want := []Fact{{Kind: "kubelet-killing", Subject: "pod/probe-a", PodUID: "a", Node: "n1", Detail: map[string]any{
		"message": "Stopping container probe", "at": "2026-01-02T12:00:00Z", "count": int32(1), "container": "probe",
	}}}
	if d := cmp.Diff(want, diffEvent(nil, event("Killing", 1))); d != "" {
		t.Error(d)
	}
	if got := diffEvent(event("Killing", 1), event("Killing", 1)); got != nil {
		t.Errorf("the same event again: %v", got)
	}
	if got := diffEvent(event("Killing", 1), event("Killing", 2)); len(got) != 1 {
		t.Errorf("counted up: %v", got)
	}
	if got := diffEvent(nil, event("Pulled", 1)); got != nil {
		t.Errorf("another reason: %v", got)
	}
}

// After a gap only the list tells: what it lacks is gone, and a successor of
// the same name is another Pod.
func TestTrackerListAfterAGap(t *testing.T) {
	tr := track[corev1.Pod](diffPod)
	tr.set([]runtime.Object{pod("a", running("c1")), pod("b")})
	successor := pod("c")
	successor.Name = "probe-b"
	got := brief(tr.set([]runtime.Object{pod("a", exitedWith("c1", 1)), successor}))
	want := []string{"pod-removed pod/probe-b", "container-exited container/probe-a/probe exit_code=1", "pod-added pod/probe-b"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTrackerRemovalCarriesTheLastState(t *testing.T) {
	tr := track[corev1.Pod](diffPod)
	tr.put(pod("a", running("c1")))
	got := brief(tr.remove(pod("a", exitedWith("c1", 137))))
	want := []string{"container-exited container/probe-a/probe exit_code=137", "pod-removed pod/probe-a"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
