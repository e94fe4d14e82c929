package localcluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// poll calls check now and then every interval until it says done, fails, or
// limit has passed. The error of a check that may be tried again is kept for the message.
func poll(ctx context.Context, interval, limit time.Duration, check func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last error
	for {
		done, err := check()
		if done {
			return err
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return errors.Join(fmt.Errorf("not done within %v", limit), last)
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}
