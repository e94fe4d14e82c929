package record_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
)

func TestDocsDefineEveryWindow(t *testing.T) {
	text, err := os.ReadFile("../../docs/record.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, d := range record.WindowDefs() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", d.Name, d.From, d.To)
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("docs/record.md does not hold this table:\n%s", want.String())
	}
}
