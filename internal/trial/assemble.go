package trial

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/trigger"
)

// assemble turns what was gathered into the record's facts.
func (r *running) assemble() {
	zero := r.zero()
	r.rec.Events = r.journal.Events(zero)
	r.rec.Sources = r.journal.Sources(zero)
	missing, notes := record.Troubles(r.rec.Sources)
	r.rec.Missing, r.rec.Notes = append(r.rec.Missing, missing...), append(r.rec.Notes, notes...)
	r.assembleFlows(zero)
	record.Derive(r.rec)
	explain.Record(r.rec)
	r.noteGrace()
	r.checkControls()
	if len(r.rec.Missing) == 0 {
		r.rec.Completeness = record.Complete
	}
}

// zero is the instant of the trigger. Without one it is the end: every event then lies before it; the record is incomplete and says so.
func (r *running) zero() int64 {
	if !r.fired && r.zeroMonoNs == 0 {
		r.zeroMonoNs = clock.MonoNs()
	}
	return r.zeroMonoNs
}

func (r *running) podUID() string {
	if r.probe == nil {
		return ""
	}
	return r.probe.Pod.UID
}

func (r *running) assembleFlows(zero int64) {
	if r.report == nil {
		if r.session != nil {
			r.rec.Missing = append(r.rec.Missing, "the client's report: what became of each flow is not known")
		}
		return
	}
	health := r.report.Health
	if health.Limits == nil {
		health.Limits = map[string]int{}
	}
	r.rec.Client = &health
	if health.FellBehind {
		r.rec.Missing = append(r.rec.Missing, fmt.Sprintf("the client itself fell behind (heartbeats up to %v late, own limits hit: %d): no flow's end may be blamed on the workload",
			time.Duration(health.LateMaxNs), len(health.Limits)))
	}
	for _, f := range r.report.Flows {
		r.rec.Flows = append(r.rec.Flows, r.flow(f, zero))
	}
	if n := len(slices.DeleteFunc(slices.Clone(r.rec.Flows), func(f record.Flow) bool { return f.Outcome != record.NotMeasured })); n > 0 && r.fired {
		r.rec.Missing = append(r.rec.Missing, fmt.Sprintf("%d of %d flows were not measured: see their detail", n, len(r.rec.Flows)))
	}
	slices.SortFunc(r.rec.Flows, func(a, b record.Flow) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
}

func (r *running) flow(f traffic.FlowReport, zero int64) record.Flow {
	at := func(monoNs int64) *int64 {
		if monoNs == 0 {
			return nil
		}
		return new(monoNs - r.offset.AheadNs - zero)
	}
	str := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	end, endedMonoNs := f.End, f.EndedMonoNs
	var after *record.AfterRehome
	if f.RehomedMonoNs != 0 {
		// A flow that another instance answers is cut from the one it was opened
		// to: that is its end. What happened to the socket later is kept beside it.
		_, m := traffic.Classify(f.Protocol, f.End)
		after = &record.AfterRehome{Mechanism: m}
		if f.End.Kind != traffic.EndWindowClosed {
			after.EndedTNs = at(f.EndedMonoNs)
		}
		end, endedMonoNs = traffic.RawEnd{Kind: traffic.EndOtherInstance}, f.RehomedMonoNs
		if f.RehomeEnd != nil {
			end = *f.RehomeEnd
		}
	}
	outcome, mechanism := traffic.Classify(f.Protocol, end)
	out := record.Flow{
		ID: f.ID, Protocol: f.Protocol, Outcome: outcome, Mechanism: mechanism, OpenedTNs: at(f.OpenedMonoNs),
		UncertaintyNs: new(r.offset.UncertaintyNs),
		FirstInstance: str(f.FirstInstance), LastInstance: str(f.LastInstance), FirstPodUID: str(f.FirstPodUID), LastPodUID: str(f.LastPodUID),
		Sent: f.Sent, Answered: f.Answered, Local: f.Local, Remote: f.Remote, AfterRehome: after,
		Detail: record.FlowDetail{
			End: string(end.Kind), Errno: end.Errno, PartialBytes: end.PartialBytes, Promised: end.Promised,
			Announced: end.Announced, Unanswered: end.Unanswered, ICMP: end.ICMP,
		},
	}
	if f.Answered > 0 {
		out.LastSeq = new(f.LastSeq)
	}
	if outcome != record.Survived && outcome != record.NotMeasured {
		out.EndedTNs, out.EndedAfterTNs = at(endedMonoNs), at(end.LastAnswerMonoNs)
	}
	return out
}

// checkControls holds the instrument to what must be so: a trial that triggers
// nothing loses nothing, and a workload that exits at once loses something (rule of evidence 4).
func (r *running) checkControls() {
	if !r.fired || r.report == nil {
		return
	}
	kept := 0
	for _, f := range r.rec.Flows {
		if f.Outcome == record.Survived {
			kept++
		}
	}
	switch {
	case r.cfg.Trigger == string(trigger.None) && kept < len(r.rec.Flows):
		r.rec.Missing = append(r.rec.Missing, fmt.Sprintf("the control triggered nothing and lost %d of %d flows: something else ends connections here, and no trial in this place can be trusted",
			len(r.rec.Flows)-kept, len(r.rec.Flows)))
	case r.cfg.Trigger != string(trigger.None) && r.cfg.Arm == string(probe.Exit) && kept == len(r.rec.Flows):
		r.rec.Missing = append(r.rec.Missing, "the probe exited at once and every flow survived: the client did not hold what it thought it held")
	}
}

// noteGrace compares the grace that the API server wrote on the dying Pod with the one asked for.
func (r *running) noteGrace() {
	for _, e := range r.rec.Events {
		if e.Kind != record.PodTerminating || e.PodUID != r.podUID() {
			continue
		}
		if seconds, ok := e.Detail["grace_seconds"].(int64); ok && seconds*int64(time.Second) != r.cfg.GraceNs {
			r.rec.Notes = append(r.rec.Notes, fmt.Sprintf("The Pod was deleted with a grace period of %d s, not the %v asked for: something in the cluster changed it.", seconds, time.Duration(r.cfg.GraceNs)))
		}
		return
	}
}

// Describe puts a record's outcome in one line, for progress.
func Describe(rec *record.Record) string {
	part := func(name string, counts map[record.Outcome]int) string {
		var s []string
		for _, o := range record.Outcomes() {
			if n := counts[o]; n > 0 {
				s = append(s, fmt.Sprintf("%d %s", n, o))
			}
		}
		if len(s) == 0 {
			return ""
		}
		return name + " " + strings.Join(s, ", ")
	}
	var parts []string
	for _, p := range []string{part("TCP:", rec.Summary.TCP), part("UDP:", rec.Summary.UDP)} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if c := rec.Summary.ContainerExitCode; c != nil {
		parts = append(parts, fmt.Sprintf("exit code %d", *c))
	}
	if rec.Completeness != record.Complete {
		parts = append(parts, "INCOMPLETE")
	}
	return strings.Join(parts, "; ")
}
