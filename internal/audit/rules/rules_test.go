package rules

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
	"github.com/drainproof/drainproof/internal/testkit"
)

// TestRules holds each rule to its folder testdata/ID: it must find something in every
// bad*.yaml, exactly what the golden file beside it says, and nothing in any good*.yaml.
func TestRules(t *testing.T) {
	for _, r := range All() {
		t.Run(r.ID, func(t *testing.T) {
			for _, kind := range []string{"bad", "good"} {
				files, err := filepath.Glob(filepath.Join("testdata", r.ID, kind+"*.yaml"))
				if err != nil || len(files) == 0 {
					t.Errorf("testdata/%s holds no %s*.yaml (%v)", r.ID, kind, err)
				}
				for _, file := range files {
					t.Run(filepath.Base(file), func(t *testing.T) { checkFile(t, r.ID, kind, file) })
				}
			}
		})
	}
}

func checkFile(t *testing.T, id, kind, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(filepath.Base(file), text)
	if err != nil {
		t.Fatal(err)
	}
	server := 37
	if m := regexp.MustCompile(`(?m)^# kubernetes: 1\.(\d+)$`).FindSubmatch(text); m != nil {
		_, _ = fmt.Sscan(string(m[1]), &server)
	}
	var got bytes.Buffer
	for _, f := range Check(model.Build(objects, model.Options{}), server, budget.Floors{}) {
		if f.Rule != id {
			continue
		}
		fmt.Fprintf(&got, "%s %s/%s %s line %d\n  %s\n", f.Severity, f.Object.Kind, f.Object.Name, f.Path, f.Line, f.Message)
		for _, fact := range f.Facts {
			fmt.Fprintf(&got, "  - %s: %s (%s)\n", fact.Name, fact.Value, fact.From)
		}
		fmt.Fprintf(&got, "  remedy: %s\n", f.Remedy)
		if f.Ask != "" {
			fmt.Fprintf(&got, "  ask: %s\n", f.Ask)
		}
		if f.Remedy == "" || f.Message == "" || f.Line == 0 {
			t.Errorf("a finding without message, remedy or line: %+v", f)
		}
	}
	if kind == "good" {
		if got.Len() > 0 {
			t.Errorf("finds something in a manifest that is good:\n%s", &got)
		}
		return
	}
	if got.Len() == 0 {
		t.Fatal("finds nothing in a manifest that is bad")
	}
	testkit.Golden(t, filepath.Join(id, strings.TrimSuffix(filepath.Base(file), ".yaml")+".golden"), got.Bytes())
}

// TestRulesAreDocumented: every rule says enough to be believed.
func TestRulesAreDocumented(t *testing.T) {
	seen := map[string]bool{}
	topics := map[finding.Topic]bool{}
	for _, topic := range finding.Topics {
		topics[topic] = false
	}
	for _, r := range All() {
		if !regexp.MustCompile(`^DP[1-9]\d\d$`).MatchString(r.ID) || seen[r.ID] {
			t.Errorf("ID %q is malformed or used twice", r.ID)
		}
		seen[r.ID] = true
		if _, ok := topics[r.Topic]; !ok {
			t.Errorf("%s has unknown topic %q", r.ID, r.Topic)
		}
		topics[r.Topic] = true
		if r.Severity.Rank() == 0 || r.Title == "" || r.Physics == "" || r.Remedy == "" || len(r.Sources) == 0 {
			t.Errorf("%s lacks severity, title, physics, remedy or source", r.ID)
		}
		if (r.Workload == nil) == (r.Set == nil) {
			t.Errorf("%s must have exactly one check", r.ID)
		}
	}
	for topic, has := range topics {
		if !has {
			t.Errorf("no rule is about topic %s", topic)
		}
	}
}
