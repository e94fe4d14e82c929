package explain

import (
	"strings"

	"github.com/drainproof/drainproof/internal/record"
)

// point is an instant and the event that tells it; or why none does.
type point struct {
	event *record.Event
	instant
	why string
}

// seen is the instant of an event, not before one that lies after it.
func seen(e *record.Event) point {
	p := point{event: e, instant: timeOf(e)}
	p.lo = min(p.lo, e.TNs)
	return p
}

// atLatest is an instant that an event can only follow.
func atLatest(e *record.Event) point {
	p := seen(e)
	p.lo = ever
	return p
}

// recorded gives the point as a record holds it.
func (p point) recorded() record.Instant {
	if p.event == nil {
		return record.Instant{Bound: record.Exact, Why: p.why}
	}
	t := record.Instant{TNs: new(p.event.TNs), Bound: p.event.Bound, Event: p.event.ID}
	if p.doubt != nil {
		t.UncertaintyNs = new(*p.doubt)
	}
	if p.lo < p.event.TNs {
		t.Bound = record.Upper
		if p.lo > ever {
			t.NotBeforeTNs = new(p.lo)
		}
	}
	return t
}

// doubtOf bounds the error of the distance of two instants by their clocks; ok is false where nothing does. On one clock there is none.
func doubtOf(a, b instant) (doubt int64, ok bool) {
	switch {
	case a.clock != "" && a.clock == b.clock:
		return 0, true
	case a.doubt == nil || b.doubt == nil:
		return 0, false
	}
	return *a.doubt + *b.doubt, true
}

// span measures from one point to another.
func span(from, to point) record.Span {
	var s record.Span
	var why []string
	if from.event != nil {
		s.FromEvent = from.event.ID
	} else {
		why = append(why, from.why)
	}
	if to.event != nil {
		s.ToEvent = to.event.ID
	} else if to.why != from.why || from.event != nil {
		why = append(why, to.why)
	}
	if len(why) > 0 {
		s.Why = strings.Join(why, "; ")
		return s
	}
	s.Ns = new(to.event.TNs - from.event.TNs)
	doubt, ok := doubtOf(from.instant, to.instant)
	if !ok {
		return s
	}
	if from.hi < never && to.lo > ever {
		s.AtLeastNs = new(to.lo - from.hi - doubt)
	}
	if from.lo > ever && to.hi < never {
		s.AtMostNs = new(to.hi - from.lo + doubt)
	}
	return s
}
