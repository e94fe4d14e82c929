package eventloop

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/traffic/request"
)

// run turns the loop until it is stopped, has sent what it owed by then, and nothing is under way any more.
func (e *engine) run() {
	defer close(e.finished)
	defer e.release()
	// Without a handshake to wait for, a fixed priority only takes the processor from the server: as punctual, and a tenth dearer.
	on := thread{first: e.dense && e.plan.Mode == request.NewConnection}
	defer func() { on.leave() }()
	for !e.agenda.ended() || e.agenda.owes() || e.live > 0 {
		e.turn()
		on.yield(e.lookNs, e.behind)
	}
}

// turn looks at the sockets, judges who was silent for too long, and sends what is due.
func (e *engine) turn() {
	n := e.look()
	for i := range n {
		e.handle(&e.events[i])
	}
	e.behind = n == len(e.events)
	// Only when all that had arrived was read may silence be judged, as of that look: a client
	// that was itself stopped since then must not take its own silence for the server's.
	if !e.behind {
		e.expire(e.lookNs)
	}
	if e.sendDue() {
		e.behind = true
	}
}

// look waits until something happens or is due; not at all when the loop is behind. A dense schedule is only waited
// for, and what happened meanwhile is seen then: to be woken for every single answer costs more than the answer, on both sides.
// When an answer arrived the kernel has noted (receive), so nothing is measured less exactly.
func (e *engine) look() int {
	timeout := int64(0)
	switch now, dueNs := e.clock.MonoNs(), e.agenda.dueNs()+e.lagNs; {
	case e.behind:
	case e.dense && !e.agenda.ended() && dueNs-now < denseNs:
		e.turnNs = max(dueNs, e.turnNs+e.stepNs)
		if e.turnNs > now {
			nap(e.turnNs)
		} else {
			e.turnNs = now
		}
	default:
		timeout = max(e.nextNs()-now, 0)
	}
	n, err := e.waitEvents(timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		panic("eventloop: epoll_wait on an open descriptor: " + err.Error())
	}
	var wall int64
	e.lookNs, wall = e.clock.Both()
	e.aheadNs = wall - e.lookNs
	return n
}

// nextNs is when something is due: a send, or the end of somebody's time.
func (e *engine) nextNs() int64 {
	next := int64(never)
	if e.agenda.owes() {
		next = e.agenda.dueNs() + e.lagNs
	}
	for _, l := range e.limits {
		if l.queue.first != none {
			next = min(next, l.began(e.conns[l.queue.first])+l.ns)
		}
	}
	return next
}

// limit is how long connections may stand in a queue.
type limit struct {
	queue *queue
	ns    int64
}

func (l limit) began(c *conn) int64 {
	if l.queue.kind == byRequest {
		return c.sentNs
	}
	return c.sinceNs
}

// expire ends what had its time by now.
func (e *engine) expire(now int64) {
	for _, l := range e.limits {
		for l.queue.first != none {
			c := e.conns[l.queue.first]
			if l.began(c)+l.ns > now {
				break
			}
			switch c.state {
			case parting:
				e.drop(c)
			case idle:
				e.thin(c, now)
			default:
				e.fail(c, request.End{Kind: request.EndTimeout, Phase: c.phase()}, now)
			}
		}
	}
}

// handle deals with one report of epoll.
func (e *engine) handle(ev *unix.EpollEvent) {
	if ev.Fd == tagWake {
		e.agenda.end(e.lookNs)
		return
	}
	c := e.conns[ev.Fd]
	if c.generation != ev.Pad {
		return // of a socket that was closed since
	}
	const gone = unix.EPOLLHUP | unix.EPOLLERR
	switch c.state {
	case idle:
		e.stir(c)
		return
	case parting:
		if _, _, errno := e.message.receive(int(c.fd)); errno != unix.EAGAIN {
			e.drop(c)
		}
		return
	case connecting, sending:
		if ev.Events&(unix.EPOLLOUT|gone) != 0 && !e.write(c, e.lookNs) {
			return
		}
	}
	if c.state != connecting && ev.Events&(unix.EPOLLIN|unix.EPOLLRDHUP|gone) != 0 {
		e.read(c, ev.Events)
	}
}

// sendDue sends what is due; true when more is.
func (e *engine) sendDue() bool {
	for range sendsPerTurn {
		now := e.clock.MonoNs()
		k, dueNs, ok := e.agenda.take(now - e.lagNs)
		if !ok {
			return false
		}
		e.begin(k, dueNs, now)
	}
	return true
}
