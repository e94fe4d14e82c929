package explain

import (
	"math"

	"github.com/drainproof/drainproof/internal/record"
)

const (
	// ever and never stand for a time of which one side is open; far from overflow when bounds are added.
	ever  = math.MinInt64 / 4
	never = math.MaxInt64 / 4
)

// instant is when something happened, as far as it is known: not before lo and not after hi on its own clock.
type instant struct {
	lo, hi int64
	// doubt bounds that clock's error against the harness's; nil where it is not known.
	doubt *int64
	// clock names the node whose kernel's clock it is; "" for others. Times of one clock are in order whatever its error is.
	clock string
}

// timeOf reads an event's time, its bound and what it was last known to be otherwise.
func timeOf(e *record.Event) instant {
	t := instant{lo: e.TNs, hi: e.TNs, doubt: e.UncertaintyNs}
	switch e.Bound {
	case record.Upper:
		t.lo = ever
		if before, ok := record.Integer(e.Detail["not_before_t_ns"]); ok {
			t.lo = before
		}
	case record.Lower:
		t.hi = never
	}
	if fromAgent(e.Source) {
		t.clock = e.Node
	}
	return t
}

// fromAgent reports whether a node's agent told an event.
func fromAgent(s record.EventFrom) bool {
	return s == record.FromKernel || s == record.FromConntrack || s == record.FromDataplane
}

// before reports whether a was surely before b. An order that lies within the bounds of the clocks is not sure.
func (a instant) before(b instant) bool {
	if a.clock != "" && a.clock == b.clock {
		return a.hi < b.lo
	}
	if a.doubt == nil || b.doubt == nil {
		return false
	}
	return a.hi+*a.doubt+*b.doubt < b.lo
}

// later moves an instant.
func (a instant) later(ns int64) instant {
	a.lo, a.hi = a.lo+ns, a.hi+ns
	return a
}

// soonest takes a receipt, of which nothing tells how late it is, for as late as news may be: to tell what surely came after something. It decides what
// contradicts a cause, and what is too late to be of a loss; never an order that proves one.
func (a instant) soonest() instant {
	a.lo = max(a.lo, a.hi-settled)
	return a
}
