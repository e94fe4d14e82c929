// Package rollout tells from a workload's status how far its controller has come with what was asked of it.
//
// It is pure: an object in, a progress out. It must not know how objects are read, nor who waits for what.
package rollout

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
)

// timedOut is the reason of a Deployment's Progressing condition once progressDeadlineSeconds have passed without progress.
const timedOut = "ProgressDeadlineExceeded"

// Progress of a rollout. The zero value is never returned: it is either Done or something is Missing.
type Progress struct {
	// Done: every replica that is wanted is updated and available, and none of an older revision is left.
	Done bool
	// Missing says in a few words what is not so yet.
	Missing string
	// GaveUp is the controller's own word that it no longer expects to finish; empty while it does.
	GaveUp string
}

// OfDeployment judges as `kubectl rollout status` does, and takes the controller's giving up for what it is.
func OfDeployment(d *appsv1.Deployment) Progress {
	s, wanted := d.Status, replicas(d.Spec.Replicas)
	if s.ObservedGeneration < d.Generation {
		return unseen
	}
	var p Progress
	switch {
	case s.UpdatedReplicas < wanted:
		p = missing("%d of %d replicas are updated", s.UpdatedReplicas, wanted)
	case s.Replicas > s.UpdatedReplicas:
		p = missing("%d old replicas are still there", s.Replicas-s.UpdatedReplicas)
	case s.AvailableReplicas < s.UpdatedReplicas:
		p = missing("%d of %d updated replicas are available", s.AvailableReplicas, s.UpdatedReplicas)
	default:
		return Progress{Done: true}
	}
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == timedOut {
			p.GaveUp = cmp.Or(c.Message, c.Reason)
		}
	}
	return p
}

// OfStatefulSet counts the replicas from the partition on as those to update; with OnDelete none are.
func OfStatefulSet(s *appsv1.StatefulSet) Progress {
	wanted := replicas(s.Spec.Replicas)
	toUpdate := wanted
	switch {
	case s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		toUpdate = 0
	case s.Spec.UpdateStrategy.RollingUpdate != nil:
		toUpdate = max(0, wanted-value(s.Spec.UpdateStrategy.RollingUpdate.Partition))
	}
	st := s.Status
	switch {
	case st.ObservedGeneration < s.Generation:
		return unseen
	case st.UpdatedReplicas < toUpdate:
		return missing("%d of %d replicas are updated", st.UpdatedReplicas, toUpdate)
	case st.AvailableReplicas < wanted:
		return missing("%d of %d replicas are available", st.AvailableReplicas, wanted)
	case st.Replicas > wanted:
		return missing("%d replicas too many are still there", st.Replicas-wanted)
	default:
		return Progress{Done: true}
	}
}

// OfDaemonSet counts Pods by node; with OnDelete none are to be updated.
func OfDaemonSet(d *appsv1.DaemonSet) Progress {
	s := d.Status
	switch {
	case s.ObservedGeneration < d.Generation:
		return unseen
	case d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && s.UpdatedNumberScheduled < s.DesiredNumberScheduled:
		return missing("%d of %d Pods are updated", s.UpdatedNumberScheduled, s.DesiredNumberScheduled)
	case s.NumberAvailable < s.DesiredNumberScheduled:
		return missing("%d of %d Pods are available", s.NumberAvailable, s.DesiredNumberScheduled)
	default:
		return Progress{Done: true}
	}
}

var unseen = missing("its controller has not seen the change yet")

func missing(format string, args ...any) Progress {
	return Progress{Missing: fmt.Sprintf(format, args...)}
}

// replicas are 1 where they are not said, which the API server does not leave so.
func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func value(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
