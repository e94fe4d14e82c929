package eventloop

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/traffic/request/http1"
)

const supported = true

const (
	// eventsPerWait and sendsPerTurn bound a turn of the loop, so that neither answers nor sends wait long for the other.
	eventsPerWait = 512
	sendsPerTurn  = 64
	// openAtMost bounds the sockets, below the number of ports that an address has. reserve is what the rest of the
	// process may open beside them.
	openAtMost = 65_536
	reserve    = 256

	// Requests that are due less than denseNs apart make a dense schedule, whose loop turns every stepNs at most: a request leaves
	// no more than that late, a fifth of the millisecond that it may be, and those that leave together cost less. One
	// on a kept connection costs so little that being woken for it is most of that, so there the loop sleeps longer.
	denseNs    = 250_000
	stepNs     = 200_000
	stepKeptNs = 400_000
	// standbyNs is more than a loop with its own pace lets a request wait. standbyShare is the second loop's part of the sockets.
	standbyNs    = 250_000
	standbyShare = 8

	// partingNs is how long a server may take to close a connection that it or the request said would be closed. Who
	// closes first keeps the port for a minute (TIME_WAIT); left to the client, 28,000 ports would
	// last for six seconds at 5,000 requests a second.
	partingNs = 100_000_000
	// A user keeps spareConnections idle ones; more are closed when one was not used for idleNs.
	spareConnections = 2
	idleNs           = 5_000_000_000

	// instancesKnown bounds the names that are shared; a header that names every response anew is no instance.
	instancesKnown = 4096

	tagWake = -1

	never = 1 << 62
)

// engine is one loop on one goroutine: no goroutine, timer or buffer for each connection. It shares nothing but the
// process's descriptors and, where there is a second one, the agenda. All below wake is the loop's own.
type engine struct {
	plan     request.Plan
	sink     request.Sink
	remote   netip.AddrPort
	request  []byte
	stopOnce sync.Once
	finished chan struct{}
	ep       int
	wake     int

	clock   clock.Stopwatch
	agenda  *agenda
	lagNs   int64 // how late a request must be for this loop to take it
	turnNs  int64 // when the loop was to turn last, with a dense schedule
	stepNs  int64 // between turns, then
	lookNs  int64 // when the sockets were last looked at
	aheadNs int64 // the wall clock's lead over the loop's, then
	dense   bool
	behind  bool // more than a turn's worth waits

	conns []*conn
	free  []int32
	// open sockets of at most limit; live ones have a request under way.
	open, live, limit int
	users             []user
	instances         map[string]string

	connecting, answering, under, parting, idling queue
	limits                                        [5]limit

	address rawAddress
	events  []unix.EpollEvent
	noWait2 bool // epoll_pwait2 is not there (before Linux 5.11, or forbidden)
	message *message
	stamps  int // a socket that keeps the kernel's time stamps on
}

// Start sends p from now on, until Stop. Only for plans that Can accepts.
func Start(p request.Plan, sink request.Sink) (request.Engine, error) {
	e, err := newEngine(p, sink)
	if err != nil {
		return nil, err
	}
	if e.dense && p.Mode == request.NewConnection && runtime.NumCPU() > 1 {
		second, err := e.standby()
		if err != nil {
			e.release()
			return nil, err
		}
		go e.run()
		go second.run()
		return both{e, second}, nil
	}
	go e.run()
	return e, nil
}

// standby makes a second loop for e's schedule. It takes a request that is standbyNs late, because the first loop waits for a processor
// while another may be free. It is for new connections only: kept ones belong to one loop.
func (e *engine) standby() (*engine, error) {
	s, err := newEngine(e.plan, e.sink)
	if err != nil {
		return nil, err
	}
	s.agenda, s.lagNs = e.agenda, standbyNs
	s.limit /= standbyShare
	e.limit -= s.limit
	return s, nil
}

// both are loops with one schedule.
type both [2]*engine

