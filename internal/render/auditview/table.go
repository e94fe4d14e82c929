package auditview

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/figure"
)

// few is how many workloads are all shown, the clean ones too, and how many of those whose findings are all suppressed.
const few = 3

// Table writes the report for a terminal: a workload after the other, the worst first, each
// with its verdict, its time budget as a picture and its findings; clean workloads on
// one line, and on another those whose findings are all suppressed where there are many; the totals last. The error is that of w.
func Table(w io.Writer, r *finding.Report, o Options) error {
	r = cleaned(r)
	t := &tablePage{k: ink{o.Color}, g: blocks, width: columns(o.Width), used: map[rune]bool{}}
	if o.ASCII {
		t.g = ascii
	}
	dirty, quiet, good := worstFirst(groups(r))
	for _, g := range dirty {
		t.group(g)
	}
	t.some(quiet, len(quiet) <= few, " with suppressed findings only", yellow)
	t.some(good, len(r.Workloads) <= few, " without findings", green)
	t.legend()
	t.byRule(r.Findings)
	for _, n := range r.Notes {
		t.bullet(n)
	}
	if len(r.Notes) > 0 {
		t.line("")
	}
	if len(r.Workloads) == 0 {
		t.line(t.k.in(yellow, nothingJudged(r)))
	}
	for _, line := range wrap(totals(r), t.width) {
		t.line(t.k.in(bold, line))
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

// tablePage is a table being written.
type tablePage struct {
	b     strings.Builder
	k     ink
	g     glyphs
	width int
	// used are the picture's characters that the legend has to explain.
	used map[rune]bool
}

func (t *tablePage) line(s string) { t.b.WriteString(strings.TrimRight(s, " ") + "\n") }

func (t *tablePage) group(g group) {
	color := green
	switch {
	case len(g.findings) > 0:
		color = severityColor(g.worst())
	case len(g.suppressed) > 0:
		color = yellow
	}
	t.line(t.k.in(bold, g.title) + "   " + t.k.in(color, g.summary()))
	if g.workload != nil {
		for _, line := range wrap(g.workload.Verdict, t.width-2) {
			t.line("  " + line)
		}
		for _, line := range pictureLines(g.workload.Budget, t.width, t.g, t.k, t.used) {
			t.line(line)
		}
	}
	for _, f := range g.findings {
		t.finding(g, f)
	}
	t.line("")
}

// hang is the indent of what belongs to a finding.
const hang = 10

func (t *tablePage) finding(g group, f finding.Finding) {
	lines := wrap(f.Rule+" "+g.place(f)+f.Message, t.width-hang)
	head := "  " + t.k.in(severityColor(f.Severity), pad(string(f.Severity), hang-3)) + " "
	for i, line := range lines {
		if i > 0 {
			head = strings.Repeat(" ", hang)
		}
		t.line(head + line)
	}
	t.hanging("fix: ", f.Remedy)
	t.hanging("ask: ", f.Ask)
	for _, x := range f.Facts {
		for i, line := range wrap(factText(x), t.width-hang-2) {
			indent := strings.Repeat(" ", hang)
			if i > 0 {
				indent += "  "
			}
			t.line(indent + t.k.in(dim, line))
		}
	}
}

func (t *tablePage) hanging(label, text string) {
	for i, line := range wrap(text, t.width-hang-len(label)) {
		if i > 0 {
			label = strings.Repeat(" ", len(label))
		}
		t.line(strings.Repeat(" ", hang) + t.k.in(green, label) + line)
	}
}

func shortName(o finding.Object) string { return strings.TrimPrefix(describe(o), o.Kind+" ") }

// some shows each of the workloads, or names them on one line.
func (t *tablePage) some(alike []group, each bool, what, color string) {
	if !each {
		t.folded(alike, what, color)
		return
	}
	for _, g := range alike {
		t.group(g)
	}
}

// folded names workloads that are alike as far as one line reaches; nothing where there are none.
func (t *tablePage) folded(alike []group, what, color string) {
	if len(alike) == 0 {
		return
	}
	line := figure.Plural(len(alike), "workload") + what + ": "
	for i, g := range alike {
		name := shortName(g.workload.Object)
		if n := len(g.suppressed); n > 0 {
			name += fmt.Sprintf(" (%d suppressed)", n)
		}
		if i < len(alike)-1 {
			name += ", "
		}
		rest := fmt.Sprintf("and %d more", len(alike)-i)
		if i < len(alike)-1 && width(line+name+rest) > t.width || width(line+name) > t.width {
			line += rest
			break
		}
		line += name
	}
	t.line(t.k.in(color, line))
	t.line("")
}

func (t *tablePage) legend() {
	line := ""
	for _, part := range t.g.legend(t.used) {
		if line != "" && width(line)+2+width(part) > t.width {
			t.line(t.k.in(dim, line))
			line = ""
		}
		if line != "" {
			line += "  "
		}
		line += part
	}
	if line != "" {
		t.line(t.k.in(dim, line))
		t.line("")
	}
}

// many is from how many findings on a reader wants to know which rules they come from.
const many = 20

// byRule counts a long list by rule, the most frequent first, as far as one line reaches.
func (t *tablePage) byRule(fs []finding.Finding) {
	if len(fs) < many {
		return
	}
	var ids []string
	n := map[string]int{}
	for _, f := range fs {
		if n[f.Rule] == 0 {
			ids = append(ids, f.Rule)
		}
		n[f.Rule]++
	}
	slices.Sort(ids)
	slices.SortStableFunc(ids, func(a, b string) int { return n[b] - n[a] })
	line := "By rule: "
	for i, id := range ids {
		part := fmt.Sprintf("%d of %s", n[id], id)
		if i > 0 {
			part = ", " + part
		}
		if rest := ", and other rules"; width(line+part+rest) > t.width {
			line += rest
			break
		}
		line += part
	}
	t.line(line)
}

func (t *tablePage) bullet(s string) {
	for i, line := range wrap(s, t.width-2) {
		mark := "- "
		if i > 0 {
			mark = "  "
		}
		t.line(t.k.in(dim, mark+line))
	}
}
