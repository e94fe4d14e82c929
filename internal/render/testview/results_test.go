package testview

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/testkit"
)

const endOfTables = "<!-- end -->"

// published are the folders of results whose tables stand on the page, each after the mark that says how they are made. What has evidence is explained
// again, by the rules of now.
var published = []string{"requests/inflight", "requests/keepalive", "requests/slow-start", "evidence/dead-endpoint"}

func explained(name string) bool {
	return strings.HasPrefix(name, "evidence/") || strings.HasPrefix(name, "servers")
}

const (
	blastMark  = "<!-- the cells of: drainproof report results/requests/blast-radius -->\n"
	causesMark = "<!-- the causes of: drainproof report --explain-again results/evidence/blast-radius-causes -->\n"
)

// publishedSet reads the records below a folder of results, each of which is whole.
func publishedSet(t *testing.T, name string) []render.Input {
	t.Helper()
	paths, err := record.Find("../../../results/" + name)
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
		if explained(name) {
			explain.Record(&rec)
		}
		in = append(in, render.Input{Path: strings.TrimPrefix(p, "../../../"), Record: rec})
	}
	return in
}

// TestResultsPageHoldsThePublishedTests: each table of tests on the page is exactly what the published records give.
func TestResultsPageHoldsThePublishedTests(t *testing.T) {
	page := testkit.ReadPage(t, "../../../docs/results.md")
	for _, name := range published {
		var b bytes.Buffer
		if err := MatrixMarkdown(&b, publishedSet(t, name)); err != nil {
			t.Fatal(err)
		}
		again := ""
		if explained(name) {
			again = "--explain-again "
		}
		page.Put(t, "<!-- made by: drainproof report "+again+"results/"+name+" -o markdown -->\n", endOfTables, b.String())
	}
	var b bytes.Buffer
	if err := MatrixMarkdown(&b, publishedSet(t, "evidence/blast-radius-causes")); err != nil {
		t.Fatal(err)
	}
	_, causes, found := strings.Cut(b.String(), "### Causes\n")
	causes, _, ended := strings.Cut(causes, "### ")
	if !found || !ended {
		t.Fatal("the report tells no causes")
	}
	page.Put(t, causesMark, endOfTables, causes)
	page.Put(t, blastMark, endOfTables, blastCells(t, publishedSet(t, "requests/blast-radius")))
	page.Hold(t)
}

// blastCells sets the arms of the blast-radius experiment in rows by what is done to the workload and how it shuts down, and in columns by the
// number of its replicas. A cell has failed requests and users hurt: one number where all repeats agree, else the smallest and the largest.
func blastCells(t *testing.T, set []render.Input) string {
	failed, users := map[string][]float64{}, map[string][]float64{}
	for _, in := range set {
		arm := in.Record.Set.Arm
		failed[arm] = append(failed[arm], float64(in.Record.Requests.Failed))
		users[arm] = append(users[arm], float64(in.Record.Users.Hurt))
	}
	used := map[string]bool{}
	cell := func(arm string) string {
		if len(failed[arm]) == 0 {
			t.Errorf("no trial of arm %s", arm)
			return ""
		}
		used[arm] = true
		return between(stats.Whole(failed[arm], 1)) + " / " + between(stats.Whole(users[arm], 1))
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

// TestReadmeShowsACause: the cause that README.md shows is what that record gives.
func TestReadmeShowsACause(t *testing.T) {
	const path = "results/evidence/dead-endpoint/sleep-0/repeat-01"
	rec, err := record.Read("../../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Summary(&b, render.Input{Path: path, Record: rec}, render.Opts{}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "`drainproof report "+path+"`):\n\n```\n")
	shown, _, ended := strings.Cut(rest, "```\n")
	if !found || !ended || strings.Count(shown, "\n") < 2 {
		t.Fatal("README.md shows no cause of " + path)
	}
	if !strings.Contains(b.String(), shown) {
		t.Errorf("README.md shows\n%s\nand the record gives\n%s", shown, &b)
	}
}
