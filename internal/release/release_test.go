package release

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/trigger"
)

// sound demands that a record holds to every invariant.
func sound(t *testing.T, r *record.Record) {
	t.Helper()
	for _, p := range record.Validate(*r) {
		t.Error(p)
	}
}

func TestControlPasses(t *testing.T) {
	w := newWorld(t)
	rec, err := Run(t.Context(), spec(t, trigger.None, "host", 1), w.deps())
	if err != nil {
		t.Fatal(err)
	}
	sound(t, rec)
	if rec.Completeness != record.Complete || rec.Verdict == nil || rec.Verdict.Result != record.Pass {
		t.Errorf("%v, verdict %+v", rec.Missing, rec.Verdict)
	}
	if n := rec.Requests.Total; n < 50 || rec.Requests.Outcomes[record.OK] != n {
		t.Errorf("%d requests, %v", n, rec.Requests.Outcomes)
	}
	if rec.Requests.Instances[0].Instance != oldPod {
		t.Errorf("answered by %+v", rec.Requests.Instances)
	}
	if !slices.Equal(w.undone, []string{"claim"}) {
		t.Errorf("put back %v", w.undone)
	}
	if w.watched.Service != rec.Workload.Service || w.watched.Service == "" || w.watched.PodSelector == "" {
		t.Errorf("watched the endpoints of %q and the Pods of %q; the requests went through %q", w.watched.Service, w.watched.PodSelector, rec.Workload.Service)
	}
}

func TestLossIsCounted(t *testing.T) {
	w := newWorld(t)
	w.loss = 500 * time.Millisecond
	var seen []Live
	d := w.deps()
	d.Live = func(l Live) { seen = append(seen, l) }
	rec, err := Run(t.Context(), spec(t, trigger.Rollout, "host", 1), d)
	if err != nil {
		t.Fatal(err)
	}
	sound(t, rec)
	if rec.Completeness != record.Complete || rec.Verdict.Result != record.Fail {
		t.Errorf("%v, verdict %+v", rec.Missing, rec.Verdict)
	}
	// Half a second at 100/s: all seven users are hurt, and nothing failed before.
	if n := rec.Requests.Failed; n < 30 || n > 70 || rec.Requests.FailedBefore != 0 || rec.Users.Hurt != 7 || rec.Users.Total != 7 {
		t.Errorf("%d failed, %d before, %d of %d users hurt", n, rec.Requests.FailedBefore, rec.Users.Hurt, rec.Users.Total)
	}
	for _, f := range rec.Failures {
		if f.Outcome != record.ResetBeforeResponse || f.Connection != record.NewConnection || f.TNs < 0 || f.Local == "" || f.Remote == "" || f.Cause == nil {
			t.Fatalf("failure %+v", f)
		}
	}
	if rec.Latency.Before == nil || rec.Latency.After == nil || rec.Latency.DuringToTNs == nil {
		t.Errorf("latency %+v", rec.Latency)
	}
	if !slices.Equal(w.undone, []string{"trigger", "claim"}) {
		t.Errorf("put back %v", w.undone)
	}
	if len(seen) == 0 || !seen[len(seen)-1].Fired || len(seen[len(seen)-1].Pods) != 2 {
		t.Errorf("live: %+v", seen)
	}
}

func TestClientsShareTheLoad(t *testing.T) {
	w := newWorld(t)
	w.loss = 300 * time.Millisecond
	rec, err := Run(t.Context(), spec(t, trigger.Rollout, "pod", 3), w.deps())
	if err != nil {
		t.Fatal(err)
	}
	sound(t, rec)
	if rec.Users.Total != 7 || rec.Users.Hurt != 7 || rec.Requests.Failed == 0 {
		t.Errorf("%d of %d users hurt, %d failed", rec.Users.Hurt, rec.Users.Total, rec.Requests.Failed)
	}
	workers := map[string]bool{}
	for _, f := range rec.Failures {
		workers[f.Worker] = true
	}
	if len(workers) != 3 || workers[""] {
		t.Errorf("failures are of %v", workers)
	}
	if len(rec.Clocks) != 4 {
		t.Errorf("clocks %+v", rec.Clocks)
	}
	if !slices.Equal(w.undone, []string{"trigger", "claim", "namespace"}) {
		t.Errorf("put back %v", w.undone)
	}
}

// TestAnyStepMayFail: the record says where it ended, and everything that was changed by then is put back.
func TestAnyStepMayFail(t *testing.T) {
	for step, undone := range map[string][]string{
		"MissingForTest": nil, "MissingForWorkers": nil, "Environment": nil, "Resolve": nil, "NewTrigger": nil,
		"EnsureNamespace": {"namespace"}, "DeployWorkers": {"namespace"},
		// A claim whose answer was lost may have been made all the same.
		"Claim": {"claim", "namespace"}, "Watch": {"claim", "namespace"}, "Exec": {"claim", "namespace"},
		"Fire": {"trigger", "claim", "namespace"},
	} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			w.failAt[step] = errors.New("the moon is full")
			rec, err := Run(t.Context(), spec(t, trigger.Rollout, "pod", 1), w.deps())
			if err == nil || !strings.Contains(err.Error(), "moon") {
				t.Errorf("error %v", err)
			}
			if rec.Completeness != record.Incomplete || len(rec.Missing) == 0 {
				t.Errorf("completeness %s, missing %v", rec.Completeness, rec.Missing)
			}
			if rec.Verdict != nil && rec.Verdict.Result != record.Inconclusive {
				t.Errorf("verdict %+v", rec.Verdict)
			}
			if !slices.Equal(w.undone, undone) {
				t.Errorf("put back %v, want %v", w.undone, undone)
			}
			sound(t, rec)
		})
	}
}

