package held

import (
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// exchange is one request of a held connection. Its user's mu guards it.
type exchange struct {
	plannedNs, begunNs int64
	// seq is its number among the user's.
	seq uint64
	// c is the connection that it was given to last, before how many exchanges that had carried, and
	// receivedBefore how many bytes it had received.
	c              *conn
	before         int
	receivedBefore int64
	// askedNs is when its writing began, 0 before; sent that the writing is done.
	askedNs int64
	sent    bool
	// moved: its first connection was closed in order before it was answered.
	moved bool
	over  bool
	timer *time.Timer
}

// user holds at most one connection that takes exchanges. Others of its own may be coming to their ends.
type user struct {
	e *engine
	n int

	mu sync.Mutex
	// c takes exchanges; nil where none does.
	c       *conn
	opening bool
	// waiting are exchanges for the connection that is being opened.
	waiting []*exchange
	// owed: a connection was closed in order and has no successor yet.
	owed bool
	seq  uint64
}

func (u *user) due(plannedNs int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := &exchange{plannedNs: plannedNs, begunNs: clock.MonoNs(), seq: u.seq}
	u.seq++
	u.take(x)
}

// take gives x to the connection that stands, or has one opened. The caller holds mu.
func (u *user) take(x *exchange) {
	if u.c != nil {
		u.c.attach(x)
		return
	}
	u.waiting = append(u.waiting, x)
	if !u.opening {
		u.opening = true
		u.e.working.Go(u.open)
	}
}

// open opens a connection and then stays with it as its writer.
func (u *user) open() {
	c := newConn(u)
	end := u.e.connect(c)
	u.mu.Lock()
	if end == nil && u.e.ctx.Err() != nil {
		end = interrupted(record.PhaseSend)
	}
	u.opening = false
	waiting := u.waiting
	u.waiting = nil
	if end != nil {
		for _, x := range waiting {
			x.c, x.before, x.receivedBefore = c, 0, 0
			u.finish(x, *end, clock.MonoNs())
		}
		u.mu.Unlock()
		if c.nc != nil {
			_ = c.nc.Close()
		}
		return
	}
	u.c = c
	if u.owed {
		u.owed = false
		u.e.reconnected()
	}
	for _, x := range waiting {
		c.attach(x)
	}
	u.mu.Unlock()
	u.e.working.Go(c.read)
	c.write()
}

// finish reports how x ended. The caller holds mu.
func (u *user) finish(x *exchange, end request.End, endedNs int64) {
	x.over = true
	if x.timer != nil {
		x.timer.Stop()
	}
	r := x.c.result(end)
	r.PlannedNs, r.SentNs, r.EndedNs = x.plannedNs, x.begunNs, endedNs
	r.Reused, r.ConnRequests = x.before > 0, x.before
	r.BytesReceived = x.c.received.Load() - x.receivedBefore
	u.e.report(r)
	u.e.count.Add(-1)
	u.e.underWay.Done()
}

// expire ends x, if it still waits for c, for want of time. A stream that let an exchange run out of time takes no further ones.
func (u *user) expire(x *exchange, c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if x.over || x.c != c {
		return
	}
	end := request.End{Kind: request.EndTimeout, Phase: record.PhaseSend}
	if x.sent {
		end.Phase = record.PhaseFirstByte
	}
	u.finish(x, end, clock.MonoNs())
	if !c.datagrams() {
		c.retired = true
		c.detach()
	}
	c.settle()
}

// leave ends the connection that stands, in order. Nothing is under way.
func (u *user) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.c; c != nil {
		c.detach()
		c.judged = true
		u.e.talk.leave(c)
	}
}

// interrupt ends what is under way at once, by our own will.
func (u *user) interrupt() {
	u.mu.Lock()
	c := u.c
	u.mu.Unlock()
	if c != nil { // else its opening ends by the context
		c.lose(*interrupted(record.PhaseFirstByte))
		_ = c.nc.Close()
	}
}

func interrupted(phase record.RequestPhase) *request.End {
	return &request.End{Kind: request.EndClientLimit, Phase: phase, Message: "interrupted"}
}
