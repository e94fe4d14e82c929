package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// mostUnderWay bounds requests that have not ended: each holds a goroutine and most a descriptor, and
// common limits of descriptors are not much higher. Those beyond it are the client's own failure.
const mostUnderWay = 20_000

// engine sends on schedule.
type engine struct {
	plan     request.Plan
	sender   sender
	out      *reports
	most     int64
	underWay atomic.Int64
	stop     chan struct{}
	stopped  sync.Once
	running  sync.WaitGroup // the dispatcher and every request
}

func start(p request.Plan, s sender, out *reports, most int64) *engine {
	e := &engine{plan: p, sender: s, out: out, most: most, stop: make(chan struct{})}
	e.running.Go(e.dispatch)
	return e
}

// Stop ends the schedule, waits for what is under way (bounded by the plan's limits), and lets go of everything. A second call waits for the first.
func (e *engine) Stop() {
	e.stopped.Do(func() {
		close(e.stop)
		e.running.Wait()
		e.sender.close()
	})
}

// dispatch begins each request when it is due, or as soon after as it can.
func (e *engine) dispatch() {
	schedule := request.NewSchedule(clock.MonoNs(), e.plan.PhaseNs, e.plan.Rate)
	for k := int64(0); ; k++ {
		due := schedule.DueNs(k)
		if !e.await(due) {
			return
		}
		user := int(k % int64(e.plan.Users))
		if e.underWay.Add(1) > e.most {
			e.underWay.Add(-1)
			a := newAttempt(e.plan, user, due)
			a.end(limitEnd(firstPhase, fmt.Sprintf("%d requests under way", e.most)))
			e.out.done(a.Result)
			continue
		}
		e.running.Go(func() {
			a := begin(context.Background(), e.plan, user, due)
			e.sender.send(a)
			e.underWay.Add(-1)
			e.out.done(a.Result)
		})
	}
}

// nearNs is when waiting becomes exact: the runtime's timers round to whole milliseconds while nothing else happens.
const nearNs = 2_000_000

// await waits for a time on CLOCK_MONOTONIC; false once the engine is to stop.
func (e *engine) await(dueNs int64) bool {
	for {
		left := dueNs - clock.MonoNs()
		if left > nearNs {
			timer := time.NewTimer(time.Duration(left - nearNs/2))
			select {
			case <-timer.C:
				continue
			case <-e.stop:
				timer.Stop()
				return false
			}
		}
		select {
		case <-e.stop:
			return false
		default:
		}
		if left <= 0 {
			return true
		}
		// select(2) without descriptors sleeps to the microsecond, on Linux and Darwin alike. A signal ends it early.
		nap := unix.NsecToTimeval(left)
		_, _ = unix.Select(0, nil, nil, nil, &nap)
	}
}

// reports hands results on, one at a time as a Sink wants it.
type reports struct {
	mu sync.Mutex
	to request.Sink
}

func (r *reports) done(res request.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to.Done(res)
}

func (r *reports) reconnected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to.Reconnected()
}
