package probe

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/wire"
)

// probe is one running workload.
type probe struct {
	config Config
	log    *logger
	tcp    *tcpServer
	udp    *net.UDPConn
	http   *httpServer
	health *health
}

func (c *Config) check() error {
	switch c.Behaviour {
	case Exit, Drain, Finish, Ignore:
	default:
		return fault.Usagef("choose exit, drain, finish or ignore", "unknown behaviour on SIGTERM %q", c.Behaviour)
	}
	switch c.ReadinessOnTerm {
	case Fail, Keep:
	default:
		return fault.Usagef("choose fail or keep", "unknown readiness on SIGTERM %q", c.ReadinessOnTerm)
	}
	if c.DrainWindow < 0 || c.TickEvery < 0 || c.StartDelay < 0 {
		return fault.Usagef("give 0s or more", "negative drain window, tick interval or start delay")
	}
	if c.ExitCode < 0 || c.ExitCode > 255 {
		return fault.Usagef("choose 0 to 255", "exit code %d cannot be returned by a process", c.ExitCode)
	}
	return nil
}

func run(ctx context.Context, c Config, signals <-chan os.Signal, started func(tcp, udp, http string)) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	log := &logger{out: c.Log, instance: c.Instance, podUID: c.PodUID}
	descriptors := raiseDescriptors()

	listen := func(what, address string) (net.Listener, error) {
		l, err := (&net.ListenConfig{Control: prepare}).Listen(ctx, "tcp", orAny(address))
		if err != nil {
			return nil, fault.Measuref(err, "choose another port or free it", "listening for %s", what)
		}
		return l, nil
	}
	h := &health{log: log}
	starting := map[string]any{"start_delay_ns": c.StartDelay.Nanoseconds(), "pid": os.Getpid()}
	if c.Health != "" {
		l, err := listen("health checks", c.Health)
		if err != nil {
			return 0, err
		}
		starting["health"] = l.Addr().String()
		defer h.serve(l)()
	}
	log.now(LogStarting, starting)
	if !h.begin(ctx, c, signals) {
		log.now(LogExiting, map[string]any{"exit_code": c.ExitCode, "refused": log.refused.Load()})
		return c.ExitCode, nil
	}

	tcp, err := listen("heartbeats", c.TCP)
	if err != nil {
		return 0, err
	}
	defer tcp.Close()
	web, err := listen("HTTP", c.HTTP)
	if err != nil {
		return 0, err
	}
	defer web.Close()
	packets, err := net.ListenPacket("udp", orAny(c.UDP))
	if err != nil {
		return 0, fault.Measuref(err, "choose another port or free it", "listening for datagrams")
	}
	defer packets.Close()

	id := wire.NewIdentity(c.Instance, c.PodUID)
	p := &probe{
		config: c, log: log, udp: packets.(*net.UDPConn), http: newHTTPServer(log, h, web), health: h,
		tcp: &tcpServer{listener: tcp, id: id, log: log, conns: map[*conn]struct{}{}},
	}
	h.listening.Store(true)
	log.now(LogStarted, map[string]any{
		"tcp": tcp.Addr().String(), "udp": packets.LocalAddr().String(), "http": web.Addr().String(),
		"descriptors": descriptors, "pid": os.Getpid(),
	})

	var servers sync.WaitGroup
	sweeping, stopSweep := context.WithCancel(context.Background())
	servers.Go(p.tcp.accept)
	servers.Go(func() { serveUDP(p.udp, id, log) })
	servers.Go(p.http.serve)
	if c.TickEvery > 0 {
		servers.Go(func() { p.tcp.sweep(sweeping, c.TickEvery) })
	}
	if started != nil {
		started(tcp.Addr().String(), packets.LocalAddr().String(), web.Addr().String())
	}

	p.untilEnd(ctx, signals)
	stopSweep()
	servers.Wait()
	p.tcp.owners.Wait()
	p.http.settle()
	p.http.sockets.serving.Wait()
	return c.ExitCode, nil
}

func orAny(address string) string {
	if address == "" {
		return ":0"
	}
	return address
}

// untilEnd waits for what ends the probe, and closes every socket in the way it was told.
func (p *probe) untilEnd(ctx context.Context, signals <-chan os.Signal) {
	terms := 0
	for {
		select {
		case <-ctx.Done():
			p.leave(false)
			return
		case sig := <-signals:
			terms++
			p.log.now(LogSigterm, map[string]any{"signal": sig.String(), "count": terms})
			if p.config.ReadinessOnTerm == Fail {
				p.health.fail()
			}
			switch p.config.Behaviour {
			case Exit:
				p.leave(p.config.ForceRST)
				return
			case Drain:
				p.drain(ctx, signals)
				return
			case Finish:
				p.finish(ctx, signals)
				return
			}
		}
	}
}

// drain stops accepting heartbeat connections, keeps serving those it has,
// and ends them in order when the window is over. HTTP and UDP go on until then.
func (p *probe) drain(ctx context.Context, signals <-chan os.Signal) {
	_ = p.tcp.listener.Close()
	p.log.now(LogListenerClosed, map[string]any{"listener": "tcp", "address": p.tcp.listener.Addr().String()})
	began := clock.Read()
	told := p.tcp.announce(p.config.DrainWindow)
	p.log.at(began, LogDrainBegan, map[string]any{"window_ns": p.config.DrainWindow.Nanoseconds(), "connections": told})

	window := time.NewTimer(p.config.DrainWindow)
	defer window.Stop()
	for open := true; open; {
		select {
		case <-ctx.Done():
			p.leave(false)
			return
		case sig := <-signals:
			p.log.now(LogSigterm, map[string]any{"signal": sig.String(), "during": "drain"})
		case <-window.C:
			open = false
		}
	}
	ended := p.tcp.finish()
	p.log.now(LogDrainEnded, map[string]any{"connections": ended})
	p.leave(false)
}

// leave closes everything. Without a reset it does to each socket just what the
// kernel does when the process ends: a FIN, or a reset where unread bytes are left.
func (p *probe) leave(reset bool) {
	before := clock.MonoNs()
	if reset {
		cut := p.tcp.cut(true) + p.http.cut(true)
		after := clock.Read()
		p.log.at(after, LogForcedRST, map[string]any{"connections": cut, "first_mono_ns": before, "last_mono_ns": after.MonoNs})
	}
	p.log.now(LogExiting, map[string]any{"exit_code": p.config.ExitCode, "refused": p.log.refused.Load()})
	_ = p.tcp.listener.Close()
	if !reset {
		p.tcp.cut(false)
		p.http.cut(false)
	}
	_ = p.udp.Close()
}

// raiseDescriptors lifts the soft limit on descriptors to the hard one and
// returns it, 0 where it could not be read. Go does the same at its start, unless the limit was set by hand.
func raiseDescriptors() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			limit = raised
		}
	}
	return limit.Cur
}
