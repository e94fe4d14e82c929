package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
	"github.com/drainproof/drainproof/internal/testkit"
)

// corpus is a folder of real public manifests beside the repository; it is not part of it.
const corpus = "../../../shared/corpus"

// readCorpus gives the objects of every manifest below a folder of the corpus.
func readCorpus(t *testing.T, folder string) []*manifest.Object {
	t.Helper()
	testkit.Require(t, testkit.Folder(corpus))
	files, err := filepath.Glob(filepath.Join(corpus, folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s holds no manifests (%v)", folder, err)
	}
	var all []*manifest.Object
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := manifest.Parse(filepath.Base(file), text)
		if err != nil && !errors.Is(err, manifest.ErrNoObject) { // some are configuration of other programs
			t.Fatal(err)
		}
		all = append(all, objects...)
	}
	return all
}

// TestTriage holds the findings on two real sets of manifests to a list in which a person has judged
// each one. A finding that is new or gone must be judged again, in testdata/triage.
func TestTriage(t *testing.T) {
	for _, set := range []string{"microservices-demo", "kube-prometheus"} {
		t.Run(set, func(t *testing.T) {
			r := Run(model.Build(readCorpus(t, set), model.Options{}), Options{Server: DefaultServer})
			var got []string
			for _, f := range r.Findings {
				got = append(got, fmt.Sprintf("%s %s %s/%s %s", f.Rule, f.Severity, f.Object.Kind, f.Object.Name, f.Path))
			}
			slices.Sort(got)
			if diff := cmp.Diff(triaged(t, set), got); diff != "" {
				t.Errorf("findings differ from those judged, -judged +found:\n%s", diff)
			}
		})
	}
}

// triaged reads the judged findings. A line is a finding; the comment above a group is the judgement.
func triaged(t *testing.T, set string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "triage", set+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	judged := false
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSpace(line); {
		case line == "":
			judged = false
		case strings.HasPrefix(line, "#"):
			judged = true
		case !judged:
			t.Errorf("%s: no judgement above %q", set, line)
		default:
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestCorpusIsRead reads every file of the corpus: none may be refused, and no finding may lack what makes it one.
func TestCorpusIsRead(t *testing.T) {
	testkit.Require(t, testkit.Folder(corpus))
	folders, err := os.ReadDir(corpus)
	if err != nil {
		t.Fatal(err)
	}
	workloads := 0
	for _, d := range folders {
		if !d.IsDir() {
			continue
		}
		r := Run(model.Build(readCorpus(t, d.Name()), model.Options{}), Options{Server: DefaultServer})
		workloads += len(r.Workloads)
		for _, f := range r.Findings {
			if f.Message == "" || f.Remedy == "" || f.Line == 0 || f.File == "" || len(f.Facts) == 0 || f.Severity == finding.Info && f.Ask == "" {
				t.Errorf("%s %s/%s in %s lacks a message, a remedy, a place, facts or a question: %+v", f.Rule, f.Object.Kind, f.Object.Name, f.File, f)
			}
		}
	}
	if workloads < 30 {
		t.Errorf("only %d workloads were found in the corpus", workloads)
	}
}
