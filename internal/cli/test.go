package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/evidence"
	"github.com/drainproof/drainproof/internal/experiment"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/release"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/testview"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/trial"
	"github.com/drainproof/drainproof/internal/trigger"
)

func (a *app) testCommand() *cobra.Command {
	o := &testOptions{}
	cmd := &cobra.Command{
		Use:   "test TYPE/NAME",
		Short: "Send real requests to your own workload, disturb it, and say who was hurt",
		Long: `Sends requests to a workload on a fixed schedule, whatever it does, disturbs it by the
trigger, and says how many requests failed, of how many users, when and how, and
whether that is within the budget. Everything that was changed is put back, but a restart that
completed: to take that back would be another.

TYPE/NAME is written as for kubectl: deploy/web, sts/db, ds/agent, pod/x. The requests go
to the Service that selects its Pods (--service, --port and --path choose), from a client
Pod in a namespace of the test's own; or to --url, from this machine or a Pod (--vantage).

Exit codes: 0 within the budget, 1 not, 2 wrong use, 3 measured, but not enough to judge,
4 could not measure.`,
		Example: `  # Does a rolling restart lose anything?
  drainproof test deploy/web

  # In CI: 200 requests/s of 50 users on kept connections, and a JUnit file
  drainproof test deploy/web --mode keep-alive --rate 200 --users 50 \
    --budget failed=0,users=0,p99=500ms --junit out/junit.xml --yes

  # A node is drained; what do the users of the public address see?
  drainproof test deploy/web --trigger drain --url https://shop.example/cart

  # Before and after a fix, five trials each
  drainproof test deploy/web --repeat 5 --out before
  drainproof test deploy/web --repeat 5 --out after
  drainproof report --compare before after`,
		Args: exactArgs("TYPE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.test(cmd, o, args[0]) },
	}
	o.bind(cmd)
	return cmd
}

func (a *app) test(cmd *cobra.Command, o *testOptions, name string) error {
	ref, err := kube.ParseRef(name, o.namespace)
	if err != nil {
		return err
	}
	if err := o.fits(ref.Kind); err != nil {
		return err
	}
	s, err := o.spec(a.In)
	if err != nil {
		return err
	}
	s.Ref = ref
	if s.Tool, err = tool(); err != nil {
		return err
	}
	t := &tester{app: a, opts: o, spec: s}
	if o.junit != "" {
		if err := canHold(filepath.Dir(o.junit)); err != nil {
			return err
		}
		if i, err := os.Stat(o.junit); err == nil && !i.Mode().IsRegular() {
			return fault.Usagef("give the name of a file", "--junit %s is there, and is no file", o.junit)
		}
	}
	if o.repeat == 1 {
		return t.single(cmd.Context())
	}
	return t.set(cmd.Context())
}

// tester is one `drainproof test`.
type tester struct {
	*app
	opts *testOptions
	spec release.Spec
	on   *chosen
	// agents lists the cluster's agents; nil where none are asked.
	agents evidence.Lister
}

// connect chooses the cluster, and says what is about to happen to it.
func (t *tester) connect(ctx context.Context) error {
	change := fmt.Sprintf("%s %s, under traffic, and put it back", describeTrigger(trigger.Kind(t.spec.Config.Trigger), t.opts.count), t.spec.Ref)
	if t.spec.Config.Trigger == string(trigger.None) {
		change = "send requests to " + t.spec.Ref.String()
	}
	on, err := t.choose(ctx, t.opts.clusterFlags, change)
	if err != nil {
		return err
	}
	t.on = on
	t.spec.Cluster, t.spec.Context = on.cluster, on.context
	t.spec.Kernel, t.spec.CPUs = kernelRelease(), runtime.NumCPU()
	if t.spec.Config.Vantage == "pod" || t.spec.Config.Trigger == string(trigger.Kill) {
		if t.spec.Config.Image, err = t.ensureImage(ctx, on, t.opts.image); err != nil {
			return err
		}
	}
	t.agents, err = t.app.agents(ctx, t.opts.agentFlag, on, cmp.Or(t.spec.Config.Image, t.opts.image))
	return err
}

// describeTrigger is what a person confirms.
func describeTrigger(k trigger.Kind, count int) string {
	pods := "a Pod of"
	if count > 1 {
		pods = fmt.Sprintf("%d Pods of", count)
	}
	switch k {
	case trigger.Rollout:
		return "restart"
	case trigger.Scale:
		return "scale down and up again"
	case trigger.Drain:
		return "cordon a node and evict everybody's Pods there, by way of"
	case trigger.Kill:
		return "run a privileged Pod on a node, to kill the process of a Pod of"
	case trigger.ForceDelete:
		return "delete by force " + pods
	default:
		return string(k) + " " + pods
	}
}

// trial runs one.
func (t *tester) trial(ctx context.Context, id string, set *record.Set) (*record.Record, error) {
	s := t.spec
	s.ID, s.Set = id, set
	return t.release(ctx, s, t.on, t.agents, t.opts.agentFlag)
}

// release runs one trial of a workload under requests, with what is shown while it runs.
func (a *app) release(ctx context.Context, s release.Spec, on *chosen, agents evidence.Lister, f agentFlag) (*record.Record, error) {
	view := a.newLiveView()
	defer view.end()
	return release.Run(ctx, s, release.Deps{
		API: on.api,
		NewTrigger: func(ctx context.Context, k trigger.Kind, target trigger.Target) (trigger.Trigger, error) {
			return trigger.New(ctx, k, on.api.Clientset(), target)
		},
		Agents:        agents,
		RequireAgents: f.mode == agentRequired,
		Local:         traffic.StartLocalSender,
		Progress:      func(p release.Phase, text string) { view.progress("   %-9s %s", p, text) },
		Live:          view.show,
	})
}

func (t *tester) single(ctx context.Context) error {
	id := trial.NewID(time.Now())
	dir := t.opts.out
	if dir == "" {
		dir = filepath.Join("drainproof-runs", id)
	}
	if err := t.refuseExisting(dir, t.opts.force); err != nil {
		return err
	}
	if err := t.connect(ctx); err != nil {
		return err
	}
	rec, terr := t.trial(ctx, id, nil)
	if fault.CodeOf(terr) == fault.Usage && rec.Requests == nil {
		return terr // nothing was touched: the next attempt may have this folder
	}
	if t.opts.force && rec.Completeness != record.Complete {
		if old, err := record.Read(dir); err == nil && old.Completeness == record.Complete {
			dir = filepath.Join(dir, record.HistoryDir, rec.ID) // a good record is not given for a failed trial
		}
	}
	path, err := record.Write(dir, *rec, t.opts.force)
	if err != nil {
		// What was measured is not lost with the file.
		return errors.Join(recordFault(err), terr, t.show(t.opts.output, rec))
	}
	t.progress("record: %s", path)
	in := render.Input{Path: path, Record: *rec}
	if terr != nil && rec.Requests == nil {
		// Nothing was sent: there is nothing to show, and a CI system must not find the results of an earlier run.
		return errors.Join(terr, t.writeJUnit([]render.Input{in}))
	}
	if err := errors.Join(t.showInput(t.opts.output, in, t.renderOptions()), t.writeJUnit([]render.Input{in})); err != nil {
		return firstError(terr, err)
	}
	if terr != nil {
		return terr
	}
	return t.judgeTests([]record.Record{*rec})
}

func (t *tester) set(ctx context.Context) error {
	c := t.spec.Config
	e := &experiment.Experiment{
		Name: strings.ToLower("test-" + t.spec.Ref.Kind + "-" + t.spec.Ref.Name), Repeats: t.opts.repeat,
		Arms: []experiment.Arm{{Name: c.Trigger, Config: c}},
	}
	s := t.spec
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s %+v %s %s %s %+v %s %d", s.Ref, c.Trigger, c.Path, c.Vantage, *c.Traffic, s.Service, s.Port, s.Pod, s.Plan, s.Budget.Text, t.opts.repeat))
	e.Sha256 = hex.EncodeToString(sum[:])
	var last *record.Record // also one that did not come to its end
	dir := t.opts.out
	if dir == "" {
		dir = filepath.Join("drainproof-runs", e.Name+"-"+trial.NewID(time.Now()))
	}
	opts := experiment.Options{
		Dir: dir, Tool: t.spec.Tool, Resume: t.opts.resume,
		Progress: func(_ experiment.Arm, repeat int, rec *record.Record, err error) {
			switch {
			case rec == nil:
				t.progress("== %s, trial %d of %d", t.spec.Ref, repeat, e.Repeats)
			case err == nil:
				t.progress("   %s", release.Describe(rec))
			}
			if rec != nil {
				last = rec
			}
		},
	}
	if err := experiment.Check(e, opts); err != nil {
		return err
	}
	if err := canHold(dir); err != nil {
		return err
	}
	if err := t.connect(ctx); err != nil {
		return err
	}
	found, err := experiment.Run(ctx, e, opts, func(ctx context.Context, _ experiment.Arm, set record.Set) (*record.Record, error) {
		return t.trial(ctx, "", &set)
	})
	if err != nil && last != nil && last.Completeness != record.Complete {
		// A set with a hole is not summed up, but the trial that made it is shown, and judged.
		in := render.Input{Path: experiment.TrialDir(dir, last.Set.Arm, last.Set.Repeat), Record: *last}
		if serr := errors.Join(t.showInput(t.opts.output, in, t.renderOptions()), t.writeJUnit([]render.Input{in})); serr != nil {
			return firstError(err, serr)
		}
	}
	if err != nil {
		return err
	}
	t.progress("records: %s", dir)
	set, records := make([]render.Input, 0, len(found)), make([]record.Record, 0, len(found))
	for _, r := range found {
		set = append(set, render.Input{Path: experiment.TrialDir(dir, r.Set.Arm, r.Set.Repeat), Record: *r})
		records = append(records, *r)
	}
	if err := errors.Join(t.showTests(t.opts.output, set), t.writeJUnit(set)); err != nil {
		return err
	}
	return t.judgeTests(records)
}

// writeJUnit writes the verdicts for a CI system, where that was asked for.
func (t *tester) writeJUnit(set []render.Input) error {
	if t.opts.junit == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(t.opts.junit), 0o755); err != nil {
		return fault.Usagef("choose another file with --junit", "making the folder of the test results: %v", err)
	}
	var b bytes.Buffer
	if err := testview.JUnit(&b, set...); err != nil {
		return err
	}
	if err := replaceFile(t.opts.junit, b.Bytes()); err != nil {
		return err
	}
	t.progress("JUnit: %s", t.opts.junit)
	return nil
}

// judgeTests turns verdicts into the exit code: one that failed fails all, one that says nothing keeps the rest from passing.
func (a *app) judgeTests(records []record.Record) error {
	worst := record.Verdict{Result: record.Pass}
	for _, r := range records {
		v := r.Verdict
		if v == nil {
			v = &record.Verdict{Result: record.Inconclusive, Reason: "nothing was judged"}
		}
		switch {
		case v.Result == record.Fail && worst.Result != record.Fail, v.Result == record.Inconclusive && worst.Result == record.Pass:
			worst = *v
		}
	}
	switch worst.Result {
	case record.Fail:
		a.code = fault.Failed
		return nil
	case record.Inconclusive:
		return fault.Inconclusivef("see `missing` in the record, and measure it again", "inconclusive: %s", harmless(worst.Reason))
	}
	return nil
}

// modes lists what --mode understands.
func modes() []string {
	var out []string
	for _, m := range request.Modes() {
		out = append(out, string(m))
	}
	return out
}
