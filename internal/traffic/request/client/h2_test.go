package client

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// h2cServer is net/http's server, with HTTP/2 by prior knowledge and nothing else.
func h2cServer(t *testing.T, h http.HandlerFunc, more ...func(*http.Server)) (addr string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	for _, f := range more {
		f(srv.Config)
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	addr := h2cServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if got := fmt.Sprintf("%s %s %s %s %s %q", r.Proto, r.Method, r.URL, r.Host, r.Header.Get("X-Token"), body); got != `HTTP/2.0 POST /a?b=c shop.example t "payload"` {
			t.Errorf("the server saw %s", got)
		}
		w.Header().Set(instanceHeader, "web-1")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, strings.Repeat("x", 2*streamWindow))
	})
	p := planFor(t, request.HTTP2, addr)
	p.Target.Method, p.Target.Path, p.Target.Body, p.Target.Authority = "POST", "/a?b=c", []byte("payload"), "shop.example"
	p.Target.Headers = []request.Header{{Name: "X-Token", Value: "t"}}
	r := newRig(t, p)
	for i := range connectionWindow/(2*streamWindow) + 1 { // more than each window
		res := r.send(t)
		r.want(t, res, record.OK, record.PhaseDone)
		if res.Instance != "web-1" || res.BytesReceived < 2*streamWindow || res.ConnRequests != i || res.Reused != (i > 0) || res.Remote.String() != addr {
			t.Fatalf("request %d: %+v", i, res)
		}
	}
}

func TestHTTP2LargeHeader(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("v", 50_000) // needs CONTINUATION
	addr := h2cServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Large") != value {
			t.Errorf("a header of %d bytes arrived", len(r.Header.Get("X-Large")))
		}
	})
	p := planFor(t, request.HTTP2, addr)
	p.Target.Headers = []request.Header{{Name: "X-Large", Value: value}}
	r := newRig(t, p)
	for range 2 {
		r.want(t, r.send(t), record.OK, record.PhaseDone)
	}
}

