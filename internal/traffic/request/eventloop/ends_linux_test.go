package eventloop

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/faultserver"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// reset resets c in place of an orderly end.
func reset(c *net.TCPConn) { _ = c.SetLinger(0) }

// half is the begin of a response.
const half = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\nX-Instance: web-1\r\n\r\nhello"

// TestEnds: every way in which a request can end on a connection that came up, and in which phase.
func TestEnds(t *testing.T) {
	t.Parallel()
	ms := func(n int) int64 { return int64(n) * int64(time.Millisecond) }
	large := make([]byte, 8<<20) // more than one write takes
	for _, c := range []struct {
		name string
		play func(c *net.TCPConn, in *bufio.Reader)
		// body and limits of the request, where the default does not do.
		body              []byte
		rate              float64
		firstByte, wholly int64
		want              request.End
		status            int
		instance          string
		bytes             int64
		outcome           record.RequestOutcome
	}{
		{
			name: "answered", play: func(c *net.TCPConn, _ *bufio.Reader) { say(c, hello) },
			want: request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, status: 200, instance: "web-1", bytes: int64(len(hello)), outcome: record.OK,
		},
		{
			name: "another status", play: func(c *net.TCPConn, _ *bufio.Reader) { say(c, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n") },
			want: request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, status: 503, bytes: 38, outcome: record.HTTPError,
		},
		{
			name: "until close", play: func(c *net.TCPConn, _ *bufio.Reader) { say(c, "HTTP/1.1 200 OK\r\n\r\nhello") },
			want: request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, status: 200, bytes: 24, outcome: record.OK,
		},
		{
			name: "slowly", play: func(c *net.TCPConn, _ *bufio.Reader) {
				for _, piece := range strings.SplitAfter(hello, "\n") {
					say(c, piece)
					time.Sleep(time.Millisecond)
				}
			},
			want: request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, status: 200, instance: "web-1", bytes: int64(len(hello)), outcome: record.OK,
		},
		{
			name: "answered and reset", play: func(c *net.TCPConn, in *bufio.Reader) {
				say(c, hello)
				untilGone(in) // the answer must be read before the reset can overtake it
				reset(c)
			},
			want: request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, status: 200, instance: "web-1", bytes: int64(len(hello)), outcome: record.OK,
		},
		{
			name: "reset before the response", play: func(c *net.TCPConn, _ *bufio.Reader) { reset(c) },
			want: request.End{Kind: request.EndErrno, Phase: record.PhaseFirstByte, Errno: "ECONNRESET"}, outcome: record.ResetBeforeResponse,
		},
		{
			name: "reset inside the response", play: func(c *net.TCPConn, _ *bufio.Reader) {
				say(c, half)
				awaitRead(c)
				reset(c)
			},
			want: request.End{Kind: request.EndErrno, Phase: record.PhaseBody, Errno: "ECONNRESET"}, status: 200, instance: "web-1", bytes: int64(len(half)), outcome: record.ResetMidResponse,
		},
		{
			name: "closed before the response", play: func(*net.TCPConn, *bufio.Reader) {},
			want: request.End{Kind: request.EndEOF, Phase: record.PhaseFirstByte}, outcome: record.EOFBeforeResponse,
		},
		{
			name: "half closed before the response", play: func(c *net.TCPConn, in *bufio.Reader) {
				_ = c.CloseWrite()
				untilGone(in)
			},
			want: request.End{Kind: request.EndEOF, Phase: record.PhaseFirstByte}, outcome: record.EOFBeforeResponse,
		},
		{
			name: "closed inside the response", play: func(c *net.TCPConn, _ *bufio.Reader) { say(c, half) },
			want: request.End{Kind: request.EndEOF, Phase: record.PhaseBody}, status: 200, instance: "web-1", bytes: int64(len(half)), outcome: record.Truncated,
		},
		{
			name: "closed after an interim response", play: func(c *net.TCPConn, _ *bufio.Reader) { say(c, "HTTP/1.1 103 Early Hints\r\n\r\n") },
			want: request.End{Kind: request.EndEOF, Phase: record.PhaseBody}, bytes: 28, outcome: record.Truncated,
		},
		{
			name: "no response in time", play: func(_ *net.TCPConn, in *bufio.Reader) { untilGone(in) }, firstByte: ms(50),
			want: request.End{Kind: request.EndTimeout, Phase: record.PhaseFirstByte}, outcome: record.ResponseTimeout,
		},
		{
			name: "not all of the response in time", play: func(c *net.TCPConn, in *bufio.Reader) {
				say(c, half)
				untilGone(in)
			}, wholly: ms(200),
			want: request.End{Kind: request.EndTimeout, Phase: record.PhaseBody}, status: 200, instance: "web-1", bytes: int64(len(half)), outcome: record.ResponseTimeout,
		},
		{
			name: "malformed", play: func(c *net.TCPConn, in *bufio.Reader) {
				say(c, "SSH-2.0-OpenSSH_9.9")
				untilGone(in)
			},
			want: request.End{Kind: request.EndBadAnswer, Phase: record.PhaseBody, Message: "not an HTTP/1.x response: its status line"}, bytes: 19, outcome: record.ProtocolError,
		},
		{
			name: "a large request", play: func(c *net.TCPConn, _ *bufio.Reader) { say(c, hello) }, body: large, rate: 4,
			want: request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, status: 200, instance: "web-1", bytes: int64(len(hello)), outcome: record.OK,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) {
				if heard(in) {
					c.play(conn, in)
				}
			})
			p := plan(request.NewConnection, s.address, 30)
			p.Expect = []request.StatusRange{{From: 200, To: 299}}
			if c.body != nil {
				p.Target.Method, p.Target.Body, p.Rate = "POST", c.body, c.rate
			}
			if c.firstByte > 0 {
				p.Limits.FirstByteNs = c.firstByte
			}
			if c.wholly > 0 {
				p.Limits.WholeNs = c.wholly
			}
			list, _ := sendSome(t, p, 3)
			for i, r := range list {
				if r.End != c.want || r.Status != c.status || r.Instance != c.instance || r.BytesReceived != c.bytes {
					t.Fatalf("request %d: %+v, status %d, instance %q, %d bytes", i, r.End, r.Status, r.Instance, r.BytesReceived)
				}
				if got := request.Classify(p.Mode, p.Expect, r.End, r.Status); got != c.outcome {
					t.Fatalf("request %d is %s", i, got)
				}
				if r.PlannedNs > r.SentNs || r.SentNs > r.EndedNs || r.SentNs != r.ConnOpenedNs || r.Reused || r.ConnRequests != 0 || r.Remote != s.address {
					t.Fatalf("request %d: %+v", i, r)
				}
				if r.End.Kind != request.EndAnswered && !s.saw(r.Local) {
					t.Fatalf("request %d came from %s, which the server did not see", i, r.Local)
				}
				if limit := max(c.firstByte, c.wholly); limit > 0 && r.EndedNs-r.SentNs < limit {
					t.Fatalf("request %d ended after %d ns of %d", i, r.EndedNs-r.SentNs, limit)
				}
			}
		})
	}
}

