package traffic

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
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
	clock    stopwatch
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
		emit: emit, clock: newStopwatch(), ep: -1, timer: -1, wake: -1, finished: make(chan struct{}),
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
		now := e.clock.ns()
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
	now := e.clock.ns()
	e.stopped = true
	r := &Report{Flows: make([]FlowReport, 0, len(e.flows)), Unsent: e.unsent}
	for i := range e.flows {
		f := &e.flows[i]
		if f.state != ended {
			end := f.raw(EndWindowClosed, "")
			if f.state != open {
				end = f.raw(EndNotOpened, symbol(unix.ECANCELED))
			}
			f.end, f.endedNs, f.state = end, now, ended
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

func (e *engine) run() {
	runtime.LockOSThread() // one thread's cache and place in the scheduler; it dies with the goroutine
	// Where the process may (root, CAP_SYS_NICE), the loop goes before the goroutines that tell what it noticed.
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -15)
	defer e.release()
	defer func() {
		e.mu.Lock()
		close(e.finished)
		e.mu.Unlock()
	}()
	for busy := false; !e.stopped; {
		n, now := e.wait(busy)
		for i := range n {
			ev := &e.events[i]
			if ev.Fd >= 0 {
				e.handle(&e.flows[ev.Fd], ev.Events, now)
			} else if ev.Fd == tagWake {
				e.obey()
			}
		}
		if e.stopped {
			return
		}
		busy = n == len(e.events)
		// Heartbeats come before new flows: those that are open are owed their pace.
		if e.sendDue() {
			busy = true
		} else {
			busy = e.begin() || busy
		}
		// Only when all that had arrived was read may silence be judged.
		if n < len(e.events) {
			e.sweep()
		}
		busy = e.closeSome() || busy
		e.tellOpen()
	}
}

// wait blocks until something happens or is due; not at all when busy.
func (e *engine) wait(busy bool) (n int, now int64) {
	timeout := -1
	if busy || e.pause() {
		timeout = 0
	} else {
		e.arm()
	}
	n, err := unix.EpollWait(e.ep, e.events, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		panic("traffic: epoll_wait on an open descriptor: " + err.Error())
	}
	e.lastLook = e.clock.ns()
	return max(n, 0), e.lastLook
}

// lookStep is the least time between two looks at the sockets.
func (e *engine) lookStep() int64 {
	if e.live <= crowd || e.opening > 0 || e.lastLook-e.lastEnd < alertNs {
		return 0
	}
	return lookStepNs
}

// pause sleeps until the next look may be taken. It is true when something is
// due by then, so that the look must not wait for events: with a crowd that is the
// rule, and saves setting the timer, which is dear on virtual machines.
func (e *engine) pause() (due bool) {
	step := e.lookStep()
	if step == 0 {
		return false
	}
	next := e.lastLook + step
	until := unix.NsecToTimespec(next)
	// Interrupted, the look is taken a little earlier.
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil)
	return min(e.nextSweep, e.pace.at(e.slot)) <= next
}

// arm sets the timer for the next ping or sweep, and disarms it when no flow lives.
func (e *engine) arm() {
	var spec unix.ItimerSpec
	if e.live > 0 {
		due := min(e.nextSweep, e.pace.at(e.slot))
		spec.Value = unix.NsecToTimespec(max(due, 1))
	}
	if err := unix.TimerfdSettime(e.timer, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("traffic: timerfd_settime on an open descriptor: " + err.Error())
	}
}

func (e *engine) obey() {
	var count [8]byte
	_, _ = unix.Read(e.wake, count[:])
	e.mu.Lock()
	commands := e.commands
	e.commands = nil
	e.mu.Unlock()
	for _, c := range commands {
		c()
	}
}

// begin starts flows, as many at once as a server's queue can take; true when there is more to do now.
func (e *engine) begin() bool {
	for range connectsPerTurn {
		if e.next == len(e.flows) || e.connects >= connectsAtOnce {
			return false
		}
		index := int32(e.pace.beginning(e.next))
		f := &e.flows[index]
		e.next++
		f.startedNs = e.clock.ns()
		fd, err := dialSocket(f.target)
		if err == nil {
			f.fd = int32(fd)
			ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff, Fd: index}
			err = unix.EpollCtl(e.ep, unix.EPOLL_CTL_ADD, fd, &ev)
		}
		f.state = connecting
		e.connects++
		if err != nil {
			e.finish(f, f.raw(EndReadError, symbol(err)), e.clock.ns(), err)
		}
	}
	return true
}

// connected sends the first ping at once.
func (e *engine) connected(f *flow) {
	f.state = greeting
	f.local = localAddress(int(f.fd))
	e.send(f, e.clock.ns())
}

// sendDue sends the pings that are due; true when more are.
func (e *engine) sendDue() bool {
	if e.live == 0 {
		return false
	}
	now := e.clock.ns()
	for range sendsPerTurn {
		due := e.pace.at(e.slot)
		if due > now {
			return false
		}
		f := &e.flows[e.pace.flow(e.slot)]
		// A datagram that opens a flow may be lost, so it is sent again; a stream does that by itself.
		if f.state == open || f.state == greeting && f.protocol == record.UDP {
			if e.pace.stale(e.slot, now) {
				e.late.Record(now - due)
				e.unsent++
			} else {
				e.send(f, due)
			}
		}
		e.slot++
	}
	return true
}

// sweep looks for timeouts, as of the last look at the sockets: a client that
// was itself stopped since then must not take its own silence for the server's.
func (e *engine) sweep() {
	now := e.lastLook
	if e.live == 0 || now < e.nextSweep {
		return
	}
	e.nextSweep = now + sweepNs
	for i := range e.flows {
		f := &e.flows[i]
		switch f.state {
		case connecting, greeting:
			if now-f.startedNs > e.plan.ConnectTimeoutNs {
				e.finish(f, f.raw(EndNotOpened, symbol(unix.ETIMEDOUT)), now, nil)
			}
		case open:
			if oldest, waits := f.oldestUnansweredNs(e.plan.HeartbeatNs); waits && now-oldest > e.plan.ReadTimeoutNs {
				e.finish(f, f.raw(EndNoAnswer, ""), now, nil)
			}
		}
	}
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
		e.limits[symbol(cause)]++
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
