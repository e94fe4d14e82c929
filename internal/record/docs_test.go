package record_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestDocsDefineEveryWindow(t *testing.T) {
	text := recordPage(t)
	var want strings.Builder
	for _, d := range record.WindowDefs() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", d.Name, d.From, d.To)
	}
	if !strings.Contains(text, want.String()) {
		t.Errorf("docs/record.md does not hold this table:\n%s", want.String())
	}
}

// TestDocsDefineEveryOutcome: the table has a line for each, in order, and says of each what the code does with it.
func TestDocsDefineEveryOutcome(t *testing.T) {
	text := recordPage(t)
	_, table, found := strings.Cut(text, "| Outcome | What its client saw | Fails | Has a latency |\n| --- | --- | --- | --- |\n")
	table, _, ended := strings.Cut(table, "\n\n")
	lines := strings.Split(table, "\n")
	if !found || !ended || len(lines) != len(record.RequestOutcomes()) {
		t.Fatalf("the table of outcomes has %d lines, and there are %d outcomes", len(lines), len(record.RequestOutcomes()))
	}
	yes := map[bool]string{true: "yes", false: "no"}
	for i, o := range record.RequestOutcomes() {
		if !strings.HasPrefix(lines[i], fmt.Sprintf("| `%s` | ", o)) || !strings.HasSuffix(lines[i], fmt.Sprintf(" | %s | %s |", yes[o.Failed()], yes[o.Answered()])) {
			t.Errorf("%s has this line: %s", o, lines[i])
		}
	}
	want := "Kinds of causes: `" + strings.Join(record.CauseKinds(), "`, `") + "`."
	if !strings.Contains(text, want) {
		t.Errorf("docs/record.md does not hold: %s", want)
	}
	for _, p := range record.RequestPhases() {
		if !strings.Contains(text, fmt.Sprintf("`%s`", p)) {
			t.Errorf("docs/record.md does not name the phase %s", p)
		}
	}
}

// TestDocsShowTheSample: the JSON on the page is what the sample of a test holds.
func TestDocsShowTheSample(t *testing.T) {
	r := records.RolloutLossy()
	for name, part := range map[string]any{"failures[0]": r.Failures[0], "verdict": r.Verdict} {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetIndent("", "  ")
		if err := enc.Encode(part); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(recordPage(t), "```json\n"+want.String()+"```\n") {
			t.Errorf("docs/record.md does not show the sample's %s:\n%s", name, want.String())
		}
	}
}

func recordPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/record.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