// h2Faults are what a server does to a stream whose header it has read. The response's header is plain HTTP's, where gRPC is meant to fail alike.
var h2Faults = []struct {
	name    string
	do      func(s *h2Server, id uint32)
	outcome record.RequestOutcome
	phase   record.RequestPhase
	message string
}{
	{"reset before", func(s *h2Server, _ uint32) { rst(s.conn) }, record.ResetBeforeResponse, record.PhaseFirstByte, ""},
	{"reset in the body", func(s *h2Server, id uint32) { s.half(id); rst(s.conn) }, record.ResetMidResponse, record.PhaseBody, ""},
	{"closed before", func(*h2Server, uint32) {}, record.EOFBeforeResponse, record.PhaseFirstByte, ""},
	{"closed in the body", func(s *h2Server, id uint32) { s.half(id) }, record.Truncated, record.PhaseBody, ""},
	{"closed in a frame", func(s *h2Server, id uint32) { s.half(id); _, _ = s.conn.Write([]byte{0, 0}) }, record.Truncated, record.PhaseBody, ""},
	{"silence", func(s *h2Server, _ uint32) { s.idle() }, record.ResponseTimeout, record.PhaseFirstByte, ""},
	{"silence in the body", func(s *h2Server, id uint32) { s.half(id); s.idle() }, record.ResponseTimeout, record.PhaseBody, ""},
	{"stream reset before", func(s *h2Server, id uint32) { _ = s.WriteRSTStream(id, http2.ErrCodeInternal); s.idle() }, record.ResetBeforeResponse, record.PhaseFirstByte, "INTERNAL_ERROR"},
	{"stream reset in the body", func(s *h2Server, id uint32) { s.half(id); _ = s.WriteRSTStream(id, http2.ErrCodeCancel); s.idle() }, record.ResetMidResponse, record.PhaseBody, "CANCEL"},
	{"refused", func(s *h2Server, id uint32) { _ = s.WriteRSTStream(id, http2.ErrCodeRefusedStream); s.idle() }, record.GoawayUnprocessed, record.PhaseFirstByte, "REFUSED_STREAM"},
	{"goaway without it", func(s *h2Server, id uint32) {
		_ = s.WriteGoAway(id-2, http2.ErrCodeNo, []byte("drain\n"))
		s.idle()
	}, record.GoawayUnprocessed, record.PhaseFirstByte, "GOAWAY NO_ERROR: drain "},
	{"no status", func(s *h2Server, id uint32) { s.header(id, true, "server", "x"); s.idle() }, record.ProtocolError, record.PhaseBody, "HTTP/2: a header without a status"},
	{"a status that is none", func(s *h2Server, id uint32) { s.header(id, true, ":status", "ok"); s.idle() }, record.ProtocolError, record.PhaseBody, "HTTP/2: a header without a status"},
	{"an interim response as the last", func(s *h2Server, id uint32) { s.header(id, true, ":status", "100"); s.idle() }, record.ProtocolError, record.PhaseBody, "HTTP/2: an interim response as the last"},
	{"an invalid header", func(s *h2Server, id uint32) { s.header(id, true, ":status", "200", "Upper", "x"); s.idle() }, record.ProtocolError, record.PhaseBody, `HTTP/2: invalid header field name "Upper"`},
	{"a second header", func(s *h2Server, id uint32) { s.half(id); s.header(id, true, ":status", "200"); s.idle() }, record.ProtocolError, record.PhaseBody, "HTTP/2: a second header"},
	{"a trailer that is not the end", func(s *h2Server, id uint32) { s.half(id); s.header(id, false, "grpc-status", "0"); s.idle() }, record.ProtocolError, record.PhaseBody, "HTTP/2: a second header"},
	{"a header too large", func(s *h2Server, id uint32) {
		fields := []string{":status", "200"}
		for range 30 { // small on the wire: all but the first are in the table
			fields = append(fields, "x-large", strings.Repeat("v", 3000))
		}
		s.header(id, true, fields...)
		s.idle()
	}, record.ProtocolError, record.PhaseBody, "HTTP/2: a header larger than 64 KiB"},
	{"a body before its header", func(s *h2Server, id uint32) { _ = s.WriteData(id, true, []byte("x")); s.idle() }, record.ProtocolError, record.PhaseFirstByte, "HTTP/2: a body before its header"},
	{"a push", func(s *h2Server, id uint32) {
		_ = s.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true})
		s.idle()
	}, record.ProtocolError, record.PhaseFirstByte, "HTTP/2: a push, which was forbidden"},
	{"a frame out of order", func(s *h2Server, id uint32) { _ = s.WriteContinuation(id, true, nil); s.idle() }, record.ProtocolError, record.PhaseFirstByte, "HTTP/2: PROTOCOL_ERROR"},
	{"a window too large", func(s *h2Server, _ uint32) { _ = s.WriteWindowUpdate(0, 1<<31-1); s.idle() }, record.ProtocolError, record.PhaseFirstByte, "HTTP/2: a window that is too large"},
	{"an acknowledgement too many", func(s *h2Server, _ uint32) { _ = s.WriteSettingsAck(); s.idle() }, record.ProtocolError, record.PhaseFirstByte, "HTTP/2: SETTINGS acknowledged that were not sent"},
	{"a frame too large", func(s *h2Server, _ uint32) { _, _ = s.conn.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0}); s.idle() }, record.ProtocolError, record.PhaseFirstByte, "no HTTP/2: a frame that is too large"},
}

// half is a response of which something is missing.
func (s *h2Server) half(id uint32) {
	s.header(id, false, ":status", "200", "content-type", "application/grpc", "x-instance", "a")
	_ = s.WriteData(id, false, []byte("half"))
}

func TestHTTP2Faults(t *testing.T) {
	t.Parallel()
	for _, m := range []request.Mode{request.HTTP2, request.GRPC} {
		for _, f := range h2Faults {
			t.Run(string(m)+" "+f.name, func(t *testing.T) {
				t.Parallel()
				addr := listenH2(t, func(s *h2Server, n int) {
					for k := 0; ; k++ {
						id := s.wholeRequest()
						switch {
						case id == 0:
							return
						case n == 0 && k == 1:
							f.do(s, id)
							return
						}
						s.whole(m, id)
					}
				})
				p := planFor(t, m, addr)
				r := newRig(t, p)
				r.want(t, r.send(t), record.OK, record.PhaseDone)
				limit(&r.plan, f.outcome, f.phase)
				res := r.send(t)
				r.want(t, res, f.outcome, f.phase)
				if !res.Reused || res.ConnRequests != 1 || res.Instance != "a" || res.End.Message != f.message || res.Remote.String() != addr {
					t.Errorf("want the second request on the connection, and %q: %+v", f.message, res)
				}
				if m == request.GRPC && res.Status != noGRPCStatus || m == request.HTTP2 && res.Status != 0 {
					t.Errorf("status %d without an answer", res.Status)
				}
			})
		}
	}
}

