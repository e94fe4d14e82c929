package testview

import (
	"fmt"
	"io"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/verdict"
)

// Comparison writes two sets of trials side by side for a terminal, and what may be said of them. The error is that of w.
func Comparison(w io.Writer, c verdict.Comparison, o render.Opts) error {
	k, width := page.Ink{On: o.Color}, page.Columns(o.Width)
	var b strings.Builder
	b.WriteString(k.Bold(comparisonTitle(c)) + "\n")
	for _, line := range page.Wrap(page.Clean(same(c)), width) {
		b.WriteString(k.Dim(line) + "\n")
	}
	for _, t := range comparisonTables(c) {
		t.Terminal(&b, k, width)
	}
	b.WriteString("\n" + k.Bold("What it shows") + "\n")
	for _, s := range c.Says {
		page.Bullet(&b, page.Clean(s), width)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ComparisonMarkdown writes the same as GitHub's Markdown. The error is that of w.
func ComparisonMarkdown(w io.Writer, c verdict.Comparison) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n", page.Markdown(comparisonTitle(c)), page.Markdown(same(c)))
	for _, t := range comparisonTables(c) {
		t.Markdown(&b)
	}
	items(&b, "What it shows", c.Says)
	_, err := io.WriteString(w, b.String())
	return err
}

func comparisonTitle(c verdict.Comparison) string {
	return fmt.Sprintf("Before and after: %s and %d", figure.Plural(c.Before.Trials, "trial"), c.After.Trials)
}

func same(c verdict.Comparison) string {
	var parts []string
	for _, d := range c.Same {
		parts = append(parts, d.What+" "+d.Before)
	}
	return "Of both: " + strings.Join(parts, ", ") + "."
}

func comparisonTables(c verdict.Comparison) []page.Table {
	changed := page.Table{Title: "Changed", Head: []string{"", "before", "after"}}
	for _, d := range c.Changed {
		changed.Rows = append(changed.Rows, []string{d.What, d.Before, d.After})
	}
	if len(changed.Rows) == 0 {
		changed.Rows = [][]string{{"nothing that a record tells (it holds no commands, arguments or environment)", "", ""}}
	}
	seen := page.Table{Title: "Seen", Note: spreadNote + ". Counted from the trigger on.", Head: []string{"", "before", "after"}}
	row := func(what string, of func(verdict.Side) string) {
		seen.Rows = append(seen.Rows, []string{what, of(c.Before), of(c.After)})
	}
	row("failed, in all", func(s verdict.Side) string {
		return fmt.Sprintf("%s of %s (%s)", figure.Count(s.Failed), figure.Count(s.Requests), figure.Share(float64(s.Failed)/float64(s.Requests)))
	})
	row("failed", func(s verdict.Side) string { return spread(s.FailedEach, printer[float64]{text: figure.Halves}) })
	row("share", func(s verdict.Side) string { return spread(s.ShareEach, printer[float64]{text: figure.Share}) })
	row("users hurt", func(s verdict.Side) string {
		if s.HurtEach.N < s.Trials {
			return page.NotMeasured
		}
		return spread(s.HurtEach, printer[float64]{figure.Halves, plain(s.Users)})
	})
	row("p50", func(s verdict.Side) string { return spreadTimes(s.P50Each) })
	row("p99", func(s verdict.Side) string { return spreadTimes(s.P99Each) })
	for _, o := range page.Outcomes(total(c)) {
		row(string(o), func(s verdict.Side) string { return figure.Count(s.Outcomes[o]) })
	}
	return []page.Table{changed, seen}
}

// total counts each outcome over both sides.
func total(c verdict.Comparison) map[record.RequestOutcome]int64 {
	sum := map[record.RequestOutcome]int64{}
	for _, s := range []verdict.Side{c.Before, c.After} {
		for o, n := range s.Outcomes {
			sum[o] += n
		}
	}
	return sum
}

const spreadNote = "Median (min–max) of one value per trial"

// printer prints the values of a sample, and what they are out of; empty where that goes without saying.
type printer[T stats.Number] struct {
	text func(T) string
	of   string
}

// spread prints a median with its range where there is one, such as 4 of 20 (3–5).
func spread[T stats.Number](s stats.Summary[T], p printer[T]) string {
	out := p.text(s.Median)
	if p.of != "" {
		out += " of " + p.of
	}
	if s.Min != s.Max {
		out += " (" + p.text(s.Min) + "–" + p.text(s.Max) + ")"
	}
	return out
}

func spreadTimes(s *stats.Summary[int64]) string {
	if s == nil {
		return page.NotMeasured
	}
	return spread(*s, printer[int64]{text: figure.Nanoseconds})
}

func plain(n int) string { return figure.Count(int64(n)) }
