package eventloop

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// patience bounds every wait of a test.
const patience = 20 * time.Second

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Instance: web-1\r\n\r\nhello"

// server is a listener whose connections a test plays.
type server struct {
	address netip.AddrPort
	mu      sync.Mutex
	clients []netip.AddrPort
}

// connections is how many there were so far.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

func (s *server) saw(client netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if c == client {
			return true
		}
	}
	return false
}

// serve plays every connection, the n-th (from 0) by play. It ends with the test, by when the client must have let go of all.
func serve(t *testing.T, play func(n int, c *net.TCPConn, in *bufio.Reader)) *server {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: l.Addr().(*net.TCPAddr).AddrPort()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for n := 0; ; n++ {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.clients = append(s.clients, c.RemoteAddr().(*net.TCPAddr).AddrPort())
			s.mu.Unlock()
			_ = c.SetDeadline(time.Now().Add(patience))
			serving.Go(func() {
				defer c.Close()
				play(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return s
}

// heard reads one request whole; false when the client is gone.
func heard(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

// untilGone reads until the client has closed.
func untilGone(in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) }

func say(c *net.TCPConn, text string) { _, _ = io.WriteString(c, text) }

// results is a sink that keeps all.
type results struct {
	mu         sync.Mutex
	list       []request.Result
	reconnects int
	arrived    chan struct{}
	// first is called with the first result, on the loop's thread.
	first func()
}

func newResults() *results { return &results{arrived: make(chan struct{}, 1)} }

func (s *results) Done(r request.Result) {
	s.mu.Lock()
	s.list = append(s.list, r)
	n := len(s.list)
	s.mu.Unlock()
	if n == 1 && s.first != nil {
		s.first()
	}
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

func (s *results) Reconnected() {
	s.mu.Lock()
	s.reconnects++
	s.mu.Unlock()
}

func (s *results) take() ([]request.Result, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list, s.reconnects
}

// wait waits for n results.
func (s *results) wait(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		if list, _ := s.take(); len(list) >= n {
			return
		}
		select {
		case <-s.arrived:
		case <-deadline:
			list, _ := s.take()
			t.Fatalf("%d results after %s, want %d", len(list), patience, n)
		}
	}
}

// plan sends GET / at rate a second for one user.
func plan(mode request.Mode, to netip.AddrPort, rate float64) request.Plan {
	return request.Plan{
		Mode: mode, Rate: rate, Users: 1, Limits: request.DefaultLimits(), InstanceHeader: "x-instance",
		Target: request.Target{Scheme: "http", Host: to.Addr().String(), Port: to.Port(), Path: "/", Method: "GET"},
	}
}

// start starts p and sees to its end.
func start(t *testing.T, p request.Plan, prepare func(*engine)) (*engine, *results) {
	t.Helper()
	sink := newResults()
	e, err := newEngine(p, sink)
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(e)
	}
	go e.run()
	t.Cleanup(e.Stop)
	return e, sink
}

// driven is an engine whose loop the test turns itself, so that things happen in the order that the test wants.
type driven struct {
	*engine
	*results
}

func drive(t *testing.T, p request.Plan, prepare func(*engine)) driven {
	t.Helper()
	sink := newResults()
	e, err := newEngine(p, sink)
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(e)
	}
	t.Cleanup(e.release)
	return driven{e, sink}
}

// request sends the next request now.
func (d driven) request() {
	now := d.clock.MonoNs()
	d.begin(d.agenda.next.Add(1)-1, now, now)
}

// until turns the loop until done. While a connection is open no turn lasts longer than its limits.
func (d driven) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); d.turn() {
		if d.open == 0 || time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// ended turns the loop until n requests have ended, and gives them.
func (d driven) ended(t *testing.T, n int) []request.Result {
	t.Helper()
	d.until(t, "the end of a request", func() bool { return len(d.list) >= n })
	return d.list
}

// sendSome sends until n requests have ended, and gives these and all others that were under way then.
func sendSome(t *testing.T, p request.Plan, n int) ([]request.Result, int) {
	t.Helper()
	e, sink := start(t, p, nil)
	sink.wait(t, n)
	e.Stop()
	return sink.take()
}

// wantAnswered checks that every request was answered with a status.
func wantAnswered(t *testing.T, list []request.Result, status int) {
	t.Helper()
	for i, r := range list {
		if r.End != (request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}) || r.Status != status {
			t.Fatalf("request %d: %+v, status %d", i, r.End, r.Status)
		}
	}
}

// awaitReset waits until the kernel has the peer's reset, which nothing has told the loop of (TCP_INFO, tcp(7)).
func awaitReset(t *testing.T, c *conn) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		info, err := unix.GetsockoptTCPInfo(int(c.fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		if info.State == unix.BPF_TCP_CLOSE {
			return
		}
	}
	t.Fatal("the connection is still up")
}