// Stop implements request.Engine.
func (b both) Stop() {
	for _, e := range b {
		e.Stop()
	}
}

// newEngine makes an engine whose loop does not run yet.
func newEngine(p request.Plan, sink request.Sink) (*engine, error) {
	switch {
	case !Can(p):
		return nil, fault.Usagef("send it with another client", "mode %s to %s://%s needs more than an event loop", p.Mode, p.Target.Scheme, p.Target.Host)
	case !(p.Rate > 0) || p.Users < 1:
		return nil, fault.Usagef("use a rate above 0 and at least 1 user", "%g requests a second for %d users", p.Rate, p.Users)
	}
	remote, _ := p.Target.Address()
	e := &engine{
		plan: p, sink: sink, remote: remote, request: written(p), address: rawAddressOf(remote),
		finished: make(chan struct{}), ep: -1, wake: -1, stamps: -1, dense: p.Rate > 1e9/denseNs, stepNs: stepNs,
		clock: clock.NewStopwatch(), users: make([]user, p.Users), instances: map[string]string{},
		limit: socketsAtMost(), message: newMessage(), events: make([]unix.EpollEvent, eventsPerWait),
	}
	if p.Mode != request.NewConnection {
		e.stepNs = stepKeptNs
	}
	e.connecting, e.answering, e.parting, e.idling = newQueue(byPhase), newQueue(byPhase), newQueue(byPhase), newQueue(byPhase)
	e.under = newQueue(byRequest)
	e.limits = [...]limit{
		{&e.connecting, p.Limits.ConnectNs},
		{&e.answering, p.Limits.FirstByteNs},
		{&e.under, p.Limits.WholeNs},
		{&e.parting, partingNs},
		{&e.idling, idleNs},
	}
	for i := range e.users {
		e.users[i].idle = newQueue(byUser)
	}
	if err := e.descriptors(); err != nil {
		e.release()
		return nil, fault.Measuref(err, "raise the limit on open files (ulimit -n)", "preparing the client's event loop")
	}
	e.agenda = newAgenda(request.NewSchedule(e.clock.MonoNs(), p.PhaseNs, p.Rate))
	spareProcessors()
	return e, nil
}

// written is the plan's request as it goes out.
func written(p request.Plan) []byte {
	host := p.Target.Authority
	if host == "" {
		host = net.JoinHostPort(p.Target.Host, strconv.Itoa(int(p.Target.Port)))
	}
	headers := make([]http1.Header, len(p.Target.Headers))
	for i, h := range p.Target.Headers {
		headers[i] = http1.Header(h)
	}
	return http1.AppendRequest(nil, p.Target.Method, p.Target.Path, host, headers, p.Target.Body, p.Mode == request.NewConnection)
}

// socketsAtMost is how many sockets the process can hold for the loop. The Go runtime has raised the soft limit already.
func socketsAtMost() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur >= openAtMost+reserve {
		return openAtMost
	}
	return max(int(limit.Cur)-reserve, int(limit.Cur)/2)
}

func (e *engine) descriptors() (err error) {
	if e.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if e.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	// The kernel stamps packets while any socket asks for it, and turning that on and off is dear.
	if fd, errno := socket(unix.AF_INET); errno == 0 {
		e.stamps = fd
		stampArrivals(fd)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET&0xffffffff, Fd: tagWake}
	if err := unix.EpollCtl(e.ep, unix.EPOLL_CTL_ADD, e.wake, &ev); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// release lets go of every descriptor.
func (e *engine) release() {
	for _, c := range e.conns {
		if c.state != unused {
			closeSocket(int(c.fd))
		}
	}
	for _, fd := range []int{e.ep, e.wake, e.stamps} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// Stop implements request.Engine.
func (e *engine) Stop() {
	e.stopOnce.Do(func() {
		// Until it has read this, the loop does not end, and its descriptors stay open.
		one := [8]byte{0: 1}
		_, _ = unix.Write(e.wake, one[:])
	})
	<-e.finished
}
