package release

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/tally"
	"github.com/drainproof/drainproof/internal/verdict"
)

// assemble turns what was gathered into the record's facts, and judges them.
func (r *running) assemble() {
	rec := r.rec
	rec.Config = r.cfg
	zero := r.zero()
	rec.Events = r.journal.Events(zero)
	rec.Sources = r.journal.Sources(zero)
	missing, notes := record.Troubles(rec.Sources)
	rec.Missing, rec.Notes = append(rec.Missing, missing...), append(rec.Notes, notes...)
	r.assembleRequests(zero)
	record.Derive(rec)
	if r.tally.broken != "" {
		rec.Missing = append(rec.Missing, r.tally.broken)
	}
	if h := rec.Client; h != nil && h.FellBehind {
		rec.Missing = append(rec.Missing, fmt.Sprintf("the client itself fell behind (one send in a thousand over %v late, own limits hit: %s): no failure may be blamed on the workload",
			time.Duration(h.LateP999Ns).Round(time.Millisecond), limits(h.Limits)))
	}
	if len(rec.Missing) == 0 {
		rec.Completeness = record.Complete
	}
	explain.Record(rec)
	if rec.Requests != nil {
		v := verdict.Judge(r.spec.Budget, *rec)
		rec.Verdict = &v
	}
}

// zero is the instant of the trigger. Without one it is the end: every event then lies before it; the record is incomplete and says so.
func (r *running) zero() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.zeroMonoNs == 0 {
		r.zeroMonoNs = clock.MonoNs()
	}
	return r.zeroMonoNs
}

func limits(m map[string]int) string {
	if len(m) == 0 {
		return "none"
	}
	var out []string
	for name, n := range m {
		out = append(out, fmt.Sprintf("%d x %s", n, name))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// assembleRequests counts. Times become the record's: nanoseconds from the trigger.
func (r *running) assembleRequests(zero int64) {
	if !r.requestsRan {
		return
	}
	c := r.tally
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.samples {
		c.samples[i].PlannedNs -= zero
	}
	if r.cfg.Path == "pod" {
		// There is one Pod at that address.
		c.oneInstance(r.victim.Name)
	}
	in := tally.Input{Samples: c.samples, Names: c.names, Reconnects: c.reconnects, Users: r.cfg.Traffic.Users}
	if r.overMonoNs != 0 {
		in.DuringToTNs = new(r.overMonoNs - zero)
	}
	requests, users, latency := tally.Fold(in)
	r.rec.Requests, r.rec.Users, r.rec.Latency = &requests, &users, &latency
	r.rec.Failures = make([]record.Failure, 0, len(c.failures))
	for _, f := range c.failures {
		r.rec.Failures = append(r.rec.Failures, failure(f, zero))
	}
	slices.SortStableFunc(r.rec.Failures, func(a, b record.Failure) int {
		return cmp.Or(cmp.Compare(a.TNs, b.TNs), cmp.Compare(a.PlannedTNs, b.PlannedTNs), cmp.Compare(a.User, b.User))
	})
}

func failure(f told, zero int64) record.Failure {
	out := record.Failure{
		TNs: f.EndedNs - zero, PlannedTNs: f.PlannedNs - zero, Outcome: f.Outcome, Phase: f.Phase, Connection: record.NewConnection,
		User: f.User, Errno: f.Errno, Message: f.Message, BytesReceived: f.BytesReceived, Local: f.Local, Remote: f.Remote,
		ConnectionRequests: f.ConnRequests, Retryable: f.Retryable, UncertaintyNs: new(f.client.offset.UncertaintyNs),
	}
	if f.SentNs != 0 {
		out.SentTNs = new(f.SentNs - zero)
		if f.ConnOpenedNs != 0 {
			out.ConnectionAgeNs = max(f.SentNs-f.ConnOpenedNs, 0)
		}
	}
	if f.Reused {
		out.Connection = record.ReusedConnection
	}
	if f.Instance != "" {
		out.Instance = &f.Instance
	}
	if f.Answered || f.Status != 0 {
		out.Status = new(f.Status)
	}
	if f.client.name != "client" {
		out.Worker = f.client.name
	}
	return out
}

// Describe puts a record's outcome in one line, for progress.
func Describe(rec *record.Record) string {
	if rec.Requests == nil {
		return "no request was sent; INCOMPLETE"
	}
	line := fmt.Sprintf("%d requests, %d failed", rec.Requests.Total, rec.Requests.Failed)
	if rec.Users != nil {
		line += fmt.Sprintf(", %d of %d users hurt", rec.Users.Hurt, rec.Users.Total)
	}
	if rec.Verdict != nil {
		line += "; " + string(rec.Verdict.Result)
	}
	if rec.Completeness != record.Complete {
		line += "; INCOMPLETE"
	}
	return line
}
