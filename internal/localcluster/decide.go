package localcluster

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/fault"
)

// action is what Up has to do about a cluster of that name.
type action int

const (
	actCreate  action = iota // nothing is there
	actKeep                  // it runs as wanted
	actRepair                // some programs died; start them again
	actRebuild               // too little is left, or it was never finished
)

// process names one program of one node.
type process struct{ Node, Name string }

// decide compares what is wanted with what is there. have is nil when nothing
// is; dead lists the programs that should run and do not.
func decide(want Options, have *state, bootID string, dead []process) (action, error) {
	switch {
	case have == nil:
		return actCreate, nil
	case have.Phase != PhaseRunning, have.BootID != bootID:
		// Nothing of it serves anybody, so its options bind nobody.
		return actRebuild, nil
	}
	if d := difference(want, *have); d != "" {
		return 0, fault.Usagef(
			fmt.Sprintf("take it down first (drainproof cluster down %s), or give the new cluster another name", have.Name),
			"cluster %s is already there with %s", have.Name, d)
	}
	for _, p := range dead {
		// Without its holder a node's mounts cannot be entered safely.
		if p.Name == procNode {
			return actRebuild, nil
		}
	}
	if len(dead) > 0 {
		return actRepair, nil
	}
	return actKeep, nil
}

func difference(want Options, have state) string {
	switch {
	case want.Workers != have.Workers:
		return fmt.Sprintf("%d workers, not %d", have.Workers, want.Workers)
	case want.ProxyMode != have.ProxyMode:
		return fmt.Sprintf("proxy mode %s, not %s", have.ProxyMode, want.ProxyMode)
	case want.Parts.Version != "" && want.Parts.Version != have.Version:
		return fmt.Sprintf("Kubernetes %s, not %s", have.Version, want.Parts.Version)
	}
	return ""
}
