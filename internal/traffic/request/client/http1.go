package client

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/traffic/request/http1"
)

// http1Sender sends HTTP/1.1, on a new connection each time or on kept ones.
type http1Sender struct {
	dialer   *dialer
	plan     request.Plan
	keep     bool
	request  []byte // the same every time
	users    []pool // of kept connections
	buffers  sync.Pool
	replaced func()
	// waiting are the goroutines that watch idle connections, and those that wait for the end of used ones.
	waiting sync.WaitGroup
}

// pool is what one user keeps.
type pool struct {
	gone gone
	mu   sync.Mutex
	idle []*http1Conn // the last used one last
}

type http1Conn struct {
	*connection
	parser *http1.Parser
	// carried is how many requests it has carried.
	carried  int
	instance string
	// woken says whether the idle connection was still good when its watcher was woken.
	woken chan bool
}

func newHTTP1(p request.Plan, d *dialer, replaced func()) *http1Sender {
	s := &http1Sender{dialer: d, plan: p, keep: p.Mode == request.KeepAlive, users: make([]pool, p.Users), replaced: replaced}
	headers := make([]http1.Header, len(p.Target.Headers))
	for i, h := range p.Target.Headers {
		headers[i] = http1.Header(h)
	}
	s.request = http1.AppendRequest(nil, p.Target.Method, p.Target.Path, authority(p.Target), headers, p.Target.Body, !s.keep)
	s.buffers.New = func() any { return new([16 << 10]byte) }
	return s
}

// authority is what Host and :authority say.
func authority(t request.Target) string {
	if t.Authority != "" {
		return t.Authority
	}
	return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
}

func (s *http1Sender) send(a *attempt) {
	u := &s.users[a.User]
	c := u.take()
	if c == nil {
		if c = s.open(a, u); c == nil {
			return
		}
	}
	a.on(c.connection, c.carried, c.instance)
	again := s.exchange(a, c)
	c.carried++
	switch {
	case a.End.Kind != request.EndAnswered:
		_ = c.tcp.Close()
	case again && s.keep:
		s.park(u, c)
	default:
		if s.keep {
			u.gone.add()
		}
		s.waiting.Go(c.farewell)
	}
}

func (s *http1Sender) open(a *attempt, u *pool) *http1Conn {
	c := s.dialer.dial(a)
	if c == nil {
		return nil
	}
	if u.gone.replace() {
		s.replaced()
	}
	return &http1Conn{connection: c, parser: http1.NewParser(s.plan.InstanceHeader)}
}

// exchange sends the request and reads the response; again says that the connection may carry another.
func (s *http1Sender) exchange(a *attempt, c *http1Conn) (again bool) {
	stop := context.AfterFunc(a.ctx, func() { _ = c.tcp.Close() })
	defer stop()
	_ = c.SetWriteDeadline(a.until)
	_, sendErr := c.Write(s.request)
	if errors.Is(sendErr, os.ErrDeadlineExceeded) {
		a.fail(sendErr, record.PhaseSend)
		return false
	}
	// Where sending was refused, the server may have answered before it closed: that answer counts.
	buf := s.buffers.Get().(*[16 << 10]byte)
	defer s.buffers.Put(buf)
	c.parser.Reset(s.plan.Target.Method)
	phase := record.PhaseFirstByte
	_ = c.SetReadDeadline(a.by(a.limits.FirstByteNs))
	for {
		n, err := c.Read(buf[:])
		if n > 0 && phase == record.PhaseFirstByte {
			phase = record.PhaseBody
			_ = c.SetReadDeadline(a.until)
		}
		a.BytesReceived += int64(n)
		used, done, parseErr := c.parser.Feed(buf[:n])
		if c.parser.HeaderDone && c.instance != string(c.parser.Instance) {
			c.instance = string(c.parser.Instance) // an answer without the header is nobody's: a proxy gave it
		}
		a.Instance = c.instance
		switch {
		case parseErr != nil:
			a.end(badAnswer(phase, parseErr.Error()))
			return false
		case done || err == io.EOF && phase == record.PhaseBody && c.parser.EOF():
			a.Status = c.parser.Status
			a.end(request.End{Kind: request.EndAnswered, Phase: record.PhaseDone})
			return c.parser.KeepAlive && used == n && err == nil && sendErr == nil
		case err == nil:
		case sendErr != nil && phase == record.PhaseFirstByte:
			a.fail(sendErr, record.PhaseSend)
			return false
		default:
			a.fail(err, phase)
			return false
		}
	}
}

// farewellWait bounds how long a server may take to close that was asked to, or that said it would.
const farewellWait = time.Second

// farewell lets the server close first, so that TIME_WAIT takes its port and not one of the client's, of which a high rate needs many.
func (c *http1Conn) farewell() {
	_ = c.SetReadDeadline(time.Now().Add(farewellWait))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		c.abort()
		return
	}
	_ = c.Close()
}

// park keeps c for the next request, and watches for its end.
func (s *http1Sender) park(u *pool, c *http1Conn) {
	c.woken = make(chan bool, 1)
	_ = c.SetReadDeadline(time.Time{})
	u.mu.Lock()
	u.idle = append(u.idle, c)
	u.mu.Unlock()
	s.waiting.Go(func() {
		// Bytes that were not asked for (as a 408) announce an end as well.
		n, err := c.Read(make([]byte, 1))
		good := n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
		if !good && u.drop(c) {
			_ = c.Close()
		}
		c.woken <- good
	})
}

// take gives the kept connection that was used last, or nil.
func (u *pool) take() *http1Conn {
	for {
		u.mu.Lock()
		n := len(u.idle)
		if n == 0 {
			u.mu.Unlock()
			return nil
		}
		c := u.idle[n-1]
		u.idle = u.idle[:n-1]
		u.mu.Unlock()
		ended := c.ended()
		_ = c.SetReadDeadline(time.Now())
		if good := <-c.woken; good && !ended {
			return c
		}
		u.gone.add()
		_ = c.Close()
	}
}

// drop takes c out, where nobody took it yet, as one that ended in order.
func (u *pool) drop(c *http1Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.Index(u.idle, c)
	if i < 0 {
		return false
	}
	u.idle = slices.Delete(u.idle, i, i+1)
	u.gone.add()
	return true
}

// ended asks the kernel whether the peer's end is there already. The watcher may not have been run yet on a busy
// machine, and what the client was too slow to notice must not become the server's loss.
func (c *connection) ended() bool {
	raw, err := c.tcp.SyscallConn()
	if err != nil {
		return true
	}
	ended := false
	err = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != nil {
			ended = err != unix.EAGAIN && err != unix.EINTR
			return
		}
		ended = n == 0 || !c.secure // TLS has records of its own, such as tickets; HTTP has nothing to say while idle
	})
	return ended || err != nil
}

func (s *http1Sender) close() {
	for i := range s.users {
		u := &s.users[i]
		for c := u.take(); c != nil; c = u.take() {
			_ = c.Close()
		}
	}
	s.waiting.Wait()
}
