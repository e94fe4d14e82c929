package client

import (
	"context"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// attempt is one request under way: its result so far, and how long it may take.
type attempt struct {
	request.Result
	ctx    context.Context
	limits request.Limits
	// until is when the whole is too late.
	until time.Time
}

// begin begins a request that was due at plannedNs.
func begin(ctx context.Context, p request.Plan, user int, plannedNs int64) *attempt {
	a := newAttempt(p, user, plannedNs)
	a.SentNs, a.ctx, a.limits, a.until = clock.MonoNs(), ctx, p.Limits, time.Now().Add(time.Duration(p.Limits.WholeNs))
	return a
}

func newAttempt(p request.Plan, user int, plannedNs int64) *attempt {
	a := &attempt{Result: request.Result{User: user, PlannedNs: plannedNs}}
	if overGRPC(p.Mode) {
		a.Status = noGRPCStatus
	}
	return a
}

// noGRPCStatus is the status of a call that got none; 0 would be OK.
const noGRPCStatus = -1

// by is when a phase that begins now is too late: its own limit or the whole's.
func (a *attempt) by(limitNs int64) time.Time {
	if t := time.Now().Add(time.Duration(limitNs)); t.Before(a.until) {
		return t
	}
	return a.until
}

// end says how it ended, and that it was now.
func (a *attempt) end(e request.End) { a.endAt(e, clock.MonoNs()) }

func (a *attempt) endAt(e request.End, ns int64) { a.End, a.EndedNs = e, ns }

// on says which connection carries it, and how many it carried before.
func (a *attempt) on(c *connection, before int, instance string) {
	a.Local, a.Remote, a.ConnOpenedNs = c.local, c.remote, c.openedNs
	a.Reused, a.ConnRequests, a.Instance = before > 0, before, instance
}

// as ends it like another that it waited for.
func (a *attempt) as(other request.Result) {
	a.Local, a.Remote, a.ConnOpenedNs = other.Local, other.Remote, other.ConnOpenedNs
	if other.End.Kind == request.EndAnswered {
		a.Status = other.Status
	}
	a.end(other.End)
}

// wait waits for one of two events, nil for none. It is false when the time is over or the context has ended first; overdue tells which.
func (a *attempt) wait(by time.Time, one, other <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(by))
	defer timer.Stop()
	select {
	case <-one:
		return true
	case <-other:
		return true
	case <-timer.C:
		return false
	case <-a.ctx.Done():
		return false
	}
}

// overdue is the end of an attempt whose time is over, or whose caller wants no answer any more.
func (a *attempt) overdue(phase record.RequestPhase) request.End {
	if a.ctx.Err() != nil {
		return limitEnd(phase, context.Cause(a.ctx).Error())
	}
	return request.End{Kind: request.EndTimeout, Phase: phase}
}

// fail ends a with an error of its connection or of opening one.
func (a *attempt) fail(err error, phase record.RequestPhase) {
	if a.ctx.Err() != nil {
		a.end(a.overdue(phase))
		return
	}
	a.end(endOf(err, phase))
}
