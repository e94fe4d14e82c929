package fix

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
	"github.com/drainproof/drainproof/internal/audit/rules"
	"github.com/drainproof/drainproof/internal/testkit"
)

// audited is one text, judged.
type audited struct {
	model    *model.Model
	findings []finding.Finding
	options  Options
}

func audit(t *testing.T, file string, text []byte) audited {
	t.Helper()
	objects, err := manifest.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	a := audited{model: model.Build(objects, model.Options{}), options: Options{Server: 37}}
	if m := regexp.MustCompile(`(?m)^# kubernetes: 1\.(\d+)$`).FindSubmatch(text); m != nil {
		_, _ = fmt.Sscan(string(m[1]), &a.options.Server)
	}
	a.findings = rules.Check(a.model, a.options.Server, budget.Floors{})
	return a
}

func (a audited) plan() []Change { return Plan(a.model, a.findings, a.options) }

// TestPlan holds plan, diff and overlay to the golden file beside each manifest of testdata/plan,
// and the result to what a repair promises: it is sound, and there is nothing left to do.
func TestPlan(t *testing.T) {
	files, err := filepath.Glob("testdata/plan/*.*")
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	for _, path := range files {
		if ext := filepath.Ext(path); ext != ".yaml" && ext != ".json" {
			continue
		}
		file := filepath.Base(path)
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			before := audit(t, file, text)
			changes := before.plan()
			files, err := Apply(map[string][]byte{file: text}, changes)
			var refused *Refused
			if err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, c := range changes {
				fmt.Fprintf(&got, "%s/%s %s for %s\n  %s\n", c.Object.Kind, c.Object.Name, c.Path, strings.Join(c.Why, ", "), before.inShort(c))
			}
			if err != nil {
				fmt.Fprintf(&got, "REFUSED %v\n", err)
			}
			got.Write(Diff(file, text, cmpOr(files[file], text)))
			overlay := Overlay(changes, Resources([]string{file}, "overlay"))
			for _, name := range slices.Sorted(maps.Keys(overlay)) {
				fmt.Fprintf(&got, "==> %s\n%s", name, overlay[name])
			}
			testkit.Golden(t, filepath.Join("plan", file+".golden"), got.Bytes())

			after := audit(t, file, cmpOr(files[file], text))
			nothingLeft(t, changes, refused, after)
			nothingNew(t, before, after)
		})
	}
}

// inShort says what becomes of a change, without the words of the rules: those are not this package's.
func (a audited) inShort(c Change) string {
	if c.Skipped == "" {
		return c.What
	}
	reason := c.Skipped
	for _, f := range a.findings {
		if f.Rule == c.Why[0] && f.Object == c.Object && f.Path == c.Path {
			reason = strings.Replace(reason, strings.TrimSuffix(f.Remedy, "."), "(remedy of the rule)", 1)
			if f.Ask != "" {
				reason = strings.Replace(reason, f.Ask, "(question of the rule)", 1)
			}
		}
	}
	return "SKIPPED: " + reason
}

func cmpOr(a, b []byte) []byte {
	if a == nil {
		return b
	}
	return a
}

// nothingLeft: the repaired rules are silent about what was repaired, and no change is planned again.
func nothingLeft(t *testing.T, changes []Change, refused *Refused, after audited) {
	t.Helper()
	open := map[string]bool{} // what was refused in place may be planned again
	if refused != nil {
		for _, c := range refused.Changes {
			open[fmt.Sprint(c.Object, c.Path)] = true
		}
	}
	skipped := map[string]bool{}
	for _, c := range changes {
		for _, id := range c.Why {
			if c.Skipped != "" {
				skipped[id+c.Path] = true
			}
		}
	}
	for _, c := range after.plan() {
		if c.Skipped == "" && !open[fmt.Sprint(c.Object, c.Path)] {
			t.Errorf("planned again: %s/%s %s: %s (%v)", c.Object.Kind, c.Object.Name, c.Path, c.What, c.Why)
		}
	}
	for _, c := range changes {
		if c.Skipped != "" || open[fmt.Sprint(c.Object, c.Path)] {
			continue
		}
		for _, f := range after.findings {
			if f.Object == c.Object && slices.Contains(c.Why, f.Rule) && !skipped[f.Rule+f.Path] && (f.Path == c.Path || strings.HasPrefix(c.Path, f.Path)) {
				t.Errorf("still found after %q: %s %s", c.What, f.Rule, f.Message)
			}
		}
	}
}

