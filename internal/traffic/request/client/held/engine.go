package held

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// maxUnderWay bounds the exchanges that wait for an end. What is due beyond it is the client's failure.
const maxUnderWay = 1 << 16

// engine is running traffic. One goroutine dispatches; each open connection has two, one that writes and one that reads.
type engine struct {
	ctx   context.Context // ends only Once
	plan  request.Plan
	tls   *tls.Config
	talk  talk
	users []*user

	stop        chan struct{}
	stopOnce    sync.Once
	stopping    atomic.Bool
	dispatching sync.WaitGroup
	underWay    sync.WaitGroup
	count       atomic.Int64 // of what is under way
	working     sync.WaitGroup

	sinkMu sync.Mutex
	sink   request.Sink
}

func newEngine(ctx context.Context, p request.Plan, sink request.Sink) (*engine, error) {
	if err := Check(p); err != nil {
		return nil, err
	}
	config, err := tlsConfig(p.Target)
	if err != nil {
		return nil, err
	}
	e := &engine{ctx: ctx, plan: p, tls: config, talk: talkOf(p), sink: sink, stop: make(chan struct{})}
	for n := range p.Users {
		e.users = append(e.users, &user{e: e, n: n})
	}
	return e, nil
}

// begin starts the schedule.
func (e *engine) begin() {
	schedule := request.NewSchedule(clock.MonoNs(), e.plan.PhaseNs, e.plan.Rate)
	e.dispatching.Go(func() {
		t := time.NewTimer(0)
		defer t.Stop()
		for k := int64(0); ; k++ {
			due := schedule.DueNs(k)
			t.Reset(time.Duration(due - clock.MonoNs()))
			select {
			case <-t.C:
			case <-e.stop:
				return
			}
			e.due(int(k%int64(len(e.users))), due)
		}
	})
}

// due begins one exchange, late or not.
func (e *engine) due(user int, plannedNs int64) {
	if e.count.Add(1) > maxUnderWay {
		e.count.Add(-1)
		e.report(request.Result{
			User: user, PlannedNs: plannedNs, EndedNs: clock.MonoNs(),
			End: request.End{Kind: request.EndClientLimit, Phase: record.PhaseDNS, Message: "too many exchanges wait for an end"},
		})
		return
	}
	e.underWay.Add(1)
	e.users[user].due(plannedNs)
}

// standing tells a plan without anything to say: that a connection stands answers an exchange.
func (e *engine) standing() bool { return e.plan.Mode == request.TCP && len(e.plan.Target.Body) == 0 }

func (e *engine) report(r request.Result) {
	e.sinkMu.Lock()
	defer e.sinkMu.Unlock()
	e.sink.Done(r)
}

func (e *engine) reconnected() {
	e.sinkMu.Lock()
	defer e.sinkMu.Unlock()
	e.sink.Reconnected()
}

// Stop ends the schedule, waits for what is under way, and then closes every
// connection. A connection that ends meanwhile with nothing under way is no loss any more.
func (e *engine) Stop() {
	e.stopOnce.Do(func() {
		close(e.stop)
		e.dispatching.Wait()
		e.stopping.Store(true)
		e.underWay.Wait()
		for _, u := range e.users {
			u.leave()
		}
		e.working.Wait()
	})
}
