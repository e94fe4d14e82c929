package trial

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/trigger"
)

// config is a trial that is over in a second: the probe's own window is shorter still.
func config(arm, kind string) record.Config {
	c := Defaults()
	c.Arm, c.Trigger, c.Path, c.Vantage = arm, kind, "nodeport", "host"
	c.TCP, c.UDP, c.GraceNs = 3, 2, int64(4*time.Second)
	c.SettleNs, c.HeartbeatNs, c.ObserveNs = int64(100*time.Millisecond), int64(20*time.Millisecond), int64(5*time.Second)
	c.ReadTimeoutNs = int64(time.Second)
	if kind == string(trigger.None) {
		c.ObserveNs = int64(time.Second)
	}
	return Complete(c)
}

func runIn(ctx context.Context, w *world, c record.Config) (*record.Record, error) {
	return Run(ctx, Spec{ID: "20261129-160000-c0ffee", Config: c, Tool: record.Tool{Name: "drainproof", Version: "test", Sha256: strings.Repeat("0", 64), Go: "go"}, Cluster: "fake", Kernel: "k", CPUs: 2}, Deps{
		API: w, Local: traffic.StartLocal,
		NewTrigger: func(_ context.Context, k trigger.Kind, _ trigger.Target) (trigger.Trigger, error) {
			return fakeTrigger{w, k}, w.step("NewTrigger")
		},
	})
}

func validate(t *testing.T, rec *record.Record) {
	t.Helper()
	for _, p := range record.Validate(*rec) {
		t.Errorf("invalid record: %v", p)
	}
}

func TestDrainIsMeasured(t *testing.T) {
	w := newWorld(t, probe.Config{Behaviour: probe.Drain, ReadinessOnTerm: probe.Fail, DrainWindow: 300 * time.Millisecond})
	rec, err := runIn(t.Context(), w, config("drain", "delete"))
	if err != nil {
		t.Fatal(err)
	}
	validate(t, rec)
	if rec.Completeness != record.Complete || rec.Summary.TCP[record.Drained] != 3 || rec.Summary.UDP[record.Severed] != 2 {
		t.Errorf("%s %v; TCP %v, UDP %v", rec.Completeness, rec.Missing, rec.Summary.TCP, rec.Summary.UDP)
	}
	for _, f := range rec.Flows {
		if f.FirstInstance == nil || *f.FirstInstance != fakeName || f.LastSeq == nil || f.Answered == 0 {
			t.Errorf("%s does not say who answered: %+v", f.ID, f)
		}
		if f.Protocol == record.TCP && (f.EndedTNs == nil || time.Duration(*f.EndedTNs) < 300*time.Millisecond) {
			t.Errorf("%s ended before its window", f.ID)
		}
	}
	if !slices.Equal(w.undone, []string{"trigger", "namespace"}) {
		t.Errorf("put back: %v", w.undone)
	}
	if rec.ID != "20261129-160000-c0ffee" || rec.Environment.Namespace != "drainproof-"+rec.ID {
		t.Errorf("the id that was given: record %s, namespace %s", rec.ID, rec.Environment.Namespace)
	}
}

func TestExitIsMeasuredAndSaysThatItWasForced(t *testing.T) {
	w := newWorld(t, probe.Config{Behaviour: probe.Exit, ForceRST: true, ReadinessOnTerm: probe.Fail, ExitCode: 17})
	rec, err := runIn(t.Context(), w, config("exit", "delete"))
	if err != nil {
		t.Fatal(err)
	}
	validate(t, rec)
	if rec.Summary.TCP[record.Severed] != 3 || rec.Summary.ContainerExitCode == nil || *rec.Summary.ContainerExitCode != 17 {
		t.Errorf("TCP %v, exit code %v", rec.Summary.TCP, rec.Summary.ContainerExitCode)
	}
	for _, f := range rec.Flows {
		if f.Protocol == record.TCP && f.Mechanism != record.RST {
			t.Errorf("%s ended by %s", f.ID, f.Mechanism)
		}
	}
	if !slices.ContainsFunc(rec.Notes, func(s string) bool { return strings.Contains(s, "forced") }) {
		t.Errorf("the notes do not say that the resets were forced: %v", rec.Notes)
	}
}

