package eventloop

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// niceness of the loop's thread where the process may choose it (root, CAP_SYS_NICE).
	niceness = -15
	// sliceNs is how long the thread asks to run at once: the least that the kernel grants. A
	// thread with a short slice is put before those with longer ones when it wakes up.
	sliceNs = 100_000
	// yieldEveryNs is half of what Go's monitor allows a goroutine (forcePreemptNS in its runtime).
	yieldEveryNs = 5_000_000
	// leastProcessors is the loop, the garbage collector, what takes the results, and one for all else.
	leastProcessors = 4
)

// thread is the one that the loop runs on, as long as Go leaves it there.
//
// The loop is not locked to a thread. Go's monitor looks for goroutines that ran for 10 ms without being scheduled anew. From
// one that waits in the kernel it takes the processor, and is from then on itself woken by every event, which costs
// as much as a request. One that computes it has scheduled anew, which for a locked goroutine means two
// changes of threads, and those are prompt only where nothing else wants to run. A goroutine that yields in
// time, unlocked, goes on at once, on its thread or on another that was idle, and the monitor sleeps.
type thread struct {
	first   bool // before all that has no fixed priority, where the process may
	id      int
	was     *unix.SchedAttr // nil where nothing was changed
	yieldNs int64
}

// yield lets Go schedule anew, at most every yieldEveryNs, and follows where that leads. A loop that is behind
// has no privilege: it would take the processor for itself, from the server too.
func (t *thread) yield(now int64, behind bool) {
	if now < t.yieldNs {
		return
	}
	t.yieldNs = now + yieldEveryNs
	runtime.Gosched()
	if behind && t.first {
		t.leave()
		t.id = 0
		return
	}
	if id := unix.Gettid(); id != t.id {
		t.leave()
		t.id, t.was = id, hurry(id, t.first)
		// Timeouts may otherwise be 50 us late, to save wake-ups. This one stays with the thread, and does no harm there.
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	}
}

// leave makes the thread what it was, for the goroutines that it runs next.
func (t *thread) leave() {
	if t.was != nil {
		_ = unix.SchedSetAttr(t.id, t.was, 0)
		t.was = nil
	}
}

// hurry has the kernel wake a thread of this process in favour of the rest of the machine, and says what it was before. It
// is a wish: what is refused makes the loop later, which every result says.
//
// A kernel that preempts lazily (PREEMPT_LAZY, Linux 6.13) lets whom a thread of the normal policy would preempt run on to the next tick, up to 4 ms;
// a fixed priority is heeded at once. Threads that Go starts from this one do not inherit it.
func hurry(id int, first bool) (was *unix.SchedAttr) {
	was, err := unix.SchedGetAttr(id, 0)
	if err != nil || was.Policy != unix.SCHED_NORMAL {
		return nil
	}
	was.Runtime = 0 // the kernel's own choice of a slice
	if first {
		wish := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
		if unix.SchedSetAttr(id, &wish, 0) == nil {
			was.Flags |= unix.SCHED_FLAG_RESET_ON_FORK // to take it back needs a right that to go back does not
			return was
		}
	}
	for _, nice := range []int32{niceness, was.Nice} {
		wish := *was
		// Custom slices are known from Linux 6.12 on; before, they are ignored.
		wish.Nice, wish.Runtime = nice, sliceNs
		if unix.SchedSetAttr(id, &wish, 0) == nil {
			return was
		}
	}
	return nil
}

// spareProcessors sees to it that Go's scheduler never makes the loop wait when it returns from
// waiting: with some to spare the kernel decides who runs, and it prefers who slept.
func spareProcessors() {
	if runtime.GOMAXPROCS(0) < leastProcessors {
		runtime.GOMAXPROCS(leastProcessors)
	}
}