// nothingNew: a repair must not bring a warning or an error that was not there.
func nothingNew(t *testing.T, before, after audited) {
	t.Helper()
	key := func(f finding.Finding) string { return fmt.Sprint(f.Rule, f.Object) }
	had := map[string]bool{}
	for _, f := range before.findings {
		had[key(f)] = true
	}
	for _, f := range after.findings {
		if !had[key(f)] && f.Severity != finding.Info {
			t.Errorf("new after the repair: %s %s %s/%s: %s", f.Severity, f.Rule, f.Object.Kind, f.Object.Name, f.Message)
		}
	}
}

// TestHooksAreAsLongAsTheRemediesSay: what a finding tells a person to write is what is written.
func TestHooksAreAsLongAsTheRemediesSay(t *testing.T) {
	text, err := os.ReadFile("testdata/plan/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := audit(t, "web.yaml", text)
	i := slices.IndexFunc(a.findings, func(f finding.Finding) bool { return f.Rule == "DP301" })
	if i < 0 {
		t.Fatal("nginx without a hook is not found")
	}
	m := regexp.MustCompile(`sleep\.seconds: (\d+).*terminationGracePeriodSeconds: (\d+)`).FindStringSubmatch(a.findings[i].Remedy)
	if m == nil {
		t.Fatalf("the remedy names no numbers: %s", a.findings[i].Remedy)
	}
	got := map[string]string{}
	for _, c := range a.plan() {
		for _, e := range c.edits {
			got[e.path] = e.value.text
		}
	}
	if got[sleepPath] != m[1] || got[gracePath] != m[2] {
		t.Errorf("planned %v, the remedy says %s", got, a.findings[i].Remedy)
	}
}

// TestPlanAnswersEveryFinding: nothing is changed without a reason, and a finding is either answered or named.
func TestPlanAnswersEveryFinding(t *testing.T) {
	files, _ := filepath.Glob("testdata/plan/*.*")
	for _, path := range files {
		if filepath.Ext(path) == ".golden" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		a := audit(t, filepath.Base(path), text)
		answered := map[string]bool{}
		for _, c := range a.plan() {
			if len(c.Why) == 0 {
				t.Errorf("%s: %s: no rule asks for it", path, c.What)
			}
			if c.What == "" || c.Skipped == "" && len(c.edits) == 0 && c.added == nil {
				t.Errorf("%s: a change that does nothing: %+v", path, c)
			}
			for _, id := range c.Why {
				answered[id] = true
			}
		}
		for _, f := range a.findings {
			if !answered[f.Rule] {
				t.Errorf("%s: %s is neither answered nor named: %s", path, f.Rule, f.Message)
			}
		}
	}
}

// TestPlanGoesByMeasurements: what was measured on the user's own cluster decides how long a hook is.
func TestPlanGoesByMeasurements(t *testing.T) {
	text, err := os.ReadFile("testdata/plan/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := audit(t, "web.yaml", text)
	floors := budget.Floors{Measured: map[string]budget.Floor{budget.ClusterIP: {Least: 8200 * time.Millisecond, Source: "records"}}}
	got := map[string]string{}
	for _, c := range Plan(a.model, rules.Check(a.model, 37, floors), Options{Server: 37, Floors: floors}) {
		for _, e := range c.edits {
			got[e.path] = e.value.text
		}
	}
	if got[sleepPath] != "15" || got[gracePath] != "45" {
		t.Errorf("planned %v, want a hook of 15 s (8.2 s, 2 s more, in steps of 5 s) and a grace period of 45 s", got)
	}
}

// TestPlanOfALiveObject: an object of a cluster has no file to edit, but a patch.
func TestPlanOfALiveObject(t *testing.T) {
	text, err := os.ReadFile("testdata/plan/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changes := audit(t, "", text).plan()
	out, err := Apply(nil, changes)
	if len(out) != 0 || err == nil || !strings.Contains(err.Error(), "it was not read from a file; take the overlay") {
		t.Errorf("got %v, %v", out, err)
	}
	files := Overlay(changes, nil)
	if !bytes.Contains(files["deployment-web.yaml"], []byte("seconds: 5")) || !bytes.Contains(files["kustomization.yaml"], []byte("- poddisruptionbudget-web.yaml")) {
		t.Errorf("got %q", files)
	}
}