func TestControlLosesNothing(t *testing.T) {
	w := newWorld(t, probe.Config{Behaviour: probe.Drain, ReadinessOnTerm: probe.Fail, DrainWindow: time.Second})
	rec, err := runIn(t.Context(), w, config("drain", "none"))
	if err != nil {
		t.Fatal(err)
	}
	validate(t, rec)
	if rec.Summary.TCP[record.Survived] != 3 || rec.Summary.UDP[record.Survived] != 2 || rec.Completeness != record.Complete {
		t.Errorf("%s %v; TCP %v, UDP %v", rec.Completeness, rec.Missing, rec.Summary.TCP, rec.Summary.UDP)
	}
}

// TestEveryFailureIsPutBack: whatever step fails, the record is incomplete, says where, and everything is undone.
func TestEveryFailureIsPutBack(t *testing.T) {
	broken := errors.New("broken on purpose")
	for step, want := range map[string]struct {
		phase Phase
		undos []string
	}{
		"Environment":     {Preflight, nil},
		"Missing":         {Preflight, nil},
		"EnsureNamespace": {Deploy, []string{"namespace"}},
		"DeployProbe":     {Deploy, []string{"namespace"}},
		"Watch":           {Attach, []string{"namespace"}},
		"NewTrigger":      {Settle, []string{"namespace"}},
		"Fire":            {Fire, []string{"trigger", "namespace"}},
	} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t, probe.Config{Behaviour: probe.Drain, ReadinessOnTerm: probe.Fail, DrainWindow: time.Second})
			w.failAt[step] = broken
			rec, err := runIn(t.Context(), w, config("drain", "delete"))
			if err == nil || fault.CodeOf(err) != fault.Unmeasurable {
				t.Errorf("error %v, code %d", err, fault.CodeOf(err))
			}
			validate(t, rec)
			if rec.Completeness != record.Incomplete || len(rec.Missing) == 0 || !strings.Contains(rec.Missing[0], string(want.phase)) {
				t.Errorf("%s, missing %v, want phase %s", rec.Completeness, rec.Missing, want.phase)
			}
			if !slices.Equal(w.undone, want.undos) {
				t.Errorf("put back %v, want %v", w.undone, want.undos)
			}
		})
	}
}

// TestInterruptedAnywhere: a cancelled context ends the trial in order.
func TestInterruptedAnywhere(t *testing.T) {
	for _, step := range []string{"Environment", "EnsureNamespace", "DeployProbe", "Watch", "FollowLog", "NewTrigger", "Fire"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t, probe.Config{Behaviour: probe.Drain, ReadinessOnTerm: probe.Fail, DrainWindow: time.Second})
			ctx, cancel := context.WithCancel(t.Context())
			w.at = func(s string) {
				if s == step {
					cancel()
				}
			}
			rec, err := runIn(ctx, w, config("drain", "delete"))
			if !errors.Is(err, context.Canceled) || fault.CodeOf(err) != fault.Unmeasurable {
				t.Errorf("error %v", err)
			}
			validate(t, rec)
			if rec.Completeness != record.Incomplete || !slices.ContainsFunc(rec.Events, func(e record.Event) bool { return e.Kind == record.Interrupted }) {
				t.Errorf("%s, events %v", rec.Completeness, rec.Events)
			}
			if !strings.HasPrefix(rec.Missing[0], "interrupted in the phase") || strings.Contains(rec.Missing[0]+err.Error(), "context canceled") {
				t.Errorf("said of the interruption: %q; %v", rec.Missing[0], err)
			}
			if step != "Environment" && !slices.Contains(w.undone, "namespace") {
				t.Errorf("put back: %v", w.undone)
			}
		})
	}
}

