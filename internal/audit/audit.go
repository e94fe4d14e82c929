// Package audit judges a model: it runs the rules, then applies what the user
// chose to live with (annotations, a configuration file, a baseline), and gives the
// report's document.
//
// It is pure: files, clusters and terminals are the command layer's business.
package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
	"github.com/drainproof/drainproof/internal/audit/rules"
)

// Options are the user's choices.
type Options struct {
	// Version is the tool's.
	Version string
	// Server is the Kubernetes version that the objects are for.
	Server Server
	// Config is the configuration file's; the zero Config changes nothing.
	Config Config
	// Baseline holds old debts; nil without one.
	Baseline *Baseline
	// Measured are floors from the user's own records, by path: see Measured. They win over the configuration's.
	Measured map[string]budget.Floor
	// At is when the audit is made.
	At time.Time
}

// Run judges the model.
func Run(m *model.Model, o Options) finding.Report {
	var r finding.Report
	r.Schema, r.Tool.Version, r.At = finding.Schema, o.Version, o.At
	r.Kubernetes, r.Objects = o.Server.String(), m.Objects
	r.Workloads, r.Findings, r.Suppressed = []finding.Workload{}, []finding.Finding{}, []finding.Suppressed{}
	r.Notes = append([]string{}, m.Notes...)

	floors := o.Config.Floored(o.Measured)
	found := rules.Check(m, o.Server.Minor, floors)
	marks := newMarks(m)
	for _, f := range found {
		marked, why := marks.suppress(f) // asked first, so that an entry counts as used whoever else suppresses it
		f, by, reason := o.Config.apply(f)
		if by == "" && marked {
			by, reason = "annotation", why
		}
		if by == "" && o.Baseline.holds(f) {
			by, reason = "baseline", "known before"
		}
		if by != "" {
			r.Suppressed = append(r.Suppressed, finding.Suppressed{Finding: f, By: by, Reason: reason})
			continue
		}
		r.Findings = append(r.Findings, f)
	}
	r.Notes = append(r.Notes, marks.notes()...)
	r.Notes = append(r.Notes, o.Baseline.notes(found)...)
	r.Notes = append(r.Notes, o.Config.notes(found)...)
	order(r.Findings)
	counted := count(r.Findings, r.Suppressed)
	for _, w := range m.Workloads {
		sum := budget.Of(w, floors)
		doc := finding.Workload{Object: rules.ObjectOf(w.Object), File: w.Object.File, Line: w.Object.Line(""), Paths: []string{}, Budget: sum.Document()}
		for _, f := range sum.All {
			if !slices.Contains(doc.Paths, f.Path) {
				doc.Paths = append(doc.Paths, f.Path)
			}
		}
		doc.Verdict = verdict(doc, counted[doc.Object])
		r.Workloads = append(r.Workloads, doc)
	}
	return r
}

// order sorts the worst first, and keeps the order of rules and input among equals.
func order(fs []finding.Finding) {
	slices.SortStableFunc(fs, func(a, b finding.Finding) int {
		return cmp.Compare(b.Severity.Rank(), a.Severity.Rank())
	})
}

// tally is what was found about one object, or about what sends it traffic.
type tally struct {
	worst       finding.Severity
	open, quiet int // findings that stand, and suppressed ones
}

// count sums up all findings by object, each under its own object and under its workload.
func count(live []finding.Finding, suppressed []finding.Suppressed) map[finding.Object]tally {
	all := map[finding.Object]tally{}
	add := func(f finding.Finding, open, quiet int) {
		of := []finding.Object{f.Object}
		if f.Workload != nil && *f.Workload != f.Object {
			of = append(of, *f.Workload)
		}
		for _, o := range of {
			t := all[o]
			if f.Severity.Rank() > t.worst.Rank() {
				t.worst = f.Severity
			}
			t.open, t.quiet = t.open+open, t.quiet+quiet
			all[o] = t
		}
	}
	for _, f := range live {
		add(f, 1, 0)
	}
	for _, s := range suppressed {
		add(s.Finding, 0, 1)
	}
	return all
}

// verdict is the line that a person reads first. It is about physics: what is suppressed loses
// traffic all the same, it only does not fail the run.
func verdict(w finding.Workload, t tally) string {
	text := judgement(w, t.worst, t.open)
	if t.quiet > 0 {
		text += "; " + plural(t.quiet, "finding") + " suppressed"
	}
	return text
}

// judgement is the verdict by the worst of all findings, of which so many are open.
func judgement(w finding.Workload, worst finding.Severity, open int) string {
	switch {
	case len(w.Paths) == 0 && open == 0:
		return "nothing in the input sends it traffic"
	case len(w.Paths) == 0:
		return "nothing in the input sends it traffic, but it has findings of its own"
	case worst == finding.Error:
		return "loses traffic when it is terminated"
	case worst == finding.Warning:
		return "can lose traffic when it is terminated"
	case worst != "" && open == 0:
		return "depends on the application"
	case worst != "":
		return "depends on the application: see the questions"
	case w.Budget.LeftNs == nil:
		return "no loss found; what the application does on its stop signal is not known"
	case *w.Budget.LeftNs < 0:
		return fmt.Sprintf("can lose traffic when it is terminated: hook and drain take %s longer than the grace period", spell(-*w.Budget.LeftNs))
	}
	return fmt.Sprintf("no loss found; %s of the grace period are left", spell(*w.Budget.LeftNs))
}

// spell writes nanoseconds as seconds with at most three decimals.
func spell(ns int64) string {
	return strconv.FormatFloat(float64(time.Duration(ns).Round(time.Millisecond))/1e9, 'f', -1, 64) + " s"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// describe names an object as the output does.
func describe(o finding.Object) string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return strings.TrimSpace(o.Kind + " " + name)
}

// Docs gives the rules' documentation.
func Docs() []finding.RuleDoc {
	var docs []finding.RuleDoc
	for _, r := range rules.All() {
		docs = append(docs, finding.RuleDoc{
			ID: r.ID, Topic: r.Topic, Severity: r.Severity, Title: r.Title,
			Physics: r.Physics, Sources: r.Sources, Remedy: r.Remedy,
		})
	}
	return docs
}
