// Package trigger ends a workload in one chosen way, and knows how to put back
// what that changed.
//
// It must not know traffic, observation or records; beside kube it is the only home of client-go.
package trigger

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"github.com/drainproof/drainproof/internal/fault"
)

// Kind of trigger.
type Kind string

const (
	Delete Kind = "delete"
	Evict  Kind = "evict"
	Scale  Kind = "scale"
	None   Kind = "none"
	// Rollout restarts the workload, as `kubectl rollout restart` does.
	Rollout Kind = "rollout"
	// ForceDelete deletes a Pod with a grace period of zero, as `kubectl delete --force --grace-period=0` does.
	ForceDelete Kind = "force-delete"
	// Drain cordons the Pod's node and evicts what runs there, as `kubectl drain` does.
	Drain Kind = "drain"
	// Kill ends the container's first process with SIGKILL, from the node.
	Kill Kind = "kill"
)

// Kinds lists those that `run` knows.
func Kinds() []Kind { return []Kind{Delete, Evict, Scale, None} }

// KindsForTest lists those that `test` knows.
func KindsForTest() []Kind {
	return []Kind{Rollout, Delete, ForceDelete, Evict, Scale, Drain, Kill, None}
}

// Target is what the trigger acts on.
type Target struct {
	Namespace  string
	Pod        string
	PodUID     string
	Deployment string
	// Workload is what a test ends, of Kind Deployment, StatefulSet, DaemonSet or Pod; empty where Deployment is set.
	WorkloadKind, Workload string
	// Trial is the id that a drain writes on the node that it cordons, so that another process can tell whose cordon it is.
	Trial string
	// Node holds the Pod (drain, kill); Container and ContainerID are what is killed.
	Node, Container, ContainerID string
	// Replicas is what a scale sets; Count how many Pods a delete, force-delete or evict ends, 0 meaning 1.
	Replicas int
	Count    int
	// Pods are those that Count picks from, in this order; where it is empty, Pod is the only one.
	Pods []PodID
}

// PodID is one Pod and no other of its name.
type PodID struct{ Name, UID string }

// Lengthy is a trigger that goes on after its first request was accepted.
type Lengthy interface {
	// Finish does the rest and returns when it is done, or with what blocks it once ctx ends.
	Finish(ctx context.Context) error
}

// Trigger is one way to end a workload.
type Trigger interface {
	// Kind and Subject name it in a record, such as delete and pod/probe-7d9.
	Kind() Kind
	Subject() string
	// Fire sends exactly one request and returns when the API server has accepted it. It carries
	// the object's UID as a precondition where the API allows it, so that no other can be hit.
	Fire(ctx context.Context) error
	// Undo puts back what Fire and Finish changed: a scale, a cordon, a rollout that hangs, a Pod that no
	// controller makes again. nil when there is nothing. Safe to call twice, and without Fire.
	Undo(ctx context.Context) error
}

// New makes the trigger of one kind. It reads what Undo will need (the scale
// before, a bare Pod's manifest), so that Fire is one request. Errors are faults.
// A kill is made by NewKill: it goes through the node, not through the API.
func New(ctx context.Context, kind Kind, client kubernetes.Interface, t Target) (Trigger, error) {
	switch kind {
	case Delete, Evict, ForceDelete:
		return newEnding(ctx, kind, client, t)
	case Scale:
		return newScaling(ctx, client, t)
	case Rollout:
		return newRestart(ctx, client, t)
	case Drain:
		return newDrain(ctx, client, t)
	case None:
		return none{target: t}, nil
	default:
		return nil, fault.Usagef("choose one of rollout, delete, force-delete, evict, scale, drain, none", "unknown trigger %q", kind)
	}
}

// none is the control: nothing is done to the workload, so nothing may be lost.
type none struct{ target Target }

func (none) Kind() Kind                 { return None }
func (n none) Subject() string          { return n.target.subject() }
func (none) Fire(context.Context) error { return nil }
func (none) Undo(context.Context) error { return nil }