// whole answers with nothing wrong.
func (s *h2Server) whole(m request.Mode, id uint32) {
	if m == request.HTTP2 {
		s.header(id, true, ":status", "200", "x-instance", "a")
		return
	}
	s.header(id, false, ":status", "200", "content-type", "application/grpc", "x-instance", "a")
	_ = s.WriteData(id, false, grpcMessage(nil))
	s.header(id, true, "grpc-status", "0")
}

func TestHTTP2NoServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, says string }{
		{"HTTP/1.1", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"},
		{"PING first", "\x00\x00\x08\x06\x00\x00\x00\x00\x00........"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, func(conn *net.TCPConn, _ int) { fmt.Fprint(conn, c.says); hang(conn) })
			for _, m := range []request.Mode{request.HTTP2, request.GRPC, request.GRPCStream} {
				r := newRig(t, planFor(t, m, addr))
				res := r.send(t) // what was said may have come before the request was out
				if got := request.Classify(m, nil, res.End, res.Status); got != record.ProtocolError {
					t.Errorf("%s: %s: %+v", m, got, res.End)
				}
			}
		})
	}
}

func TestHTTP2UnexpectedStatusAndLength(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method, status, length string
		body                         int
		outcome                      record.RequestOutcome
		phase                        record.RequestPhase
	}{
		{"503", "GET", "503", "0", 0, record.HTTPError, record.PhaseDone},
		{"shorter than announced", "GET", "200", "10", 4, record.Truncated, record.PhaseBody},
		{"longer than announced", "GET", "200", "2", 4, record.ProtocolError, record.PhaseBody},
		{"as announced", "GET", "200", "4", 4, record.OK, record.PhaseDone},
		{"HEAD announces and sends nothing", "HEAD", "200", "4", 0, record.OK, record.PhaseDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := listenH2(t, func(s *h2Server, _ int) {
				id := s.request()
				s.header(id, c.body == 0, ":status", c.status, "content-length", c.length)
				if c.body > 0 {
					_ = s.WriteData(id, true, make([]byte, c.body))
				}
				s.idle()
			})
			p := planFor(t, request.HTTP2, addr)
			p.Target.Method = c.method
			r := newRig(t, p)
			r.want(t, r.send(t), c.outcome, c.phase)
		})
	}
}

// After a GOAWAY the streams that were taken on go on, those above fail alone, and the next request goes to a new connection.
func TestHTTP2Goaway(t *testing.T) {
	t.Parallel()
	two, goOn, gone := make(chan uint32, 2), make(chan struct{}), make(chan struct{})
	addr := listenH2(t, func(s *h2Server, n int) {
		if n > 0 {
			for id := s.request(); id != 0; id = s.request() {
				s.whole(request.HTTP2, id)
			}
			return
		}
		s.whole(request.HTTP2, s.request())
		taken := s.request()
		two <- taken
		two <- s.request()
		s.goaway(1<<31 - 1) // a first warning
		s.goaway(taken)
		<-goOn
		s.whole(request.HTTP2, taken)
		s.idle() // until the client, which has nothing more under way, closes
		close(gone)
	})
	r := newRig(t, planFor(t, request.HTTP2, addr))
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	a := r.async(t)
	await(t, two, "the request that is taken on")
	b := r.async(t)
	await(t, two, "the one that is not")
	lost := await(t, b, "the end of the stream above the last")
	r.want(t, lost, record.GoawayUnprocessed, record.PhaseFirstByte)
	r.wantReconnects(t, 0)
	again := r.send(t)
	r.want(t, again, record.OK, record.PhaseDone)
	if again.Reused || again.Local == lost.Local {
		t.Errorf("a connection that was announced to end took another stream: %+v", again)
	}
	r.wantReconnects(t, 1)
	close(goOn)
	kept := await(t, a, "the stream that was taken on")
	r.want(t, kept, record.OK, record.PhaseDone)
	if kept.Local != lost.Local {
		t.Error("it was sent again")
	}
	await(t, gone, "the end of the connection")
}

