package eventloop

import (
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/traffic/request/http1"
)

type state uint8

const (
	unused     state = iota
	connecting       // SYN sent
	sending          // connected, the request not written whole
	waiting          // written, nothing of the response yet
	reading          // some of the response
	idle             // kept for its user's next request
	parting          // answered; the server is to close first
)

// conn is one connection with the request under way on it. It is used again for other sockets, so its
// generation tells old events from new ones.
type conn struct {
	index, generation int32
	fd                int32
	user              int32
	state             state
	// writable: epoll reports when more can be written.
	writable bool
	links    [kinds]link

	// sinceNs is when it entered its queue by phase.
	sinceNs int64
	// openedNs is when the connection was asked for, requests how many it carried before, instance who answered the last.
	openedNs int64
	requests int
	instance string

	// Of the request under way.
	plannedNs, sentNs int64
	written           int
	received          int64
	response          *http1.Parser
}

// phase is how far the request has come.
func (c *conn) phase() record.RequestPhase {
	switch {
	case c.received > 0:
		return record.PhaseBody
	case c.state == connecting:
		return record.PhaseConnect
	case c.state == sending:
		return record.PhaseSend
	default:
		return record.PhaseFirstByte
	}
}

// take gives a connection that is not in use.
func (e *engine) take(fd int) *conn {
	var c *conn
	if n := len(e.free); n > 0 {
		c = e.conns[e.free[n-1]]
		e.free = e.free[:n-1]
	} else {
		c = &conn{index: int32(len(e.conns)), response: http1.NewParser(e.plan.InstanceHeader)}
		e.conns = append(e.conns, c)
	}
	c.fd, c.writable, c.requests, c.instance = int32(fd), false, 0, ""
	e.open++
	return c
}

// drop closes a connection that has no request under way and belongs to no user any more.
func (e *engine) drop(c *conn) {
	e.enter(c, unused, 0)
	closeSocket(int(c.fd))
	c.generation++
	e.free = append(e.free, c.index)
	e.open--
}

// enter makes c's state s, as of now, and puts it into the queue of that state.
func (e *engine) enter(c *conn, s state, now int64) {
	if q := e.queueOf(c.state); q != nil {
		q.remove(e.conns, c)
	}
	c.state, c.sinceNs = s, now
	if q := e.queueOf(s); q != nil {
		q.push(e.conns, c)
	}
}

// queueOf is where connections of a state wait for the end of their time; nil where only the whole request's counts.
func (e *engine) queueOf(s state) *queue {
	switch s {
	case connecting:
		return &e.connecting
	case sending, waiting:
		return &e.answering
	case idle:
		return &e.idling
	case parting:
		return &e.parting
	default:
		return nil
	}
}

// result is what is known of c's request, which ended at now.
func (e *engine) result(c *conn, end request.End, now int64) request.Result {
	r := request.Result{
		User: int(c.user), PlannedNs: c.plannedNs, SentNs: c.sentNs, EndedNs: now, End: end,
		Reused: c.requests > 0, Instance: c.instance, BytesReceived: c.received, Remote: e.remote, ConnOpenedNs: c.openedNs, ConnRequests: c.requests,
	}
	if c.response.HeaderDone {
		r.Status = c.response.Status
		// An answer without the header is nobody's: a proxy gave it.
		r.Instance = e.instance(c)
	}
	return r
}

// instance is who answers c's request, as one string for all of one instance; empty where the answer does not say.
func (e *engine) instance(c *conn) string {
	name := c.response.Instance
	switch {
	case len(name) == 0:
		return ""
	case string(name) == c.instance: // comparing does not allocate, nor does looking up
		return c.instance
	}
	s, known := e.instances[string(name)]
	if !known {
		if len(e.instances) == instancesKnown {
			clear(e.instances)
		}
		s = string(name)
		e.instances[s] = s
	}
	return s
}
