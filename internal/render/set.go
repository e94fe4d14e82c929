package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/record"
)

// Opts say how to draw on a terminal. The zero value is plain text, DefaultWidth wide.
type Opts struct {
	// Color allows colours; the caller honours NO_COLOR and what kind of output it has.
	Color bool
	// Width is in columns; less than MinWidth is taken as MinWidth, 0 as DefaultWidth.
	Width int
	// Verbose shows every event and the reason for every window that was not measured.
	Verbose bool
}

// Widths of terminal output, in columns.
const (
	DefaultWidth = 96
	MinWidth     = 72
	// maxWidth keeps the picture of a trial together on a very wide terminal.
	maxWidth = 120
)

func (o Opts) width() int {
	if o.Width == 0 {
		return DefaultWidth
	}
	return min(max(o.Width, MinWidth), maxWidth)
}

// atTheLatest explains the sign of an upper bound.
const atTheLatest = "≤: at the latest: the arrival of the API's news, or the first heartbeat that noticed"

const legend = "Median (min–max) of one value per repeat. " + atTheLatest + ". ≥: at least, from such a time on; ~: from one such time to another. n counts repeats."

// Set writes the tables over all sets to w, for a terminal. Errors are those of New and of w.
func Set(w io.Writer, inputs []Input, o Opts) error {
	rep, err := New(inputs)
	if err != nil {
		return err
	}
	k := ink{o.Color}
	var b strings.Builder
	for i, s := range rep.Sets {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n%s\n", k.bold(clean(s.title())), k.dim(clean(s.conditions())))
		for _, t := range s.tables() {
			t.terminal(&b, k, o.width())
		}
		b.WriteString("\n")
		for _, line := range wrap(legend, o.width()) {
			b.WriteString(k.dim(line) + "\n")
		}
		for _, note := range s.Notes {
			bullet(&b, clean(note), o.width())
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func (t table) terminal(b *strings.Builder, k ink, width int) {
	fmt.Fprintf(b, "\n%s\n", k.bold(t.title))
	for _, line := range wrap(t.note, width-len(gutter)) {
		b.WriteString(gutter + k.dim(line) + "\n")
	}
	rows, widths, total := t.layout(false)
	if total > width {
		rows, widths, _ = t.layout(true)
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
				line.WriteString(gutter + t.paint(k, r, i, pad(text, widths[i])))
			}
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
}

// paint colours one line of a cell; row 0 is the heading.
func (t table) paint(k ink, row, col int, s string) string {
	switch {
	case row == 0, t.rows[row-1][col] == notMeasured:
		return k.dim(s)
	case strings.HasSuffix(t.head[col], " flows"):
		return k.fate(s, t.rows[row-1][col])
	}
	return k.plain(s)
}

// fate colours s, a part of the text whole, by the worst outcome that whole names.
func (k ink) fate(s, whole string) string {
	has := func(outcomes ...record.Outcome) bool {
		return slices.ContainsFunc(outcomes, func(o record.Outcome) bool { return strings.Contains(whole, string(o)) })
	}
	switch {
	case has(record.Severed, record.ReadTimeout):
		return k.red(s)
	case has(record.Rehomed, record.NotMeasured):
		return k.yellow(s)
	case has(record.Drained, record.Closed, record.Survived):
		return k.green(s)
	}
	return s
}

func (s SetReport) title() string {
	mode := "proxy mode " + notMeasured
	if s.ProxyMode != nil {
		mode = *s.ProxyMode
	}
	return fmt.Sprintf("%s, %s, Kubernetes %s", cmp.Or(s.Experiment, "Single trials"), mode, s.Kubernetes)
}

func (s SetReport) conditions() string {
	trials := 0
	for _, a := range s.Arms {
		trials += a.Repeats
	}
	text := fmt.Sprintf("%s of %s, %s %s", plural(trials, "trial"), plural(len(s.Arms), "arm"), s.Tool.Name, s.Tool.Version)
	if s.Tool.Sha256 != "" {
		text += " (sha256 " + s.Tool.Sha256[:min(12, len(s.Tool.Sha256))] + ")"
	}
	if len(s.Arms) > 0 {
		text += ", grace " + s.shared(func(c record.Config) string { return setting(c.GraceNs) }) +
			", path " + s.shared(func(c record.Config) string { return c.Path }) +
			", vantage " + s.shared(func(c record.Config) string { return c.Vantage })
	}
	return text
}

// shared is a setting that all arms have in common, or each arm's where they differ.
func (s SetReport) shared(of func(record.Config) string) string {
	first := of(s.Arms[0].Config)
	var each []string
	differ := false
	for _, a := range s.Arms {
		v := of(a.Config)
		differ = differ || v != first
		each = append(each, a.Arm+" "+v)
	}
	if !differ {
		return first
	}
	return "by arm (" + strings.Join(each, ", ") + ")"
}

// bullet prints a sentence as an item, wrapped and hanging.
func bullet(b *strings.Builder, s string, width int) {
	for i, line := range wrap(s, width-4) {
		mark := "  - "
		if i > 0 {
			mark = "    "
		}
		b.WriteString(mark + line + "\n")
	}
}

// JSON writes the Report that the tables are views of. Errors are those of New and of w.
func JSON(w io.Writer, inputs []Input) error {
	rep, err := New(inputs)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(rep)
}

// Markdown writes the same tables as Set, as GitHub's Markdown. Errors are those of New and of w.
func Markdown(w io.Writer, inputs []Input) error {
	rep, err := New(inputs)
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, s := range rep.Sets {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n%s.\n", markdown(s.title()), markdown(s.conditions()))
		for _, t := range s.tables() {
			t.markdown(&b)
		}
		fmt.Fprintf(&b, "\n%s\n", legend)
		if len(s.Notes) > 0 {
			b.WriteString("\n")
		}
		for _, note := range s.Notes {
			fmt.Fprintf(&b, "- %s\n", markdown(note))
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func (t table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", t.title, t.note)
	row := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + markdown(c) + " |")
		}
		b.WriteString("\n")
	}
	row(t.head)
	b.WriteString("|" + strings.Repeat(" --- |", len(t.head)) + "\n")
	for _, r := range t.rows {
		row(r)
	}
}
