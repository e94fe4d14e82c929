package traffic

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// run is the loop: look at the sockets, obey, send what is due, open what is to be opened, and let go of what ended.
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
	e.lastLook = e.clock.MonoNs()
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
		f.startedNs = e.clock.MonoNs()
		fd, err := dialSocket(f.target)
		if err == nil {
			f.fd = int32(fd)
			ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff, Fd: index}
			err = unix.EpollCtl(e.ep, unix.EPOLL_CTL_ADD, fd, &ev)
		}
		f.state = connecting
		e.connects++
		if err != nil {
			e.finish(f, f.raw(EndReadError, request.Symbol(err)), e.clock.MonoNs(), err)
		}
	}
	return true
}

// connected sends the first ping at once.
func (e *engine) connected(f *flow) {
	f.state = greeting
	f.local = localAddress(int(f.fd))
	e.send(f, e.clock.MonoNs())
}

// sendDue sends the pings that are due; true when more are.
func (e *engine) sendDue() bool {
	if e.live == 0 {
		return false
	}
	now := e.clock.MonoNs()
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
				e.finish(f, f.raw(EndNotOpened, request.Symbol(unix.ETIMEDOUT)), now, nil)
			}
		case open:
			if f.refusal != nil {
				if now-f.refusedNs > e.plan.ReadTimeoutNs {
					e.finish(f, *f.refusal, f.refusedNs, nil)
				}
				continue
			}
			if oldest, waits := f.oldestUnansweredNs(e.plan.HeartbeatNs); waits && now-oldest > e.plan.ReadTimeoutNs {
				e.finish(f, f.raw(EndNoAnswer, ""), now, nil)
			}
		}
	}
}
