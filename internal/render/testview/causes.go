package testview

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

// causesOf lists the causes of a test's failures, those with most first: count, kind and the sentence that tells all of them. It is empty where nothing
// was attributed but what the client itself could not do: what is missing then is told of each failure, and the notes say that no agent was there.
func causesOf(r record.Record) (texts []string, groups []explain.Group) {
	groups = explain.Groups(r)
	if !slices.ContainsFunc(groups, func(g explain.Group) bool { return g.Kind != "unattributed" && g.Kind != "client-limit" }) {
		return nil, nil
	}
	for _, g := range groups {
		texts = append(texts, fmt.Sprintf("%s %s: %s", figure.Count(int64(g.Requests+g.Flows)), g.Kind, g.Sentence))
	}
	return texts, groups
}

// causes tells why requests failed, as far as evidence goes; verbose, with the events that show it.
func (s *sheet) causes() {
	texts, groups := causesOf(s.r)
	if len(texts) == 0 {
		return
	}
	s.line("")
	s.line(s.k.Bold("Causes"))
	for i, text := range texts {
		if !s.o.Verbose && i == maxCauses {
			page.Bullet(&s.b, fmt.Sprintf("and %s more", figure.Plural(len(texts)-i, "cause")), s.width)
			break
		}
		page.Bullet(&s.b, page.Clean(text), s.width)
		if s.o.Verbose {
			for _, e := range evidenceOf(s.r, groups[i]) {
				s.hanging("      ", e, page.Ink.Dim)
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
