package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/localcluster"
	"github.com/drainproof/drainproof/internal/trial"
)

func (a *app) demoCommand() *cobra.Command {
	o := &runOptions{cfg: trial.Defaults(), repeat: 1, output: "table"}
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it: a fresh real cluster, twenty connections, one deleted Pod",
		Long: `Makes a fresh local cluster, holds ten TCP and ten UDP flows to a Pod that drains
properly for 25 of its 30 seconds of grace, deletes the Pod, shows what became of every
flow, leaves the record, and removes the cluster.`,
		Example: `  sudo drainproof demo --install-packages
  drainproof demo --arm exit --keep`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd, o, keep) },
	}
	o.bindUp(cmd, "")
	f := cmd.Flags()
	f.StringVar(&o.cfg.Arm, "arm", o.cfg.Arm, "what the probe does on SIGTERM: drain, exit or ignore")
	f.StringVar(&o.cfg.Trigger, "trigger", o.cfg.Trigger, "what ends it: delete, evict, scale or none")
	f.DurationVar(&o.grace, "grace", time.Duration(o.cfg.GraceNs), "terminationGracePeriodSeconds, whole seconds")
	f.StringVar(&o.out, "out", "drainproof-demo", "folder for the record")
	f.BoolVar(&o.force, "force", false, "overwrite the record of an earlier demo")
	f.BoolVar(&keep, "keep", false, "keep the cluster afterwards")
	return cmd
}

func (a *app) demo(cmd *cobra.Command, o *runOptions, keep bool) (err error) {
	o.drain, o.settle, o.heartbeat = -1, time.Duration(o.cfg.SettleNs), time.Duration(o.cfg.HeartbeatNs)
	o.readTimeout, o.readinessEvery = time.Duration(o.cfg.ReadTimeoutNs), time.Duration(o.cfg.ReadinessEveryNs)
	e, err := o.experiment(cmd)
	if err != nil {
		return err
	}
	if err := a.refuseExisting(o.out, o.force); err != nil {
		return err
	}
	t, err := tool()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	name, err := ownedName("demo", o.out)
	if err != nil {
		return err
	}
	if err := o.prepare(ctx, a); err != nil {
		return err
	}
	if err := localcluster.Down(ctx, a.stateDir(), name); err != nil {
		return err
	}
	a.progress("a real Kubernetes on this machine, cluster %s:", name)
	if _, err := o.up(ctx, a, name); err != nil {
		return err
	}
	if keep {
		a.progress("the cluster stays: drainproof cluster status %s; remove it with drainproof cluster down %s", name, name)
	} else {
		defer func() {
			err = errors.Join(err, localcluster.Down(context.WithoutCancel(ctx), a.stateDir(), name))
		}()
	}
	o.clusterFlags.cluster = name
	a.progress("one trial:")
	return a.runSingle(ctx, &bench{app: a, opts: o, tool: t}, e.Arms[0])
}
