package held

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/wire/websocket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of the tests.
const patience = 20 * time.Second

// kept is a Sink that keeps everything.
type kept struct {
	mu         sync.Mutex
	results    []request.Result
	reconnects int
	more       chan struct{}
}

func keep() *kept { return &kept{more: make(chan struct{}, 1)} }

func (k *kept) Done(r request.Result) {
	k.mu.Lock()
	k.results = append(k.results, r)
	k.mu.Unlock()
	select {
	case k.more <- struct{}{}:
	default:
	}
}

func (k *kept) Reconnected() {
	k.mu.Lock()
	k.reconnects++
	k.mu.Unlock()
}

// now is what there is.
func (k *kept) now() ([]request.Result, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]request.Result(nil), k.results...), k.reconnects
}

// await waits for n results.
func (k *kept) await(t *testing.T, n int) []request.Result {
	t.Helper()
	deadline := time.After(patience)
	for {
		results, _ := k.now()
		if len(results) >= n {
			return results
		}
		select {
		case <-k.more:
		case <-deadline:
			t.Fatalf("%d of %d results: %+v", len(results), n, results)
		}
	}
}

// failures are those that were not answered.
func failures(results []request.Result) (failed []request.Result) {
	for _, r := range results {
		if r.End.Kind != request.EndAnswered {
			failed = append(failed, r)
		}
	}
	return failed
}

// server accepts TCP connections and hands each to serve, with its number from 0. It ends with the test.
type server struct {
	address  netip.AddrPort
	listener net.Listener
	quit     chan struct{}
}

func listen(t *testing.T, serve func(s *server, n int, c *net.TCPConn)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: l.Addr().(*net.TCPAddr).AddrPort(), listener: l, quit: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer nc.Close()
				_ = nc.SetDeadline(time.Now().Add(2 * patience))
				done := make(chan struct{})
				defer close(done)
				serving.Go(func() {
					select {
					case <-s.quit:
						_ = nc.SetDeadline(time.Unix(1, 0))
					case <-done:
					}
				})
				serve(s, n, nc.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		close(s.quit)
		_ = l.Close()
		serving.Wait()
	})
	return s
}

// peer is a WebSocket server's end of one connection.
type peer struct {
	net.Conn
	in *websocket.Reader
}

// upgrade answers the handshake; nil where there was none.
func upgrade(c net.Conn, fields string) *peer {
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	if err != nil {
		return nil
	}
	if fields == "" {
		fields = "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nServer-Name: ws-1\r\nSec-WebSocket-Accept: " +
			websocket.AcceptKey(r.Header.Get("Sec-WebSocket-Key")) + "\r\n"
	}
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n"+fields+"\r\n"); err != nil {
		return nil
	}
	return &peer{Conn: c, in: websocket.NewReader(in, true)}
}

func (p *peer) say(op websocket.Opcode, payload []byte) {
	_, _ = p.Write(websocket.AppendFrame(nil, op, payload))
}

// pings answers n pings, or all there are where n is negative, and gives how it ended: nil after n, else a *closed or the error.
func (p *peer) pings(n int) error {
	for ; n != 0; n-- {
		op, payload, err := p.in.Next()
		if err != nil {
			return err
		}
		switch op {
		case websocket.Ping:
			p.say(websocket.Pong, payload)
		case websocket.Close:
			code, _ := websocket.CloseCode(payload)
			return &closed{code}
		}
	}
	return nil
}

type closed struct{ code int }

func (c *closed) Error() string { return fmt.Sprintf("close %d", c.code) }

// obey answers everything until the client closes, and answers that too.
func (p *peer) obey() error {
	err := p.pings(-1)
	if c, ok := errors.AsType[*closed](err); ok {
		p.say(websocket.Close, websocket.ClosePayload(c.code, ""))
	}
	return err
}

// planTo is a plan of one user whose first exchange is due at once and whose next is far away.
func planTo(mode request.Mode, at netip.AddrPort) request.Plan {
	scheme := map[request.Mode]string{request.WebSocket: "http", request.TCP: "tcp", request.UDP: "udp"}[mode]
	limits := request.Limits{DNSNs: int64(patience), ConnectNs: int64(patience), TLSNs: int64(patience), FirstByteNs: int64(patience), WholeNs: int64(patience)}
	p := request.Plan{
		Mode: mode, Rate: 0.001, Users: 1, Limits: limits, InstanceHeader: "Server-Name",
		Target: request.Target{Scheme: scheme, Host: at.Addr().String(), Port: at.Port(), Path: "/ws"},
	}
	if mode != request.WebSocket {
		p.Target.Body = []byte("hello")
	}
	return p
}

