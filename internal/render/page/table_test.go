package page

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() Table {
	return Table{
		Title: "Losses", Note: "What was lost.", Head: []string{"arm", "failed requests in all"},
		Rows: [][]string{{"exits", "8 (7–9)"}, {"of\x1bdrains", "8 (7–9) of 1,000"}, {"none | at all", NotMeasured}},
	}
}

func TestTableOnATerminal(t *testing.T) {
	for width, want := range map[int]string{
		40: "\nLosses\n  What was lost.\n" +
			"  arm            failed requests in all\n" +
			"  exits          8 (7–9)\n" +
			"  of\\x1bdrains   8 (7–9) of 1,000\n" +
			"  none | at all  not measured\n",
		// Too narrow: what ends in parentheses is broken before them, and nothing is lost of what does not.
		36: "\nLosses\n  What was lost.\n" +
			"  arm            failed\n" +
			"                 requests in\n" +
			"                 all\n" +
			"  exits          8\n" +
			"                 7–9\n" +
			"  of\\x1bdrains   8 (7–9) of 1,000\n" +
			"  none | at all  not\n" +
			"                 measured\n",
		// Too narrow for columns at all: each row is a list.
		24: "\nLosses\n  What was lost.\n" +
			"  exits\n" +
			"    failed requests in all  8 (7–9)\n" +
			"  of\\x1bdrains\n" +
			"    failed requests in all  8 (7–9) of\n" +
			"                            1,000\n" +
			"  none | at all\n" +
			"    failed requests in all  not\n" +
			"                            measured\n",
	} {
		var b strings.Builder
		sample().Terminal(&b, Ink{}, width)
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("at %d (-want +got):\n%s", width, diff)
		}
	}
}

func TestTableIsPainted(t *testing.T) {
	table := sample()
	table.Paint = func(k Ink, head, cell, s string) string {
		if head == "arm" && cell == "exits" {
			return k.Red(s)
		}
		return k.Plain(s)
	}
	var b strings.Builder
	table.Terminal(&b, Ink{On: true}, 60)
	for _, want := range []string{"\x1b[31mexits        \x1b[0m", "\x1b[2mnot measured", "\x1b[1mLosses\x1b[0m"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %q", want, b.String())
		}
	}
}

func TestTableAsMarkdown(t *testing.T) {
	var b, bare strings.Builder
	sample().Markdown(&b)
	want := "\n### Losses\n\nWhat was lost.\n\n| arm | failed requests in all |\n| --- | --- |\n| exits | 8 (7–9) |\n| of\\\\x1bdrains | 8 (7–9) of 1,000 |\n| none \\| at all | not measured |\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	Table{Title: "Losses", Head: []string{"arm"}}.Markdown(&bare)
	if diff := cmp.Diff("\n### Losses\n\n| arm |\n| --- |\n", bare.String()); diff != "" {
		t.Errorf("without a note (-want +got):\n%s", diff)
	}
}

func TestColumns(t *testing.T) {
	for asked, want := range map[int]int{0: DefaultWidth, 20: MinWidth, 80: 80, 120: 120, 400: 120} {
		if got := Columns(asked); got != want {
			t.Errorf("%d columns asked for give %d, not %d", asked, got, want)
		}
	}
}

func TestAxis(t *testing.T) {
	a := Axis{From: -1e9, To: 9e9, Columns: 50}
	for at, want := range map[int64]int{-1e9: 0, 0: 5, 4e9: 25, 9e9: 49} {
		if c, ok := a.Column(at); !ok || c != want {
			t.Errorf("%d is in column %d, %t, not %d", at, c, ok, want)
		}
	}
	for _, at := range []int64{-1e9 - 1, 9e9 + 1} {
		if c, ok := a.Column(at); ok {
			t.Errorf("%d is in column %d", at, c)
		}
	}
	labels, line := a.Ruler()
	if want := "     0         2 s       4 s       6 s       8 s"; labels != want {
		t.Errorf("labels %q, not %q", labels, want)
	}
	if want := "─────┼─────────┴─────────┴─────────┴─────────┴────"; line != want {
		t.Errorf("line %q, not %q", line, want)
	}
}