// TestFlowThatEndsTooEarly: the trial must not blame a termination for what happened before it.
func TestFlowThatEndsTooEarly(t *testing.T) {
	w := newWorld(t, probe.Config{Behaviour: probe.Exit, ForceRST: true, ReadinessOnTerm: probe.Fail})
	c := config("exit", "delete")
	c.SettleNs = int64(time.Second)
	fired := false
	w.at = func(s string) {
		switch s {
		case "Fire":
			fired = true
		case "FollowLog":
			time.AfterFunc(400*time.Millisecond, func() { w.signals <- syscall.SIGTERM })
		}
	}
	rec, err := runIn(t.Context(), w, c)
	if err == nil || !strings.Contains(err.Error(), "before the trigger") {
		t.Errorf("error %v", err)
	}
	validate(t, rec)
	if fired || rec.Trigger != nil || rec.Completeness != record.Incomplete {
		t.Errorf("fired %t, trigger %v, %s", fired, rec.Trigger, rec.Completeness)
	}
}

// TestControlThatLoses: where nothing was triggered and something is lost, nothing measured there can be trusted.
func TestControlThatLoses(t *testing.T) {
	w := newWorld(t, probe.Config{Behaviour: probe.Exit, ForceRST: true, ReadinessOnTerm: probe.Fail})
	w.at = func(s string) {
		if s == "Fire" {
			time.AfterFunc(100*time.Millisecond, func() { w.signals <- syscall.SIGTERM })
		}
	}
	rec, err := runIn(t.Context(), w, config("exit", "none"))
	if err != nil {
		t.Fatal(err)
	}
	validate(t, rec)
	if rec.Completeness != record.Incomplete || !strings.Contains(rec.Missing[0], "the control triggered nothing and lost 5 of 5") {
		t.Errorf("%s %v", rec.Completeness, rec.Missing)
	}
}

// TestUndoThatFails says what is left and how to remove it.
func TestUndoThatFails(t *testing.T) {
	w := newWorld(t, probe.Config{Behaviour: probe.Exit, ForceRST: true, ReadinessOnTerm: probe.Fail})
	w.failAt["Undo"] = errors.New("the API server is gone")
	rec, err := runIn(t.Context(), w, config("exit", "delete"))
	if err == nil || !strings.Contains(fault.NextOf(err), "drainproof cleanup") {
		t.Errorf("error %v, next %q", err, fault.NextOf(err))
	}
	if !slices.ContainsFunc(rec.Notes, func(s string) bool { return strings.Contains(s, "could be put back") }) {
		t.Errorf("notes %v", rec.Notes)
	}
}

// TestBlindWatch: an end that was not seen makes no complete record.
func TestBlindWatch(t *testing.T) {
	w := newWorld(t, probe.Config{Behaviour: probe.Exit, ForceRST: true, ReadinessOnTerm: probe.Fail})
	w.hide[record.ContainerExited] = true
	c := config("exit", "delete")
	c.ObserveNs = int64(1200 * time.Millisecond)
	rec, err := runIn(t.Context(), w, c)
	if err == nil || !strings.Contains(err.Error(), "not seen to end") {
		t.Errorf("error %v", err)
	}
	validate(t, rec)
	if rec.Completeness != record.Incomplete || rec.Summary.ContainerExitCode != nil {
		t.Errorf("%s, exit code %v", rec.Completeness, rec.Summary.ContainerExitCode)
	}
}

func TestValidateAndComplete(t *testing.T) {
	if c := Complete(Defaults()); c.DrainWindowNs != int64(25*time.Second) || c.ObserveNs != int64(45*time.Second) {
		t.Errorf("drain window %v, observe %v", time.Duration(c.DrainWindowNs), time.Duration(c.ObserveNs))
	}
	short := Defaults()
	short.GraceNs = int64(6 * time.Second)
	if c := Complete(short); c.DrainWindowNs != int64(4*time.Second) {
		t.Errorf("drain window of a short grace: %v", time.Duration(c.DrainWindowNs))
	}
	if err := Validate(Complete(Defaults())); err != nil {
		t.Error(err)
	}
	zero := Defaults()
	zero.GraceNs = 0
	if err := Validate(Complete(zero)); fault.CodeOf(err) != fault.Usage {
		t.Errorf("grace 0 leaves nothing to observe, but: %v", err)
	}
	blind := Complete(Defaults())
	blind.ObserveNs = int64(31 * time.Second)
	if err := Validate(blind); fault.CodeOf(err) != fault.Usage {
		t.Errorf("an observation that ends before silence can be known: %v", err)
	}
}
