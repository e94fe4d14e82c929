package record_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestValidateFinds(t *testing.T) {
	for _, c := range []struct {
		where string
		// broken changes a sound record, whose flows 0-9 are severed and 10-19 rehomed.
		broken func(*record.Record)
	}{
		{"schema", func(r *record.Record) { r.Schema = "x" }},
		{"id", func(r *record.Record) { r.ID = "" }},
		{"tool.version", func(r *record.Record) { r.Tool.Version = "" }},
		{"completeness", func(r *record.Record) { r.Completeness = "nearly" }},
		{"missing", func(r *record.Record) { r.Missing = []string{"something"} }},
		{"missing", func(r *record.Record) { r.Completeness = record.Incomplete }},
		{"trigger", func(r *record.Record) { r.Trigger = nil }},
		{"events", func(r *record.Record) { r.Trigger = nil }},
		{"client", func(r *record.Record) { r.Client = nil }},
		{"set.repeat", func(r *record.Record) { r.Set = &record.Set{Arm: "a", Arms: []string{"a"}, Repeat: 6, Repeats: 5} }},
		{"set.arms", func(r *record.Record) { r.Set = &record.Set{Arm: "a", Arms: []string{"b"}, Repeat: 1, Repeats: 5} }},
		{"events[3].id", func(r *record.Record) { r.Events[3].ID = 9 }},
		{"events[3].t_ns", func(r *record.Record) { r.Events[3].TNs = r.Events[2].TNs - 1 }},
		{"events[0].kind", func(r *record.Record) { r.Events[0].Kind = "pod-vanished" }},
		{"events[0].source", func(r *record.Record) { r.Events[0].Source = "rumour" }},
		{"events[0].bound", func(r *record.Record) { r.Events[0].Bound = record.Exact }},
		{"events[0].bound", func(r *record.Record) { r.Events[0].Bound = record.Either }},
		{"events[0].uncertainty_ns", func(r *record.Record) { r.Events[0].UncertaintyNs = new(int64(-1)) }},
		{"flows[1].id", func(r *record.Record) { r.Flows[1].ID = r.Flows[0].ID }},
		{"flows[0].protocol", func(r *record.Record) { r.Flows[0].Protocol = "sctp" }},
		{"flows[0].outcome", func(r *record.Record) { r.Flows[0].Outcome = "other" }},
		{"flows[0].mechanism", func(r *record.Record) { r.Flows[0].Mechanism = record.FIN }},
		{"flows[0].mechanism", func(r *record.Record) { r.Flows[0].Mechanism = record.None }},
		{"flows[0].detail.end", func(r *record.Record) { r.Flows[0].Detail.End = "" }},
		{"flows[0].ended_t_ns", func(r *record.Record) { r.Flows[0].EndedTNs = nil }},
		{"flows[0].ended_t_ns", func(r *record.Record) { *r.Flows[0].EndedTNs++ }},
		{"flows[0].ended_t_ns", func(r *record.Record) { r.Flows[0].Outcome = record.Survived }},
		{"flows[0].ended_after_t_ns", func(r *record.Record) { r.Flows[0].EndedAfterTNs = new(*r.Flows[0].EndedTNs + 1) }},
		{"flows[0].opened_t_ns", func(r *record.Record) { r.Flows[0].OpenedTNs = nil }},
		{"flows[0].after_rehome", func(r *record.Record) { r.Flows[0].AfterRehome = &record.AfterRehome{} }},
		{"flows[10].after_rehome", func(r *record.Record) { r.Flows[10].AfterRehome = nil }},
		{"flows[0].heartbeats_answered", func(r *record.Record) { r.Flows[0].Answered = r.Flows[0].Sent + 1 }},
		{"summary.tcp", func(r *record.Record) { r.Summary.TCP[record.Severed]-- }},
		{"summary.udp", func(r *record.Record) { delete(r.Summary.UDP, record.Rehomed) }},
		{"summary.container_exit_code", func(r *record.Record) { r.Summary.ContainerExitCode = new(1) }},
		{"summary.container_exit_reason", func(r *record.Record) { r.Summary.ContainerExitReason = nil }},
		{"windows[0]", func(r *record.Record) { r.Windows[0].ToEvent = len(r.Events) + 1 }},
		{"windows[0]", func(r *record.Record) { r.Windows[0].FromEvent = 0 }},
		{"windows[0].why", func(r *record.Record) { r.Windows[0].Ns = nil }},
		{"windows[1].name", func(r *record.Record) { r.Windows[1].Name = r.Windows[0].Name }},
		{"notes", func(r *record.Record) { r.Notes = nil }},
		{"sources[0].gaps", func(r *record.Record) { r.Sources[0].Gaps = nil }},
		{"sources[0].gaps[0]", func(r *record.Record) { r.Sources[0].Gaps = []record.Gap{{FromTNs: 2, ToTNs: new(int64(1))}} }},
		{"environment.nodes", func(r *record.Record) { r.Environment.Nodes = nil }},
	} {
		r := records.Exit()
		c.broken(&r)
		problems := record.Validate(r)
		if !slices.ContainsFunc(problems, func(p record.Problem) bool { return p.Where == c.where && p.What != "" }) {
			t.Errorf("a broken %s is not found; problems: %v", c.where, problems)
		}
	}
}

// Validate must judge any record, however broken, and never crash on one.
func TestValidateBearsAnything(t *testing.T) {
	if got := record.Validate(record.Record{}); len(got) < 10 {
		t.Errorf("an empty record has only %v", got)
	}
	odd := record.Record{Flows: []record.Flow{{}}, Events: []record.Event{{Kind: record.FlowEnded}}, Windows: []record.Window{{FromEvent: -1}}, Sources: []record.Source{{}}}
	var text []string
	for _, p := range record.Validate(odd) {
		text = append(text, p.String())
	}
	if !strings.Contains(strings.Join(text, "\n"), "windows[0]: refers to event -1 of 1") {
		t.Errorf("problems:\n%s", strings.Join(text, "\n"))
	}
}
