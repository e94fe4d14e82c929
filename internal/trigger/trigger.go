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
)

// Kinds lists those that `run` knows.
func Kinds() []Kind { return []Kind{Delete, Evict, Scale, None} }

// Target is what the trigger acts on.
type Target struct {
	Namespace  string
	Pod        string
	PodUID     string
	Deployment string
}

// Trigger is one way to end a workload.
type Trigger interface {
	// Kind and Subject name it in a record, such as delete and pod/probe-7d9.
	Kind() Kind
	Subject() string
	// Fire sends exactly one request and returns when the API server has accepted it. It
	// carries the Pod's UID as a precondition where the API allows it, so that no other Pod can be hit.
	Fire(ctx context.Context) error
	// Undo puts back what Fire changed (the scale); nil when there is nothing. Safe to call twice, and without Fire.
	Undo(ctx context.Context) error
}

// New makes the trigger of one kind. It reads what Undo will need (the scale
// before), so that Fire is one request. Errors are faults.
func New(ctx context.Context, kind Kind, client kubernetes.Interface, t Target) (Trigger, error) {
	switch kind {
	case Delete:
		return &deletion{client: client, target: t}, nil
	case Evict:
		return &eviction{client: client, target: t}, nil
	case Scale:
		return newScaling(ctx, client, t)
	case None:
		return none{target: t}, nil
	default:
		return nil, fault.Usagef("choose one of delete, evict, scale, none", "unknown trigger %q", kind)
	}
}

// none is the control: nothing is done to the workload, so nothing may be lost.
type none struct{ target Target }

func (none) Kind() Kind                 { return None }
func (n none) Subject() string          { return "pod/" + n.target.Pod }
func (none) Fire(context.Context) error { return nil }
func (none) Undo(context.Context) error { return nil }
