// Package trigger ends a workload in one chosen way, and knows how to put back
// what that changed.
//
// It must not know traffic, observation or records; beside kube it is the only home of client-go.
package trigger

import (
	"context"
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
