package experiment

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/trial"
)

func TestParseRequests(t *testing.T) {
	e, err := Parse([]byte(`
apiVersion: drainproof.dev/v1
kind: Experiment
name: x
repeats: 1
defaults:
  trigger: rollout
  requests: {rate: 2.5, expect: 200, before: 2s, wholeTimeout: 9s}
  probe: {replicas: 3, maxSurge: 1, budgetMinAvailable: 2}
arms:
  - {name: plain}
  - name: other
    arm: finish
    trigger: delete
    requests: {mode: grpc, expect: 0, before: null, users: 7, path: /a.B/C}
    probe: {announce: false, drainHook: 0s, startDelay: 1500ms, noReadinessProbe: true, budgetMinAvailable: 0}
`))
	if err != nil {
		t.Fatal(err)
	}
	traffic := trial.DefaultTraffic()
	traffic.Rate, traffic.Expect, traffic.BeforeNs, traffic.WholeNs = 2.5, "200", int64(2*time.Second), int64(9*time.Second)
	traffic.Method, traffic.WaitFor = "GET", "rolled-out"
	probe := trial.DefaultProbe()
	probe.Replicas, probe.MaxSurge, probe.BudgetMinAvailable = 3, "1", new(2)
	a := e.Arms[0]
	if diff := cmp.Diff(&traffic, a.Config.Traffic) + cmp.Diff(&probe, a.Config.Probe); diff != "" {
		t.Errorf("arm plain, -want +got:\n%s", diff)
	}
	if a.RequestPath != "/" || a.Config.TCP != 0 || a.Config.UDP != 0 {
		t.Errorf("arm plain asks for %s and holds %d + %d flows", a.RequestPath, a.Config.TCP, a.Config.UDP)
	}
	b := e.Arms[1]
	if tr := b.Config.Traffic; tr.Mode != "grpc" || tr.Expect != "0" || tr.BeforeNs != int64(2*time.Second) || tr.Users != 7 || tr.Rate != 2.5 || tr.Method != "POST" || tr.WaitFor != "ready" || b.RequestPath != "/a.B/C" {
		t.Errorf("arm other: %+v, path %s", tr, b.RequestPath)
	}
	want := record.ProbeConfig{
		Replicas: 3, Strategy: "RollingUpdate", MaxSurge: "1", BudgetMinAvailable: new(0),
		StartDelayNs: int64(1500 * time.Millisecond), NoReadinessProbe: true, DrainHookNs: 0,
	}
	if diff := cmp.Diff(&want, b.Config.Probe); diff != "" {
		t.Errorf("arm other, -want +got:\n%s", diff)
	}
}

func TestFlowsHaveNoTraffic(t *testing.T) {
	for _, a := range parse(t).Arms {
		if a.Config.Traffic != nil || a.Config.Probe != nil || a.RequestPath != "" {
			t.Errorf("arm %s sends requests: %+v", a.Name, a)
		}
	}
}

// The cells of the blast radius are the whole product, but for those that its comment leaves out.
func TestBlastRadiusIsWhole(t *testing.T) {
	e, err := Read(filepath.Join("../../experiments", "blast-radius.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type cell struct {
		replicas  int
		sleep     time.Duration
		arm, what string
	}
	cells := map[cell]string{}
	for _, a := range e.Arms {
		c := a.Config
		what := c.Trigger
		if c.Probe.Strategy == "Recreate" {
			what = "recreate"
		}
		if b := c.Probe.BudgetMinAvailable; b != nil {
			what += "-pdb"
			if *b != c.Probe.Replicas-1 {
				t.Errorf("%s: a budget of %d for %d replicas", a.Name, *b, c.Probe.Replicas)
			}
		}
		at := cell{c.Probe.Replicas, time.Duration(c.PreStopSleepNs), c.Arm, what}
		if twice := cells[at]; twice != "" {
			t.Errorf("%s and %s are the same cell", twice, a.Name)
		}
		cells[at] = a.Name
		if what != "none" && !strings.HasSuffix(a.Name, "-"+what) {
			t.Errorf("%s ends by %s", a.Name, what)
		}
		if c.ForceRST || c.PreStopSleepNs+c.DrainWindowNs >= c.GraceNs {
			t.Errorf("%s: forced %t, hook %v and drain %v in %v", a.Name, c.ForceRST, at.sleep, time.Duration(c.DrainWindowNs), time.Duration(c.GraceNs))
		}
	}
	for replicas := 1; replicas <= 3; replicas++ {
		for _, sleep := range []time.Duration{0, 5 * time.Second} {
			for _, arm := range []string{"exit", "finish"} {
				for _, what := range []string{"delete", "rollout", "recreate", "drain", "drain-pdb"} {
					if at := (cell{replicas, sleep, arm, what}); cells[at] == "" {
						t.Errorf("there is no cell %+v", at)
					}
				}
			}
		}
		if cells[cell{replicas, 0, "exit", "kill"}] == "" {
			t.Errorf("there is no kill of %d replicas", replicas)
		}
	}
	if len(cells) != 3*2*2*5+3+1 {
		t.Errorf("%d cells", len(cells))
	}
}

// Each case of the lab differs from the one beside it in what it is to show, and in nothing else.
func TestInflightCases(t *testing.T) {
	e, err := Read(filepath.Join("../../experiments", "inflight.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type lab struct {
		arm, path   string
		grace, hook time.Duration
		exitCode    int
	}
	got := map[string]lab{}
	for _, a := range e.Arms {
		c := a.Config
		got[a.Name] = lab{c.Arm, a.RequestPath, time.Duration(c.GraceNs), time.Duration(c.Probe.DrainHookNs), c.ExitCode}
		work, err := time.ParseDuration(strings.TrimPrefix(a.RequestPath, "/slow?for="))
		if err != nil || c.Traffic.FirstByteNs <= int64(work) || c.DrainWindowNs <= int64(work) {
			t.Errorf("%s: the client's patience %v and the drain window %v must outlast the work %v (%v)", a.Name, time.Duration(c.Traffic.FirstByteNs), time.Duration(c.DrainWindowNs), work, err)
		}
	}
	const s = time.Second
	want := map[string]lab{
		"immediate": {"exit", "/slow?for=8s", 15 * s, -1, 17},
		"graceful":  {"finish", "/slow?for=8s", 15 * s, 2 * s, 0},
		"exhausted": {"finish", "/slow?for=10s", 5 * s, 3 * s, 0},
		"repaired":  {"finish", "/slow?for=10s", 15 * s, 3 * s, 0},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(lab{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
