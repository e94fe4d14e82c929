package course

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// tries is how often a step of putting back is tried, its first included.
const tries = 4

// Undo puts one thing back. Do may be called again after it failed.
type Undo struct {
	What string
	Do   func(context.Context) error
	// Users: it puts back what is the user's own. Where that fails, the mark on the workload must stay, as it tells
	// cleanup what to put back. Mark: it takes that mark away.
	Users, Mark bool
}

// Undos are put back in reverse order.
type Undos struct {
	// Timeout bounds each of them.
	Timeout time.Duration
	list    []Undo
}

// Push adds one, before the change that it undoes is made: an interrupted one may have been made all the same.
func (u *Undos) Push(one Undo) { u.list = append(u.list, one) }

// Empty reports whether nothing is to be put back.
func (u *Undos) Empty() bool { return len(u.list) == 0 }

// Run puts everything back, once. Every one is tried, and one that fails is tried again: an API server that is busy or away for a moment must
// not leave a service at zero replicas. The error names what is left.
func (u *Undos) Run(ctx context.Context) error {
	var errs []error
	usersLeft := false
	for _, one := range slices.Backward(u.list) {
		if one.Mark && usersLeft {
			continue
		}
		if err := u.tryHard(ctx, one); err != nil {
			errs = append(errs, fmt.Errorf("putting back %s: %w", one.What, err))
			usersLeft = usersLeft || one.Users
		}
	}
	u.list = nil
	return errors.Join(errs...)
}

func (u *Undos) tryHard(ctx context.Context, one Undo) (err error) {
	ctx, cancel := context.WithTimeout(ctx, u.Timeout)
	defer cancel()
	for try := range tries {
		if err = one.Do(ctx); err == nil || try == tries-1 || Pause(ctx, time.Second<<try) != nil {
			return err
		}
	}
	return err
}

// Pause waits, or ends early with ctx's error.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
