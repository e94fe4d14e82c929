// Package fix turns findings into patches: edits of the user's own files that keep
// comments, order, quotes and indentation, and a kustomize overlay for those who leave
// the files alone.
//
// It decides what to change (Plan) apart from how text is changed (Apply, Overlay,
// Diff), and all of it is pure: it reads and writes no file. It repairs only what it can
// repair without knowing the application; the rest it names with the reason.
package fix

import (
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
	"github.com/drainproof/drainproof/internal/audit/rules"
)

// Change is one thing to do to one object, or one that cannot be done.
type Change struct {
	// Object is the object that is changed, or that is new.
	Object finding.Object
	// File is where it is written, or where a new object goes; "" for a cluster's objects.
	File string
	// Path is the field; "" for a new object.
	Path string
	// What says in one line what is done, or what stays wrong.
	What string
	// Why are the IDs of the rules that ask for it.
	Why []string
	// Skipped is the reason why it cannot be done, with what a person can do; "" for what is done.
	Skipped string

	object *manifest.Object
	edits  []edit
	// added is a new object.
	added *tree
	// bond names what must be done together with this, among the changes of the object.
	bond string
}

// Options are what a plan depends on beside the manifests.
type Options struct {
	// Server is the minor version of Kubernetes that the objects are for, e.g. 37 for 1.37.
	Server int
	Floors budget.Floors
}

// repair plans what is done about findings on one workload. It gets all findings of its rules at once.
type repair struct {
	name string
	plan planFunc
}

type planFunc func(p *planner, w *model.Workload, fs []finding.Finding) []Change

var (
	drain     = repair{"drain", (*planner).drain}
	readiness = repair{"readiness", (*planner).readiness}
	surge     = repair{"surge", (*planner).surge}
	promote   = repair{"promotion", (*planner).promotion}
	protect   = repair{"protect", (*planner).protect}
	unblock   = repair{"unblock", (*planner).unblock}
	shell     = repair{"shell", (*planner).replaceShell}
)

// repairs are the rules that can be repaired without knowing the application.
var repairs = map[string][]repair{
	"DP101": {drain}, "DP102": {drain}, "DP103": {drain}, "DP105": {drain}, "DP106": {drain}, "DP107": {drain}, "DP108": {drain},
	"DP301": {drain}, "DP843": {drain},
	"DP201": {readiness}, "DP404": {readiness},
	"DP322": {shell, drain},
	"DP401": {surge}, "DP403": {surge},
	"DP406": {promote},
	"DP501": {protect},
	"DP502": {unblock},
}

var (
	// forHook are the rules that a hook answers. A grace period of 0 and a shell that keeps the
	// signal to itself hide that there is none: it would be missed next.
	forHook = map[string]bool{"DP103": true, "DP105": true, "DP106": true, "DP107": true, "DP301": true, "DP322": true, "DP843": true}
	// forGrace are the rules that a longer grace period answers.
	forGrace = map[string]bool{"DP101": true, "DP102": true, "DP105": true, "DP108": true}
	// besides are rules that fall silent when there is a hook, whatever asked for it.
	besides = map[string]bool{"DP103": true, "DP506": true, "DP551": true, "DP652": true, "DP841": true}
	// asks are rules that are left alone where they only ask: about Pods behind a headless Service, whose
	// clients may be each other. A hook slows them down, and a probe may keep them from finding each other.
	asks = map[string]bool{"DP103": true, "DP201": true}
)

type planner struct {
	model *model.Model
	Options
	// workloads and budgets are those of the model by their objects.
	workloads map[finding.Object][]*model.Workload
	budgets   map[finding.Object][]*model.PDB
	// added are the PodDisruptionBudgets of the plan, by namespace.
	added map[string][]*model.PDB
}

func newPlanner(m *model.Model, o Options) *planner {
	p := &planner{
		model: m, Options: o, added: map[string][]*model.PDB{},
		workloads: map[finding.Object][]*model.Workload{}, budgets: map[finding.Object][]*model.PDB{},
	}
	for _, w := range m.Workloads {
		p.workloads[rules.ObjectOf(w.Object)] = append(p.workloads[rules.ObjectOf(w.Object)], w)
		if w.PodObject != w.Object {
			p.workloads[rules.ObjectOf(w.PodObject)] = append(p.workloads[rules.ObjectOf(w.PodObject)], w)
		}
	}
	for _, b := range m.PDBs {
		p.budgets[rules.ObjectOf(b.Object)] = append(p.budgets[rules.ObjectOf(b.Object)], b)
	}
	return p
}

