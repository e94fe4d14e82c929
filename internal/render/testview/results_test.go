package testview

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/testkit"
)

const (
	resultsPage = "../../../docs/results.md"
	endOfTables = "<!-- end -->"
)

// published are the folders of results/requests, each with the mark after which its table stands on the page.
var published = map[string]string{
	"<!-- made by: drainproof report results/requests/inflight -o markdown -->\n":   "inflight",
	"<!-- made by: drainproof report results/requests/keepalive -o markdown -->\n":  "keepalive",
	"<!-- made by: drainproof report results/requests/slow-start -o markdown -->\n": "slow-start",
}

const blastMark = "<!-- the cells of: drainproof report results/requests/blast-radius -->\n"

func publishedSet(t *testing.T, name string) []render.Input {
	t.Helper()
	paths, err := record.Find("../../../results/requests/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var in []render.Input
	for _, p := range paths {
		rec, err := record.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		if problems := record.Validate(rec); len(problems) > 0 || rec.Completeness != record.Complete {
			t.Errorf("%s: %s %v", p, rec.Completeness, problems)
		}
		in = append(in, render.Input{Path: strings.TrimPrefix(p, "../../../"), Record: rec})
	}
	return in
}

// TestResultsPageHoldsThePublishedTests: each table of tests on the page is exactly what the published records give.
func TestResultsPageHoldsThePublishedTests(t *testing.T) {
	page, err := os.ReadFile(resultsPage)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	put := func(mark, table string) {
		before, rest, found := strings.Cut(want, mark)
		_, after, ended := strings.Cut(rest, endOfTables)
		if !found || !ended {
			t.Fatalf("docs/results.md has no place for %s", mark)
		}
		want = before + mark + table + endOfTables + after
	}
	for mark, name := range published {
		var b bytes.Buffer
		if err := MatrixMarkdown(&b, publishedSet(t, name)); err != nil {
			t.Fatal(err)
		}
		put(mark, b.String())
	}
	put(blastMark, blastCells(t, publishedSet(t, "blast-radius")))
	if want == string(page) {
		return
	}
	if testkit.Updating() {
		if err := os.WriteFile(resultsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the tables in docs/results.md are not what results/requests gives; make update writes them (-page +records):\n%s", cmp.Diff(string(page), want))
}

// blastCells sets the arms of the blast-radius experiment in rows by what is done to the workload and how it shuts down, and in columns by the
// number of its replicas. A cell has failed requests and users hurt: one number where all repeats agree, else the smallest and the largest.
func blastCells(t *testing.T, set []render.Input) string {
	failed, users := map[string][]int64{}, map[string][]int64{}
	for _, in := range set {
		arm := in.Record.Set.Arm
		failed[arm] = append(failed[arm], in.Record.Requests.Failed)
		users[arm] = append(users[arm], int64(in.Record.Users.Hurt))
	}
	used := map[string]bool{}
	cell := func(arm string) string {
		if len(failed[arm]) == 0 {
			t.Errorf("no trial of arm %s", arm)
			return ""
		}
		used[arm] = true
		return between(failed[arm]) + " / " + between(users[arm])
	}
	var b strings.Builder
	b.WriteString("\n| trigger | preStop | app on SIGTERM | 1 replica | 2 replicas | 3 replicas |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, trigger := range []struct{ name, text string }{
		{"delete", "delete one Pod"}, {"rollout", "rolling restart"}, {"recreate", "restart, Recreate"}, {"drain", "node drain"}, {"drain-pdb", "node drain, with a budget"},
	} {
		for _, hook := range []struct{ name, text string }{{"nosleep", "none"}, {"sleep5", "sleep 5 s"}} {
			for _, app := range []struct{ name, text string }{{"exit", "exits"}, {"finish", "finishes"}} {
				row := []string{trigger.text, hook.text, app.text}
				for replicas := 1; replicas <= 3; replicas++ {
					row = append(row, cell(fmt.Sprintf("r%d-%s-%s-%s", replicas, hook.name, app.name, trigger.name)))
				}
				b.WriteString("| " + strings.Join(row, " | ") + " |\n")
			}
		}
	}
	b.WriteString("| SIGKILL to the process | | | " + cell("r1-kill") + " | " + cell("r2-kill") + " | " + cell("r3-kill") + " |\n")
	b.WriteString("| nothing (control) | none | exits | | | " + cell("control") + " |\n\n")
	var left []string
	for arm := range failed {
		if !used[arm] {
			left = append(left, arm)
		}
	}
	if slices.Sort(left); len(left) > 0 {
		t.Errorf("arms that have no cell: %v", left)
	}
	return b.String()
}
