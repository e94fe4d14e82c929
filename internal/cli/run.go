package cli

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/experiment"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/release"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/testview"
	"github.com/drainproof/drainproof/internal/trial"
)

// runOptions are the flags of run.
type runOptions struct {
	clusterFlags
	agentFlag
	clusterUpFlags
	cfg                                                                            record.Config
	grace, drain, preStop, settle, observe, heartbeat, readTimeout, readinessEvery time.Duration
	noForceRST, freshCluster, resume, force                                        bool
	repeat                                                                         int
	file, out, output, namespace                                                   string
}

func (a *app) runCommand() *cobra.Command {
	o := &runOptions{cfg: trial.Defaults()}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Hold flows to the bundled probe, end its Pod, and record what became of each flow",
		Long: `Runs one trial (or --repeat of them, or an experiment file): deploys the probe in a
namespace of its own, holds TCP and UDP flows to it, ends it by the trigger, watches
what happens, and removes everything again. Each trial leaves a record.json.

The cluster is the one named by --cluster (local) or --kubeconfig/--context (any);
without them, the only local cluster that runs.`,
		Example: `  # One trial: a draining Pod is deleted, grace period 6 s
  drainproof run --arm drain --trigger delete --grace 6s

  # The same five times, records kept in a folder
  drainproof run --arm exit --trigger delete --repeat 5 --out exit5

  # The reference experiment, a fresh local cluster for each arm (an hour, or less)
  drainproof run -f experiments/shutdown-matrix.yaml --fresh-cluster --out matrix

  # It was interrupted: go on where it stopped
  drainproof run -f experiments/shutdown-matrix.yaml --fresh-cluster --out matrix --resume

  # On another cluster
  drainproof run --context kind-lab --image registry.example/drainproof:1 --yes`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd, o) },
	}
	f := cmd.Flags()
	o.clusterFlags.bind(cmd)
	o.agentFlag.bind(cmd)
	o.bindUp(cmd, "with --fresh-cluster: ")
	f.StringVarP(&o.file, "filename", "f", "", "experiment file: arms x repeats")
	f.StringVar(&o.cfg.Arm, "arm", o.cfg.Arm, "what the probe does on SIGTERM: drain, exit or ignore")
	f.StringVar(&o.cfg.Trigger, "trigger", o.cfg.Trigger, "what ends it: delete, evict, scale or none")
	f.DurationVar(&o.grace, "grace", time.Duration(o.cfg.GraceNs), "terminationGracePeriodSeconds, whole seconds")
	f.DurationVar(&o.drain, "drain-window", -1, "how long the probe drains (default: grace - 5s, or 2/3 of a grace under 10s)")
	f.Lookup("drain-window").DefValue = "0s" // a zero is not printed: the text tells the default
	f.StringVar(&o.cfg.ReadinessOnTerm, "readiness-on-term", o.cfg.ReadinessOnTerm, "the probe's readiness from SIGTERM on: fail or keep")
	f.DurationVar(&o.readinessEvery, "readiness-every", time.Duration(o.cfg.ReadinessEveryNs), "period of the readiness probe, whole seconds")
	f.DurationVar(&o.preStop, "pre-stop-sleep", 0, "a native preStop sleep, whole seconds")
	f.BoolVar(&o.noForceRST, "no-force-rst", false, "with --arm exit: leave the connections to the kernel")
	f.IntVar(&o.cfg.ExitCode, "exit-code", 0, "the probe's exit code")
	f.IntVar(&o.cfg.TCP, "tcp", o.cfg.TCP, "number of TCP flows")
	f.IntVar(&o.cfg.UDP, "udp", o.cfg.UDP, "number of UDP flows")
	f.StringVar(&o.cfg.Path, "path", o.cfg.Path, "how the flows reach the probe: pod, clusterip or nodeport")
	f.StringVar(&o.cfg.Vantage, "vantage", o.cfg.Vantage, "where the client stands: host or pod")
	f.DurationVar(&o.heartbeat, "heartbeat", time.Duration(o.cfg.HeartbeatNs), "interval of the heartbeats of one flow")
	f.DurationVar(&o.readTimeout, "read-timeout", time.Duration(o.cfg.ReadTimeoutNs), "a flow without an answer for this long has ended")
	f.DurationVar(&o.settle, "settle", time.Duration(o.cfg.SettleNs), "how long to hold the flows before the trigger")
	f.DurationVar(&o.observe, "observe", 0, "how long to watch at most (default: grace + 15s; for trigger none: grace)")
	f.IntVar(&o.repeat, "repeat", 1, "how many trials")
	f.StringVar(&o.out, "out", "", "folder for the record or the set (default: drainproof-runs/ID with the trial's id; of a set NAME-ID)")
	f.StringVarP(&o.output, "output", "o", "table", "what stdout gets: table or json")
	f.StringVarP(&o.namespace, "namespace", "n", "", "an existing namespace to use (default: one of its own, removed afterwards)")
	f.StringVar(&o.cfg.Image, "image", "", "image of the probe and the client (default: this very binary's, loaded into local clusters by itself)")
	f.BoolVar(&o.freshCluster, "fresh-cluster", false, "a fresh local cluster for each arm, removed afterwards")
	f.BoolVar(&o.resume, "resume", false, "go on with a set that was interrupted")
	f.BoolVar(&o.force, "force", false, "overwrite an existing record of a single trial")
	return cmd
}

