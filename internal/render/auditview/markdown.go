package auditview

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/figure"
)

// commentLimit stays below the 65536 characters that GitHub takes in one comment.
const commentLimit = 60_000

// Markdown writes the report for a comment on a pull request: the verdict first, a table
// for each workload, details folded. What would make the comment too long is counted, not shown.
func Markdown(w io.Writer, r *finding.Report) error {
	r = cleaned(r)
	dirty, quiet, good := worstFirst(groups(r))
	var b strings.Builder
	b.WriteString("<!-- drainproof audit -->\n### " + md(headline(r, dirty)) + "\n\n" + md(totals(r)) + ".\n")
	end := folded(figure.Plural(len(quiet), "workload")+" with suppressed findings only", each(quiet, func(g group) string {
		return code(g.title) + ": " + md(g.summary()) + "; " + md(g.workload.Verdict)
	})) + folded(figure.Plural(len(good), "workload")+" without findings", each(good, func(g group) string { return code(g.title) })) +
		folded("Notes", each(r.Notes, md))
	room := commentLimit - utf8.RuneCountInString(b.String()) - utf8.RuneCountInString(end)
	left := 0
	for _, g := range dirty {
		text := g.markdown()
		if n := utf8.RuneCountInString(text); n <= room {
			room -= n
			b.WriteString(text)
			continue
		}
		left++
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n**%d more with findings are left out, the comment would be too long.** `drainproof audit` shows all.\n", left)
	}
	_, err := io.WriteString(w, b.String()+end)
	return err
}

// headline is the verdict over everything.
func headline(r *finding.Report, dirty []group) string {
	affected := 0
	for _, g := range dirty {
		if g.workload != nil {
			affected++
		}
	}
	switch {
	case len(r.Workloads) == 0 && len(r.Findings) == 0:
		return "drainproof audit: nothing was judged, there is no workload in the input"
	case len(r.Findings) == 0 && len(r.Suppressed) > 0:
		return fmt.Sprintf("drainproof audit: %d suppressed, nothing else in %s", len(r.Suppressed), figure.Plural(len(r.Workloads), "workload"))
	case len(r.Findings) == 0:
		return "drainproof audit: no findings in " + figure.Plural(len(r.Workloads), "workload")
	}
	return fmt.Sprintf("drainproof audit: %s; %d of %s affected", countsOf(r.Findings), affected, figure.Plural(len(r.Workloads), "workload"))
}

func (g group) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n#### %s: %s\n\n", code(g.title), g.counts())
	if g.workload != nil {
		b.WriteString(md(g.workload.Verdict) + "\n\n")
	}
	b.WriteString("| Severity | Rule | Where | What |\n|---|---|---|---|\n")
	for _, f := range g.findings {
		what := md(f.Message)
		if about := g.about(f); about != "" {
			what = code(about) + ": " + what
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", md(string(f.Severity)), ruleLink(f.Rule), code(where(f)), what)
	}
	inside := "Fixes and facts"
	if g.workload != nil {
		inside = "Time budget, fixes and facts"
	}
	b.WriteString("\n<details><summary>" + inside + "</summary>\n\n")
	if g.workload != nil {
		used := map[rune]bool{}
		lines := pictureLines(g.workload.Budget, DefaultWidth, blocks, ink{}, used)
		lines = append(lines, "", "  "+strings.Join(blocks.legend(used), "  "))
		b.WriteString("```text\n")
		for _, line := range lines {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		b.WriteString("```\n\n")
	}
	for _, f := range g.findings {
		fmt.Fprintf(&b, "- %s fix: %s\n", ruleLink(f.Rule), md(f.Remedy))
		if f.Ask != "" {
			b.WriteString("  - ask: " + md(f.Ask) + "\n")
		}
		for _, x := range f.Facts {
			b.WriteString("  - " + md(factText(x)) + "\n")
		}
	}
	b.WriteString("\n</details>\n")
	return b.String()
}

// folded is a list behind its heading, as far as a few thousand characters reach; nothing where it is empty.
func folded(heading string, items []string) string {
	if len(items) == 0 {
		return ""
	}
	const most = 8000
	var b strings.Builder
	b.WriteString("\n<details><summary>" + heading + "</summary>\n\n")
	for i, item := range items {
		if b.Len()+len(item) > most {
			fmt.Fprintf(&b, "- and %d more\n", len(items)-i)
			break
		}
		b.WriteString("- " + item + "\n")
	}
	return b.String() + "\n</details>\n"
}

func ruleLink(id string) string { return "[" + md(id) + "](" + ruleURL(id) + ")" }

// md makes clean text safe anywhere in a comment, inside a table too. Beside markup it
// takes apart what would reach somebody else: a mention, and a reference to an issue, which would leave a
// trace on that issue from every pull request that is audited.
func md(s string) string {
	return strings.NewReplacer("@", "@<!-- -->", "#", "#<!-- -->", "://", ":<!-- -->//").Replace(escape(s))
}

// escape takes markup, HTML and mathematics out of clean text.
func escape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "~", `\~`, "$", `\$`,
		"<", "&lt;", ">", "&gt;", "&", "&amp;",
	).Replace(s)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9 ./:_()\[\]-]+$`)

// code shows a name as code.
func code(s string) string {
	switch {
	case s == "":
		return ""
	case plainWord.MatchString(s):
		return "`" + s + "`"
	}
	return "<code>" + md(s) + "</code>"
}