// Plan says what to change so that the findings are gone, in the order of the findings. What
// cannot be done is in the plan too, at its end, with Skipped set. Made on the result of its own
// changes, a plan holds nothing but skipped ones.
func Plan(m *model.Model, findings []finding.Finding, o Options) []Change {
	p := newPlanner(m, o)
	type job struct {
		repair   string
		workload *model.Workload
	}
	var order []job
	of := map[job][]finding.Finding{}
	plan := map[string]planFunc{}
	for _, f := range findings {
		w := p.workloadOf(f)
		for _, r := range repairsOf(f, w) {
			j := job{r.name, w}
			if of[j] == nil {
				order = append(order, j)
				plan[r.name] = r.plan
			}
			of[j] = append(of[j], f)
		}
	}
	var done, skipped []Change
	for _, j := range order {
		for _, c := range plan[j.repair](p, j.workload, of[j]) {
			if c.Skipped == "" {
				done = append(done, c)
			} else {
				skipped = append(skipped, c)
			}
		}
	}
	for _, f := range findings {
		w := p.workloadOf(f)
		if repairsOf(f, w) == nil && !p.hookAnswers(f, w, done) {
			reason := f.Remedy
			if f.Ask != "" {
				reason = strings.TrimSuffix(reason, ".") + "; find out first: " + f.Ask
			}
			skipped = append(skipped, p.skip(f, reason))
		}
	}
	return append(done, skipped...)
}

// repairsOf gives the repairs for a finding; nil where there is none.
func repairsOf(f finding.Finding, w *model.Workload) []repair {
	if w == nil || f.Severity == finding.Info && asks[f.Rule] {
		return nil
	}
	return repairs[f.Rule]
}

// hookAnswers says whether a hook of the plan makes another rule fall silent too, and
// names that rule with it.
func (p *planner) hookAnswers(f finding.Finding, w *model.Workload, done []Change) bool {
	if !besides[f.Rule] || w == nil {
		return false
	}
	sum := budget.Of(w, p.Floors)
	if sum.Slowest == nil || arrival(sum) == nil || longer(arrival(sum)) < seconds(sum.Slowest.Least) {
		return false
	}
	answered := false
	on := containerOf(w, f)
	for i, c := range done {
		if c.object != w.PodObject || !strings.HasSuffix(c.Path, ".lifecycle.preStop") || on != nil && c.Path != on.Path+".lifecycle.preStop" {
			continue
		}
		if answered = true; !slices.Contains(c.Why, f.Rule) {
			done[i].Why = append(slices.Clone(c.Why), f.Rule)
		}
	}
	return answered
}

// workloadOf finds the workload that a finding is about.
func (p *planner) workloadOf(f finding.Finding) *model.Workload {
	if f.Workload != nil {
		if all := p.workloads[*f.Workload]; len(all) > 0 {
			return all[0]
		}
		return nil
	}
	for _, w := range p.workloads[f.Object] {
		if w.Object.File == f.File || w.PodObject.File == f.File {
			return w
		}
	}
	if b := p.budgetOf(f); b != nil && len(b.Workloads) > 0 {
		return b.Workloads[0]
	}
	return nil
}

// budgetOf finds the PodDisruptionBudget that a finding is about.
func (p *planner) budgetOf(f finding.Finding) *model.PDB {
	for _, b := range p.budgets[f.Object] {
		if b.Object.File == f.File {
			return b
		}
	}
	return nil
}

// skip leaves a finding as it is.
func (p *planner) skip(f finding.Finding, reason string) Change {
	return Change{Object: f.Object, File: f.File, Path: f.Path, What: f.Message, Why: []string{f.Rule}, Skipped: reason}
}

// change starts a Change of an object.
func change(o *manifest.Object, path, what string, fs []finding.Finding, edits ...edit) Change {
	return Change{Object: rules.ObjectOf(o), File: o.File, Path: path, What: what, Why: rulesOf(fs), object: o, edits: edits}
}

func rulesOf(fs []finding.Finding) []string {
	var ids []string
	for _, f := range fs {
		ids = append(ids, f.Rule)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// containerOf finds the container that a finding's path leads into; nil for one
// that is about the whole Pod.
func containerOf(w *model.Workload, f finding.Finding) *model.Container {
	for _, c := range slices.Concat(w.Pod.Containers, w.Pod.Sidecars) {
		if rest, ok := strings.CutPrefix(f.Path, c.Path); ok && (rest == "" || rest[0] == '.') {
			return c
		}
	}
	return nil
}