// A GOAWAY that names an error is none in order for those it cuts.
func TestHTTP2GoawayWithError(t *testing.T) {
	t.Parallel()
	addr := listenH2(t, func(s *h2Server, n int) {
		if id := s.request(); n == 0 {
			_ = s.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil)
		} else {
			s.whole(request.HTTP2, id)
		}
		s.idle()
	})
	r := newRig(t, planFor(t, request.HTTP2, addr))
	res := r.send(t)
	r.want(t, res, record.GoawayUnprocessed, record.PhaseFirstByte)
	if res.End.Message != "GOAWAY ENHANCE_YOUR_CALM" {
		t.Errorf("%+v", res.End)
	}
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	r.wantReconnects(t, 0)
}

func TestHTTP2EndsWhileIdle(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *h2Server){
		"fin":    func(s *h2Server) { _ = s.conn.Close() },
		"rst":    func(s *h2Server) { rst(s.conn) },
		"goaway": func(s *h2Server) { s.goaway(1); s.idle() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := make(chan struct{})
			addr := listenH2(t, func(s *h2Server, n int) {
				s.whole(request.HTTP2, s.request())
				if n == 0 {
					<-now
					end(s)
				}
				s.idle()
			})
			r := newRig(t, planFor(t, request.HTTP2, addr))
			r.want(t, r.send(t), record.OK, record.PhaseDone)
			close(now)
			g := &r.sender.(*http2Sender).users[0]
			waitFor(t, "the reader to notice", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return len(g.conns) == 0
			})
			res := r.send(t)
			r.want(t, res, record.OK, record.PhaseDone)
			if res.Reused {
				t.Error("the ended connection was used again")
			}
			r.wantReconnects(t, 1)
		})
	}
}

// A server that closes or turns away each connection before it carried anything is not asked for ever.
func TestHTTP2UnbornConnections(t *testing.T) {
	t.Parallel()
	closes := listen(t, func(c *net.TCPConn, _ int) { _ = c.CloseWrite(); hang(c) })
	turnsAway := listenH2(t, func(s *h2Server, _ int) { s.goaway(0); s.idle() })
	for range 20 { // the request and the end cross in either order
		for addr, want := range map[string]record.RequestOutcome{closes: record.EOFBeforeResponse, turnsAway: record.GoawayUnprocessed} {
			r := newRig(t, planFor(t, request.HTTP2, addr))
			res := r.send(t)
			if got := request.Classify(request.HTTP2, nil, res.End, 0); got != want {
				t.Fatalf("%s, want %s: %+v", got, want, res.End)
			}
		}
	}
}

// Requests share their user's connection, up to what the server allows on one; those that wait for it while it is opened end with it.
func TestHTTP2SharesConnections(t *testing.T) {
	t.Parallel()
	arrived, settle, answer := make(chan uint32, 4), make(chan struct{}), make(chan struct{})
	addr := listen(t, func(c *net.TCPConn, n int) {
		_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
		s := newH2Server(c)
		id := s.request()
		arrived <- id
		if n == 0 {
			<-settle
		}
		_ = s.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
		ids := []uint32{id}
		if n == 0 {
			id := s.request()
			arrived <- id
			ids = append(ids, id)
		}
		<-answer
		for _, id := range ids {
			s.whole(request.HTTP2, id)
		}
		s.idle()
	})
	r := newRig(t, planFor(t, request.HTTP2, addr))
	a := r.async(t)
	await(t, arrived, "the first request, which waits for nothing")
	b := r.async(t)
	close(settle)
	await(t, arrived, "the second, on the same connection")
	c := r.async(t)
	await(t, arrived, "the third, on another")
	close(answer)
	x, y, z := await(t, a, "an answer"), await(t, b, "an answer"), await(t, c, "an answer")
	for _, res := range []request.Result{x, y, z} {
		r.want(t, res, record.OK, record.PhaseDone)
	}
	if x.Local != y.Local || y.ConnRequests != 1 || !y.Reused || z.Local == x.Local || z.Reused {
		t.Errorf("three requests, two to a connection:\n%+v\n%+v\n%+v", x, y, z)
	}
	r.wantReconnects(t, 0)
}

