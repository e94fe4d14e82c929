package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/audit"
	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
	"github.com/drainproof/drainproof/internal/audit/source"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/auditview"
)

// auditInput says where the objects come from: exactly one of the four.
type auditInput struct {
	files     []string
	kustomize string
	helm      string
	values    []string
	set       []string
	live      clusterFlags

	namespaces []string
	allSpaces  bool
	kubernetes string
	config     string
	measured   string

	// floors are what the records of measured show.
	floors map[string]budget.Floor
	// read are the names of the files that held objects, in their order.
	read []string
}

func (in *auditInput) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&in.files, "filename", "f", nil, "a file, a folder or - for stdin; may be repeated")
	f.StringVarP(&in.kustomize, "kustomize", "k", "", "a folder to render with kustomize (or kubectl kustomize)")
	f.StringVar(&in.helm, "helm", "", "a chart to render with helm template")
	f.StringArrayVar(&in.values, "values", nil, "values file for --helm; may be repeated")
	f.StringArrayVar(&in.set, "set", nil, "key=value for --helm; may be repeated")
	f.StringVar(&in.live.cluster, "cluster", "", "a live local cluster, by name")
	f.StringVar(&in.live.kubeconfig, "kubeconfig", "", "path of a kubeconfig, for a live cluster")
	f.StringVar(&in.live.context, "context", "", "a live cluster, by its context")
	f.StringSliceVarP(&in.namespaces, "namespace", "n", nil, "namespaces of a live cluster, comma separated (default all); with --helm the release's")
	f.BoolVarP(&in.allSpaces, "all-namespaces", "A", false, "all namespaces of a live cluster (the default)")
	f.StringVar(&in.kubernetes, "kubernetes", "", "the version that the manifests are for, e.g. v1.34 (default: the live server's, or "+audit.DefaultServer.String()+")")
	f.StringVar(&in.config, "config", "", "configuration file (default .drainproof-audit.yaml, where there is one)")
	f.StringVar(&in.measured, "measured", "", "folder of records of your cluster: what they show of its propagation replaces the default floors")
	cmd.MarkFlagsMutuallyExclusive("cluster", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("cluster", "context")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
}

func (in *auditInput) isLive() bool {
	return in.live.cluster != "" || in.live.kubeconfig != "" || in.live.context != ""
}

// bindFiles binds what a fix works on: files and what is rendered from them.
func (in *auditInput) bindFiles(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&in.files, "filename", "f", nil, "a file or a folder; may be repeated")
	f.StringVarP(&in.kustomize, "kustomize", "k", "", "a folder to render with kustomize (or kubectl kustomize); with --overlay")
	f.StringVar(&in.kubernetes, "kubernetes", "", "the version that the manifests are for, e.g. v1.34 (default "+audit.DefaultServer.String()+")")
	f.StringVar(&in.config, "config", "", "configuration file (default .drainproof-audit.yaml, where there is one)")
	f.StringVar(&in.measured, "measured", "", "folder of records of your cluster: what they show of its propagation replaces the default floors")
}

// check wants exactly one kind of input.
func (in *auditInput) check() error {
	n := 0
	for _, given := range []bool{len(in.files) > 0, in.kustomize != "", in.helm != "", in.isLive()} {
		if given {
			n++
		}
	}
	switch {
	case n == 0:
		return fault.Usagef("give -f FILE or -f - for stdin, -k DIR, --helm CHART, or a live cluster with --context or --cluster", "nothing to audit was given")
	case n > 1:
		return fault.Usagef("choose one of -f, -k, --helm and a live cluster; pipe what needs more: helm template ... | drainproof audit -f -", "several kinds of input were given")
	case in.helm == "" && (len(in.values) > 0 || len(in.set) > 0):
		return fault.Usagef("add --helm CHART", "--values and --set are for --helm")
	case len(in.namespaces) > 0 && !in.isLive() && in.helm == "":
		return fault.Usagef("leave -n out: files are judged whole", "--namespace is for a live cluster or --helm")
	case in.helm != "" && len(in.namespaces) > 1:
		return fault.Usagef("name one", "a release has one namespace")
	}
	return nil
}

