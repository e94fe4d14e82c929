package localcluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// step is one action of Up. Undo must cope with a step that was done halfway
// or not at all, because Down calls it without knowing how far Up came.
type step struct {
	Name string
	Do   func(ctx context.Context) error
	Undo func(ctx context.Context) error // nil: the undo of an earlier step covers it
}

// undoTimeout bounds the clean-up, which runs although the caller's context is over.
const undoTimeout = 60 * time.Second

// runSteps does the steps in order. When one fails or ctx ends, it undoes that
// step and all before it, last first, and gives the error of the step, with
// what could not be undone.
func runSteps(ctx context.Context, steps []step, say func(string)) error {
	for i, s := range steps {
		err := ctx.Err()
		if err == nil {
			say(s.Name)
			err = s.Do(ctx)
		}
		if err == nil {
			continue
		}
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			err = errors.Join(cause, err)
			if errors.Is(err, cause) {
				err = cause
			}
		}
		say("undoing: " + s.Name)
		undoCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		undone := undoSteps(undoCtx, steps[:i+1])
		cancel()
		return errors.Join(fmt.Errorf("%s: %w", s.Name, err), undone)
	}
	return nil
}

// undoSteps undoes all steps, last first, and goes on after an error.
func undoSteps(ctx context.Context, steps []step) error {
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].Undo == nil {
			continue
		}
		if err := steps[i].Undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("undo %q: %w", steps[i].Name, err))
		}
	}
	return errors.Join(errs...)
}