func start(t *testing.T, p request.Plan) (*kept, request.Engine) {
	t.Helper()
	k := keep()
	e, err := Start(p, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return k, e
}

// hand is an engine whose exchanges come due by hand, so that a test says what happens in which order.
type hand struct {
	*kept
	*engine
}

func byHand(t *testing.T, p request.Plan) hand {
	t.Helper()
	k := keep()
	e, err := newEngine(t.Context(), p, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return hand{k, e}
}

// exchange makes one exchange come due.
func (h hand) exchange() { h.due(0, clock.MonoNs()) }

// exchanged makes one exchange come due and waits for a result.
func (h hand) exchanged(t *testing.T) request.Result {
	t.Helper()
	before, _ := h.now()
	h.exchange()
	return h.await(t, len(before)+1)[len(before)]
}

func TestWrongUse(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:1")
	for name, change := range map[string]func(*request.Plan){
		"mode":               func(p *request.Plan) { p.Mode = request.KeepAlive },
		"scheme":             func(p *request.Plan) { p.Target.Scheme = "tcp" },
		"no host":            func(p *request.Plan) { p.Target.Host = "" },
		"no users":           func(p *request.Plan) { p.Users = 0 },
		"no rate":            func(p *request.Plan) { p.Rate = 0 },
		"no limit":           func(p *request.Plan) { p.Limits.TLSNs = 0 },
		"a method":           func(p *request.Plan) { p.Target.Method = "POST" },
		"a body":             func(p *request.Plan) { p.Target.Body = []byte("x") },
		"no path":            func(p *request.Plan) { p.Target.Path = "" },
		"a path of two":      func(p *request.Plan) { p.Target.Path = "/a b" },
		"an authority":       func(p *request.Plan) { p.Target.Authority = "a\r\nb" },
		"a header's name":    func(p *request.Plan) { p.Target.Headers = []request.Header{{Name: "a b", Value: "x"}} },
		"a header's value":   func(p *request.Plan) { p.Target.Headers = []request.Header{{Name: "a", Value: "x\r\ny"}} },
		"a handshake's":      func(p *request.Plan) { p.Target.Headers = []request.Header{{Name: "sec-websocket-KEY", Value: "x"}} },
		"no authority in CA": func(p *request.Plan) { p.Target.Scheme, p.Target.TLS.CA = "https", []byte("x") },
		"nothing to send":    func(p *request.Plan) { p.Mode, p.Target.Scheme = request.UDP, "udp" },
		"too much to send": func(p *request.Plan) {
			p.Mode, p.Target.Scheme, p.Target.Body = request.UDP, "udp", make([]byte, maxDatagram+1)
		},
	} {
		p := planTo(request.WebSocket, at)
		change(&p)
		if _, err := Start(p, keep()); fault.CodeOf(err) != fault.Usage || fault.NextOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
		if r := Once(t.Context(), p); name != "no users" && name != "no rate" && (r.End.Kind != request.EndClientLimit || r.End.Message == "") {
			t.Errorf("%s: once %+v", name, r)
		}
	}
}

func TestSchedule(t *testing.T) {
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) {
		if p := upgrade(c, ""); p != nil {
			_ = p.obey()
		}
	})
	p := planTo(request.WebSocket, s.address)
	p.Rate, p.Users, p.PhaseNs = 200, 3, int64(5*time.Millisecond)
	from := clock.MonoNs()
	k, e := start(t, p)
	k.await(t, 30)
	e.Stop()
	results, reconnects := k.now()
	if reconnects != 0 || len(failures(results)) > 0 {
		t.Fatalf("%d reconnects, failed: %+v", reconnects, failures(results))
	}
	carried := map[int]int{}
	first := int64(1 << 62)
	for _, r := range results {
		first = min(first, r.PlannedNs)
	}
	if first < from+p.PhaseNs {
		t.Errorf("the first was planned %d ns after the start", first-from)
	}
	for _, r := range results {
		if k := (r.PlannedNs - first) / int64(5*time.Millisecond); (r.PlannedNs-first)%int64(5*time.Millisecond) != 0 || int(k)%3 != r.User {
			t.Errorf("user %d at %d ns", r.User, r.PlannedNs-first)
		}
		if r.ConnRequests != carried[r.User] || r.Reused != (carried[r.User] > 0) || r.Instance != "ws-1" || r.Remote != s.address || !r.Local.IsValid() {
			t.Errorf("%+v is exchange %d of its user", r, carried[r.User])
		}
		if r.SentNs < r.PlannedNs || r.EndedNs < r.SentNs || r.ConnOpenedNs < from {
			t.Errorf("times of %+v", r)
		}
		carried[r.User]++
	}
	if len(carried) != 3 {
		t.Errorf("users %v", carried)
	}
}

func TestInFlightIsBounded(t *testing.T) {
	h := byHand(t, planTo(request.WebSocket, netip.MustParseAddrPort("127.0.0.1:1")))
	h.count.Store(maxUnderWay)
	if r := h.exchanged(t); r.End.Kind != request.EndClientLimit || r.SentNs != 0 || r.PlannedNs == 0 {
		t.Errorf("%+v", r)
	}
	h.Stop()
	h.Stop() // twice is once
}

func bufferOf(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }
