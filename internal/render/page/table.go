package page

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table is one view, before it is terminal text or Markdown.
type Table struct {
	Title string
	// Note says what the table answers; empty for none.
	Note string
	Head []string
	Rows [][]string
	// Paint colours s, a part of a cell of the column of that heading; nil for no colours.
	Paint func(k Ink, head, cell, s string) string
}

// Terminal writes the table after an empty line; one that is too wide has its cells broken, then, below DefaultWidth, long names in its first
// column cut, and where that is not enough each row becomes a list.
func (t Table) Terminal(b *strings.Builder, k Ink, width int) {
	fmt.Fprintf(b, "\n%s\n", k.Bold(t.Title))
	for _, line := range Wrap(t.Note, width-len(gutter)) {
		b.WriteString(gutter + k.Dim(line) + "\n")
	}
	rows, widths, total := t.layout(false)
	if total > width {
		rows, widths, total = t.layout(true)
	}
	switch over := total - width; {
	case over <= 0, width >= DefaultWidth: // what is wide is no terminal as a rule, and breaks no lines
	case widths[0]-over >= leastName:
		widths[0] -= over
		for _, row := range rows {
			for l := range row[0] {
				row[0][l] = Cut(row[0][l], widths[0])
			}
		}
	default:
		t.lists(b, k, width)
		return
	}
	for r, row := range rows {
		depth := 0
		for _, cell := range row {
			depth = max(depth, len(cell))
		}
		for l := range depth {
			var line strings.Builder
			for i, cell := range row {
				text := ""
				if l < len(cell) {
					text = cell[l]
				}
				line.WriteString(gutter + t.paint(k, r, i, Pad(text, widths[i])))
			}
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
}

// lists writes each row under its first cell, the others with their headings.
func (t Table) lists(b *strings.Builder, k Ink, width int) {
	names := 0
	for _, h := range t.Head[1:] {
		names = max(names, utf8.RuneCountInString(Clean(h)))
	}
	for r, row := range t.Rows {
		for _, line := range Wrap(Clean(row[0]), width-len(gutter)) {
			b.WriteString(gutter + t.paint(k, r+1, 0, line) + "\n")
		}
		for i, cell := range row[1:] {
			name := Pad(Clean(t.Head[i+1]), names)
			for _, line := range Wrap(Clean(cell), max(headWidth, width-names-3*len(gutter))) {
				b.WriteString(gutter + gutter + k.Dim(name) + gutter + t.paint(k, r+1, i+1, line) + "\n")
				name = Pad("", names)
			}
		}
	}
}

// paint colours one line of a cell; row 0 is the heading.
func (t Table) paint(k Ink, row, col int, s string) string {
	switch {
	case row == 0, t.Rows[row-1][col] == NotMeasured:
		return k.Dim(s)
	case t.Paint != nil:
		return t.Paint(k, t.Head[col], t.Rows[row-1][col], s)
	}
	return k.Plain(s)
}

// Markdown writes the same table as GitHub's Markdown. The note is the program's own text, Markdown allowed.
func (t Table) Markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n", Markdown(t.Title))
	if t.Note != "" {
		fmt.Fprintf(b, "%s\n\n", t.Note)
	}
	row := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + Markdown(c) + " |")
		}
		b.WriteString("\n")
	}
	row(t.Head)
	b.WriteString("|" + strings.Repeat(" --- |", len(t.Head)) + "\n")
	for _, r := range t.Rows {
		row(r)
	}
}

// lines lays out one row: every cell as one line, or, stacked, broken before
// what stands in parentheses and between the words of a heading.
func lines(cells []string, stacked, head bool) [][]string {
	out := make([][]string, len(cells))
	for i, cell := range cells {
		cell = Clean(cell)
		main, rest, found := strings.Cut(cell, " (")
		switch {
		case !stacked:
			out[i] = []string{cell}
		case head || cell == NotMeasured:
			out[i] = Wrap(cell, headWidth)
		case found && strings.Count(cell, " (") == 1 && strings.HasSuffix(rest, ")"):
			out[i] = []string{main, strings.TrimSuffix(rest, ")")}
		default:
			out[i] = Wrap(cell, 2*headWidth)
		}
	}
	return out
}

// leastName is how much of the first column's names stays at least where they are cut.
const leastName = 20

// headWidth is how wide a heading of a stacked table may be before it is broken.
const headWidth = 11

// layout gives all rows, the heading first, as lines of cells, and the columns' widths.
func (t Table) layout(stacked bool) (rows [][][]string, widths []int, total int) {
	rows = append(rows, lines(t.Head, stacked, true))
	for _, r := range t.Rows {
		rows = append(rows, lines(r, stacked, false))
	}
	widths = make([]int, len(t.Head))
	for _, row := range rows {
		for i, cell := range row {
			for _, line := range cell {
				widths[i] = max(widths[i], utf8.RuneCountInString(line))
			}
		}
	}
	for _, w := range widths {
		total += w + len(gutter)
	}
	return rows, widths, total
}

// gutter stands before each column.
const gutter = "  "
