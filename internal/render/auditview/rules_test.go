package auditview

import (
	"bytes"
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

// The page is in the order of finding.Topics, whatever the order of the rules, and every rule has the heading that links go to.
func TestRulesAreGroupedByTopic(t *testing.T) {
	var list []finding.RuleDoc
	for i, topic := range slices.Backward(finding.Topics) {
		list = append(list, finding.RuleDoc{ID: "DP" + string(rune('A'+i)), Topic: topic, Severity: finding.Error, Title: "t"})
	}
	var b bytes.Buffer
	if err := RulesMarkdown(&b, append(list, finding.RuleDoc{ID: "DPx", Topic: "new"})); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(b.String()) {
		if topic, ok := strings.CutPrefix(line, "## "); ok {
			got = append(got, strings.TrimSpace(topic))
		}
	}
	for _, topic := range finding.Topics {
		want = append(want, string(topic))
	}
	if want = append(want, "new"); !slices.Equal(got, want) {
		t.Errorf("topics in the order %q, not %q", got, want)
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