// read gives the model and the server version that it is for.
func (a *app) readAudit(ctx context.Context, in *auditInput, c audit.Config) (*model.Model, audit.Server, error) {
	server := audit.DefaultServer
	var objects []*manifest.Object
	var notes []string
	var err error
	switch {
	case len(in.files) > 0:
		objects, notes, err = source.Files(ctx, in.files, a.In)
	case in.kustomize != "":
		objects, err = source.Kustomize(ctx, in.kustomize)
	case in.helm != "":
		ns := strings.Join(in.namespaces, "")
		objects, err = source.Helm(ctx, in.helm, "release", ns, in.values, in.set)
	default:
		objects, notes, server, err = a.readLive(ctx, in)
	}
	if err != nil {
		return nil, server, err
	}
	for _, v := range []string{c.Kubernetes, in.kubernetes} {
		if v == "" {
			continue
		}
		if server, err = audit.ParseServer(v); err != nil {
			return nil, server, fault.Usagef("write it as v1.34", "--kubernetes: %v", err)
		}
	}
	for _, o := range objects {
		if o.File != "" && !slices.Contains(in.read, o.File) {
			in.read = append(in.read, o.File)
		}
	}
	m := model.Build(objects, model.Options{Live: in.isLive(), Namespaces: in.namespaces})
	m.Notes = append(notes, m.Notes...)
	if m.Objects == 0 && in.isLive() {
		where := "this cluster holds"
		if len(in.namespaces) > 0 {
			where = "namespaces " + strings.Join(in.namespaces, ", ") + " hold"
		}
		return nil, server, fault.Inconclusivef("check the names: kubectl get namespaces", "%s nothing that an audit judges, or do not exist", where)
	}
	if m.Objects == 0 {
		return nil, server, fault.Usagef("check the path or the namespaces", "the input holds no Kubernetes object")
	}
	return m, server, nil
}

func (a *app) readLive(ctx context.Context, in *auditInput) ([]*manifest.Object, []string, audit.Server, error) {
	to, err := a.choose(ctx, in.live, "")
	if err != nil {
		return nil, nil, audit.Server{}, err
	}
	server, err := audit.ParseServer(to.api.Version())
	if err != nil {
		return nil, nil, server, fault.Measuref(err, "name it with --kubernetes", "the server's version is not understood")
	}
	a.progress("reading the workloads of %s%s", to.cluster, to.context)
	objects, notes, err := kube.AuditObjects(ctx, to.api, in.namespaces, func(_ string, page []byte) ([]*manifest.Object, error) {
		return manifest.Parse("", page)
	})
	return objects, notes, server, err
}

// defaultAuditConfig is read when it is there and --config names no other.
const defaultAuditConfig = ".drainproof-audit.yaml"

func readAuditConfig(file string) (audit.Config, error) {
	name := file
	if name == "" {
		name = defaultAuditConfig
	}
	text, err := os.ReadFile(name)
	if err != nil {
		if file == "" && os.IsNotExist(err) {
			return audit.Config{}, nil
		}
		return audit.Config{}, fault.Usagef("check the path", "configuration %s cannot be read: %v", name, err)
	}
	return audit.ParseConfig(name, text)
}

func (a *app) auditCommand() *cobra.Command {
	var in auditInput
	var output, failOn, baseline, writeBaseline string
	var ascii bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Find what will lose traffic when it is terminated, before the release",
		Long: `Reads manifests or a live cluster, joins workloads with their Services, Ingresses, routes,
disruption budgets and autoscalers, and works out what a termination will cost: the hook,
how long traffic goes on arriving on each path, the application's drain, the grace period.

Exit code 1 if anything is found at or above --fail-on. A finding can be lived with: annotation
drainproof.dev/ignore: "DP501: the reason", a configuration file, or a baseline of old debts.`,
		Example: `  drainproof audit -f manifests/
  helm template shop ./chart | drainproof audit -f - --kubernetes v1.33
  drainproof audit -k overlays/production --fail-on error -o sarif > audit.sarif
  drainproof audit --context staging -n shop,cart
  drainproof audit -f manifests/ --write-baseline debts.json
  drainproof audit explain DP103
  drainproof audit fix -f manifests/ --dry-run`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("output", output, "table", "json", "sarif", "junit", "markdown"); err != nil {
				return err
			}
			if err := oneOf("fail-on", failOn, "", "error", "warning", "info", "never"); err != nil {
				return err
			}
			if err := in.check(); err != nil {
				return err
			}
			c, err := readAuditConfig(in.config)
			if err != nil {
				return err
			}
			if failOn == "" {
				failOn = string(c.FailOn)
			}
			r, _, err := a.audit(cmd.Context(), &in, c, baseline)
			if err != nil {
				return err
			}
			if writeBaseline != "" {
				return a.writeBaseline(writeBaseline, r)
			}
			if err := a.showAudit(output, r, ascii); err != nil {
				return err
			}
			if fails(r, failOn) {
				a.code = fault.Failed
			}
			return nil
		},
	}
	in.bind(cmd)
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "table", "table, json, sarif, junit or markdown")
	f.StringVar(&failOn, "fail-on", "", "exit with 1 from this severity on: error, warning (default), info or never")
	f.StringVar(&baseline, "baseline", "", "file of old debts, which are shown as suppressed")
	f.StringVar(&writeBaseline, "write-baseline", "", "write what is found now as such a file, and print nothing else")
	f.BoolVar(&ascii, "ascii", false, "draw without block characters")
	cmd.MarkFlagsMutuallyExclusive("write-baseline", "output")
	cmd.AddCommand(a.auditExplainCommand(), a.auditFixCommand())
	return cmd
}

