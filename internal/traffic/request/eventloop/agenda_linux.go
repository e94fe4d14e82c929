package eventloop

import (
	"sync/atomic"

	"github.com/drainproof/drainproof/internal/traffic/request"
)

// agenda is a schedule that loops share: whoever takes a request first sends it.
type agenda struct {
	schedule request.Schedule
	next     atomic.Int64 // the request to be taken next
	endNs    atomic.Int64 // when the schedule ended; never before Stop
}

func newAgenda(s request.Schedule) *agenda {
	a := &agenda{schedule: s}
	a.endNs.Store(never)
	return a
}

// dueNs is when the next request is due.
func (a *agenda) dueNs() int64 { return a.schedule.DueNs(a.next.Load()) }

// owes reports whether the next request is on the schedule: until Stop, or due before it and late.
func (a *agenda) owes() bool { return a.dueNs() <= a.endNs.Load() }

// take takes the next request, if it was due by nowNs and is owed.
func (a *agenda) take(nowNs int64) (k, dueNs int64, ok bool) {
	for {
		k = a.next.Load()
		if dueNs = a.schedule.DueNs(k); dueNs > min(nowNs, a.endNs.Load()) {
			return 0, 0, false
		}
		if a.next.CompareAndSwap(k, k+1) {
			return k, dueNs, true
		}
	}
}

// end ends the schedule, once for all loops.
func (a *agenda) end(nowNs int64) { a.endNs.CompareAndSwap(never, nowNs) }

func (a *agenda) ended() bool { return a.endNs.Load() != never }
