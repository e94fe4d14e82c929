package client

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

const okResponse = "HTTP/1.1 200 OK\r\nX-Instance: a\r\nContent-Length: 2\r\n\r\nhi"

// http1Faults are what a server does to a request that it has read.
var http1Faults = []struct {
	name    string
	do      func(c *net.TCPConn)
	outcome record.RequestOutcome
	phase   record.RequestPhase
}{
	{"an unexpected status", func(c *net.TCPConn) {
		fmt.Fprint(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		hang(c)
	}, record.HTTPError, record.PhaseDone},
	{"reset before", rst, record.ResetBeforeResponse, record.PhaseFirstByte},
	{"reset in the body", func(c *net.TCPConn) {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		rst(c)
	}, record.ResetMidResponse, record.PhaseBody},
	{"closed before", func(*net.TCPConn) {}, record.EOFBeforeResponse, record.PhaseFirstByte},
	{"closed in the header", func(c *net.TCPConn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-") }, record.Truncated, record.PhaseBody},
	{"closed in the body", func(c *net.TCPConn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") }, record.Truncated, record.PhaseBody},
	{"closed in a chunk", func(c *net.TCPConn) {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe")
	}, record.Truncated, record.PhaseBody},
	{"silence", func(c *net.TCPConn) { hang(c) }, record.ResponseTimeout, record.PhaseFirstByte},
	{"silence in the body", func(c *net.TCPConn) {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		hang(c)
	}, record.ResponseTimeout, record.PhaseBody},
	{"no HTTP", func(c *net.TCPConn) { fmt.Fprint(c, "SSH-2.0-OpenSSH_9.6\r\n") }, record.ProtocolError, record.PhaseBody},
}

func TestHTTP1NewConnectionFaults(t *testing.T) {
	t.Parallel()
	for _, f := range http1Faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, func(c *net.TCPConn, _ int) {
				if readRequest(bufio.NewReader(c)) {
					f.do(c)
				}
			})
			p := planFor(t, request.NewConnection, addr)
			limit(&p, f.outcome, f.phase)
			r := newRig(t, p)
			res := r.send(t)
			r.want(t, res, f.outcome, f.phase)
			if res.Reused || res.ConnRequests != 0 || res.Remote.String() != addr || !res.Local.IsValid() || res.ConnOpenedNs == 0 {
				t.Errorf("the connection is told wrong: %+v", res)
			}
			if (f.phase == record.PhaseBody || f.phase == record.PhaseDone) != (res.BytesReceived > 0) {
				t.Errorf("%d bytes received in phase %s", res.BytesReceived, f.phase)
			}
		})
	}
}

// limit shortens the one limit that a test is to reach.
func limit(p *request.Plan, outcome record.RequestOutcome, phase record.RequestPhase) {
	switch {
	case outcome != record.ResponseTimeout:
	case phase == record.PhaseFirstByte:
		p.Limits.FirstByteNs = short
	default:
		p.Limits.WholeNs = long
	}
}

func TestHTTP1KeepAliveFaults(t *testing.T) {
	t.Parallel()
	for _, f := range http1Faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, func(c *net.TCPConn, n int) {
				in := bufio.NewReader(c)
				for k := 0; readRequest(in); k++ {
					if k == 1 && n == 0 {
						f.do(c)
						return
					}
					fmt.Fprint(c, okResponse)
				}
			})
			r := newRig(t, planFor(t, request.KeepAlive, addr))
			r.want(t, r.send(t), record.OK, record.PhaseDone)
			before := r.plan.Limits
			limit(&r.plan, f.outcome, f.phase)
			res := r.send(t)
			r.plan.Limits = before
			r.want(t, res, f.outcome, f.phase)
			if !res.Reused || res.ConnRequests != 1 {
				t.Errorf("want the second request of the connection: %+v", res)
			}
			// Its head says of nobody that he answered; without a head, a had the connection.
			nobody := f.outcome == record.HTTPError || f.phase == record.PhaseBody && res.Instance == ""
			if nobody != (res.Instance == "") || !nobody && res.Instance != "a" {
				t.Errorf("answered by %q: %+v", res.Instance, res)
			}
			if f.outcome == record.HTTPError {
				return // and the connection stays
			}
			again := r.send(t)
			r.want(t, again, record.OK, record.PhaseDone)
			if again.Reused || again.Local == res.Local {
				t.Errorf("the request after a failure went over the failed connection: %+v", again)
			}
			r.wantReconnects(t, 0) // what ended under a request is its failure, not an end in order
		})
	}
}

func TestHTTP1AnswersInEveryForm(t *testing.T) {
	t.Parallel()
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprintf("%s %s %s %s %q", r.Method, r.URL, r.Host, r.Header.Get("X-Token"), body))
		w.Header().Set(instanceHeader, "web-1")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, strings.Repeat("x", 100_000)) // chunked
	}))
	t.Cleanup(srv.Close)
	p := planFor(t, request.KeepAlive, srv.Listener.Addr().String())
	p.Target.Method, p.Target.Path, p.Target.Body, p.Target.Authority = "POST", "/a?b=c", []byte("payload"), "shop.example"
	p.Target.Headers = []request.Header{{Name: "X-Token", Value: "t"}}
	r := newRig(t, p)
	for i := range 3 {
		res := r.send(t)
		r.want(t, res, record.OK, record.PhaseDone)
		if res.Instance != "web-1" || res.BytesReceived < 100_000 || res.ConnRequests != i || res.Reused != (i > 0) {
			t.Errorf("request %d: %+v", i, res)
		}
	}
	for _, s := range seen {
		if s != `POST /a?b=c shop.example t "payload"` {
			t.Errorf("the server saw %s", s)
		}
	}
}