// experiment turns the flags into what is to be run.
func (o *runOptions) experiment(cmd *cobra.Command) (*experiment.Experiment, error) {
	if err := firstError(oneOf("output", o.output, "table", "json"), o.agentFlag.check(), o.checkNames()); err != nil {
		return nil, err
	}
	if o.file != "" {
		for _, flag := range []string{"arm", "trigger", "grace", "drain-window", "readiness-on-term", "readiness-every", "pre-stop-sleep", "no-force-rst", "exit-code",
			"tcp", "udp", "path", "vantage", "heartbeat", "read-timeout", "settle", "observe", "repeat", "force"} {
			if cmd.Flags().Changed(flag) {
				return nil, fault.Usagef("set it in the file, or leave -f out", "--%s and --filename exclude each other", flag)
			}
		}
		return experiment.Read(o.file)
	}
	c := o.cfg
	for _, d := range []struct {
		flag string
		v    time.Duration
		ns   *int64
	}{
		{"grace", o.grace, &c.GraceNs}, {"drain-window", o.drain, &c.DrainWindowNs}, {"readiness-every", o.readinessEvery, &c.ReadinessEveryNs},
		{"pre-stop-sleep", o.preStop, &c.PreStopSleepNs}, {"settle", o.settle, &c.SettleNs}, {"observe", o.observe, &c.ObserveNs},
		{"heartbeat", o.heartbeat, &c.HeartbeatNs}, {"read-timeout", o.readTimeout, &c.ReadTimeoutNs},
	} {
		if d.v < 0 && cmd.Flags().Changed(d.flag) {
			return nil, fault.Usagef("give a duration such as 5s", "--%s %v is negative", d.flag, d.v)
		}
		*d.ns = int64(d.v)
	}
	c.ForceRST = !o.noForceRST
	c = trial.Complete(c)
	if err := trial.Validate(c); err != nil {
		return nil, err
	}
	if o.repeat < 1 || o.repeat > 1000 {
		return nil, fault.Usagef("give a number between 1 and 1000", "--repeat %d is out of range", o.repeat)
	}
	return experiment.Single(c, o.repeat), nil
}

var (
	// namespaceForm is a DNS label (RFC 1123), as Kubernetes asks of a namespace's name.
	namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// imageForm is an image reference as registries and container runtimes write it: a registry perhaps, a path, a tag and a digest perhaps.
	imageForm = regexp.MustCompile(`^(([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]+)?/)?[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*` +
		`(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z0-9+._-]+:[0-9A-Fa-f]{32,})?$`)
)

// checkNames refuses names that no cluster could take.
func (o *runOptions) checkNames() error {
	switch {
	case o.namespace != "" && !namespaceForm.MatchString(o.namespace):
		return fault.Usagef("give lower-case letters, digits and hyphens, 63 at most", "--namespace %q cannot be the name of a namespace", o.namespace)
	case o.cfg.Image != "" && !imageForm.MatchString(o.cfg.Image):
		return fault.Usagef("give it as NAME:TAG or NAME@DIGEST, such as registry.example/drainproof:1", "--image %q cannot be the name of an image", o.cfg.Image)
	}
	return nil
}

func (a *app) run(cmd *cobra.Command, o *runOptions) error {
	e, err := o.experiment(cmd)
	if err != nil {
		return err
	}
	single := o.file == "" && o.repeat == 1 && !o.freshCluster
	if err := o.refuseIdle(cmd, single); err != nil {
		return err
	}
	if o.namespace != "" && slices.ContainsFunc(e.Arms, func(arm experiment.Arm) bool { return arm.Config.Traffic != nil }) {
		return fault.Usagef("leave it out", "--namespace %s: a trial of requests makes a namespace of its own", o.namespace)
	}
	if o.freshCluster && (o.cluster != "" || o.kubeconfig != "" || o.context != "") {
		return fault.Usagef("leave one out", "--fresh-cluster makes its own cluster, and another one was named too")
	}
	t, err := tool()
	if err != nil {
		return err
	}
	b := &bench{app: a, opts: o, tool: t}
	if single {
		return a.runSingle(cmd.Context(), b, e.Arms[0])
	}
	return a.runSet(cmd.Context(), b, e)
}

// refuseIdle refuses flags that would do nothing: who asks for nftables must not measure iptables.
func (o *runOptions) refuseIdle(cmd *cobra.Command, single bool) error {
	for _, flag := range []string{"workers", "proxy-mode", "kubernetes", "kubernetes-from", "install-packages"} {
		if cmd.Flags().Changed(flag) && !o.freshCluster {
			return fault.Usagef("add --fresh-cluster, or make the cluster so with `drainproof cluster up`", "--%s describes a fresh cluster, and none was asked for", flag)
		}
	}
	if single && o.resume {
		return fault.Usagef("leave it out", "--resume goes on with a set, and this is a single trial")
	}
	if !single && o.force {
		return fault.Usagef("go on with --resume, or choose another folder with --out", "--force overwrites the record of a single trial, and this is a set")
	}
	return nil
}

