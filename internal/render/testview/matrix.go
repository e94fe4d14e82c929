package testview

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/verdict"
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
	var failed, requests []int64
	var shares []float64
	var hurt []int
	var p99 []int64
	outcomes := map[record.RequestOutcome]int64{}
	users, inconclusive := 0, 0
	for _, r := range a.Trials {
		n := verdict.Since(r)
		failed, requests = append(failed, r.Requests.Failed), append(requests, n)
		if n > 0 {
			shares = append(shares, float64(r.Requests.Failed)/float64(n))
		}
		if r.Users != nil {
			hurt, users = append(hurt, r.Users.Hurt), r.Users.Total
		}
		for _, f := range r.FailuresFrom() {
			outcomes[f.Outcome]++
		}
		if r.Latency != nil && r.Latency.During != nil {
			p99 = append(p99, r.Latency.During.P99Ns)
		}
		if result, _, _ := verdictOf(r); result == record.Inconclusive {
			inconclusive++
		}
	}
	n := len(a.Trials)
	trials := figure.Count(int64(n))
	if inconclusive > 0 {
		trials += fmt.Sprintf(" (%d inconclusive)", inconclusive)
	}
	return []string{
		a.Arm, trials, whole(failed, n, printer[int64]{figure.Count, between(requests)}), whole(shares, n, printer[float64]{text: figure.Share}),
		whole(hurt, n, printer[int]{plain, plain(users)}), worstOutcome(outcomes), whole(p99, n, printer[int64]{text: figure.Nanoseconds}),
	}
}

// whole prints a sample of n values; one with a hole is not summed up.
func whole[T stats.Number](sample []T, n int, p printer[T]) string {
	s, ok := stats.Summarize(sample)
	if !ok || s.N < n {
		return page.NotMeasured
	}
	return spread(s, p)
}

// between prints the smallest and the largest of a sample that is not empty, as one number where they are one.
func between(sample []int64) string {
	low, high := slices.Min(sample), slices.Max(sample)
	if low == high {
		return figure.Count(low)
	}
	return figure.Count(low) + "–" + figure.Count(high)
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
