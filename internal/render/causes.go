package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// maxCauses is how many causes fit on one screen.
const maxCauses = 3

// CauseTexts lists the causes of what a trial lost, those with most first: count, kind and the sentence that tells all of them. It is empty where nothing
// was attributed but what the client itself could not do: what is missing then is told of each failure, and the notes say that no agent was there.
func CauseTexts(r record.Record) []string {
	texts, _ := causeTexts(r)
	return texts
}

func causeTexts(r record.Record) (texts []string, groups []explain.Group) {
	groups = explain.Groups(r)
	if !slices.ContainsFunc(groups, func(g explain.Group) bool { return g.Kind != "unattributed" && g.Kind != "client-limit" }) {
		return nil, nil
	}
	for _, g := range groups {
		texts = append(texts, fmt.Sprintf("%s %s: %s", figure.Count(int64(g.Requests+g.Flows)), g.Kind, g.Sentence))
	}
	return texts, groups
}

// Causes writes them for a terminal, the first of them, or with o.Verbose all, each with the events that show it. Without any
// nothing is written, the heading neither.
func Causes(b *strings.Builder, heading string, r record.Record, o Opts) {
	texts, groups := causeTexts(r)
	if len(texts) == 0 {
		return
	}
	k, width := page.Ink{On: o.Color}, o.width()
	b.WriteString(heading)
	for i, text := range texts {
		if !o.Verbose && i == maxCauses {
			page.Bullet(b, fmt.Sprintf("and %s more", figure.Plural(len(texts)-i, "cause")), width)
			break
		}
		page.Bullet(b, page.Clean(text), width)
		if !o.Verbose {
			continue
		}
		for _, e := range evidenceOf(r, groups[i]) {
			for _, line := range page.Wrap(page.Clean(e), width-6) {
				b.WriteString(strings.TrimRight("      "+k.Plain(line), " ") + "\n")
			}
		}
	}
}

// maxEvidence is how many events of a kind and subject are listed of one cause: each lost connection has its own.
const maxEvidence = 2

// evidenceOf writes the events of a cause, a line each.
func evidenceOf(r record.Record, g explain.Group) (lines []string) {
	left, kinds := 0, map[string]int{}
	for _, id := range g.Evidence {
		j := slices.IndexFunc(r.Events, func(e record.Event) bool { return e.ID == id })
		if j < 0 {
			continue
		}
		e := r.Events[j]
		kind := string(e.Kind) + e.Subject
		if kinds[kind]++; kinds[kind] > maxEvidence {
			left++
			continue
		}
		mark := ""
		if e.Bound == record.Upper {
			mark = "≤ "
		}
		var detail []string
		for _, key := range slices.Sorted(maps.Keys(e.Detail)) {
			detail = append(detail, fmt.Sprintf("%s %v", key, e.Detail[key]))
		}
		line := fmt.Sprintf("#%d  %s%s  %s %s  %s", e.ID, mark, figure.Precise(e.TNs, e.TNs), e.Source, e.Kind, e.Subject)
		if e.Node != "" {
			line += "  on " + e.Node
		}
		if len(detail) > 0 {
			line += "  (" + strings.Join(detail, ", ") + ")"
		}
		lines = append(lines, line)
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("and %s more of these kinds, in the record", figure.Plural(left, "event")))
	}
	return lines
}