func (a *app) runSingle(ctx context.Context, b *bench, arm experiment.Arm) error {
	// The default folder, the record and the namespace share one id.
	id := trial.NewID(time.Now())
	dir := b.opts.out
	if dir == "" {
		dir = filepath.Join("drainproof-runs", id)
	}
	if err := a.refuseExisting(dir, b.opts.force); err != nil {
		return err
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	rec, terr := b.trial(ctx, id, arm, nil)
	if b.opts.force && rec.Completeness != record.Complete {
		if old, err := record.Read(dir); err == nil && old.Completeness == record.Complete {
			// A good record is not given for a failed trial.
			dir = filepath.Join(dir, record.HistoryDir, rec.ID)
		}
	}
	path, err := record.Write(dir, *rec, b.opts.force)
	if err != nil {
		// What was measured is not lost with the file.
		return errors.Join(recordFault(err), terr, a.show(b.opts.output, rec))
	}
	a.progress("record: %s", path)
	if err := a.show(b.opts.output, rec); err != nil {
		return firstError(terr, err)
	}
	return firstError(terr, a.judge(rec))
}

// judge: an incomplete record is no measurement.
func (a *app) judge(rec *record.Record) error {
	if rec.Completeness == record.Complete {
		return nil
	}
	return fault.Measuref(nil, "see `missing` in the record, and run it again", "the record is incomplete: %s", harmless(rec.Missing[0]))
}

func (a *app) runSet(ctx context.Context, b *bench, e *experiment.Experiment) error {
	o := b.opts
	dir := o.out
	if dir == "" {
		dir = filepath.Join("drainproof-runs", e.Name+"-"+trial.NewID(time.Now()))
	}
	opts := experiment.Options{
		Dir: dir, Tool: b.tool, Resume: o.resume,
		Progress: func(arm experiment.Arm, repeat int, rec *record.Record, err error) {
			switch {
			case rec == nil:
				a.progress("== %s, repeat %d of %d", arm.Name, repeat, e.Repeats)
			case err == nil:
				a.progress("   %s", describe(rec))
			}
		},
	}
	if err := experiment.Check(e, opts); err != nil {
		return err
	}
	if err := canHold(dir); err != nil {
		return err
	}
	if o.freshCluster {
		if err := o.prepare(ctx, a); err != nil {
			return err
		}
		name, err := ownedName("fresh", dir)
		if err != nil {
			return err
		}
		b.fresh = name
		opts.BeforeArm, opts.AfterArm = b.freshCluster, b.dropCluster
	} else if err := b.connect(ctx); err != nil {
		return err
	}
	records, err := experiment.Run(ctx, e, opts, func(ctx context.Context, arm experiment.Arm, set record.Set) (*record.Record, error) {
		return b.trial(ctx, "", arm, &set)
	})
	if err != nil {
		return err
	}
	a.progress("records: %s", dir)
	tests := false
	set := make([]render.Input, 0, len(records))
	for _, r := range records {
		set = append(set, render.Input{Path: experiment.TrialDir(dir, r.Set.Arm, r.Set.Repeat), Record: *r})
		tests = tests || r.IsTest()
	}
	if tests {
		return a.showTests(o.output, set)
	}
	return a.showSet(o.output, set)
}

// describe puts a record's outcome in one line.
func describe(rec *record.Record) string {
	if rec.IsTest() {
		return release.Describe(rec)
	}
	return trial.Describe(rec)
}

// show renders one record on stdout.
func (a *app) show(output string, rec *record.Record) error {
	return a.showInput(output, render.Input{Record: *rec}, a.renderOptions())
}

// showInput is show for a record that was read somewhere.
func (a *app) showInput(output string, in render.Input, o render.Opts) error {
	switch {
	case output == "json":
		b, err := record.Encode(in.Record)
		if err != nil {
			return err
		}
		_, err = a.Out.Write(b)
		return err
	case in.Record.IsTest() && output == "markdown":
		return testview.Markdown(a.Out, in)
	case in.Record.IsTest():
		return testview.Summary(a.Out, in, o)
	default:
		return render.Trial(a.Out, in.Record, o)
	}
}

// showTests renders a set of tests of services: a table of its arms, or every record as JSON.
func (a *app) showTests(output string, set []render.Input) error {
	switch output {
	case "json":
		return setFault(render.JSON(a.Out, set))
	case "markdown":
		return setFault(testview.MatrixMarkdown(a.Out, set))
	default:
		return setFault(testview.Matrix(a.Out, set, a.renderOptions()))
	}
}

// showSet renders the tables of a set on stdout.
func (a *app) showSet(output string, set []render.Input) error {
	switch output {
	case "json":
		return setFault(render.JSON(a.Out, set))
	case "markdown":
		return setFault(render.Markdown(a.Out, set))
	default:
		return setFault(render.Set(a.Out, set, a.renderOptions()))
	}
}

func (a *app) renderOptions() render.Opts {
	return render.Opts{Color: a.color(), Width: a.Width}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
