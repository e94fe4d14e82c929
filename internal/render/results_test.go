package render

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
)

const (
	tablesBegin = "<!-- made by: drainproof report results/iptables results/nftables results/iptables-v1.34 -o markdown -->\n"
	tablesEnd   = "<!-- end -->"
)

// TestReadmeHeadline: the picture that README.md opens with is what that record
// gives, from the heading to the key, and the table of its flows.
func TestReadmeHeadline(t *testing.T) {
	const path = "results/iptables/drain-delete/repeat-04"
	rec, err := record.Read("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Trial(&b, rec, Opts{}); err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(b.String(), "\nTimeline  ")
	_, flows, more := strings.Cut(rest, "\nFlows  ")
	flows, _, ended := strings.Cut(flows, "\n\n")
	if !found || !more || !ended || strings.Count(flows, "\n") != 2 {
		t.Fatalf("the page has another order:\n%s", &b)
	}
	want := head + "\nFlows  " + flows + "\n"

	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin = "\n```\ndrain, delete, grace 30 s"
	before, after, found := strings.Cut(string(page), begin)
	block, after, ended := strings.Cut(after, "```\n")
	if !found || !ended || !strings.Contains(before, path) {
		t.Fatal("README.md does not open with the trial " + path)
	}
	block = strings.TrimPrefix(begin, "\n```\n") + block
	if block == want {
		return
	}
	if testkit.Updating() {
		if err := os.WriteFile("../../README.md", []byte(before+"\n```\n"+want+"```\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("README.md does not open with what the record gives; make update writes it (-README +record):\n%s", cmp.Diff(block, want))
}

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
		if rec.IsTest() {
			continue // testview holds the page to those
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
