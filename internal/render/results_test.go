package render

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
)

// published are the folders of results that hold trials of flows, as they are reported together. What has evidence is explained again, by the rules of now.
var published = []struct {
	again bool
	dirs  []string
}{
	{false, []string{"results/iptables", "results/nftables", "results/iptables-v1.34"}},
	{true, []string{"results/evidence/udp-iptables", "results/evidence/udp-nftables"}},
}

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
// published records give, and every record is complete, valid and shown.
func TestResultsPageIsMadeOfTheRecords(t *testing.T) {
	page := testkit.ReadPage(t, "../../docs/results.md")
	left := flowsIn(t, "results")
	for _, p := range published {
		in, again := flowsIn(t, p.dirs...), ""
		if p.again {
			again = "--explain-again "
			for i := range in {
				explain.Record(&in[i].Record)
			}
		}
		for _, one := range in {
			left = slices.DeleteFunc(left, func(i Input) bool { return i.Path == one.Path })
		}
		var tables bytes.Buffer
		if err := Markdown(&tables, in); err != nil {
			t.Fatal(err)
		}
		page.Put(t, "<!-- made by: drainproof report "+again+strings.Join(p.dirs, " ")+" -o markdown -->\n", "<!-- end -->", tables.String())
	}
	if len(left) > 0 {
		t.Errorf("%d records are on no page, such as %s", len(left), left[0].Path)
	}
	page.Hold(t)
}

// flowsIn reads the trials of flows below folders; testview holds the page to those of requests.
func flowsIn(t *testing.T, dirs ...string) (in []Input) {
	t.Helper()
	for _, dir := range dirs {
		paths, err := record.Find("../../" + dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			rec, err := record.Read(p)
			if err != nil {
				t.Fatal(err)
			}
			if problems := record.Validate(rec); len(problems) > 0 || rec.Completeness != record.Complete {
				t.Errorf("%s: %s %v", p, rec.Completeness, problems)
			}
			if !rec.IsTest() {
				in = append(in, Input{Path: strings.TrimPrefix(p, "../../"), Record: rec})
			}
		}
	}
	return in
}
