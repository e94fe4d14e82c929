package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/drainproof/drainproof/internal/fault"
)

func down(ctx context.Context, stateDir, name string) error {
	if os.Geteuid() != 0 {
		return errNotRoot()
	}
	unlock, err := lockCluster(ctx, stateDir, name, func(string) {})
	if err != nil {
		return err
	}
	defer unlock()
	return sweep(ctx, stateDir, name)
}

// sweep undoes every step of Up, whatever of it was done.
func sweep(ctx context.Context, stateDir, name string) error {
	p := plan{Name: name, ID: clusterID(stateDir, name), Dir: clusterDir(stateDir, name)}
	if err := undoSteps(ctx, (&builder{plan: p, stateDir: stateDir}).steps()); err != nil {
		return fault.Measuref(err, "try again: drainproof cluster down "+name, "cluster %s could not be removed completely", name)
	}
	return nil
}

// removeFiles removes the cluster's folder, once nothing is mounted in it.
func removeFiles(dir string) error {
	if err := detachBelow(dir); err != nil {
		return err
	}
	// The state goes last: as long as it is there, List shows the cluster.
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the cluster's files: %w", err)
	}
	for _, e := range entries {
		if e.Name() == "state.json" {
			continue
		}
		if err := os.RemoveAll(dir + "/" + e.Name()); err != nil {
			return fmt.Errorf("remove the cluster's files: %w", err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the cluster's files: %w", err)
	}
	return nil
}
