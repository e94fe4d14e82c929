package testview

import (
	"fmt"
	"io"
	"strings"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
)

// Markdown writes the summary of one test as GitHub's Markdown. The error is that of w.
func Markdown(w io.Writer, in render.Input) error {
	r := in.Record
	_, word, reason := verdictOf(r)
	var b strings.Builder
	fmt.Fprintf(&b, "## %s: %s\n\n", page.Markdown(word), page.Markdown(reason))
	for _, parts := range conditions(r) {
		item(&b, strings.Join(parts, ", "))
	}
	for _, t := range []page.Table{requests(r, true), latency(r), answers(r, true)} {
		if len(t.Rows) > 0 {
			t.Note = page.Markdown(t.Note)
			t.Markdown(&b)
		}
	}
	var moments []string
	for _, m := range explain.Moments(r) {
		moments = append(moments, m.Sentence)
	}
	items(&b, "Worst moments", moments)
	causes := render.CauseTexts(r)
	items(&b, "Causes", causes)
	items(&b, "Trust", doubts(r))
	if in.Path != "" {
		fmt.Fprintf(&b, "\nRecord: %s\n", page.Markdown(in.Path))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// items writes a list under a heading; nothing for an empty one.
func items(b *strings.Builder, title string, list []string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n", title)
	for _, s := range list {
		item(b, s)
	}
}

func item(b *strings.Builder, s string) { fmt.Fprintf(b, "- %s\n", page.Markdown(s)) }
