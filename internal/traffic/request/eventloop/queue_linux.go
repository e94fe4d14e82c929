package eventloop

// none is no connection.
const none = -1

// Every connection may stand in one queue of each kind.
const (
	byPhase   = iota // how long its phase, its parting or its idleness may last
	byRequest        // how long the whole request may last
	byUser           // the idle ones of its user
	kinds
)

type link struct{ before, after int32 }

// queue is a list through the connections, in the order in which they came: since every limit is the
// same for all, the first in a queue is the first to expire, and no heap is needed.
type queue struct {
	kind        int
	first, last int32
}

func newQueue(kind int) queue { return queue{kind: kind, first: none, last: none} }

// push puts c behind all others.
func (q *queue) push(conns []*conn, c *conn) {
	c.links[q.kind] = link{before: q.last, after: none}
	if q.last == none {
		q.first = c.index
	} else {
		conns[q.last].links[q.kind].after = c.index
	}
	q.last = c.index
}

// remove takes c, which is in q, out.
func (q *queue) remove(conns []*conn, c *conn) {
	l := c.links[q.kind]
	if l.before == none {
		q.first = l.after
	} else {
		conns[l.before].links[q.kind].after = l.after
	}
	if l.after == none {
		q.last = l.before
	} else {
		conns[l.after].links[q.kind].before = l.before
	}
}
