package held

import (
	"bufio"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// conn is one connection, or one connected UDP socket. The user's mu guards
// everything below it that changes after the opening, except received.
type conn struct {
	u *user
	// nc and in, and what is known of the other end, are set while it is opened.
	nc            net.Conn
	in            *bufio.Reader
	openedNs      int64
	local, remote netip.AddrPort
	instance      string
	status        int // of a handshake that was answered with anything but the switch to WebSocket

	received atomic.Int64
	wake     chan struct{} // the writer has something to do
	over     chan struct{} // closed when the reader has ended

	carried  int         // exchanges that it was given
	unsent   []*exchange // in order; those that are over may still be among them
	awaiting []*exchange // the same, in the order in which they were asked
	// pong answers the latest ping, bye is our close frame; both are written before what is unsent, and after bye nothing is.
	pong, bye []byte
	silent    bool // bye was written
	writeErr  error
	// retired: an exchange ran out of time on it, and it closes after those that are still under way.
	retired bool
	// judged: how it ended is known, and nothing further is said about that.
	judged bool
	// roundTripNs is the last one; 0 before any.
	roundTripNs int64
}

func newConn(u *user) *conn {
	return &conn{u: u, openedNs: clock.MonoNs(), wake: make(chan struct{}, 1), over: make(chan struct{})}
}

// Read counts what is received.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.nc.Read(b)
	c.received.Add(int64(n))
	return n, err
}

func (c *conn) datagrams() bool { return c.u.e.plan.Mode == request.UDP }

// attach takes one exchange. The caller holds mu.
func (c *conn) attach(x *exchange) {
	x.c, x.before, x.receivedBefore, x.askedNs, x.sent = c, c.carried, 0, 0, false
	if x.before > 0 {
		x.receivedBefore = c.received.Load()
	}
	c.carried++
	now := clock.MonoNs()
	if c.u.e.standing() {
		c.u.finish(x, answered, now)
		return
	}
	limits := c.u.e.plan.Limits
	left := min(limits.FirstByteNs, x.begunNs+limits.WholeNs-now)
	x.timer = time.AfterFunc(time.Duration(left), func() { c.u.expire(x, c) })
	c.unsent = append(c.unsent, x)
	c.poke()
}

var answered = request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}

// poke wakes the writer.
func (c *conn) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// detach makes room for a successor; true where c took exchanges until now. The caller holds mu.
func (c *conn) detach() bool {
	if c.u.c != c {
		return false
	}
	c.u.c = nil
	return true
}

// write writes what is to be written until the connection has ended.
func (c *conn) write() {
	for {
		b, x := c.next()
		switch {
		case b == nil:
			select {
			case <-c.wake:
			case <-c.over:
				return
			}
		case c.datagrams():
			c.sendDatagram(b, x)
		default:
			if _, err := c.nc.Write(b); err != nil {
				c.failedWrite(err)
				return
			}
			c.wrote(x)
		}
	}
}

// next is what is to be written next, with the exchange that it belongs to, if any.
func (c *conn) next() ([]byte, *exchange) {
	c.u.mu.Lock()
	defer c.u.mu.Unlock()
	switch {
	case c.silent:
		return nil, nil
	case c.bye != nil:
		c.silent = true
		return c.bye, nil
	case c.pong != nil:
		b := c.pong
		c.pong = nil
		return b, nil
	}
	if c.unsent = trim(c.unsent); len(c.unsent) == 0 {
		return nil, nil
	}
	x := c.unsent[0]
	c.unsent = c.unsent[1:]
	x.askedNs = clock.MonoNs()
	c.awaiting = append(c.awaiting, x)
	return c.u.e.talk.ask(x), x
}

func (c *conn) wrote(x *exchange) {
	if x == nil {
		return
	}
	c.u.mu.Lock()
	x.sent = x.c == c
	c.u.mu.Unlock()
}

// failedWrite leaves the judgement to the reader: what the other end said before it stopped
// listening, such as a close frame, may still be unread. The error is not told twice by the kernel, so it is kept.
func (c *conn) failedWrite(err error) {
	c.u.mu.Lock()
	c.writeErr = err
	c.u.mu.Unlock()
	_ = c.nc.SetReadDeadline(time.Now().Add(goodbye))
	<-c.over
}