func TestHTTP2WaitersEndWithTheOpening(t *testing.T) {
	t.Parallel()
	arrived, end := make(chan struct{}), make(chan struct{})
	addr := listen(t, func(c *net.TCPConn, _ int) {
		_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
		close(arrived)
		<-end
		rst(c)
	})
	r := newRig(t, planFor(t, request.HTTP2, addr))
	a := r.async(t)
	await(t, arrived, "the first request")
	_, st, o, mine := r.sender.(*http2Sender).users[0].find()
	if st != nil || mine {
		t.Fatal("a second request would not have waited")
	}
	close(end)
	r.want(t, await(t, a, "the first end"), record.ResetBeforeResponse, record.PhaseFirstByte)
	await(t, o.done, "the end of the opening")
	waiter := begin(t.Context(), r.plan, 0, 1)
	waiter.as(o.failed)
	r.want(t, waiter.Result, record.ResetBeforeResponse, record.PhaseSend)
	if waiter.Remote.String() != addr || waiter.ConnOpenedNs == 0 || waiter.EndedNs == 0 {
		t.Errorf("the waiter does not know what it waited for: %+v", waiter.Result)
	}
}

// A stream that was to be opened on a connection that ended meanwhile has lost nothing: it is opened on another.
func TestHTTP2NotTaken(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	addr := listenH2(t, func(s *h2Server, n int) {
		s.whole(request.HTTP2, s.request())
		if n == 0 {
			<-end
			return
		}
		s.idle()
	})
	r := newRig(t, planFor(t, request.HTTP2, addr))
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	s := r.sender.(*http2Sender)
	c, st, _, _ := s.users[0].find()
	if st == nil {
		t.Fatal("no stream on the connection that is idle")
	}
	close(end)
	waitFor(t, "the reader to notice", func() bool {
		s.users[0].mu.Lock()
		defer s.users[0].mu.Unlock()
		return len(s.users[0].conns) == 0
	})
	a := begin(t.Context(), r.plan, 0, 1)
	if c.open(a, st, s.fields, true) || a.End.Kind != "" {
		t.Fatalf("opened on a connection that had ended, or failed with it: %+v", a.End)
	}
	s.send(a)
	r.want(t, a.Result, record.OK, record.PhaseDone)
	if a.Reused {
		t.Errorf("%+v", a.Result)
	}
	r.wantReconnects(t, 1)
}

// Whoever waits for others to write waits no longer than it may.
func TestHTTP2WaitsForWritersNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	addr := listenH2(t, func(s *h2Server, _ int) {
		s.whole(request.HTTP2, s.request())
		s.idle()
	})
	r := newRig(t, planFor(t, request.HTTP2, addr))
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	c := r.sender.(*http2Sender).users[0].conns[0]
	c.writing <- struct{}{}
	r.plan.Limits.WholeNs = short
	r.want(t, r.send(t), record.ResponseTimeout, record.PhaseSend)
	<-c.writing
}

// A server that grants windows but reads nothing ends the connection for all: half a frame is out.
func TestHTTP2SendTimeout(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	addr := listenH2(t, func(s *h2Server, _ int) {
		s.request()
		_ = s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
		_ = s.WriteWindowUpdate(0, 1<<30)
		<-end
	})
	t.Cleanup(func() { close(end) })
	p := planFor(t, request.HTTP2, addr)
	p.Target.Method, p.Target.Body, p.Limits.WholeNs = "POST", make([]byte, 8<<20), long
	r := newRig(t, p)
	r.want(t, r.send(t), record.ResponseTimeout, record.PhaseSend)
	if g := &r.sender.(*http2Sender).users[0]; len(g.conns) != 0 {
		t.Error("the connection is used on")
	}
}