// awaitRead waits until the client's kernel has all that was said (TIOCOUTQ, tcp(7)) and the client had time to read it.
func awaitRead(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	for left := 1; left > 0; {
		_ = raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
}

// TestEndsBeforeTheRequestIsWritten: the server does not read what is being sent.
func TestEndsBeforeTheRequestIsWritten(t *testing.T) {
	t.Parallel()
	large := make([]byte, 32<<20) // more than the buffers of both sides hold
	for _, c := range []struct {
		name   string
		play   func(c *net.TCPConn, in *bufio.Reader, done <-chan struct{})
		limit  time.Duration
		ends   []request.End
		status int
	}{
		{"reset", func(c *net.TCPConn, in *bufio.Reader, _ <-chan struct{}) {
			_, _ = in.ReadByte()
			reset(c)
		}, patience, []request.End{
			{Kind: request.EndErrno, Phase: record.PhaseSend, Errno: "ECONNRESET"},
			{Kind: request.EndErrno, Phase: record.PhaseSend, Errno: "EPIPE"},
		}, 0},
		{"stalled", func(_ *net.TCPConn, in *bufio.Reader, done <-chan struct{}) {
			<-done
			untilGone(in)
		}, 100 * time.Millisecond, []request.End{{Kind: request.EndTimeout, Phase: record.PhaseSend}}, 0},
		{"answered early", func(c *net.TCPConn, in *bufio.Reader, _ <-chan struct{}) {
			_, _ = in.ReadByte()
			say(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = c.CloseWrite()
			untilGone(in)
		}, patience, []request.End{{Kind: request.EndAnswered, Phase: record.PhaseDone}}, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			s := serve(t, func(_ int, conn *net.TCPConn, in *bufio.Reader) { c.play(conn, in, done) })
			p := plan(request.KeepAlive, s.address, 1)
			p.Target.Method, p.Target.Body = "POST", large
			p.Limits.FirstByteNs = int64(c.limit)
			d := drive(t, p, nil)
			d.request()
			r := d.ended(t, 1)[0]
			close(done)
			if !slices.Contains(c.ends, r.End) || r.Status != c.status {
				t.Errorf("%+v, status %d", r.End, r.Status)
			}
			if d.users[0].count != 0 {
				t.Error("a connection in the middle of a request is kept")
			}
		})
	}
}

// TestRefused: nobody listens where somebody did.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := faultserver.Start(t, faultserver.CloseListener, "")
	s.Act()
	to := netip.MustParseAddrPort(s.Address())
	list, _ := sendSome(t, plan(request.NewConnection, to, 100), 3)
	for i, r := range list {
		if r.End != (request.End{Kind: request.EndErrno, Phase: record.PhaseConnect, Errno: "ECONNREFUSED"}) || !r.Local.IsValid() || r.Remote != to {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

// TestAnotherProtocol: a server that speaks first, and not HTTP.
func TestAnotherProtocol(t *testing.T) {
	t.Parallel()
	s := faultserver.Start(t, faultserver.Stall, "")
	list, _ := sendSome(t, plan(request.KeepAlive, netip.MustParseAddrPort(s.Address()), 100), 3)
	for i, r := range list {
		if r.End.Kind != request.EndBadAnswer || r.End.Message == "" || r.BytesReceived == 0 {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

// TestConnectTimeout: a full accept queue lets no connection come up.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	to := localAddress(fd)
	held, err := net.Dial("tcp", to.String()) // the one that a queue of length 0 takes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	p := plan(request.NewConnection, to, 50)
	p.Limits.ConnectNs = int64(100 * time.Millisecond)
	list, _ := sendSome(t, p, 3)
	for i, r := range list {
		if r.End != (request.End{Kind: request.EndTimeout, Phase: record.PhaseConnect}) || r.EndedNs-r.SentNs < p.Limits.ConnectNs {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

// TestOwnFailure: a link-local address without its link cannot even be tried.
func TestOwnFailure(t *testing.T) {
	t.Parallel()
	p := plan(request.NewConnection, netip.MustParseAddrPort("[fe80::1]:80"), 100)
	list, _ := sendSome(t, p, 2)
	for i, r := range list {
		if r.End.Kind != request.EndErrno || r.End.Phase != record.PhaseConnect || request.Classify(p.Mode, nil, r.End, 0) != record.ClientLimited {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	to := netip.MustParseAddrPort("127.0.0.1:80")
	for name, change := range map[string]func(*request.Plan){
		"no rate":      func(p *request.Plan) { p.Rate = 0 },
		"no users":     func(p *request.Plan) { p.Users = 0 },
		"another mode": func(p *request.Plan) { p.Mode = request.HTTP2 },
	} {
		p := plan(request.KeepAlive, to, 1)
		change(&p)
		if e, err := Start(p, newResults()); err == nil || e != nil || fault.CodeOf(err) != fault.Usage || fault.NextOf(err) == "" {
			t.Errorf("%s: engine %v, error %v", name, e, err)
		}
	}
}

func TestSymbol(t *testing.T) {
	t.Parallel()
	for errno, want := range map[unix.Errno]string{unix.ECONNRESET: "ECONNRESET", unix.Errno(4000): "errno 4000"} {
		if got := request.Symbol(errno); got != want {
			t.Error(fmt.Sprint(got, " is not ", want))
		}
	}
}