// read listens until the end, and lets go of the socket.
func (c *conn) read() {
	c.u.e.talk.hear(c)
	close(c.over)
	_ = c.nc.Close()
}

// answer ends those exchanges, of the ones asked and not over, that pick takes.
func (c *conn) answer(pick func(asked []*exchange, nowNs int64) []*exchange) {
	c.u.mu.Lock()
	defer c.u.mu.Unlock()
	now := clock.MonoNs()
	asked := live(c.awaiting)
	if len(asked) == 0 {
		return
	}
	for _, x := range pick(asked, now) {
		c.roundTripNs = max(now-x.askedNs, 1)
		c.u.finish(x, answered, now)
	}
	c.settle()
}

// settle forgets what is over, and closes a retired connection with nothing left to wait for. The caller holds mu.
func (c *conn) settle() {
	c.unsent, c.awaiting = trim(c.unsent), trim(c.awaiting)
	if c.retired && len(c.unsent)+len(c.awaiting) == 0 {
		c.judged = true
		_ = c.nc.Close()
	}
}

// underWay are the exchanges that wait for this connection, in order. The caller holds mu.
func (c *conn) underWay() []*exchange { return append(live(c.awaiting), live(c.unsent)...) }

// announced takes the server's word that it goes away: what is under way moves to a successor, once.
func (c *conn) announced() {
	c.u.mu.Lock()
	defer c.u.mu.Unlock()
	if c.judged {
		return
	}
	c.judged = true
	if c.detach() {
		c.u.owed = true
	}
	for _, x := range c.underWay() {
		if x.moved {
			end := request.End{Kind: request.EndGoaway, Phase: c.phaseOf(x), Message: "closed in order, for the second time before this exchange was answered"}
			c.u.finish(x, end, clock.MonoNs())
			continue
		}
		x.timer.Stop()
		x.moved, x.c = true, nil
		c.u.take(x)
	}
	c.unsent, c.awaiting = nil, nil
}

// phaseOf is how far x had come when the connection ended. The end may be noticed before the writer has noted that it is
// done, so that without an error of the writer what was begun counts as sent. The caller holds mu.
func (c *conn) phaseOf(x *exchange) record.RequestPhase {
	if x.sent || x.askedNs != 0 && c.writeErr == nil {
		return record.PhaseFirstByte
	}
	return record.PhaseSend
}

// lose takes the end of a connection that nobody announced. It fails what is under way or, with nothing under way, stands for itself.
func (c *conn) lose(end request.End) {
	c.u.mu.Lock()
	defer c.u.mu.Unlock()
	if c.judged {
		return
	}
	c.judged = true
	if c.writeErr != nil {
		end = c.u.e.endOf(c.writeErr, end.Phase, end.Kind)
	}
	now := clock.MonoNs()
	c.detach()
	failed := c.underWay()
	for _, x := range failed {
		end.Phase = c.phaseOf(x)
		c.u.finish(x, end, now)
	}
	if len(failed) > 0 || c.u.e.stopping.Load() {
		return
	}
	end.Phase = record.PhaseFirstByte
	r := c.result(end)
	r.PlannedNs, r.SentNs, r.EndedNs = now, now, now
	r.Reused, r.ConnRequests = true, c.carried
	c.u.e.report(r)
}

// result holds what an end on this connection has in common with every other.
func (c *conn) result(end request.End) request.Result {
	return request.Result{
		User: c.u.n, End: end, Status: c.status, Instance: c.instance, Local: c.local, Remote: c.remote, ConnOpenedNs: c.openedNs,
	}
}

// trim drops those at the front that are over.
func trim(q []*exchange) []*exchange {
	for len(q) > 0 && q[0].over {
		q = q[1:]
	}
	return q
}

// live are those of q that are not over.
func live(q []*exchange) []*exchange {
	return slices.DeleteFunc(slices.Clone(q), func(x *exchange) bool { return x.over })
}
