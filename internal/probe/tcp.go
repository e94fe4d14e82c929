package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drainproof/drainproof/internal/wire"
)

const (
	// goodbye bounds how long a connection may take to receive its bye and to answer the FIN.
	goodbye = time.Second
	// firstBuffer holds a few pings; it grows up to wire.MaxMessageBytes for whoever needs more.
	firstBuffer = 128
	// sweepsPerTick: a connection is found idle at most a quarter of TickEvery too late.
	sweepsPerTick = 4
)

// What a connection's owner is asked to do (conn.owed).
const (
	owedTick uint32 = 1 << iota
	owedDraining
	owedBye
)

// tcpServer holds the heartbeat connections. Each has one goroutine, its
// owner, which alone writes to it; everybody else only leaves a wish and wakes it.
type tcpServer struct {
	listener net.Listener
	id       *wire.Identity
	log      *logger
	closesIn atomic.Int64 // milliseconds, told with draining; 0 while not draining

	owners sync.WaitGroup
	mu     sync.Mutex
	closed bool // no connection may be added any more
	conns  map[*conn]struct{}
}

type conn struct {
	*net.TCPConn
	owed   atomic.Uint32
	active atomic.Bool // heard from since the last sweep
	idle   int         // sweeps without a word; the sweeper's own
	ticks  uint64      // the owner's own
}

// ask leaves a wish for the owner and wakes it by a read deadline that has passed.
func (c *conn) ask(what uint32) {
	c.owed.Or(what)
	_ = c.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection, which owes nothing
}

// accept runs until the listener is closed. A shortage of descriptors is waited out, not spun on.
func (s *tcpServer) accept() {
	var wait time.Duration
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if wait == 0 {
				s.log.now(LogFailed, map[string]any{"step": "accept", "error": err.Error()})
			}
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			time.Sleep(wait)
			continue
		}
		wait = 0
		s.start(&conn{TCPConn: nc.(*net.TCPConn)})
	}
}

func (s *tcpServer) start(c *conn) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = c.Close()
		return
	}
	s.conns[c] = struct{}{}
	// A connection that was accepted just before the drain is told of it as well.
	if s.closesIn.Load() > 0 {
		c.ask(owedDraining)
	}
	s.owners.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.owners.Done()
		defer s.forget(c)
		s.own(c)
	}()
}

func (s *tcpServer) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	_ = c.Close()
}

// all is a snapshot of the connections.
func (s *tcpServer) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		out = append(out, c)
	}
	return out
}

// own serves one connection until either side ends it.
func (s *tcpServer) own(c *conn) {
	if !s.send(c, wire.Message{Type: wire.Hello, Promises: wire.PromiseAnnounce}) {
		return
	}
	in := make([]byte, 0, firstBuffer)
	var out []byte
	for {
		n, err := c.Read(in[len(in):cap(in)])
		in = in[:len(in)+n]
		if n > 0 {
			c.active.Store(true)
			var ok bool
			if in, out, ok = s.answer(c, in, out); !ok {
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !s.settle(c) {
				return
			}
		default:
			return
		}
	}
}

// answer answers all whole pings in in with one write, and returns the rest.
func (s *tcpServer) answer(c *conn, in, out []byte) (rest, buf []byte, ok bool) {
	out = out[:0]
	rest = in
	for {
		line, after, found := bytes.Cut(rest, []byte{'\n'})
		if !found {
			break
		}
		seq, isPing := wire.ParsePing(line)
		if !isPing {
			s.log.refuse("a line that is no ping", c.RemoteAddr().String())
			return nil, out, false
		}
		out = append(s.id.AppendBeat(out, seq), '\n')
		rest = after
	}
	if len(out) > 0 {
		if _, err := c.Write(out); err != nil {
			return nil, out, false
		}
	}
	if len(rest) >= wire.MaxMessageBytes {
		s.log.refuse("a message over the limit", c.RemoteAddr().String())
		return nil, out, false
	}
	n := copy(in[:cap(in)], rest)
	in = in[:n]
	if n == cap(in) {
		in = append(make([]byte, 0, min(4*n, wire.MaxMessageBytes)), in...)
	}
	return in, out, true
}

// settle pays what is owed. The deadline is lifted before the wishes are
// taken: a wish left in between wakes the owner once more for nothing, and none is lost.
func (s *tcpServer) settle(c *conn) bool {
	_ = c.SetReadDeadline(time.Time{})
	owed := c.owed.Swap(0)
	if owed&owedBye != 0 {
		s.bid(c)
		return false
	}
	if owed&owedDraining != 0 && !s.send(c, wire.Message{Type: wire.Draining, ClosesInMs: s.closesIn.Load()}) {
		return false
	}
	if owed&owedTick != 0 {
		c.ticks++
		return s.send(c, wire.Message{Type: wire.Tick, Seq: c.ticks})
	}
	return true
}

func (s *tcpServer) send(c *conn, m wire.Message) bool {
	_, err := c.Write(append(s.id.Append(nil, m), '\n'))
	return err == nil
}

// bid ends a connection in order: bye, FIN, and then reading until the
// client's FIN, because closing with unread bytes would send a reset after them.
func (s *tcpServer) bid(c *conn) {
	_ = c.SetDeadline(time.Now().Add(goodbye))
	if !s.send(c, wire.Message{Type: wire.Bye}) || c.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, onlyReader{c}) // ends with the client's FIN or the deadline; either way the close follows
}

// onlyReader hides the methods by which io.Copy would splice.
type onlyReader struct{ io.Reader }

// sweep sends ticks on idle connections until ctx ends.
func (s *tcpServer) sweep(ctx context.Context, tickEvery time.Duration) {
	every := max(tickEvery/sweepsPerTick, time.Millisecond)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, c := range s.all() {
			if c.active.Swap(false) {
				c.idle = 0
			} else if c.idle++; c.idle >= sweepsPerTick {
				c.idle = 0
				c.ask(owedTick)
			}
		}
	}
}

// announce tells every connection, now and later, that it will be closed.
func (s *tcpServer) announce(in time.Duration) (told int) {
	s.closesIn.Store(max(in.Milliseconds(), 1))
	all := s.all()
	for _, c := range all {
		c.ask(owedDraining)
	}
	return len(all)
}

// finish ends every connection in order and waits for the owners, at most goodbye long or a little more.
func (s *tcpServer) finish() (ended int) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	all := s.all()
	for _, c := range all {
		// An owner stuck in a write to a client that does not read is freed as well.
		_ = c.SetWriteDeadline(time.Now().Add(goodbye))
		c.ask(owedBye)
	}
	s.owners.Wait()
	return len(all)
}

// cut closes every connection, with a reset where reset is set, and waits for the owners.
func (s *tcpServer) cut(reset bool) (cut int) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	all := s.all()
	for _, c := range all {
		if reset {
			_ = c.SetLinger(0)
		}
		_ = c.Close()
	}
	return len(all)
}
