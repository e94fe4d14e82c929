package eventloop

import "golang.org/x/sys/unix"

// user has idle connections, the one used last behind.
type user struct {
	idle  queue
	count int
	// lost connections ended while they were idle, or their last answer said that they would, and were not replaced yet.
	lost int
}

// keep makes c an idle connection of its user.
func (e *engine) keep(c *conn, now int64) {
	u := &e.users[c.user]
	e.enter(c, idle, now)
	u.idle.push(e.conns, c)
	u.count++
}

// kept takes the user's idle connection that was used last; nil without any.
func (e *engine) kept(u *user) *conn {
	if u.count == 0 {
		return nil
	}
	c := e.conns[u.idle.last]
	e.unkeep(c)
	return c
}

// unkeep ends the idleness of c.
func (e *engine) unkeep(c *conn) {
	u := &e.users[c.user]
	u.idle.remove(e.conns, c)
	u.count--
	e.enter(c, unused, 0)
}

// stir deals with news on an idle connection: whatever it is, no request can go there any more.
func (e *engine) stir(c *conn) {
	if _, _, errno := e.message.receive(int(c.fd)); errno == unix.EAGAIN {
		return
	}
	e.unkeep(c)
	e.drop(c)
	e.users[c.user].lost++
}

// thin deals with an idle connection that was not used for long: some are kept, but not as many as a busy moment took.
func (e *engine) thin(c *conn, now int64) {
	if e.users[c.user].count > spareConnections {
		e.unkeep(c)
		e.drop(c)
		return
	}
	e.enter(c, idle, now)
}

// makeRoom closes the connection that is needed least; false where all are needed.
func (e *engine) makeRoom() bool {
	switch {
	case e.parting.first != none:
		e.drop(e.conns[e.parting.first])
	case e.idling.first != none:
		c := e.conns[e.idling.first]
		e.unkeep(c)
		e.drop(c)
	default:
		return false
	}
	return true
}
