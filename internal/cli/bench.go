package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/drainproof/drainproof/internal/evidence"
	"github.com/drainproof/drainproof/internal/experiment"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/localcluster"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/release"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/trial"
	"github.com/drainproof/drainproof/internal/trigger"
	"github.com/drainproof/drainproof/internal/verdict"
)

// bench is what the trials of one command share: the cluster, the image, the tool.
type bench struct {
	*app
	opts *runOptions
	tool record.Tool
	on   *chosen
	// image is what the probe and the client run.
	image string
	// agents lists the cluster's agents; nil where none are asked.
	agents evidence.Lister
	// fresh is the name of the cluster that --fresh-cluster makes; empty without it.
	fresh string
}

// connect chooses the cluster and sees to the image.
func (b *bench) connect(ctx context.Context) error {
	on, err := b.choose(ctx, b.opts.clusterFlags, "create Pods and delete them again")
	if err != nil {
		return err
	}
	b.on = on
	if b.image, err = b.ensureImage(ctx, on, b.opts.cfg.Image); err != nil {
		return err
	}
	b.agents, err = b.app.agents(ctx, b.opts.agentFlag, on, b.image)
	return err
}

// ensureImage settles which image is run: the one that was asked for, or this very binary's, which it loads into a local cluster.
func (a *app) ensureImage(ctx context.Context, on *chosen, asked string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	img, ref, err := ownImage("", "")
	if err != nil {
		return "", err
	}
	if on.local == nil {
		return ref, nil // the kubelet says if it is not there; the error then tells how to load it
	}
	has, err := on.local.HasLoaded(ref)
	if err != nil || has {
		return ref, err
	}
	a.progress("loading image %s into cluster %s", ref, on.cluster)
	if err := withImageFile(ctx, img, ref, func(path string) error { return on.local.LoadImage(ctx, path) }); err != nil {
		return "", err
	}
	return ref, on.local.MarkLoaded(ref)
}

// trial runs one trial on the bench's cluster; without an id it gets one of its own.
func (b *bench) trial(ctx context.Context, id string, arm experiment.Arm, set *record.Set) (*record.Record, error) {
	cfg := arm.Config
	cfg.Image = b.image
	if ns := b.opts.namespace; ns != "" {
		cfg.Namespace = &ns
	}
	if cfg.Traffic != nil {
		return b.requests(ctx, id, cfg, arm.RequestPath, set)
	}
	return trial.Run(ctx, b.origin(id, cfg, set), trial.Deps{
		API: b.on.api,
		NewTrigger: func(ctx context.Context, k trigger.Kind, t trigger.Target) (trigger.Trigger, error) {
			return trigger.New(ctx, k, b.on.api.Clientset(), t)
		},
		Agents:        b.agents,
		RequireAgents: b.opts.agentFlag.mode == agentRequired,
		Local:         traffic.StartLocal,
		Progress:      func(p trial.Phase, text string) { b.progress("   %-9s %s", p, text) },
	})
}

func (b *bench) origin(id string, cfg record.Config, set *record.Set) trial.Spec {
	return trial.Spec{
		ID: id, Config: cfg, Set: set, Tool: b.tool, Cluster: b.on.cluster, Context: b.on.context, Kernel: kernelRelease(), CPUs: runtime.NumCPU(),
	}
}

// requests runs one trial of the probe under requests, as an experiment asks for it.
func (b *bench) requests(ctx context.Context, id string, cfg record.Config, path string, set *record.Set) (*record.Record, error) {
	t := cfg.Traffic
	expect, err := trial.ParseExpect(request.Mode(t.Mode), t.Expect)
	budget, berr := verdict.Parse("")
	if err = errors.Join(err, berr); err != nil {
		return &record.Record{Schema: record.Schema, Config: cfg, Completeness: record.Incomplete, Missing: []string{err.Error()}}, err
	}
	return b.release(ctx, release.Spec{
		Spec: b.origin(id, cfg, set), Budget: budget,
		Plan: request.Plan{
			Mode: request.Mode(t.Mode), Expect: expect, InstanceHeader: probe.HeaderInstance,
			Target: request.Target{Scheme: "http", Path: path, Method: t.Method},
			Limits: request.Limits{DNSNs: t.DNSNs, ConnectNs: t.ConnectNs, TLSNs: t.TLSNs, FirstByteNs: t.FirstByteNs, WholeNs: t.WholeNs},
		},
	}, b.on, b.agents, b.opts.agentFlag)
}

// ownedName is the name of a cluster that one command makes and removes. It
// follows from the output folder: commands side by side do not meet, and the next one for that folder finds
// what a kill -9 left.
func ownedName(prefix, out string) (string, error) {
	abs, err := filepath.Abs(out)
	if err != nil {
		return "", fault.Measuref(err, "name the output folder by its full path", "finding the output folder")
	}
	sum := sha256.Sum256([]byte(abs))
	return prefix + "-" + hex.EncodeToString(sum[:4]), nil
}

func (b *bench) freshCluster(ctx context.Context, arm experiment.Arm) error {
	if err := localcluster.Down(ctx, b.stateDir(), b.fresh); err != nil {
		return fmt.Errorf("removing what an earlier run left of cluster %s: %w", b.fresh, err)
	}
	b.progress("== %s: a fresh cluster", arm.Name)
	if _, err := b.opts.up(ctx, b.app, b.fresh); err != nil {
		return err
	}
	b.opts.clusterFlags.cluster = b.fresh
	return b.connect(ctx)
}

func (b *bench) dropCluster(ctx context.Context, _ experiment.Arm) error {
	return localcluster.Down(ctx, b.stateDir(), b.fresh)
}

// refuseExisting stops before anything is touched when there is a record already, or none can be written.
func (a *app) refuseExisting(dir string, force bool) error {
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return fault.Usagef("choose a folder with --out", "%s is not a folder", dir)
	}
	for _, name := range []string{record.FileName, record.FileName + ".gz"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil && !force {
			return fault.Usagef("choose another folder with --out, or overwrite it with --force", "%s exists already", filepath.Join(dir, name))
		}
	}
	return canHold(dir)
}

// canHold sees that a folder, which need not be there yet, can be made and written to. It leaves nothing behind.
func canHold(dir string) error {
	at := dir
	for {
		_, err := os.Stat(at)
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	f, err := os.CreateTemp(at, ".drainproof-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return fault.Usagef("choose a folder that can be written with --out", "the output folder %s cannot be written: %v", dir, err)
	}
	return nil
}

// recordFault says what a person can do about a record that could not be read or written.
func recordFault(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*record.ExistsError](err); ok {
		return fault.Usagef("choose another folder with --out, or overwrite it with --force", "%v", err)
	}
	if _, ok := errors.AsType[*record.FullDiskError](err); ok {
		return fault.Measuref(err, "make room, or choose a folder on another disk with --out, and run it again", "writing the record")
	}
	if e, ok := errors.AsType[*record.NotFoundError](err); ok {
		return fault.Usagef("give a folder that drainproof run --out wrote", "%v", e)
	}
	if _, ok := errors.AsType[*record.NoRecordError](err); ok {
		return fault.Usagef("give folders that `drainproof run --out` wrote", "%v", err)
	}
	if _, ok := errors.AsType[*record.SchemaError](err); ok {
		return fault.Usagef("use the version of drainproof that wrote it, or a later one", "%v", err)
	}
	if _, ok := errors.AsType[*record.NotRecordError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.Usagef("give a record as drainproof wrote it: this one is cut or changed", "%v", err)
	}
	return fault.Measuref(err, "check the folder and its rights", "reading or writing a record")
}
