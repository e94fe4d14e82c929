package trigger

import (
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestSeveralPodsAreEndedByOneRequestEach(t *testing.T) {
	several := Target{
		Namespace: "ns", WorkloadKind: "StatefulSet", Workload: "db", Count: 2,
		Pods: []PodID{{"db-0", "u0"}, {"db-1", "u1"}, {"db-2", "u2"}},
	}
	s := &server{}
	tr, err := New(t.Context(), Delete, start(t, s), several)
	if err != nil {
		t.Fatal(err)
	}
	if tr.Subject() != "pod/db-0" {
		t.Errorf("subject %q", tr.Subject())
	}
	if err := tr.Fire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(s.seen()); n != 1 {
		t.Fatalf("%d requests from Fire, want 1", n)
	}
	if err := tr.(Lengthy).Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := s.seen()
	if len(got) != 2 || !strings.Contains(got[0], "pods/db-0 ") || !strings.Contains(got[1], `pods/db-1 `) || !strings.Contains(got[1], `"uid":"u1"`) {
		t.Errorf("requests %q", got)
	}
}

func TestMorePodsThanThereAreIsWrongUse(t *testing.T) {
	few := target
	few.Count = 2
	if _, err := New(t.Context(), Evict, start(t, &server{}), few); fault.CodeOf(err) != fault.Usage {
		t.Errorf("error %v, want wrong use", err)
	}
}

func TestScaleOfAWorkload(t *testing.T) {
	s := &server{replicas: 3}
	scale := func(n int) (Trigger, error) {
		return New(t.Context(), Scale, start(t, s), Target{Namespace: "ns", WorkloadKind: "Deployment", Workload: "probe", Replicas: n})
	}
	tr, err := scale(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Fire(t.Context()); err != nil || s.replicas != 1 {
		t.Fatalf("fire: %v, replicas %d; want 1", err, s.replicas)
	}
	if err := tr.Undo(t.Context()); err != nil || s.replicas != 3 {
		t.Errorf("undo: %v, replicas %d; want 3", err, s.replicas)
	}
	for _, n := range []int{3, -1} {
		if _, err := scale(n); fault.CodeOf(err) != fault.Usage {
			t.Errorf("to %d: error %v, want wrong use", n, err)
		}
	}
}

func TestWhatAKindOfWorkloadCannot(t *testing.T) {
	client := start(t, &server{})
	tests := []struct {
		kind     Kind
		workload string
	}{{Scale, "DaemonSet"}, {Scale, "Pod"}, {Rollout, "Pod"}}
	for _, tt := range tests {
		_, err := New(t.Context(), tt.kind, client, Target{Namespace: "ns", WorkloadKind: tt.workload, Workload: "x"})
		if fault.CodeOf(err) != fault.Usage || fault.NextOf(err) == "" {
			t.Errorf("%s of a %s: %v, want wrong use and an advice", tt.kind, tt.workload, err)
		}
	}
}
