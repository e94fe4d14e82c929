package trigger

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestKillIsOneCall(t *testing.T) {
	calls := 0
	var answer error
	k := NewKill(Target{Namespace: "ns", Pod: "web-1", Container: "web", Node: "n1"}, func(context.Context) error {
		calls++
		return answer
	})
	if k.Kind() != Kill || k.Subject() != "container/web-1/web" {
		t.Errorf("%s %s", k.Kind(), k.Subject())
	}
	if err := k.Fire(t.Context()); err != nil || calls != 1 {
		t.Errorf("fire: %v, %d calls", err, calls)
	}
	answer = fault.Measuref(nil, "do this", "no such process")
	if err := k.Fire(t.Context()); fault.CodeOf(err) != fault.Unmeasurable || fault.NextOf(err) != "do this" || !strings.Contains(err.Error(), "on node n1: no such process") {
		t.Errorf("error %v, next %q", err, fault.NextOf(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer = context.Canceled
	if err := k.Fire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := k.Undo(t.Context()); err != nil {
		t.Error(err)
	}
}
