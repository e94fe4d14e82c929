package localcluster

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// recorded makes steps that note what is done and undone.
func recorded(log *[]string, fail string, names ...string) []step {
	var steps []step
	for _, name := range names {
		steps = append(steps, step{
			Name: name,
			Do: func(context.Context) error {
				*log = append(*log, "do "+name)
				if name == fail {
					return errors.New("broken")
				}
				return nil
			},
			Undo: func(ctx context.Context) error {
				*log = append(*log, "undo "+name)
				return ctx.Err()
			},
		})
	}
	return steps
}

func TestStepsInOrder(t *testing.T) {
	var log []string
	if err := runSteps(t.Context(), recorded(&log, "", "a", "b"), func(string) {}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(log, []string{"do a", "do b"}) {
		t.Errorf("did %v", log)
	}
}

// The failed step may have been done halfway, so it is undone too.
func TestStepsUndoneLastFirst(t *testing.T) {
	var log, said []string
	steps := recorded(&log, "c", "a", "b", "c", "d")
	steps[1].Undo = nil
	err := runSteps(t.Context(), steps, func(s string) { said = append(said, s) })
	if err == nil || err.Error() != "c: broken" {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(log, []string{"do a", "do b", "do c", "undo c", "undo a"}) {
		t.Errorf("did %v", log)
	}
	if !slices.Equal(said, []string{"a", "b", "c", "undoing: c"}) {
		t.Errorf("said %v", said)
	}
}

func TestStepsUndoneAfterCancel(t *testing.T) {
	var log []string
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	steps := recorded(&log, "", "a", "b")
	steps[0].Do = func(context.Context) error { cancel(why); return nil }
	err := runSteps(ctx, steps, func(string) {})
	if !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	// The undo itself is not interrupted: its context lives.
	if !slices.Equal(log, []string{"undo b", "undo a"}) {
		t.Errorf("did %v", log)
	}
}

func TestUndoGoesOnAfterAnError(t *testing.T) {
	var log []string
	steps := recorded(&log, "", "a", "b")
	stuck := errors.New("stuck")
	steps[1].Undo = func(context.Context) error { return stuck }
	if err := undoSteps(t.Context(), steps); !errors.Is(err, stuck) {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(log, []string{"undo a"}) {
		t.Errorf("did %v", log)
	}
}
