package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestShippedExperiments(t *testing.T) {
	for file, want := range map[string]struct {
		repeats int
		grace   time.Duration
	}{"shutdown-matrix.yaml": {5, 30 * time.Second}, "quick.yaml": {1, 6 * time.Second}} {
		e, err := Read(filepath.Join("../../experiments", file))
		if err != nil {
			t.Fatal(err)
		}
		if e.Repeats != want.repeats || len(e.Arms) != 8 {
			t.Errorf("%s: %d repeats, %d arms", file, e.Repeats, len(e.Arms))
		}
		triggers := map[string]int{}
		for _, a := range e.Arms {
			triggers[a.Config.Trigger]++
			if a.Config.GraceNs != int64(want.grace) || a.Config.TCP != 10 || a.Config.UDP != 10 {
				t.Errorf("%s: arm %s: grace %v, %d + %d flows", file, a.Name, time.Duration(a.Config.GraceNs), a.Config.TCP, a.Config.UDP)
			}
		}
		if triggers["delete"] != 4 || triggers["evict"] != 1 || triggers["scale"] != 2 || triggers["none"] != 1 {
			t.Errorf("%s: triggers %v", file, triggers)
		}
	}
}

func TestEveryShippedExperimentIsRead(t *testing.T) {
	files, err := filepath.Glob("../../experiments/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d experiments (%v)", len(files), err)
	}
	for _, file := range files {
		e, err := Read(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if e.Name != strings.TrimSuffix(filepath.Base(file), ".yaml") || e.Repeats < 1 || len(e.Arms) < 2 {
			t.Errorf("%s: name %q, %d repeats of %d arms", file, e.Name, e.Repeats, len(e.Arms))
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(file, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("an endless experiment file: %v", err)
	}
}

func TestParseDistinguishesArms(t *testing.T) {
	e, err := Parse([]byte(`{apiVersion: drainproof.dev/v1, kind: Experiment, name: x, repeats: 2,
defaults: {grace: 12s, tcp: 3, readinessOnTerm: keep},
arms: [{name: a}, {name: b, arm: exit, forceRST: false, grace: 8s, readinessOnTerm: fail, exitCode: 7}]}`))
	if err != nil {
		t.Fatal(err)
	}
	a, b := e.Arms[0].Config, e.Arms[1].Config
	if a.GraceNs != int64(12*time.Second) || a.TCP != 3 || a.ReadinessOnTerm != "keep" || a.DrainWindowNs != int64(7*time.Second) {
		t.Errorf("arm a: %+v", a)
	}
	if b.Arm != "exit" || b.ForceRST || b.GraceNs != int64(8*time.Second) || b.ReadinessOnTerm != "fail" || b.ExitCode != 7 || b.TCP != 3 {
		t.Errorf("arm b: %+v", b)
	}
}

const two = `{apiVersion: drainproof.dev/v1, kind: Experiment, name: two, repeats: 2, arms: [{name: a, arm: exit}, {name: b}]}`

func parse(t *testing.T) *Experiment {
	t.Helper()
	e, err := Parse([]byte(two))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// runner gives complete sample records and counts; change may spoil one.
type runner struct {
	ran    []string
	change func(n int, r *record.Record) error
}

func (r *runner) run(_ context.Context, a Arm, set record.Set) (*record.Record, error) {
	r.ran = append(r.ran, TrialDir("", a.Name, set.Repeat))
	rec := records.Exit()
	rec.Set, rec.Config = &set, a.Config
	if r.change != nil {
		return &rec, r.change(len(r.ran), &rec)
	}
	return &rec, nil
}

func options(t *testing.T, dir string) Options {
	t.Helper()
	return Options{Dir: dir, Tool: records.Exit().Tool}
}

func TestRunsEveryRepeatOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	var before, after []string
	o := options(t, dir)
	o.BeforeArm = func(_ context.Context, a Arm) error { before = append(before, a.Name); return nil }
	o.AfterArm = func(_ context.Context, a Arm) error { after = append(after, a.Name); return nil }
	r := &runner{}
	got, err := Run(t.Context(), parse(t), o, r.run)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 || strings.Join(r.ran, " ") != "a/repeat-01 a/repeat-02 b/repeat-01 b/repeat-02" {
		t.Errorf("%d records, ran %v", len(got), r.ran)
	}
	if strings.Join(before, " ") != "a b" || strings.Join(after, " ") != "a b" {
		t.Errorf("before %v, after %v", before, after)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "experiment.yaml")); err != nil || string(b) != two {
		t.Errorf("the file is not kept beside its records: %v", err)
	}
	// Not asked to resume: nothing is overwritten.
	if _, err := Run(t.Context(), parse(t), options(t, dir), r.run); fault.CodeOf(err) != fault.Usage {
		t.Errorf("a second run: %v", err)
	}
	// Resumed: nothing is left to do, and no arm is prepared for nothing.
	o.Resume, before = true, nil
	r.ran = nil
	if got, err = Run(t.Context(), parse(t), o, r.run); err != nil || len(got) != 4 || len(r.ran) != 0 || len(before) != 0 {
		t.Errorf("resume: %d records, ran %v, prepared %v, %v", len(got), r.ran, before, err)
	}
}

func TestStopsAtAHoleAndResumesThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	cut := errors.New("the node went away")
	r := &runner{change: func(n int, rec *record.Record) error {
		if n != 2 {
			return nil
		}
		rec.Completeness, rec.Missing = record.Incomplete, []string{"phase observe: cut"}
		return cut
	}}
	after := 0
	o := options(t, dir)
	o.AfterArm = func(context.Context, Arm) error { after++; return nil }
	_, err := Run(t.Context(), parse(t), o, r.run)
	if !errors.Is(err, cut) || !strings.Contains(err.Error(), "arm a, repeat 2") {
		t.Errorf("error %v", err)
	}
	if after != 1 {
		t.Errorf("the arm's cluster was put back %d times", after)
	}
	if rec, err := record.Read(TrialDir(dir, "a", 2)); err != nil || rec.Completeness != record.Incomplete {
		t.Errorf("the incomplete record is not kept: %v", err)
	}
	r = &runner{}
	o.Resume = true
	got, err := Run(t.Context(), parse(t), o, r.run)
	if err != nil || len(got) != 4 || len(r.ran) != 3 {
		t.Errorf("resume: %d records, ran %v, %v", len(got), r.ran, err)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, record.HistoryDir, "a-repeat-02-*", record.FileName)); len(kept) != 1 {
		t.Errorf("history: %v", kept)
	}
	if found, err := record.Find(dir); err != nil || len(found) != 4 {
		t.Errorf("a reader of the set finds %v, %v", found, err)
	}
}

