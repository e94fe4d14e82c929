package auditview

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/testkit"
)

func TestRulePages(t *testing.T) {
	var b bytes.Buffer
	if err := RulesMarkdown(&b, docs()); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "rules.md", b.Bytes())
	b.Reset()
	if err := RuleList(&b, docs()); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "rules.txt", b.Bytes())
	for name, width := range map[string]int{"explain.txt": 0, "explain-narrow.txt": 72} {
		b.Reset()
		if err := Explain(&b, docs()[1], width); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, name, b.Bytes())
	}
}

// The list and the page are in the order of the IDs, whatever the order of the rules, with one section a topic; every rule has
// the heading that links go to.
func TestRulesAreSortedByID(t *testing.T) {
	var list []finding.RuleDoc
	var ids, topics []string
	for i, topic := range slices.Backward(finding.Topics) {
		list = append(list, finding.RuleDoc{ID: fmt.Sprintf("DP%d1", 20+i), Topic: topic, Severity: finding.Error, Title: "t"}, finding.RuleDoc{ID: fmt.Sprintf("DP%d0", 20+i), Topic: topic, Severity: finding.Error, Title: "t"})
	}
	for i, topic := range finding.Topics {
		ids, topics = append(ids, fmt.Sprintf("DP%d0", 20+i), fmt.Sprintf("DP%d1", 20+i)), append(topics, string(topic))
	}
	// A rule outside its topic's range stands in its section, and where its ID says in table and list.
	list, ids = append(list, finding.RuleDoc{ID: "DPx", Topic: finding.Topics[0]}), append(ids, "DPx")
	var b bytes.Buffer
	if err := RuleList(&b, list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Fields(line)[0])
	}
	if !slices.Equal(got, ids) {
		t.Errorf("the list has %q, not %q", got, ids)
	}
	b.Reset()
	if err := RulesMarkdown(&b, list); err != nil {
		t.Fatal(err)
	}
	var table, sections []string
	for line := range strings.Lines(b.String()) {
		if row, ok := strings.CutPrefix(line, "| ["); ok {
			id, _, _ := strings.Cut(row, "]")
			table = append(table, id)
		}
		if topic, ok := strings.CutPrefix(line, "## "); ok {
			sections = append(sections, strings.TrimSpace(topic))
		}
	}
	if !slices.Equal(table, ids) || !slices.Equal(sections, topics) {
		t.Errorf("the table has %q, not %q, and the sections %q, not %q", table, ids, sections, topics)
	}
	for _, d := range list {
		if !strings.Contains(b.String(), "\n### "+d.ID+"\n") || !strings.Contains(b.String(), "](#"+strings.ToLower(d.ID)+")") {
			t.Errorf("%s has no heading or no link to it", d.ID)
		}
	}
}

func TestSourcesBecomeLinks(t *testing.T) {
	for in, want := range map[string]string{
		"kubernetes/kubernetes#43576":                 "[kubernetes/kubernetes#43576](https://github.com/kubernetes/kubernetes/issues/43576)",
		"KEP-3960, and KEP-0753":                      "[KEP-3960](https://github.com/kubernetes/enhancements/issues/3960), and [KEP-0753](https://github.com/kubernetes/enhancements/issues/753)",
		"see https://nginx.org/en/docs/control.html.": "see [https://nginx.org/en/docs/control.html](https://nginx.org/en/docs/control.html).",
		"`a|b_c` and a_b <c>":                         "`a\\|b_c` and a\\_b &lt;c&gt;",
		"pkg/kubelet/kuberuntime":                     "pkg/kubelet/kuberuntime",
		"RFC 9110":                                    "RFC 9110",
	} {
		if got := prose(in); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
