package traffic

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/wire"
)

const (
	// eventsPerWait and sendsPerTurn bound a turn of the loop, so that an end is noticed soon whatever else is due.
	eventsPerWait = 256
	sendsPerTurn  = 64
	closesPerTurn = 16
	// A connect takes a handshake's time on loopback, many times that of a ping.
	connectsPerTurn = 16
	// connectsAtOnce keeps below the accept queue of any server (net.core.somaxconn is 4096, once 128):
	// a SYN that overflows it is sent again a second later.
	connectsAtOnce = 100
	// sweepNs is how often timeouts are looked for, and so how late one may be noticed.
	sweepNs = 10_000_000
	// With more than crowd flows the sockets are looked at, and pings sent, at most once in lookStepNs: a sleep and a
	// wake-up for every single answer cost more than the answer, on both sides. Once a flow has ended, the
	// loop looks without pause for alertNs, since others may follow.
	lookStepNs = 500_000
	alertNs    = 20_000_000

	// The loop, its notes' writer, their reader, and one for all else.
	leastProcessors = 4

	tagTimer = -1
	tagWake  = -2
)

// engine holds all flows on one thread with one epoll instance: no goroutine,
// timer or buffer per flow. Everything below the mutex's line is the loop's own.
type engine struct {
	emit     func(Note)
	clock    clock.Stopwatch
	ep       int
	timer    int
	wake     int
	finished chan struct{}

	mu       sync.Mutex
	commands []func()

	flows      []flow
	plan       Plan
	pace       pace
	slot       int64 // the next to be sent
	next       int   // the next flow to be begun
	live       int   // begun and not ended, or not begun
	opening    int   // not open yet and not ended
	connects   int   // in the states connecting and greeting
	whenOpen   func([]string)
	identities map[[2]string]*wire.Identity
	closing    []int32
	nextSweep  int64
	lastLook   int64
	lastEnd    int64
	stopped    bool

	buf    []byte
	out    []byte
	events []unix.EpollEvent

	late, answers *stats.Delays
	sent, unsent  uint64
	limits        map[string]int
}

// newEngine starts an engine without flows. emit is called on its thread and must not block.
func newEngine(emit func(Note)) (holder, error) {
	raiseDescriptors()
	spareProcessors()
	e := &engine{
		emit: emit, clock: clock.NewStopwatch(), ep: -1, timer: -1, wake: -1, finished: make(chan struct{}),
		identities: map[[2]string]*wire.Identity{}, limits: map[string]int{},
		buf: make([]byte, 64<<10), events: make([]unix.EpollEvent, eventsPerWait),
		late: stats.NewDelays(), answers: stats.NewDelays(),
	}
	if err := e.descriptors(); err != nil {
		e.release()
		return nil, fault.Measuref(err, "raise the limit on open files (ulimit -n)", "preparing the client's event loop")
	}
	go e.run()
	return e, nil
}

// spareProcessors sees to it that Go's scheduler never makes the loop wait. It
// lets at most GOMAXPROCS threads run Go code; on a small machine the goroutines that
// encode and decode notes can hold all of them for their 10 ms, just when many flows end and the loop returns
// from a system call. With some to spare the kernel decides, and it prefers who slept.
func spareProcessors() {
	if runtime.GOMAXPROCS(0) < leastProcessors {
		runtime.GOMAXPROCS(leastProcessors)
	}
}