// A response may be whole before its request is: the rest is not sent.
func TestHTTP2EarlyAnswer(t *testing.T) {
	t.Parallel()
	left := make(chan http2.ErrCode, 1)
	addr := listenH2(t, func(s *h2Server, _ int) {
		id := s.request()
		s.header(id, true, ":status", "413")
		if f, ok := next(s, every[*http2.RSTStreamFrame]); ok {
			left <- f.ErrCode
		}
		s.idle()
	})
	p := planFor(t, request.HTTP2, addr)
	p.Target.Method, p.Target.Body = "POST", make([]byte, 1<<20)
	r := newRig(t, p)
	res := r.send(t)
	r.want(t, res, record.HTTPError, record.PhaseDone)
	if code := await(t, left, "word that the rest will not come"); code != http2.ErrCodeCancel {
		t.Errorf("%v", code)
	}
}

// The body waits for windows, of the stream and of the connection, and for no longer than the whole may take.
func TestHTTP2FlowControl(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789"), 10_000)
	addr := listenH2(t, func(s *h2Server, _ int) {
		id := s.request()
		// The stream's window is 10 bytes at first, more by and by; the connection's 65,535.
		_ = s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 20})
		_ = s.WriteWindowUpdate(id, 1_000_000)
		var got []byte
		for {
			f, ok := next(s, every[*http2.DataFrame])
			if !ok {
				return
			}
			if got = append(got, f.Data()...); len(got) == 65_535 {
				_ = s.WriteWindowUpdate(0, 1_000_000)
			}
			if f.StreamEnded() {
				break
			}
		}
		status := "200"
		if !bytes.Equal(got, body) {
			status = "500"
		}
		s.header(id, true, ":status", status)
		s.idle()
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	p := planFor(t, request.HTTP2, addr)
	p.Target.Method, p.Target.Body = "POST", body
	r := newRig(t, p)
	r.want(t, r.send(t), record.OK, record.PhaseDone)

	stuck := listenH2(t, func(s *h2Server, _ int) { s.idle() })
	p = planFor(t, request.HTTP2, stuck)
	p.Target.Method, p.Target.Body, p.Limits.WholeNs = "POST", body, long
	r = newRig(t, p)
	r.want(t, r.send(t), record.ResponseTimeout, record.PhaseSend)
}

// A request that is given up is cancelled, and its connection is used on.
func TestHTTP2TimeoutKeepsTheConnection(t *testing.T) {
	t.Parallel()
	cancelled := make(chan uint32, 1)
	addr := listenH2(t, func(s *h2Server, _ int) {
		s.request()
		if f, ok := next(s, every[*http2.RSTStreamFrame]); ok {
			cancelled <- f.StreamID
		}
		s.whole(request.HTTP2, s.request())
		s.idle()
	})
	p := planFor(t, request.HTTP2, addr)
	p.Limits.FirstByteNs = short
	r := newRig(t, p)
	r.want(t, r.send(t), record.ResponseTimeout, record.PhaseFirstByte)
	if id := await(t, cancelled, "the cancellation"); id != 1 {
		t.Errorf("stream %d was cancelled", id)
	}
	r.plan.Limits.FirstByteNs = int64(time.Minute)
	res := r.send(t)
	r.want(t, res, record.OK, record.PhaseDone)
	if !res.Reused {
		t.Error("another connection was opened")
	}
}

func TestHTTP2AnswersPings(t *testing.T) {
	t.Parallel()
	ponged := make(chan [8]byte, 1)
	addr := listenH2(t, func(s *h2Server, _ int) {
		id := s.request()
		_ = s.WritePing(false, [8]byte{1, 2, 3})
		if f, ok := next(s, func(f *http2.PingFrame) bool { return f.IsAck() }); ok {
			ponged <- f.Data
		}
		s.whole(request.HTTP2, id)
		s.idle()
	})
	r := newRig(t, planFor(t, request.HTTP2, addr))
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	if got := await(t, ponged, "the answer to a ping"); got != [8]byte{1, 2, 3} {
		t.Errorf("%v", got)
	}
}

// net/http's own shutdown: announced, so that nothing is lost.
func TestHTTP2Shutdown(t *testing.T) {
	t.Parallel()
	var server *http.Server
	addr := h2cServer(t, func(http.ResponseWriter, *http.Request) {}, func(s *http.Server) { server = s })
	r := newRig(t, planFor(t, request.HTTP2, addr))
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := &r.sender.(*http2Sender).users[0]
	waitFor(t, "the connection to end", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.conns) == 0
	})
	r.want(t, r.send(t), record.Refused, record.PhaseConnect)
}
