package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/localcluster/parts"
)

func up(ctx context.Context, o Options) (*Cluster, error) {
	if err := Preflight(ctx, o); err != nil {
		return nil, err
	}
	if err := refuseEarly(o); err != nil {
		return nil, err
	}
	set, err := parts.Get(ctx, o.Parts)
	if err != nil {
		return nil, err
	}
	o.Parts.Version = set.Version
	unlock, err := lockCluster(ctx, o.StateDir, o.Name, o.say)
	if err != nil {
		return nil, err
	}
	defer unlock()
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	have, err := readState(o.StateDir, o.Name)
	if err != nil {
		return nil, err
	}
	var dead []process
	if have != nil {
		dead = deadProcesses(have.plan(o.StateDir))
	}
	act, err := decide(o, have, boot, dead)
	if err != nil {
		return nil, err
	}
	switch act {
	case actKeep, actRepair:
		c := newCluster(o.StateDir, *have)
		err := bringBack(ctx, o, c.plan, dead)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if act == actKeep {
			// Whatever ails it, somebody may be using it.
			return nil, fault.Measuref(err, "wait and try again, or take it down first: drainproof cluster down "+o.Name,
				"cluster %s runs and is not ready", o.Name)
		}
		o.say("it does not come back (" + firstLine(err) + "): making it anew")
	case actRebuild:
		o.say("cluster " + o.Name + " is not complete: making it anew")
	}
	// Also without a state: names may be left of a cluster whose folder was removed by hand.
	if err := sweep(ctx, o.StateDir, o.Name); err != nil {
		return nil, err
	}
	return create(ctx, o, set, boot)
}

// refuseEarly finds other options than those of the running cluster before the
// parts are fetched, which may take minutes. Under the lock they are compared again.
func refuseEarly(o Options) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	have, err := readState(o.StateDir, o.Name)
	if err != nil {
		return err
	}
	if o.fromFolder() {
		// What is in it is not known yet.
		o.Parts.Version = ""
	}
	_, err = decide(o, have, boot, nil)
	return err
}

// create makes a cluster where nothing is.
func create(ctx context.Context, o Options, set parts.Set, boot string) (*Cluster, error) {
	s := state{
		Schema: stateSchema, Name: o.Name, Phase: PhaseCreating, BootID: boot, Created: time.Now().UTC(),
		Workers: o.Workers, ProxyMode: o.ProxyMode, Version: o.Parts.Version, PartsFrom: set.From, PartsDir: set.Dir,
	}
	if err := claimSubnet(ctx, o.StateDir, &s); err != nil {
		return nil, errors.Join(err, removeFiles(clusterDir(o.StateDir, o.Name)))
	}
	b := &builder{plan: s.plan(o.StateDir), stateDir: o.StateDir, state: &s, say: o.say}
	defer b.close()
	if err := runSteps(ctx, b.steps(), o.say); err != nil {
		return nil, fmt.Errorf("make cluster %s: %w", o.Name, err)
	}
	return newCluster(o.StateDir, s), nil
}

// claimSubnet chooses the cluster's range of addresses and notes it, before
// another cluster can choose the same.
func claimSubnet(ctx context.Context, stateDir string, s *state) error {
	unlock, err := lockAddresses(ctx, stateDir)
	if err != nil {
		return err
	}
	defer unlock()
	used, err := usedPrefixes()
	if err != nil {
		return err
	}
	claimed, err := claimedSubnets(stateDir)
	if err != nil {
		return err
	}
	if s.Subnet, err = pickSubnet(append(used, claimed...)); err != nil {
		return err
	}
	return writeState(stateDir, *s)
}

func claimedSubnets(stateDir string) ([]netip.Prefix, error) {
	names, err := stateNames(stateDir)
	if err != nil {
		return nil, err
	}
	var claimed []netip.Prefix
	for _, name := range names {
		if s, err := readState(stateDir, name); err == nil && s != nil {
			claimed = append(claimed, s.Subnet)
		}
	}
	return claimed, nil
}

// bringBack starts what is dead of a cluster and waits until all of it is good.
func bringBack(ctx context.Context, o Options, p plan, dead []process) error {
	b := &builder{plan: p, stateDir: o.StateDir, say: o.say}
	defer b.close()
	limit := readyLimit
	if len(dead) == 0 {
		// All runs; a node may be unready for a moment.
		limit = time.Minute
	}
	for _, d := range dead {
		o.say(fmt.Sprintf("starting %s of node %s again", d.Name, d.Node))
		for _, n := range p.Nodes {
			if n.Name == d.Node {
				if err := start(p, n, d.Name); err != nil {
					return err
				}
				// A kubelet that finds no containerd ends at once, and its node would be called ready for a while all the same.
				if d.Name == procContainerd {
					if err := importImage(ctx, p, n, p.pauseArchive()); err != nil {
						return fmt.Errorf("wait for containerd of node %s: %w", n.Name, err)
					}
				}
			}
		}
	}
	if err := b.waitAPI(ctx); err != nil {
		return err
	}
	return b.waitReady(ctx, limit)
}

// bootID changes when the machine starts.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the machine's boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