func (e *engine) descriptors() (err error) {
	if e.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	// A timer descriptor, unlike epoll's own timeout, is exact to the nanosecond on every kernel and free of timer slack.
	if e.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return fmt.Errorf("timerfd: %w", err)
	}
	if e.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for fd, tag := range map[int]int32{e.timer: tagTimer, e.wake: tagWake} {
		ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET&0xffffffff, Fd: tag}
		if err := unix.EpollCtl(e.ep, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

func (e *engine) release() {
	for _, fd := range []int{e.ep, e.timer, e.wake} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// post runs f on the loop's thread; false when the loop has ended.
func (e *engine) post(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.finished:
		return false
	default:
	}
	e.commands = append(e.commands, f)
	one := [8]byte{0: 1}
	_, _ = unix.Write(e.wake, one[:]) // full means that a wake-up is pending already
	return true
}

// Open implements holder.
func (e *engine) Open(p Plan, done func(failures []string)) error {
	targets, err := p.targets()
	if err != nil {
		return err
	}
	e.post(func() {
		e.plan, e.whenOpen = p, done
		e.plan.Flows = nil // the targets hold what is needed
		e.flows = make([]flow, len(targets))
		for i := range targets {
			e.flows[i].target = targets[i]
			e.flows[i].fd = -1
		}
		e.live, e.opening = len(targets), len(targets)
		now := e.clock.MonoNs()
		e.pace = pace{startNs: now, heartbeatNs: p.HeartbeatNs, n: int64(len(targets))}
		e.nextSweep = now + sweepNs
	})
	return nil
}

// Status implements holder.
func (e *engine) Status() Status {
	out := make(chan Status, 1)
	if !e.post(func() {
		s := Status{Flows: len(e.flows), Live: e.live, Opening: e.opening}
		s.Health = health(e.sent, e.answeredTotal(), e.late, e.limits)
		out <- s
	}) {
		return Status{}
	}
	select {
	case s := <-out:
		return s
	case <-e.finished:
		return Status{}
	}
}

func (e *engine) answeredTotal() (n uint64) {
	for i := range e.flows {
		n += e.flows[i].answered
	}
	return n
}

// Close implements holder.
func (e *engine) Close() *Report {
	out := make(chan *Report, 1)
	if !e.post(func() { out <- e.conclude() }) {
		return nil
	}
	<-e.finished
	select {
	case r := <-out:
		return r
	default:
		return nil // another Close was first
	}
}

// conclude ends what still lives and sums up. The loop ends after it.
func (e *engine) conclude() *Report {
	now := e.clock.MonoNs()
	e.stopped = true
	r := &Report{Flows: make([]FlowReport, 0, len(e.flows)), Unsent: e.unsent}
	for i := range e.flows {
		f := &e.flows[i]
		if f.state != ended {
			end, at := f.raw(EndWindowClosed, ""), now
			switch {
			case f.state != open:
				end = f.raw(EndNotOpened, request.Symbol(unix.ECANCELED))
			case f.refusal != nil:
				end, at = *f.refusal, f.refusedNs
				e.note(Note{Kind: NoteEnded, MonoNs: at, Flow: f.id, End: &end})
			}
			f.end, f.endedNs, f.state = end, at, ended
		}
		if f.fd >= 0 {
			_ = unix.Close(int(f.fd))
			f.fd = -1
		}
		r.Flows = append(r.Flows, f.report())
	}
	r.Health = health(e.sent, e.answeredTotal(), e.late, e.limits)
	if p999, ok := e.answers.QuantileNs(0.999); ok {
		p50, _ := e.answers.QuantileNs(0.5)
		r.Answers = &AnswerTimes{P50Ns: p50, P999Ns: p999, MaxNs: e.answers.MaxNs()}
	}
	return r
}

// finish ends a flow at now. Its socket is closed a little later, when nothing more urgent waits.
func (e *engine) finish(f *flow, end RawEnd, now int64, cause error) {
	if f.state == ended {
		return
	}
	if f.state != open {
		e.opening--
		e.connectDone(f)
		end.Kind = EndNotOpened
	}
	if cause != nil && localLimit(cause) {
		end.Kind = EndClientLimit
		e.limits[request.Symbol(cause)]++
	}
	f.state, f.endedNs, f.end = ended, now, end
	e.live--
	e.lastEnd = now
	if f.fd >= 0 {
		e.closing = append(e.closing, f.fd)
		f.fd = -1
	}
	e.note(Note{Kind: NoteEnded, MonoNs: now, Flow: f.id, End: &f.end})
}

func (e *engine) connectDone(f *flow) {
	if f.state == connecting || f.state == greeting {
		e.connects--
	}
}

// closeSome closes a few sockets of ended flows, so few that the next look is soon; true when some are left.
func (e *engine) closeSome() bool {
	n := min(len(e.closing), closesPerTurn)
	for _, fd := range e.closing[len(e.closing)-n:] {
		_ = unix.Close(int(fd)) // nothing is left to be lost with it
	}
	e.closing = e.closing[:len(e.closing)-n]
	return len(e.closing) > 0
}

// tellOpen calls whenOpen once every flow was answered or has failed.
func (e *engine) tellOpen() {
	if e.whenOpen == nil || e.opening > 0 {
		return
	}
	var failures []string
	for i := range e.flows {
		if f := &e.flows[i]; f.openedNs == 0 {
			failures = append(failures, fmt.Sprintf("%s to %s: %s", f.id, f.remote, why(f.end)))
		}
	}
	e.whenOpen(failures)
	e.whenOpen = nil
}

func why(end RawEnd) string {
	switch {
	case end.Errno == "" && end.Kind == EndNotOpened:
		return "closed before its first answer"
	case end.Errno == "ETIMEDOUT" && end.ICMP == nil:
		return "no answer in time"
	case end.Kind == EndClientLimit:
		return end.Errno + " (a limit of the client's machine)"
	default:
		return end.Errno
	}
}

func (e *engine) note(n Note) { e.emit(n) }