// A test whose client fell behind says nothing of the workload: it is history, and measured again at once, but not for ever.
func TestALateClientCostsARepeatAndNoSet(t *testing.T) {
	for _, c := range []struct {
		late    int // how many runs of the second repeat of arm a are late
		records int
	}{{1, 4}, {lateTries, 4}, {lateTries + 1, 1}} {
		dir := filepath.Join(t.TempDir(), "set")
		r := &runner{change: func(n int, rec *record.Record) error {
			if n >= 2 && n < 2+c.late {
				rec.Config.Traffic = &record.Traffic{}
				rec.Client = &record.ClientHealth{FellBehind: true, Limits: map[string]int{}}
				rec.Completeness, rec.Missing = record.Incomplete, []string{"the client itself fell behind"}
				rec.ID += fmt.Sprint(n)
			}
			return nil
		}}
		got, err := Run(t.Context(), parse(t), options(t, dir), r.run)
		if len(got) != c.records || (err == nil) != (c.records == 4) {
			t.Errorf("%d late runs: %d records, %v", c.late, len(got), err)
		}
		if err != nil && fault.CodeOf(err) != fault.Inconclusive {
			t.Errorf("%d late runs: %v", c.late, err)
		}
		if kept, _ := filepath.Glob(filepath.Join(dir, record.HistoryDir, "a-repeat-02-*", record.FileName)); len(kept) != min(c.late, lateTries) {
			t.Errorf("%d late runs: history %v", c.late, kept)
		}
	}
}

// --resume goes on with what was begun, and puts nothing among somebody's files.
func TestResumeRefusesAForeignFolder(t *testing.T) {
	single := Single(parse(t).Arms[0].Config, 2)
	for name, c := range map[string]struct {
		e    *Experiment
		put  string // a file in the folder
		text string
		want string
	}{
		"other files, of a file":   {parse(t), "notes.txt", "mine", "nothing to resume"},
		"other files, of flags":    {single, "notes.txt", "mine", "nothing to resume"},
		"a file named like an arm": {single, single.Arms[0].Name, "mine", "nothing to resume"},
		"another experiment":       {parse(t), keptFile, strings.Replace(two, "repeats: 2", "repeats: 3", 1), "holds another experiment"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, t.TempDir())
			o.Resume = true
			if err := os.WriteFile(filepath.Join(o.Dir, c.put), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := &runner{}
			_, err := Run(t.Context(), c.e, o, r.run)
			if fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), c.want) || len(r.ran) != 0 {
				t.Errorf("error %v, ran %v", err, r.ran)
			}
			if left, err := os.ReadDir(o.Dir); err != nil || len(left) != 1 {
				t.Errorf("the folder now holds %v (%v)", left, err)
			}
		})
	}
	// One that was begun: before its first record, and after it.
	o := options(t, t.TempDir())
	o.Resume = true
	if err := os.WriteFile(filepath.Join(o.Dir, keptFile), []byte(two), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{4, 0} {
		r := &runner{}
		if _, err := Run(t.Context(), parse(t), o, r.run); err != nil || len(r.ran) != want {
			t.Errorf("error %v, ran %v, want %d", err, r.ran, want)
		}
	}
	o = options(t, filepath.Join(t.TempDir(), "set"))
	o.Resume = true
	for _, want := range []int{2, 0} {
		r := &runner{}
		if _, err := Run(t.Context(), single, o, r.run); err != nil || len(r.ran) != want {
			t.Errorf("of flags: error %v, ran %v, want %d", err, r.ran, want)
		}
	}
}

func TestRefusesToMix(t *testing.T) {
	nft := "nftables"
	for name, change := range map[string]func(*record.Record){
		"Kubernetes version": func(r *record.Record) { r.Environment.Kubernetes = "v9.9.9" },
		"proxy mode":         func(r *record.Record) { r.Environment.ProxyMode = &nft },
		"tool binary":        func(r *record.Record) { r.Tool.Sha256 = strings.Repeat("f", 64) },
		"tool version":       func(r *record.Record) { r.Tool.Version = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{change: func(n int, rec *record.Record) error {
				if n == 3 { // the first of the second arm: arms must agree, too
					change(rec)
				}
				return nil
			}}
			dir := filepath.Join(t.TempDir(), "set")
			_, err := Run(t.Context(), parse(t), options(t, dir), r.run)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("another binary on resume", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "set")
		if _, err := Run(t.Context(), parse(t), options(t, dir), (&runner{}).run); err != nil {
			t.Fatal(err)
		}
		o := options(t, dir)
		o.Resume, o.Tool.Sha256 = true, strings.Repeat("e", 64)
		if _, err := Run(t.Context(), parse(t), o, (&runner{}).run); fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), "another build") {
			t.Errorf("error %v", err)
		}
	})
}
