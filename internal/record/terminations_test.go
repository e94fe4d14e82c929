package record_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// terminated are the samples with agents, and what is derived of them.
func terminated() []record.Record {
	list := []record.Record{records.RolloutWatched(), records.ScaleWatched()}
	for i := range list {
		explain.Record(&list[i])
	}
	return list
}

func TestTerminationsAreSound(t *testing.T) {
	for _, r := range terminated() {
		for _, p := range record.Validate(r) {
			t.Errorf("%s: %v", r.ID, p)
		}
		again := readBack(t, r)
		for _, p := range record.Validate(again) {
			t.Errorf("%s, read back: %v", r.ID, p)
		}
		if encoded(t, r) != encoded(t, again) {
			t.Errorf("%s is written otherwise once it was read", r.ID)
		}
		// What an old record holds is derived again as it was.
		if derived := explain.Terminations(&again); !reflect.DeepEqual(derived, again.Terminations) {
			t.Errorf("%s derives otherwise once it was read", r.ID)
		}
	}
	if r := terminated()[0]; len(r.Terminations) != 3 || len(r.Terminations[0].Paths) != 3 || r.Terminations[0].Paths[1].Failed != 3 {
		t.Errorf("%d Pods: %+v", len(r.Terminations), r.Terminations)
	}
}

func TestValidateFindsInTerminations(t *testing.T) {
	for _, c := range []struct {
		where  string
		broken func(*record.Termination)
	}{
		{".pod", func(t *record.Termination) { t.Pod = "" }},
		{".deleted.t_ns", func(t *record.Termination) { *t.Deleted.TNs++ }},
		{".deleted.uncertainty_ns", func(t *record.Termination) { t.Deleted.UncertaintyNs = nil }},
		{".deleted.bound", func(t *record.Termination) { t.Deleted.Bound = record.Exact }},
		{".deleted.bound", func(t *record.Termination) { t.Deleted.Bound = record.Either }},
		{".deleted.event", func(t *record.Termination) { t.Deleted.Event = 0 }},
		{".deleted.event", func(t *record.Termination) { t.Deleted.Event = 100_000 }},
		{".deleted.why", func(t *record.Termination) { t.Deleted.Why = "x" }},
		{".deleted.not_before_t_ns", func(t *record.Termination) { t.Deleted.NotBeforeTNs = new(*t.Deleted.TNs + 1) }},
		{".hook.started.why", func(t *record.Termination) { t.Hook.Started.Why = "" }},
		{".hook.ended.event", func(t *record.Termination) { t.Hook.Ended.Event = 2 }},
		{".sandbox_gone.t_ns", func(t *record.Termination) { *t.SandboxGone.TNs-- }},
		{".removed.t_ns", func(t *record.Termination) { *t.Removed.TNs-- }},
		{".containers", func(t *record.Termination) { t.Containers = nil }},
		{".containers[0].name", func(t *record.Termination) { t.Containers[0].Name = "" }},
		{".containers[0].term.signal", func(t *record.Termination) { t.Containers[0].Term.Signal = "" }},
		{".containers[0].kill.signal", func(t *record.Termination) { t.Containers[0].Kill.Signal = "SIGKILL" }},
		{".containers[0].killed", func(t *record.Termination) {
			t.Containers[0].Exit = record.ProcessExit{Instant: record.Instant{Bound: record.Exact, Why: "x"}}
		}},
		{".containers[0].before_term.ns", func(t *record.Termination) { *t.Containers[0].BeforeTerm.Ns++ }},
		{".containers[0].before_term.at_least_ns", func(t *record.Termination) {
			t.Containers[0].BeforeTerm.AtLeastNs = new(*t.Containers[0].BeforeTerm.Ns + 1)
		}},
		{".containers[0].term_to_exit.at_most_ns", func(t *record.Termination) {
			t.Containers[0].TermToExit.AtMostNs = new(*t.Containers[0].TermToExit.Ns - 1)
		}},
		{".containers[0].term_to_exit", func(t *record.Termination) { t.Containers[0].TermToExit.FromEvent = 0 }},
		{".containers[0].term_to_exit", func(t *record.Termination) { t.Containers[0].TermToExit.ToEvent = 100_000 }},
		{".containers[0].term_to_exit.why", func(t *record.Termination) { t.Containers[0].TermToExit.Ns = nil }},
		{".containers[0].term_to_exit.why", func(t *record.Termination) { t.Containers[0].TermToExit.Why = "x" }},
		{".listeners[0].port", func(t *record.Termination) { t.Listeners[0].Port = 70_000 }},
		{".listeners[0].protocol", func(t *record.Termination) { t.Listeners[0].Protocol = "sctp" }},
		{".grace.left_ns", func(t *record.Termination) { *t.Grace.LeftNs++ }},
		{".grace.left_ns", func(t *record.Termination) { t.Grace.LeftNs = nil }},
		{".paths[0]", func(t *record.Termination) { t.Paths[0].Front = "" }},
		{".paths[0].failed", func(t *record.Termination) { t.Paths[0].Failed = -1 }},
		{".paths[0].rule_removed.t_ns", func(t *record.Termination) { *t.Paths[0].RuleRemoved.TNs++ }},
		{".paths[0].dead_endpoint", func(t *record.Termination) { t.Paths[0].DeadEndpoint.Ns, t.Paths[0].DeadEndpoint.Why = nil, "x" }},
		{".conntrack[0]", func(t *record.Termination) { t.Conntrack[0].Left = t.Conntrack[0].Entries + 1 }},
		{".conntrack[0].node", func(t *record.Termination) { t.Conntrack[0].Node = "" }},
		{".unseen[0]", func(t *record.Termination) { t.Unseen = []string{""} }},
	} {
		r := terminated()[0]
		c.broken(&r.Terminations[0])
		where := "terminations[0]" + c.where
		found := false
		for _, p := range record.Validate(r) {
			found = found || p.Where == where
		}
		if !found {
			t.Errorf("nothing is found at %s: %v", where, record.Validate(r))
		}
	}
	r := terminated()[0]
	r.Terminations = append(r.Terminations, r.Terminations[0])
	if p := record.Validate(r); len(p) != 1 || !strings.Contains(p[0].String(), "there twice") {
		t.Errorf("a Pod that is there twice: %v", p)
	}
}

// TestDocsDefineEveryPartOfATermination: the page names every field.
func TestDocsDefineEveryPartOfATermination(t *testing.T) {
	text := recordPage(t)
	_, text, found := strings.Cut(text, "\n## Terminations\n")
	text, _, _ = strings.Cut(text, "\n## ")
	if !found {
		t.Fatal("docs/record.md has no section on terminations")
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[record.Termination](), reflect.TypeFor[record.Instant](), reflect.TypeFor[record.Span](), reflect.TypeFor[record.ContainerEnd](),
		reflect.TypeFor[record.StopSignal](), reflect.TypeFor[record.ProcessExit](), reflect.TypeFor[record.GraceUse](), reflect.TypeFor[record.PathEnd](), reflect.TypeFor[record.ConntrackEnd](),
	} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			switch name {
			case "", "pod", "uid", "node", "name", "event", "why", "protocol", "backend", "proxy": // they say it themselves
				continue
			}
			if !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "."+name+"`") && !strings.Contains(text, "`."+name) && !strings.Contains(text, name+"[]`") {
				t.Errorf("docs/record.md does not name %s of %s", name, typ.Name())
			}
		}
	}
}