func (a *app) audit(ctx context.Context, in *auditInput, c audit.Config, baseline string) (finding.Report, *model.Model, error) {
	o := audit.Options{Version: versionString(), Config: c, At: time.Now().UTC()}
	var err error
	if baseline != "" {
		text, err := os.ReadFile(baseline)
		if err != nil {
			return finding.Report{}, nil, fault.Usagef("make it with --write-baseline", "baseline %s cannot be read: %v", baseline, err)
		}
		if o.Baseline, err = audit.ParseBaseline(baseline, text); err != nil {
			return finding.Report{}, nil, err
		}
	}
	if in.measured != "" {
		if o.Measured, err = a.measuredFloors(in.measured); err != nil {
			return finding.Report{}, nil, err
		}
		in.floors = o.Measured
	}
	m, server, err := a.readAudit(ctx, in, c)
	if err != nil {
		return finding.Report{}, nil, err
	}
	o.Server = server
	return audit.Run(m, o), m, nil
}

// measuredFloors reads records of the user's own cluster.
func (a *app) measuredFloors(dir string) (map[string]budget.Floor, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fault.Usagef("give a folder that drainproof run --out wrote", "--measured %s: %v", dir, err)
	}
	paths, err := record.Find(dir)
	if err != nil {
		return nil, recordFault(err)
	}
	var all []record.Record
	for _, p := range paths {
		r, err := record.Read(p)
		if err != nil {
			return nil, recordFault(err)
		}
		all = append(all, r)
	}
	floors, trials := audit.Measured(all, dir)
	if trials == 0 {
		return nil, fault.Inconclusivef("measure it there: drainproof run --context NAME --arm drain --udp 10 --repeat 5 --out DIR",
			"none of the %d records in %s shows how long traffic goes on arriving: that takes a Pod that was deleted or evicted, failed its readiness and was replaced, with UDP flows", len(all), dir)
	}
	a.progress("floors from %d trials in %s", trials, dir)
	return floors, nil
}

// fails says whether the report is a failure from that severity on; "" stands for warning.
func fails(r finding.Report, from string) bool {
	if from == "never" {
		return false
	}
	if from == "" {
		from = string(finding.Warning)
	}
	return r.Worst().Rank() >= finding.Severity(from).Rank()
}

func (a *app) showAudit(output string, r finding.Report, ascii bool) error {
	write := map[string]func(io.Writer, *finding.Report) error{
		"json": auditview.JSON, "sarif": func(w io.Writer, r *finding.Report) error { return auditview.SARIF(w, r, audit.Docs()) },
		"junit": auditview.JUnit, "markdown": auditview.Markdown,
		"table": func(w io.Writer, r *finding.Report) error {
			return auditview.Table(w, r, auditview.Options{Width: a.Width, Color: a.color(), ASCII: ascii})
		},
	}[output]
	if err := write(a.Out, &r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (a *app) writeBaseline(file string, r finding.Report) error {
	b := audit.NewBaseline(r)
	text, err := b.JSON()
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fault.Usagef("choose another path", "baseline %s cannot be written: %v", file, err)
	}
	a.progress("%d findings are in %s; audit with --baseline %s to see only new ones", len(b.Debts), file, file)
	return nil
}

func (a *app) auditExplainCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "explain [RULE]", Short: "Print a rule with the physics and the sources it rests on; all rules without a name",
		Example: `  drainproof audit explain DP103
  drainproof audit explain -o markdown > rules.md`,
		Args: maxOneArg("a rule"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := oneOf("output", output, "table", "markdown"); err != nil {
				return err
			}
			docs := audit.Docs()
			if len(args) == 1 {
				one := docs[:0]
				for _, d := range docs {
					if strings.EqualFold(d.ID, args[0]) {
						one = append(one, d)
					}
				}
				if len(one) == 0 {
					return fault.Usagef("`drainproof audit explain` lists them", "there is no rule %q", args[0])
				}
				docs = one
			}
			if output == "markdown" {
				return auditview.RulesMarkdown(a.Out, docs)
			}
			if len(args) == 0 {
				return auditview.RuleList(a.Out, docs)
			}
			return auditview.Explain(a.Out, docs[0], a.Width)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or markdown")
	return cmd
}
