package rollout

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var second = metav1.ObjectMeta{Generation: 2}

func TestDeployment(t *testing.T) {
	tests := []struct {
		name   string
		status appsv1.DeploymentStatus
		want   Progress
	}{
		{"not seen yet", appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, unseen},
		{"some updated", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 1, AvailableReplicas: 3}, missing("1 of 3 replicas are updated")},
		{"old ones left", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 3}, missing("1 old replicas are still there")},
		{"not available yet", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}, missing("2 of 3 updated replicas are available")},
		{"done", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, Progress{Done: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: second, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}, Status: tt.status}
			if got := OfDeployment(d); got != tt.want {
				t.Errorf("progress %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestDeploymentGivesUp(t *testing.T) {
	late := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: "False", Reason: timedOut, Message: `ReplicaSet "web-2" has timed out progressing.`}
	d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 1, Conditions: []appsv1.DeploymentCondition{late}}}
	if got := OfDeployment(d); got.GaveUp != late.Message || got.Missing != "0 of 1 replicas are updated" {
		t.Errorf("progress %+v", got)
	}
	d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 1, 1
	if got := OfDeployment(d); got != (Progress{Done: true}) {
		t.Errorf("done after all, but %+v", got)
	}
	d.Generation = 1 // the condition is of the generation before
	if got := OfDeployment(d); got != unseen {
		t.Errorf("a change that the controller has not seen: %+v", got)
	}
}

func TestStatefulSet(t *testing.T) {
	rolling := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{}}
	half := rolling
	half.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
	byHand := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	status := func(all, updated, available int32) appsv1.StatefulSetStatus {
		return appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: all, UpdatedReplicas: updated, AvailableReplicas: available}
	}
	tests := []struct {
		name     string
		strategy appsv1.StatefulSetUpdateStrategy
		status   appsv1.StatefulSetStatus
		want     Progress
	}{
		{"not seen yet", rolling, appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, unseen},
		{"some updated", rolling, status(3, 1, 3), missing("1 of 3 replicas are updated")},
		{"up to the partition", half, status(3, 1, 3), Progress{Done: true}},
		{"not up to the partition", half, status(3, 0, 3), missing("0 of 1 replicas are updated")},
		{"updated by hand", byHand, status(3, 0, 3), Progress{Done: true}},
		{"not available yet", rolling, status(3, 3, 2), missing("2 of 3 replicas are available")},
		{"scaled down", rolling, status(4, 4, 4), missing("1 replicas too many are still there")},
		{"done", rolling, status(3, 3, 3), Progress{Done: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &appsv1.StatefulSet{ObjectMeta: second, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3)), UpdateStrategy: tt.strategy}, Status: tt.status}
			if got := OfStatefulSet(s); got != tt.want {
				t.Errorf("progress %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestDaemonSet(t *testing.T) {
	status := func(wanted, updated, available int32) appsv1.DaemonSetStatus {
		return appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: wanted, UpdatedNumberScheduled: updated, NumberAvailable: available}
	}
	tests := []struct {
		name     string
		strategy appsv1.DaemonSetUpdateStrategyType
		status   appsv1.DaemonSetStatus
		want     Progress
	}{
		{"not seen yet", appsv1.RollingUpdateDaemonSetStrategyType, appsv1.DaemonSetStatus{ObservedGeneration: 1}, unseen},
		{"some updated", appsv1.RollingUpdateDaemonSetStrategyType, status(2, 1, 2), missing("1 of 2 Pods are updated")},
		{"updated by hand", appsv1.OnDeleteDaemonSetStrategyType, status(2, 0, 2), Progress{Done: true}},
		{"not available yet", appsv1.RollingUpdateDaemonSetStrategyType, status(2, 2, 1), missing("1 of 2 Pods are available")},
		{"done", appsv1.RollingUpdateDaemonSetStrategyType, status(2, 2, 2), Progress{Done: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &appsv1.DaemonSet{ObjectMeta: second, Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: tt.strategy}}, Status: tt.status}
			if got := OfDaemonSet(d); got != tt.want {
				t.Errorf("progress %+v, want %+v", got, tt.want)
			}
		})
	}
}
