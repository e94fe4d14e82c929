package parts

import (
	"context"
	"path/filepath"
	"time"
)

// lockName is the file that serialises the work on one version.
func lockName(root string, v version, arch string) string {
	return filepath.Join(root, v.String()+"-"+arch+".lock")
}

// lock waits until it holds the file at path, and calls waiting once if it has
// to. It polls, because a flock that blocks cannot be interrupted by a context.
func lock(ctx context.Context, path string, every time.Duration, waiting func()) (unlock func(), err error) {
	for first := true; ; first = false {
		unlock, held, err := tryLock(path)
		if held || err != nil {
			return unlock, err
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(every):
		}
	}
}
