package auditview

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
)

// Explain writes one rule for a terminal of so many columns: what is wrong, the
// physics, what to do, what it rests on.
func Explain(w io.Writer, d finding.RuleDoc, terminal int) error {
	d = cleanDoc(d)
	limit := columns(terminal)
	var b strings.Builder
	for i, line := range wrap(d.Title, limit-len(d.ID)-2) {
		head := d.ID
		if i > 0 {
			head = strings.Repeat(" ", len(d.ID))
		}
		b.WriteString(head + "  " + line + "\n")
	}
	fmt.Fprintf(&b, "%s, topic %s\n", d.Severity, d.Topic)
	paragraph := func(heading string, texts []string, mark string) {
		if len(texts) == 0 || texts[0] == "" {
			return
		}
		b.WriteString("\n" + heading + "\n")
		for _, text := range texts {
			head := mark
			for _, line := range wrap(text, limit-2-len(mark)) {
				b.WriteString("  " + head + line + "\n")
				head = strings.Repeat(" ", len(mark))
			}
		}
	}
	paragraph("What happens", []string{d.Physics}, "")
	paragraph("What to do", []string{d.Remedy}, "")
	paragraph("Sources", d.Sources, "- ")
	paragraph("To live with it", []string{`annotate the object, the workload or its Pod template: drainproof.dev/ignore: "` + d.ID + `: the reason"`}, "")
	b.WriteString("\n" + ruleURL(d.ID) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// RuleList writes one line for each rule, in the order of their IDs.
func RuleList(w io.Writer, docs []finding.RuleDoc) error {
	var b strings.Builder
	topic, severity := 0, 0
	for _, d := range docs {
		d = cleanDoc(d)
		topic, severity = max(topic, width(string(d.Topic))), max(severity, width(string(d.Severity)))
	}
	for _, d := range byID(docs) {
		fmt.Fprintf(&b, "%s  %s  %s  %s\n", d.ID, pad(string(d.Severity), severity), pad(string(d.Topic), topic), d.Title)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// RulesMarkdown writes the page of all rules, in the order of their IDs, with a section for each topic. The headings are bare IDs,
// so that a link to a rule outlives its title.
func RulesMarkdown(w io.Writer, docs []finding.RuleDoc) error {
	docs = byID(docs)
	var b strings.Builder
	b.WriteString("# Rules\n\n" +
		"<!-- Generated from the rules: drainproof audit explain -o markdown. Do not edit. -->\n\n" +
		"What `drainproof audit` looks for. An **error** loses traffic whenever the workload is terminated, or can never work; a **warning** loses it\n" +
		"under a common condition; **info** depends on the application and comes with the question that settles it. A rule is silent where the\n" +
		"manifest cannot tell. To live with a finding, say why on the object, the workload or its Pod template:\n\n" +
		"```yaml\nmetadata:\n  annotations:\n    drainproof.dev/ignore: \"DP101: the reason\"\n```\n\n" +
		"| Rule | Topic | Severity | What is wrong |\n|---|---|---|---|\n")
	for _, d := range docs {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", escape(d.ID), strings.ToLower(d.ID), escape(string(d.Topic)), escape(string(d.Severity)), prose(d.Title))
	}
	topic := finding.Topic("")
	for _, d := range byTopic(docs) {
		if d.Topic != topic {
			topic = d.Topic
			b.WriteString("\n## " + escape(string(topic)) + "\n")
		}
		fmt.Fprintf(&b, "\n### %s\n\n**%s** (%s)\n", escape(d.ID), prose(d.Title), escape(string(d.Severity)))
		if d.Physics != "" {
			b.WriteString("\n" + prose(d.Physics) + "\n")
		}
		if d.Remedy != "" {
			b.WriteString("\n**What to do:** " + prose(d.Remedy) + "\n")
		}
		if len(d.Sources) > 0 {
			b.WriteString("\nSources:\n\n")
		}
		for _, s := range d.Sources {
			b.WriteString("- " + prose(s) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// byID orders clean rules by their IDs.
func byID(docs []finding.RuleDoc) []finding.RuleDoc {
	list := each(docs, cleanDoc)
	slices.SortStableFunc(list, func(a, b finding.RuleDoc) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// byTopic keeps the rules of a topic together, each topic at the place of its first rule. IDs are given
// out in ranges, a topic each: so the order is that of the IDs unless a range is broken.
func byTopic(sorted []finding.RuleDoc) []finding.RuleDoc {
	place := map[finding.Topic]int{}
	for i, d := range sorted {
		if _, ok := place[d.Topic]; !ok {
			place[d.Topic] = i
		}
	}
	list := slices.Clone(sorted)
	slices.SortStableFunc(list, func(a, b finding.RuleDoc) int { return cmp.Compare(place[a.Topic], place[b.Topic]) })
	return list
}

var (
	// reference is what becomes a link: a page, an enhancement, an issue or pull request. What stands
	// between backticks stays code.
	reference   = regexp.MustCompile("`[^`]+`" + `|https://[^\s<>()\[\]"']*[^\s<>()\[\]"'.,;:]|\bKEP-[0-9]+|\b[A-Za-z0-9-]+/[A-Za-z0-9._-]+#[0-9]+`)
	enhancement = "https://github.com/kubernetes/enhancements/issues/"
)

// prose is text as a rule's author wrote it, with links where it names a source.
func prose(s string) string {
	var b strings.Builder
	last := 0
	for _, m := range reference.FindAllStringIndex(s, -1) {
		b.WriteString(escape(s[last:m[0]]))
		ref := s[m[0]:m[1]]
		last = m[1]
		if ref[0] == '`' {
			b.WriteString(strings.ReplaceAll(ref, "|", `\|`))
			continue
		}
		to := ref
		if n, ok := strings.CutPrefix(ref, "KEP-"); ok {
			// An enhancement has the number of its issue.
			to = enhancement + strings.TrimLeft(n, "0")
		} else if repository, n, ok := strings.Cut(ref, "#"); ok && !strings.HasPrefix(ref, "https://") {
			to = "https://github.com/" + repository + "/issues/" + n
		}
		b.WriteString("[" + escape(ref) + "](" + strings.ReplaceAll(to, "|", "%7C") + ")")
	}
	return b.String() + escape(s[last:])
}
