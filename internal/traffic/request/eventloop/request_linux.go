package eventloop

import (
	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// oneSegment fits into the least that IPv6 links carry (1280 bytes) with all headers.
const oneSegment = 1200

// begin sends request k, on a kept connection of its user where there is one.
func (e *engine) begin(k, plannedNs, now int64) {
	index := k % int64(len(e.users))
	c := e.kept(&e.users[index])
	opened := c == nil
	if opened {
		if c = e.dial(int32(index), plannedNs, now); c == nil {
			return
		}
	}
	c.plannedNs, c.sentNs, c.written, c.received = plannedNs, now, 0, 0
	c.response.Reset(e.plan.Target.Method)
	e.live++
	e.under.push(e.conns, c)
	if opened {
		e.enter(c, connecting, now)
	} else {
		e.enter(c, sending, now)
	}
	switch {
	case !e.write(c, now):
	case opened:
		e.attend(c, unix.EPOLL_CTL_ADD)
	case c.state == sending && !c.writable:
		e.attend(c, unix.EPOLL_CTL_MOD)
	}
}

// dial makes a connection that is connecting, or up; nil where there is none, which is that request's end.
func (e *engine) dial(index int32, plannedNs, now int64) *conn {
	u := &e.users[index]
	if u.lost > 0 {
		u.lost--
		e.sink.Reconnected()
	}
	end := request.End{Kind: request.EndClientLimit, Phase: record.PhaseConnect, Message: "too many connections are open"}
	if e.open < e.limit || e.makeRoom() {
		fd, errno := e.connect()
		if errno == 0 {
			c := e.take(fd)
			c.user, c.openedNs = index, now
			return c
		}
		end = request.End{Kind: request.EndErrno, Phase: record.PhaseConnect, Errno: request.Symbol(errno)}
	}
	e.sink.Done(request.Result{
		User: int(index), PlannedNs: plannedNs, SentNs: now, EndedNs: e.clock.MonoNs(), End: end, Remote: e.remote, ConnOpenedNs: now,
	})
	return nil
}

// connect makes a socket that is connecting, or connected.
func (e *engine) connect() (fd int, errno unix.Errno) {
	if fd, errno = socket(e.address.family); errno != 0 {
		return -1, errno
	}
	stampArrivals(fd)
	// A request of one segment leaves at once anyway; the end of a longer one would wait for the acknowledgement of its begin.
	if len(e.request) > oneSegment {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if errno = connect(fd, &e.address); errno != 0 && errno != unix.EINPROGRESS {
		closeSocket(fd)
		return -1, errno
	}
	return fd, 0
}

// attend has epoll report what happens on c. That more can be written is of interest
// only where not all is written; otherwise it would be reported at once, for nothing.
func (e *engine) attend(c *conn, op int) {
	events := uint32(unix.EPOLLIN | unix.EPOLLRDHUP)
	if c.writable = c.state != waiting; c.writable {
		events |= unix.EPOLLOUT
	}
	if errno := watch(e.ep, op, int(c.fd), events, c.index, c.generation); errno != 0 {
		e.fail(c, request.End{Kind: request.EndErrno, Phase: c.phase(), Errno: request.Symbol(errno)}, e.clock.MonoNs())
	}
}

// write writes what is left of the request; false when the request ended by it. The first write also tells whether
// the connection is up: it does not wait for that, and gives the reason where it failed.
func (e *engine) write(c *conn, now int64) bool {
	n, errno := send(int(c.fd), e.request[c.written:])
	switch {
	case errno == 0:
		c.written += n
		switch {
		case c.written < len(e.request):
			e.enter(c, sending, now)
		case c.received > 0:
			e.enter(c, reading, now)
		default:
			e.enter(c, waiting, now)
		}
		return true
	case errno == unix.EAGAIN:
		return true
	case c.state == connecting && (errno == unix.ECONNRESET || errno == unix.EPIPE):
		e.enter(c, sending, now) // what does not come up is refused; what is reset had come up
	}
	if c.state == connecting || !e.lastWords(c) {
		e.fail(c, request.End{Kind: request.EndErrno, Phase: c.phase(), Errno: request.Symbol(errno)}, e.clock.MonoNs())
	}
	return false
}

// lastWords reads what had arrived before a write failed: the server may have answered before it closed. True when that
// ended the request. The write took the socket's error, so an end of the stream says nothing more here.
func (e *engine) lastWords(c *conn) (ended bool) {
	for {
		n, wallNs, errno := e.message.receive(int(c.fd))
		if errno != 0 || n == 0 {
			return false
		}
		if e.feed(c, e.message.data[:n], true, e.arrivedNs(c, wallNs)) {
			return true
		}
	}
}

// read reads what is there. An answer has ended when its last byte arrived; an end of the
// connection counts from the look at the sockets that revealed it.
func (e *engine) read(c *conn, events uint32) {
	// With these, an end of the stream is behind the data, and will not be reported again.
	ending := events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	for {
		n, wallNs, errno := e.message.receive(int(c.fd))
		switch {
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			e.fail(c, request.End{Kind: request.EndErrno, Phase: c.phase(), Errno: request.Symbol(errno)}, e.lookNs)
			return
		case n == 0:
			if c.response.EOF() {
				e.answered(c, true, e.lookNs)
			} else {
				e.fail(c, request.End{Kind: request.EndEOF, Phase: c.phase()}, e.lookNs)
			}
			return
		}
		if e.feed(c, e.message.data[:n], ending, e.arrivedNs(c, wallNs)) || n < len(e.message.data) && !ending {
			return
		}
	}
}

// arrivedNs is a time of arrival on the loop's clock: between the request and now even if somebody sets the wall clock
// at this moment, and the look at the sockets where the kernel did not say.
func (e *engine) arrivedNs(c *conn, wallNs int64) int64 {
	at := wallNs - e.aheadNs
	switch {
	case wallNs == 0:
		at = e.lookNs
	case at > e.lookNs:
		at = min(at, e.clock.MonoNs())
	}
	return max(at, c.sentNs)
}

// feed takes the next bytes of a response; true when they ended the request. ending: the server has closed behind them.
func (e *engine) feed(c *conn, b []byte, ending bool, now int64) (ended bool) {
	c.received += int64(len(b))
	if c.state == waiting {
		e.enter(c, reading, now)
	}
	n, done, err := c.response.Feed(b)
	switch {
	case err != nil:
		e.fail(c, request.End{Kind: request.EndBadAnswer, Phase: c.phase(), Message: err.Error()}, now)
		return true
	case done:
		e.answered(c, ending || n < len(b), now)
		return true
	default:
		return false
	}
}

// answered ends a request that was answered whole. over: the connection cannot carry another, whatever the response said.
func (e *engine) answered(c *conn, over bool, now int64) {
	r := e.result(c, request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, now)
	e.live--
	e.under.remove(e.conns, c)
	c.requests++
	c.instance = r.Instance
	kept := e.plan.Mode == request.KeepAlive && c.response.KeepAlive && c.written == len(e.request) && e.agenda.owes()
	if e.plan.Mode == request.KeepAlive && (over || !kept) && e.agenda.owes() {
		e.users[c.user].lost++ // closed in order, or announced to be
	}
	switch {
	case kept && !over:
		e.keep(c, now)
	case over:
		e.drop(c)
	default:
		e.enter(c, parting, now)
	}
	e.sink.Done(r)
}

// fail ends a request that was not answered.
func (e *engine) fail(c *conn, end request.End, now int64) {
	r := e.result(c, end, now)
	r.Local = localAddress(int(c.fd))
	e.live--
	e.under.remove(e.conns, c)
	e.drop(c)
	e.sink.Done(r)
}
