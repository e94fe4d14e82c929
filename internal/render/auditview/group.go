package auditview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/figure"
)

// group is one workload with what was found on it and on the objects around it.
type group struct {
	// workload is nil in the last group: objects that belong to no workload.
	workload *finding.Workload
	title    string
	// findings are ordered worst first, then as in the report.
	findings   []finding.Finding
	suppressed []finding.Suppressed
}

// groups gives one for each workload, in the report's order, and one for the rest where there is any.
func groups(r *finding.Report) []group {
	list := make([]group, len(r.Workloads), len(r.Workloads)+1)
	byObject := map[finding.Object][]int{}
	for i := range r.Workloads {
		w := &r.Workloads[i]
		list[i] = group{workload: w, title: describe(w.Object)}
		byObject[w.Object] = append(byObject[w.Object], i)
	}
	for _, same := range byObject {
		for _, i := range same {
			// The overlays of one workload are told apart by their files.
			if w := r.Workloads[i]; len(same) > 1 && w.File != "" {
				list[i].title += " (" + fileLine(w.File, w.Line) + ")"
			}
		}
	}
	rest := group{title: "Objects of no workload"}
	of := func(f finding.Finding) *group {
		owner := f.Object
		if f.Workload != nil {
			owner = *f.Workload
		}
		same := byObject[owner]
		if len(same) == 0 {
			same = byObject[f.Object]
		}
		if len(same) == 0 {
			return &rest
		}
		return &list[nearest(r.Workloads, same, f)]
	}
	for _, f := range r.Findings {
		g := of(f)
		g.findings = append(g.findings, f)
	}
	for _, s := range r.Suppressed {
		g := of(s.Finding)
		g.suppressed = append(g.suppressed, s)
	}
	if len(rest.findings)+len(rest.suppressed) > 0 {
		list = append(list, rest)
	}
	for _, g := range list {
		slices.SortStableFunc(g.findings, func(a, b finding.Finding) int {
			return cmp.Compare(b.Severity.Rank(), a.Severity.Rank())
		})
	}
	return list
}

// nearest picks, of workloads with the same name, the one that f's line belongs to.
func nearest(all []finding.Workload, same []int, f finding.Finding) int {
	best := same[0]
	for _, i := range same[1:] {
		if all[i].File == f.File && (all[best].File != f.File || all[i].Line <= f.Line) {
			best = i
		}
	}
	return best
}

// worstFirst parts the groups that have findings, the worst first, from those whose findings are
// all suppressed, which are not clean, and from those that have none.
func worstFirst(all []group) (dirty, quiet, clean []group) {
	for _, g := range all {
		switch {
		case len(g.findings) > 0:
			dirty = append(dirty, g)
		case g.workload == nil:
		case len(g.suppressed) > 0:
			quiet = append(quiet, g)
		default:
			clean = append(clean, g)
		}
	}
	rank := func(g group) []int {
		if g.workload == nil {
			return nil
		}
		c := g.counts()
		return []int{g.worst().Rank(), c.errors, c.warnings, c.info}
	}
	slices.SortStableFunc(dirty, func(a, b group) int { return slices.Compare(rank(b), rank(a)) })
	return dirty, quiet, clean
}

func (g group) worst() finding.Severity {
	if len(g.findings) == 0 {
		return ""
	}
	return g.findings[0].Severity
}

func (g group) counts() counts { return countsOf(g.findings) }

// summary is what stands beside a group's title.
func (g group) summary() string {
	if len(g.findings) == 0 && len(g.suppressed) > 0 {
		return suppressedText(g.suppressed)
	}
	return g.counts().String()
}

// about names a finding's object where it is not the group's own.
func (g group) about(f finding.Finding) string {
	if g.workload != nil && g.workload.Object == f.Object {
		return ""
	}
	return describe(f.Object)
}

// place is what stands before a finding's message: edge.yaml:12 Service shop/edge:
func (g group) place(f finding.Finding) string {
	at, about := where(f), g.about(f)
	switch {
	case f.File == "" && at+about != "":
		return strings.TrimSpace(about+" "+at) + ": "
	case about != "":
		return at + " " + about + ": "
	case at != "":
		return at + " "
	}
	return ""
}

// counts are findings by severity.
type counts struct{ errors, warnings, info int }

func countsOf(fs []finding.Finding) counts {
	var c counts
	for _, f := range fs {
		switch f.Severity {
		case finding.Error:
			c.errors++
		case finding.Warning:
			c.warnings++
		default:
			c.info++
		}
	}
	return c
}

// all names every severity, those without a finding too.
func (c counts) all() string {
	return figure.Plural(c.errors, "error") + ", " + figure.Plural(c.warnings, "warning") + ", " + strconv.Itoa(c.info) + " info"
}

// String leaves out severities without a finding.
func (c counts) String() string {
	var parts []string
	if c.errors > 0 {
		parts = append(parts, figure.Plural(c.errors, "error"))
	}
	if c.warnings > 0 {
		parts = append(parts, figure.Plural(c.warnings, "warning"))
	}
	if c.info > 0 {
		parts = append(parts, strconv.Itoa(c.info)+" info")
	}
	if len(parts) == 0 {
		return "no findings"
	}
	return strings.Join(parts, ", ")
}

// suppressedText counts what someone chose to live with, by how they said so.
func suppressedText(list []finding.Suppressed) string {
	var ways []string
	n := map[string]int{}
	for _, s := range list {
		if n[s.By] == 0 {
			ways = append(ways, s.By)
		}
		n[s.By]++
	}
	text := strconv.Itoa(len(list)) + " suppressed"
	if len(ways) > 0 {
		slices.Sort(ways)
		text += " (" + strings.Join(each(ways, func(by string) string { return fmt.Sprintf("%d by %s", n[by], by) }), ", ") + ")"
	}
	return text
}

// totals is the last line of the table, and the second of a comment.
func totals(r *finding.Report) string {
	s := figure.Plural(len(r.Workloads), "workload") + ", " + figure.Plural(r.Objects, "object")
	if r.Kubernetes != "" {
		s += ", for Kubernetes " + r.Kubernetes
	}
	return s + ": " + countsOf(r.Findings).all() + "; " + suppressedText(r.Suppressed)
}

// nothingJudged is said where there was no workload: no data is no pass.
func nothingJudged(r *finding.Report) string {
	return "Nothing was judged: there is no workload among " + figure.Plural(r.Objects, "object") + "."
}