func TestInterruptedPutsBack(t *testing.T) {
	for _, step := range []string{"Resolve", "DeployWorkers", "Exec", "Fire", "Await"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			ctx, cancel := context.WithCancel(t.Context())
			w.at = func(at string) {
				if at == step {
					cancel()
				}
			}
			rec, err := Run(ctx, spec(t, trigger.Rollout, "pod", 1), w.deps())
			if fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("error %v", err)
			}
			if rec.Completeness != record.Incomplete {
				t.Error("the record claims to be complete")
			}
			if step != "Resolve" && !slices.Contains(w.undone, "namespace") {
				t.Errorf("put back %v", w.undone)
			}
			sound(t, rec)
		})
	}
}

func TestWhatDoesNotEndIsInconclusive(t *testing.T) {
	w := newWorld(t)
	s := spec(t, trigger.Rollout, "host", 1)
	s.Config.Traffic.WaitNs = int64(400 * time.Millisecond)
	w.await = func(ctx context.Context) error {
		<-ctx.Done()
		return fault.Measuref(nil, "", "0 of 1 updated replicas are available")
	}
	rec, err := Run(t.Context(), s, w.deps())
	if err != nil {
		t.Fatal(err)
	}
	sound(t, rec)
	if rec.Verdict.Result != record.Inconclusive || !strings.Contains(strings.Join(rec.Missing, " "), "0 of 1 updated") {
		t.Errorf("verdict %+v, missing %v", rec.Verdict, rec.Missing)
	}
	if !slices.Contains(w.undone, "trigger") {
		t.Errorf("put back %v", w.undone)
	}
}

func TestWhatFailsByItselfIsNotDisturbed(t *testing.T) {
	w := newWorld(t)
	s := spec(t, trigger.Rollout, "host", 1)
	s.Config.Traffic.BeforeNs = int64(1500 * time.Millisecond) // the clients tell four times a second
	fired := false
	w.at = func(step string) {
		switch step {
		case "Fire":
			fired = true
		case "Watch":
			time.AfterFunc(300*time.Millisecond, func() { w.broken.Store(true) })
		}
	}
	rec, err := Run(t.Context(), s, w.deps())
	if fault.CodeOf(err) != fault.Inconclusive || !strings.Contains(err.Error(), "before the trigger") {
		t.Errorf("error %v", err)
	}
	if fired || rec.Trigger != nil {
		t.Error("it was disturbed all the same")
	}
}

func TestWrongAnswerIsNamed(t *testing.T) {
	w := newWorld(t)
	s := spec(t, trigger.Rollout, "host", 1)
	s.Plan.Target.Path = "/none"
	_, err := Run(t.Context(), s, w.deps())
	if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(fault.NextOf(err), "--http-path") {
		t.Errorf("error %v, next %s", err, fault.NextOf(err))
	}
}

func TestWhatIsLeftIsSaid(t *testing.T) {
	w := newWorld(t)
	w.failAt["trigger"] = errors.New("the API server is gone")
	rec, err := Run(t.Context(), spec(t, trigger.Rollout, "host", 1), w.deps())
	if err == nil || !strings.Contains(err.Error(), "deployment/web") || !strings.Contains(fault.NextOf(err), "cleanup") {
		t.Errorf("error %v, next %s", err, fault.NextOf(err))
	}
	// The mark must stay: it tells cleanup what to put back.
	if slices.Contains(w.undone, "claim") || !strings.Contains(strings.Join(rec.Notes, " "), "put back") {
		t.Errorf("put back %v; notes %v", w.undone, rec.Notes)
	}
}

// Which container is killed is a matter of who serves, never of who started last.
func TestKillTakesTheContainerThatServes(t *testing.T) {
	ids := map[string]string{"side": "containerd://1", "main": "containerd://2"}
	for _, c := range []struct{ asked, serving, want string }{
		{"", "main", "main"}, {"side", "main", "side"}, {"", "", ""}, {"none", "main", ""},
	} {
		r := &running{spec: Spec{Container: c.asked}, serving: c.serving}
		r.pods.containers = map[string]map[string]string{"web-1": ids}
		name, id, err := r.containerToKill("web-1")
		if c.want == "" {
			if code := fault.CodeOf(err); code != fault.Usage && code != fault.Unmeasurable {
				t.Errorf("asked %q, serving %q: %s %s, %v; want it refused", c.asked, c.serving, name, id, err)
			}
			continue
		}
		if err != nil || name != c.want || id != ids[c.want] {
			t.Errorf("asked %q, serving %q: %s %s, %v", c.asked, c.serving, name, id, err)
		}
	}
	alone := &running{}
	alone.pods.containers = map[string]map[string]string{"web-1": {"only": "containerd://3"}}
	if name, id, err := alone.containerToKill("web-1"); name != "only" || id != "containerd://3" || err != nil {
		t.Errorf("the only one: %s %s, %v", name, id, err)
	}
}