func TestHTTP1BodyThatEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	addr := listen(t, func(c *net.TCPConn, _ int) {
		if readRequest(bufio.NewReader(c)) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\nall of it")
		}
	})
	r := newRig(t, planFor(t, request.KeepAlive, addr))
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	r.wantReconnects(t, 1)
}

// A connection that ends while it is idle is no loss, and its replacement is counted.
func TestKeepAliveEndsWhileIdle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(c *net.TCPConn)
	}{
		{"fin", func(c *net.TCPConn) { _ = c.Close() }},
		{"rst", rst},
		{"a word that was not asked for", func(c *net.TCPConn) { fmt.Fprint(c, "HTTP/1.1 408 Request Timeout\r\n\r\n"); hang(c) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			end := make(chan struct{})
			addr := listen(t, func(conn *net.TCPConn, n int) {
				in := bufio.NewReader(conn)
				for readRequest(in) {
					fmt.Fprint(conn, okResponse)
					if n == 0 {
						<-end
						c.end(conn)
						return
					}
				}
			})
			r := newRig(t, planFor(t, request.KeepAlive, addr))
			first := r.send(t)
			r.want(t, first, record.OK, record.PhaseDone)
			u := &r.sender.(*http1Sender).users[0]
			close(end)
			waitFor(t, "the watcher to notice", func() bool {
				u.mu.Lock()
				defer u.mu.Unlock()
				return len(u.idle) == 0
			})
			second := r.send(t)
			r.want(t, second, record.OK, record.PhaseDone)
			if second.Reused || second.Local == first.Local {
				t.Errorf("the ended connection was used again: %+v", second)
			}
			r.wantReconnects(t, 1)
			r.want(t, r.send(t), record.OK, record.PhaseDone)
			r.wantReconnects(t, 1)
		})
	}
}

// Even before its watcher has run, the end of an idle connection is seen.
func TestKeepAliveAsksTheKernel(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	addr := listen(t, func(c *net.TCPConn, _ int) {
		_ = c.CloseWrite()
		close(closed)
		hang(c)
	})
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := &connection{tcp: raw.(*net.TCPConn)}
	await(t, closed, "the FIN")
	waitFor(t, "the FIN to be seen", c.ended)
}

func TestKeepAliveUsesNoMoreConnectionsThanAtOnce(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	addr := listen(t, func(c *net.TCPConn, _ int) {
		in := bufio.NewReader(c)
		for readRequest(in) {
			arrived <- struct{}{}
			<-answer
			fmt.Fprint(c, okResponse)
		}
	})
	r := newRig(t, planFor(t, request.KeepAlive, addr))
	a, b := r.async(t), r.async(t)
	await(t, arrived, "the first request")
	await(t, arrived, "the second, beside the first")
	close(answer)
	if x, y := await(t, a, "an answer"), await(t, b, "an answer"); x.Reused || y.Reused || x.Local == y.Local {
		t.Errorf("two requests at once shared a connection: %v, %v", x.Local, y.Local)
	}
	if third := r.send(t); !third.Reused {
		t.Error("a third connection was opened with two idle ones")
	}
	<-arrived
}

// Connection: close is an end in order as well.
func TestKeepAliveConnectionClose(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") }))
	t.Cleanup(srv.Close)
	r := newRig(t, planFor(t, request.KeepAlive, srv.Listener.Addr().String()))
	for i := range 3 {
		res := r.send(t)
		r.want(t, res, record.OK, record.PhaseDone)
		if res.Reused {
			t.Error("a connection that was to close was used again")
		}
		r.wantReconnects(t, int64(i))
	}
}

// A server that answers before it has read everything, and closes, has answered.
func TestHTTP1EarlyAnswer(t *testing.T) {
	t.Parallel()
	addr := listen(t, func(c *net.TCPConn, _ int) {
		_, _ = bufio.NewReaderSize(c, 16).ReadString('\n')
		fmt.Fprint(c, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_ = c.CloseWrite()
		hang(c)
	})
	p := planFor(t, request.KeepAlive, addr)
	p.Target.Method, p.Target.Body = "POST", make([]byte, 1<<20)
	r := newRig(t, p)
	res := r.send(t)
	r.want(t, res, record.HTTPError, record.PhaseDone)
	if res.Status != 413 {
		t.Errorf("status %d", res.Status)
	}
}

// A server that takes nothing in keeps the request in its phase.
func TestHTTP1SendTimeout(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	addr := listen(t, func(c *net.TCPConn, _ int) { <-end })
	t.Cleanup(func() { close(end) })
	p := planFor(t, request.NewConnection, addr)
	// More than both ends' buffers: what is not read does not make the receiver's grow, and Linux's sender stops at 4 MiB.
	p.Target.Method, p.Target.Body, p.Limits.WholeNs = "POST", make([]byte, 8<<20), long
	r := newRig(t, p)
	r.want(t, r.send(t), record.ResponseTimeout, record.PhaseSend)
}
