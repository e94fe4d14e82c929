package trigger

import (
	"context"
	"fmt"

	"github.com/drainproof/drainproof/internal/fault"
)

// killing ends a container's first process from its node, which the API cannot.
type killing struct {
	target Target
	exec   func(context.Context) error
}

// NewKill makes the trigger that kills the first process of Target's container. exec does it, once, on Target.Node.
func NewKill(t Target, exec func(ctx context.Context) error) Trigger {
	return &killing{target: t, exec: exec}
}

func (*killing) Kind() Kind        { return Kill }
func (k *killing) Subject() string { return "container/" + k.target.Pod + "/" + k.target.Container }

// Fire returns when exec has; the process is dead by then, or an error says why not.
func (k *killing) Fire(ctx context.Context) error {
	err := k.exec(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("killing %s: %w", k.Subject(), err)
	default:
		return fault.Measuref(err, "", "killing %s of namespace %s on node %s", k.Subject(), k.target.Namespace, k.target.Node)
	}
}

// Undo has nothing to put back: the kubelet starts the container again.
func (*killing) Undo(context.Context) error { return nil }
