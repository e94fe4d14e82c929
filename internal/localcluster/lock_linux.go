package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lock makes sure that one process at a time works on what path stands for.
// The kernel releases it with the process; the file is removed on release, so
// whoever got the lock of a removed file tries again. waiting is called once
// when another process holds it.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for first := true; ; first = false {
		f, err := tryLock(path)
		if err == nil {
			return func() {
				// In this order: nobody can hold the lock of the removed file.
				_ = os.Remove(path)
				_ = f.Close()
				_ = os.Remove(filepath.Dir(path))
				_ = os.Remove(filepath.Dir(filepath.Dir(path)))
			}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if first && errors.Is(err, unix.EWOULDBLOCK) && waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the other drainproof that works on it: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tryLock gives EWOULDBLOCK when another holds the lock, and ErrNotExist when the file went away.
func tryLock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	here, err := os.Stat(path)
	if err != nil {
		f.Close()
		return nil, err
	}
	mine, err := f.Stat()
	if err != nil || !os.SameFile(here, mine) {
		f.Close()
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	return f, nil
}

// lockCluster is held by Up and Down from their first look to their last act.
func lockCluster(ctx context.Context, stateDir, name string, say func(string)) (func(), error) {
	return lock(ctx, filepath.Join(clustersDir(stateDir), name+".lock"), func() {
		say("waiting for another drainproof that works on cluster " + name)
	})
}

// lockAddresses is held while a range of addresses is chosen and noted.
func lockAddresses(ctx context.Context, stateDir string) (func(), error) {
	return lock(ctx, filepath.Join(clustersDir(stateDir), ".addresses.lock"), nil)
}
