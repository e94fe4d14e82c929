package testview

import (
	"fmt"
	"io"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
	"github.com/drainproof/drainproof/internal/stats"
)

// Matrix writes a table over the arms of each experiment for a terminal. It refuses what render.New refuses, with its errors, and records that
// are no tests, as wrong use. Other errors are those of w.
func Matrix(w io.Writer, inputs []render.Input, o render.Opts) error {
	groups, err := tests(inputs)
	if err != nil {
		return err
	}
	k, width := page.Ink{On: o.Color}, page.Columns(o.Width)
	var b strings.Builder
	for i, g := range groups {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n%s\n", k.Bold(g.Title), k.Dim(groupLine(g)))
		for _, t := range tablesOf(g) {
			t.Terminal(&b, k, width)
		}
		b.WriteString("\n")
		for _, line := range page.Wrap(matrixLegend, width) {
			b.WriteString(k.Dim(line) + "\n")
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// MatrixMarkdown writes the same table as GitHub's Markdown. Errors are those of Matrix.
func MatrixMarkdown(w io.Writer, inputs []render.Input) error {
	groups, err := tests(inputs)
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, g := range groups {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n%s.\n", page.Markdown(g.Title), page.Markdown(groupLine(g)))
		for _, t := range tablesOf(g) {
			t.Markdown(&b)
		}
		fmt.Fprintf(&b, "\n%s\n", matrixLegend)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// tablesOf are a group's tables.
func tablesOf(g render.Group) []page.Table {
	return append([]page.Table{matrix(g)}, render.EvidenceTables(g.Arms)...)
}

const matrixLegend = spreadNote + ". Counted from the trigger on. worst outcome: the commonest kind of failure, with its part of all failures of the arm. " +
	"p99 during: of requests that were due between the trigger and the end of the disruption."

func tests(inputs []render.Input) ([]render.Group, error) {
	for _, in := range inputs {
		if !in.Record.IsTest() {
			return nil, fault.Usagef("report trials of flows and tests apart", "%s holds no requests", page.Clean(in.Path))
		}
	}
	return render.Groups(inputs)
}

func groupLine(g render.Group) string {
	return fmt.Sprintf("%s of %s, %s", figure.Plural(g.Repeats, "trial"), figure.Plural(len(g.Arms), "arm"), g.Tool)
}

func matrix(g render.Group) page.Table {
	t := page.Table{
		Title: "Lost requests", Note: "How many requests failed, and of how many users, when the workload was ended.",
		Head:  []string{"arm", "n", "failed", "share", "users hurt", "worst outcome", "p99 during"},
		Paint: paintMatrix,
	}
	for _, a := range g.Arms {
		t.Rows = append(t.Rows, matrixRow(a))
	}
	return t
}

func matrixRow(a render.GroupArm) []string {
	q := render.RequestsOf(a.Trials)
	trials := figure.Count(int64(len(a.Trials)))
	inconclusive := 0
	for _, v := range q.Verdicts {
		if v == record.Inconclusive {
			inconclusive++
		}
	}
	if inconclusive > 0 {
		trials += fmt.Sprintf(" (%d inconclusive)", inconclusive)
	}
	return []string{
		a.Arm, trials, whole(q.FailedEach, printer[float64]{figure.Halves, between(q.SentEach)}), whole(q.ShareEach, printer[float64]{text: figure.Share}),
		whole(q.HurtEach, printer[float64]{figure.Halves, plain(q.Users)}), worstOutcome(q.Outcomes), whole(q.P99DuringEach, printer[int64]{text: figure.Nanoseconds}),
	}
}

// whole prints a summary, where there is one.
func whole[T stats.Number](s *stats.Summary[T], p printer[T]) string {
	if s == nil {
		return page.NotMeasured
	}
	return spread(*s, p)
}

// between prints the smallest and the largest, as one number where they are one.
func between(s *stats.Summary[float64]) string {
	switch {
	case s == nil:
		return page.NotMeasured
	case s.Min == s.Max:
		return figure.Halves(s.Min)
	}
	return figure.Halves(s.Min) + "–" + figure.Halves(s.Max)
}

func worstOutcome(outcomes map[record.RequestOutcome]int64) string {
	list := page.Outcomes(outcomes)
	if len(list) == 0 {
		return "none"
	}
	var all int64
	for _, n := range outcomes {
		all += n
	}
	return fmt.Sprintf("%s (%s of %s)", list[0], figure.Count(outcomes[list[0]]), figure.Count(all))
}

func paintMatrix(k page.Ink, head, cell, s string) string {
	if head != "failed" {
		return k.Plain(s)
	}
	if strings.HasPrefix(cell, "0 of ") && !strings.Contains(cell, "(") {
		return k.Green(s)
	}
	return k.Red(s)
}
