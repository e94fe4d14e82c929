package client

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

const instanceHeader = "X-Instance"

// quietTLS is a server of net/http with TLS and ALPN for HTTP/2, that keeps failed handshakes to itself.
func quietTLS(t *testing.T, h http.HandlerFunc, more ...func(*httptest.Server)) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	for _, f := range more {
		f(srv)
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// planFor is a plan for a server on loopback, with limits that no test reaches unless it means to.
func planFor(t *testing.T, mode request.Mode, addr string) request.Plan {
	t.Helper()
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	minute := int64(time.Minute)
	p := request.Plan{
		Mode: mode, Rate: 100, Users: 1,
		Target:         request.Target{Scheme: "http", Host: ap.Addr().String(), Port: ap.Port(), Path: "/x/y", Method: "GET"},
		Expect:         []request.StatusRange{{From: 200, To: 299}},
		Limits:         request.Limits{DNSNs: minute, ConnectNs: minute, TLSNs: minute, FirstByteNs: minute, WholeNs: minute},
		InstanceHeader: instanceHeader,
	}
	if overGRPC(mode) {
		p.Expect = []request.StatusRange{{}}
	}
	return p
}

// Limits that tests reach on purpose: short where nothing else counts against it, long where an exchange must come so far before.
const (
	short = int64(50 * time.Millisecond)
	long  = int64(time.Second)
)

// rig sends one request after another, without a schedule.
type rig struct {
	plan       request.Plan
	sender     sender
	reconnects atomic.Int64
	own        chan request.Result // ends that belong to no attempt
}

func newRig(t *testing.T, p request.Plan) *rig {
	t.Helper()
	r := &rig{plan: p, own: make(chan request.Result, 10)}
	s, err := newSender(p, func() { r.reconnects.Add(1) }, func(res request.Result) { r.own <- res })
	if err != nil {
		t.Fatal(err)
	}
	r.sender = s
	t.Cleanup(s.close)
	return r
}

// send makes one request of the first user, due now.
func (r *rig) send(t *testing.T) request.Result {
	t.Helper()
	a := begin(t.Context(), r.plan, 0, clock.MonoNs())
	r.sender.send(a)
	if a.EndedNs < a.SentNs || a.SentNs < a.PlannedNs {
		t.Errorf("times out of order: planned %d, sent %d, ended %d", a.PlannedNs, a.SentNs, a.EndedNs)
	}
	return a.Result
}

// async sends in the background.
func (r *rig) async(t *testing.T) <-chan request.Result {
	t.Helper()
	c := make(chan request.Result, 1)
	go func() { c <- r.send(t) }()
	return c
}

func (r *rig) want(t *testing.T, res request.Result, outcome record.RequestOutcome, phase record.RequestPhase) {
	t.Helper()
	if got := request.Classify(r.plan.Mode, r.plan.Expect, res.End, res.Status); got != outcome || res.End.Phase != phase {
		t.Errorf("%s in %q, want %s in %q; status %d, end %+v", got, res.End.Phase, outcome, phase, res.Status, res.End)
	}
}

func (r *rig) wantReconnects(t *testing.T, n int64) {
	t.Helper()
	if got := r.reconnects.Load(); got != n {
		t.Errorf("%d connections counted as replaced in order, want %d", got, n)
	}
}

// await fails the test where something never happens.
func await[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: never", what)
	}
	return v
}

// listen serves each connection by serve, which gets its number from 0. Connections are closed afterwards, in order.
func listen(t *testing.T, serve func(c *net.TCPConn, n int)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			running.Go(func() {
				serve(c.(*net.TCPConn), n)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return l.Addr().String()
}

func rst(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// hang waits for the client to close.
func hang(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// readRequest takes one HTTP/1.1 request; false at the end.
func readRequest(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, r.Body)
	return true
}

// closedPort is a port on loopback that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// h2Server is one connection of a server that speaks in single frames.
type h2Server struct {
	*http2.Framer
	conn  *net.TCPConn
	block writer
	enc   *hpack.Encoder
}

type writer struct{ b []byte }

func (w *writer) Write(b []byte) (int, error) { w.b = append(w.b, b...); return len(b), nil }

// listenH2 serves each connection by serve, after the preface and with settings sent.
func listenH2(t *testing.T, serve func(s *h2Server, n int), settings ...http2.Setting) (addr string) {
	t.Helper()
	return listen(t, func(c *net.TCPConn, n int) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		s := newH2Server(c)
		_ = s.WriteSettings(settings...)
		serve(s, n)
	})
}

func newH2Server(c *net.TCPConn) *h2Server {
	s := &h2Server{Framer: http2.NewFramer(c, c), conn: c}
	s.enc = hpack.NewEncoder(&s.block)
	s.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return s
}

// next reads frames up to one of type F that keep accepts, and acknowledges SETTINGS on the way; false at the connection's end.
func next[F http2.Frame](s *h2Server, keep func(F) bool) (f F, ok bool) {
	for {
		frame, err := s.ReadFrame()
		if err != nil {
			return f, false
		}
		if set, is := frame.(*http2.SettingsFrame); is && !set.IsAck() {
			_ = s.WriteSettingsAck()
		}
		if f, is := frame.(F); is && keep(f) {
			return f, true
		}
	}
}

func every[F http2.Frame](F) bool { return true }

// request reads up to the next request's header and gives its stream; 0 at the end.
func (s *h2Server) request() uint32 {
	f, ok := next(s, every[*http2.MetaHeadersFrame])
	if !ok {
		return 0
	}
	return f.StreamID
}

// wholeRequest reads up to the next request's end, so that closing afterwards resets nothing; 0 at the connection's end.
func (s *h2Server) wholeRequest() uint32 {
	f, ok := next(s, func(f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			return f.StreamEnded()
		case *http2.DataFrame:
			return f.StreamEnded()
		}
		return false
	})
	if !ok {
		return 0
	}
	return f.Header().StreamID
}

// header writes a response's header or trailer, as name, value, name, value.
func (s *h2Server) header(id uint32, last bool, fields ...string) {
	s.block.b = s.block.b[:0]
	for i := 0; i < len(fields); i += 2 {
		_ = s.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.block.b, EndHeaders: true, EndStream: last})
}

// idle reads until the client closes.
func (s *h2Server) idle() { next(s, func(http2.Frame) bool { return false }) }

// goaway announces the end of the connection, after the stream last.
func (s *h2Server) goaway(last uint32) { _ = s.WriteGoAway(last, http2.ErrCodeNo, nil) }

// waitFor polls what has no channel.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: never", what)
}
