package render

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
)

const (
	tablesBegin = "<!-- made by: drainproof report results -o markdown -->\n"
	tablesEnd   = "<!-- end -->"
)

// TestResultsPageIsMadeOfTheRecords: the published tables are exactly what the
// published records give, and every record is complete and valid.
func TestResultsPageIsMadeOfTheRecords(t *testing.T) {
	paths, err := record.Find("../../results")
	if err != nil {
		t.Fatal(err)
	}
	var in []Input
	for _, p := range paths {
		rec, err := record.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		if problems := record.Validate(rec); len(problems) > 0 || rec.Completeness != record.Complete {
			t.Errorf("%s: %s %v", p, rec.Completeness, problems)
		}
		in = append(in, Input{Path: strings.TrimPrefix(p, "../../"), Record: rec})
	}
	var tables bytes.Buffer
	if err := Markdown(&tables, in); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), tablesBegin)
	_, after, ended := strings.Cut(rest, tablesEnd)
	if !found || !ended {
		t.Fatal("docs/results.md has no place for the tables")
	}
	want := before + tablesBegin + tables.String() + tablesEnd + after
	if want == string(page) {
		return
	}
	if testkit.Updating() {
		if err := os.WriteFile("../../docs/results.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Error("the tables in docs/results.md are not what the records in results/ give; make update writes them")
}
