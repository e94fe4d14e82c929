package render

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// Opts say how to draw on a terminal. The zero value is plain text, page.DefaultWidth wide.
type Opts struct {
	// Color allows colours; the caller honours NO_COLOR and what kind of output it has.
	Color bool
	// Width is in columns; page.Columns says how far that is followed, and what 0 means.
	Width int
	// Verbose shows every event and the reason for every window that was not measured.
	Verbose bool
}

func (o Opts) width() int { return page.Columns(o.Width) }

// atTheLatest explains the sign of an upper bound.
const atTheLatest = "≤: at the latest: the arrival of the API's news, or the first heartbeat that noticed"

const legend = "Median (min–max) of one value per repeat. " + atTheLatest + ". ≥: at least, from such a time on; ~: from one such time to another. n counts repeats."

// sheet is a set with all its tables.
type sheet struct {
	SetReport
	all []page.Table
}

// sheets sum up records as New does, with its errors.
func sheets(inputs []Input) ([]sheet, error) {
	cohorts, err := cohortsOf(inputs)
	if err != nil {
		return nil, err
	}
	var list []sheet
	for _, g := range cohorts {
		s := g.report()
		list = append(list, sheet{s, append(s.tables(), EvidenceTables(g.armsWhole())...)})
	}
	return list, nil
}

// Set writes the tables over all sets to w, for a terminal. Errors are those of New and of w.
func Set(w io.Writer, inputs []Input, o Opts) error {
	sets, err := sheets(inputs)
	if err != nil {
		return err
	}
	k := page.Ink{On: o.Color}
	var b strings.Builder
	for i, s := range sets {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(k.Bold(page.Clean(s.title())) + "\n")
		for _, line := range page.Wrap(page.Clean(s.conditions()), o.width()) {
			b.WriteString(k.Dim(line) + "\n")
		}
		for _, t := range s.all {
			t.Terminal(&b, k, o.width())
		}
		b.WriteString("\n")
		for _, line := range page.Wrap(legend, o.width()) {
			b.WriteString(k.Dim(line) + "\n")
		}
		for _, note := range s.Notes {
			page.Bullet(&b, page.Clean(note), o.width())
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// fate colours s, a part of a cell that tells what became of flows, by the worst outcome that the cell names.
func fate(k page.Ink, head, whole, s string) string {
	if !strings.HasSuffix(head, " flows") {
		return k.Plain(s)
	}
	has := func(outcomes ...record.Outcome) bool {
		return slices.ContainsFunc(outcomes, func(o record.Outcome) bool { return strings.Contains(whole, string(o)) })
	}
	switch {
	case has(record.Severed, record.ReadTimeout):
		return k.Red(s)
	case has(record.Rehomed, record.NotMeasured):
		return k.Yellow(s)
	case has(record.Drained, record.Closed, record.Survived):
		return k.Green(s)
	}
	return s
}

func (s SetReport) title() string { return setTitle(s.Experiment, s.ProxyMode, s.Kubernetes) }

func (s SetReport) conditions() string {
	trials := 0
	for _, a := range s.Arms {
		trials += a.Repeats
	}
	text := fmt.Sprintf("%s of %s, %s", figure.Plural(trials, "trial"), figure.Plural(len(s.Arms), "arm"), toolText(s.Tool))
	if len(s.Arms) > 0 {
		text += ", grace " + s.shared(func(c record.Config) string { return figure.Setting(c.GraceNs) }) +
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
	sets, err := sheets(inputs)
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, s := range sets {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n%s.\n", page.Markdown(s.title()), page.Markdown(s.conditions()))
		for _, t := range s.all {
			t.Markdown(&b)
		}
		fmt.Fprintf(&b, "\n%s\n", legend)
		if len(s.Notes) > 0 {
			b.WriteString("\n")
		}
		for _, note := range s.Notes {
			fmt.Fprintf(&b, "- %s\n", page.Markdown(note))
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}
