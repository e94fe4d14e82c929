package held

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/wire/websocket"
)

func TestStopCloses(t *testing.T) {
	ended := make(chan error, 1)
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) {
		if p := upgrade(c, ""); p != nil {
			ended <- p.obey()
		}
	})
	k, e := start(t, planTo(request.WebSocket, s.address))
	k.await(t, 1)
	e.Stop()
	if c, ok := errors.AsType[*closed](<-ended); !ok || c.code != websocket.CloseNormal {
		t.Errorf("it ended with %v", c)
	}
	if results, _ := k.now(); len(results) != 1 {
		t.Errorf("its own end is a result: %+v", results)
	}
}

func TestOrderlyEnds(t *testing.T) {
	for _, code := range goodCodes {
		answers := make(chan error, 1)
		s := listen(t, func(_ *server, n int, c *net.TCPConn) {
			p := upgrade(c, "")
			if p == nil {
				return
			}
			if n > 0 {
				_ = p.obey()
				return
			}
			if p.pings(1) != nil {
				return
			}
			var payload []byte
			if code != websocket.CloseNoStatus {
				payload = websocket.ClosePayload(code, "going")
			}
			p.say(websocket.Close, payload)
			answers <- p.pings(-1) // then the FIN
		})
		h := byHand(t, planTo(request.WebSocket, s.address))
		h.exchanged(t)
		if c, ok := errors.AsType[*closed](<-answers); !ok || c.code != code {
			t.Errorf("%d: the close frame was answered by %v", code, c)
		}
		if _, reconnects := h.now(); reconnects != 0 {
			t.Errorf("%d: a reconnect before there was one", code)
		}
		h.exchanged(t)
		h.exchanged(t)
		h.Stop()
		results, reconnects := h.now()
		if reconnects != 1 || len(results) != 3 || len(failures(results)) > 0 || results[1].Reused || !results[2].Reused {
			t.Errorf("%d: %d reconnects, %+v", code, reconnects, results)
		}
	}
}

func TestAPingThatCrossesTheCloseIsRepeatedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		closes int // connections that answer their first ping with a close frame
		want   request.EndKind
	}{"once": {1, request.EndAnswered}, "twice": {2, request.EndGoaway}} {
		s := listen(t, func(_ *server, n int, conn *net.TCPConn) {
			p := upgrade(conn, "")
			if p == nil {
				return
			}
			if n >= c.closes {
				_ = p.obey()
				return
			}
			_, _, _ = p.in.Next()
			p.say(websocket.Close, websocket.ClosePayload(websocket.CloseGoingAway, ""))
			_ = p.pings(-1)
		})
		h := byHand(t, planTo(request.WebSocket, s.address))
		r := h.exchanged(t)
		if _, reconnects := h.now(); r.End.Kind != c.want || r.Reused || reconnects != 1 {
			t.Errorf("%s: %+v, %d reconnects", name, r, reconnects)
		}
	}
}

// ends are the ways in which a server breaks a WebSocket that is open.
var ends = []struct {
	name    string
	act     func(p *peer)
	want    request.End
	outcome record.RequestOutcome
}{
	{"fin", func(p *peer) { finish(p.Conn) }, request.End{Kind: request.EndEOF}, record.EOFBeforeResponse},
	{"rst", func(p *peer) { reset(p.Conn) }, request.End{Kind: request.EndErrno, Errno: "ECONNRESET"}, record.ResetBeforeResponse},
	{"fin within a frame", func(p *peer) { _, _ = p.Write([]byte{0x82, 5, 'a'}); finish(p.Conn) }, request.End{Kind: request.EndEOF}, record.EOFBeforeResponse},
	{"close 1011", func(p *peer) { p.say(websocket.Close, websocket.ClosePayload(1011, "")); _ = p.pings(-1) },
		request.End{Kind: request.EndStreamReset, Message: "close 1011"}, record.ResetBeforeResponse},
	{"close 1006", func(p *peer) { p.say(websocket.Close, websocket.ClosePayload(1006, "")); _ = p.pings(-1) },
		request.End{Kind: request.EndStreamReset, Message: "close 1006"}, record.ResetBeforeResponse},
	{"garbage", func(p *peer) { _, _ = io.WriteString(p, "HTTP/1.1 502 Bad Gateway\r\n\r\n"); _ = p.pings(-1) },
		request.End{Kind: request.EndBadAnswer, Message: "a reserved bit is set, but no extension was agreed on"}, record.ProtocolError},
	{"too big", func(p *peer) { _, _ = p.Write([]byte{0x82, 127, 0, 0, 0, 0, 1, 0, 0, 1}); _ = p.pings(-1) },
		request.End{Kind: request.EndBadAnswer, Message: "a message over 16 MiB"}, record.ProtocolError},
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// finish sends the FIN and waits for the client's.
func finish(c net.Conn) {
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
}

func TestEndsWhileNothingIsUnderWay(t *testing.T) {
	for _, c := range ends {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answered := make(chan struct{})
			s := listen(t, func(_ *server, _ int, conn *net.TCPConn) {
				if p := upgrade(conn, ""); p != nil && p.pings(1) == nil {
					<-answered // a reset would overtake the pong
					c.act(p)
				}
			})
			h := byHand(t, planTo(request.WebSocket, s.address))
			h.exchanged(t)
			close(answered)
			h.await(t, 2)
			h.Stop()
			results, reconnects := h.now()
			r, want := results[1], c.want
			want.Phase = record.PhaseFirstByte
			if len(results) != 2 || reconnects != 0 || r.End != want || !r.Reused || r.ConnRequests != 1 || r.Instance != "ws-1" ||
				r.PlannedNs != r.SentNs || r.SentNs != r.EndedNs || r.EndedNs < results[0].EndedNs {
				t.Errorf("%+v", results)
			}
			if o := request.Classify(request.WebSocket, nil, r.End, r.Status); o != c.outcome {
				t.Errorf("outcome %s", o)
			}
		})
	}
}

func TestEndsWithAnExchangeUnderWay(t *testing.T) {
	for _, c := range ends {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := listen(t, func(_ *server, n int, conn *net.TCPConn) {
				p := upgrade(conn, "")
				if p == nil {
					return
				}
				if n > 0 {
					_ = p.obey()
					return
				}
				if p.pings(1) != nil {
					return
				}
				if op, _, err := p.in.Next(); err == nil && op == websocket.Ping {
					c.act(p)
				}
			})
			h := byHand(t, planTo(request.WebSocket, s.address))
			h.exchanged(t)
			h.exchanged(t)
			h.exchanged(t)
			h.Stop()
			results, reconnects := h.now()
			failed := failures(results)
			want := c.want
			want.Phase = record.PhaseFirstByte
			if len(results) != 3 || len(failed) != 1 || reconnects != 0 || failed[0].End != want || !failed[0].Reused || failed[0].ConnRequests != 1 || failed[0].SentNs >= failed[0].EndedNs {
				t.Errorf("%d reconnects, %+v", reconnects, results)
			}
			if last := results[2]; last.End.Kind != request.EndAnswered || last.Reused {
				t.Errorf("after it %+v", last)
			}
		})
	}
}

func TestHandshakesThatFail(t *testing.T) {
	const good = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	say := func(answer string) func(*server, net.Conn) {
		return func(_ *server, c net.Conn) { _, _ = io.WriteString(c, answer); finish(c) }
	}
	for name, c := range map[string]struct {
		act    func(s *server, c net.Conn)
		want   request.End
		status int
	}{
		"503": {say("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\n"),
			request.End{Kind: request.EndAnswered, Phase: record.PhaseDone, Message: "the handshake was answered with status 503"}, 503},
		"200": {say("HTTP/1.1 200 OK\r\n\r\nhello"),
			request.End{Kind: request.EndAnswered, Phase: record.PhaseDone, Message: "the handshake was answered with status 200"}, 200},
		"no accept": {say(good + "\r\n"),
			request.End{Kind: request.EndBadAnswer, Phase: record.PhaseBody, Message: "the handshake's answer has a wrong Sec-WebSocket-Accept"}, 0},
		"another protocol": {say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
			request.End{Kind: request.EndBadAnswer, Phase: record.PhaseBody, Message: "the handshake's answer switches to no WebSocket"}, 0},
		"endless": {say(good + "X: " + strings.Repeat("x", 2*maxHandshake)),
			request.End{Kind: request.EndBadAnswer, Phase: record.PhaseBody, Message: "the head of the handshake's answer is over 64 KiB"}, 0},
		"garbage": {say("SSH-2.0-OpenSSH_9.2\r\n"),
			request.End{Kind: request.EndBadAnswer, Phase: record.PhaseBody, Message: "the handshake's answer is no HTTP"}, 0},
		"no byte":   {say(""), request.End{Kind: request.EndEOF, Phase: record.PhaseFirstByte}, 0},
		"half":      {say(good), request.End{Kind: request.EndEOF, Phase: record.PhaseBody}, 0},
		"reset":     {func(_ *server, c net.Conn) { reset(c) }, request.End{Kind: request.EndErrno, Phase: record.PhaseFirstByte, Errno: "ECONNRESET"}, 0},
		"silence":   {func(s *server, _ net.Conn) { <-s.quit }, request.End{Kind: request.EndTimeout, Phase: record.PhaseFirstByte}, 0},
		"a stall":   {func(s *server, c net.Conn) { _, _ = io.WriteString(c, good); <-s.quit }, request.End{Kind: request.EndTimeout, Phase: record.PhaseBody}, 0},
		"all right": {nil, request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := listen(t, func(s *server, _ int, conn *net.TCPConn) {
				if c.act == nil {
					if p := upgrade(conn, ""); p != nil {
						_ = p.obey()
					}
					return
				}
				if readHead(conn) {
					c.act(s, conn)
				}
			})
			p := planTo(request.WebSocket, s.address)
			if c.want.Kind == request.EndTimeout {
				p.Limits.FirstByteNs = int64(200 * time.Millisecond)
			}
			r := Once(t.Context(), p)
			if r.End != c.want || r.Status != c.status || r.Reused || r.User != 0 || r.Remote != s.address || !r.Local.IsValid() {
				t.Errorf("%+v", r)
			}
			if got := r.BytesReceived > 0; got != (c.want.Phase == record.PhaseBody || c.want.Phase == record.PhaseDone || c.act == nil) {
				t.Errorf("%d bytes received", r.BytesReceived)
			}
		})
	}
}

// readHead reads up to the end of a request's head.
func readHead(c net.Conn) bool {
	var head []byte
	for b := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, b...) {
		if _, err := c.Read(b); err != nil {
			return false
		}
	}
	return true
}

func TestAnExtensionThatNobodyOffered(t *testing.T) {
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) {
		r, err := http.ReadRequest(bufferOf(c))
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"+
			"Sec-WebSocket-Accept: "+websocket.AcceptKey(r.Header.Get("Sec-WebSocket-Key"))+"\r\n\r\n")
		finish(c)
	})
	if r := Once(t.Context(), planTo(request.WebSocket, s.address)); r.End.Kind != request.EndBadAnswer || !strings.Contains(r.End.Message, "extension") {
		t.Errorf("%+v", r)
	}
}

func TestTheHandshakeSaysWhatWasAsked(t *testing.T) {
	heads := make(chan *http.Request, 1)
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) {
		if r, err := http.ReadRequest(bufferOf(c)); err == nil {
			heads <- r
		}
	})
	p := planTo(request.WebSocket, s.address)
	p.Target.Path, p.Target.Authority = "/chat?room=1", "chat.example"
	p.Target.Headers = []request.Header{{Name: "Cookie", Value: "a=b"}, {Name: "Sec-WebSocket-Protocol", Value: "chat"}}
	Once(t.Context(), p)
	r := <-heads
	if r.Method != "GET" || r.RequestURI != "/chat?room=1" || r.Host != "chat.example" || r.Header.Get("Cookie") != "a=b" ||
		r.Header.Get("Sec-WebSocket-Protocol") != "chat" || r.Header.Get("Sec-WebSocket-Version") != "13" || len(r.Header.Get("Sec-WebSocket-Key")) != 24 {
		t.Errorf("%+v", r)
	}
}

func TestWhatTheServerSaysUnasked(t *testing.T) {
	pongs := make(chan string, 1)
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) {
		p := upgrade(c, "")
		if p == nil {
			return
		}
		_, _ = p.Write([]byte{0x01, 2, 'h', 'e'}) // the first fragment of a text
		p.say(websocket.Ping, []byte("alive?"))
		p.say(websocket.Pong, []byte("unasked"))
		_, _ = p.Write([]byte{0x80, 1, 'y'})
		for {
			op, payload, err := p.in.Next()
			if err != nil {
				return
			}
			if op == websocket.Pong {
				pongs <- string(payload)
				break
			}
			p.say(websocket.Pong, payload)
		}
		_ = p.obey()
	})
	h := byHand(t, planTo(request.WebSocket, s.address))
	h.exchanged(t)
	if pong := <-pongs; pong != "alive?" {
		t.Errorf("pong %q", pong)
	}
	h.exchanged(t)
	if results, _ := h.now(); len(failures(results)) > 0 {
		t.Errorf("failed %+v", failures(results))
	}
}

func TestAPongForTheLatestPingAnswersThoseBefore(t *testing.T) {
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) {
		p := upgrade(c, "")
		if p == nil {
			return
		}
		for range 2 {
			_, _, _ = p.in.Next()
		}
		_ = p.obey()
	})
	h := byHand(t, planTo(request.WebSocket, s.address))
	for range 3 {
		h.exchange()
	}
	results := h.await(t, 3)
	for i, r := range results {
		if r.End.Kind != request.EndAnswered || r.ConnRequests != i || r.EndedNs != results[0].EndedNs {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

func TestATimeoutRetiresTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(p *peer, last []byte) // what becomes of the exchange that is still under way on the retired connection
		want request.End
		on   int // exchanges that its connection had carried
	}{
		"pong":  {func(p *peer, last []byte) { p.say(websocket.Pong, last) }, request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, 2},
		"reset": {func(p *peer, _ []byte) { reset(p.Conn) }, request.End{Kind: request.EndErrno, Phase: record.PhaseFirstByte, Errno: "ECONNRESET"}, 2},
		"close": {func(p *peer, _ []byte) { p.say(websocket.Close, nil) }, request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone, late := make(chan error, 1), make(chan struct{})
			s := listen(t, func(_ *server, n int, conn *net.TCPConn) {
				p := upgrade(conn, "")
				switch {
				case p == nil:
				case n > 0:
					_ = p.obey()
				case p.pings(1) == nil:
					_, _, _ = p.in.Next()
					_, last, _ := p.in.Next()
					last = bytes.Clone(last)
					<-late
					c.act(p, last)
					gone <- p.pings(-1)
				}
			})
			p := planTo(request.WebSocket, s.address)
			h := byHand(t, p)
			h.exchanged(t)
			h.engine.plan.Limits.FirstByteNs = int64(100 * time.Millisecond)
			h.exchange()
			h.engine.plan.Limits.FirstByteNs = p.Limits.FirstByteNs
			h.exchange()
			failed := h.await(t, 2)[1]
			if failed.End != (request.End{Kind: request.EndTimeout, Phase: record.PhaseFirstByte}) || failed.ConnRequests != 1 || failed.EndedNs-failed.SentNs < int64(100*time.Millisecond) {
				t.Errorf("%+v", failed)
			}
			if r := h.exchanged(t); r.End.Kind != request.EndAnswered || r.Reused {
				t.Errorf("on a new connection: %+v", r)
			}
			close(late)
			if r := h.await(t, 4)[3]; r.End != c.want || r.ConnRequests != c.on {
				t.Errorf("still under way on the old one: %+v", r)
			}
			if err := <-gone; err == nil {
				t.Error("the old connection did not end")
			}
			if _, reconnects := h.now(); reconnects != 0 {
				t.Errorf("%d reconnects", reconnects)
			}
		})
	}
}

func TestConnectionsThatCannotBeOpened(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := l.Addr().(*net.TCPAddr).AddrPort()
	_ = l.Close()
	p := planTo(request.WebSocket, closedPort)
	h := byHand(t, p)
	for range 2 { // each exchange tries anew
		if r := h.exchanged(t); r.End != (request.End{Kind: request.EndErrno, Phase: record.PhaseConnect, Errno: "ECONNREFUSED"}) || r.Reused || r.Remote != closedPort {
			t.Errorf("%+v", r)
		}
	}
	p.Target.Host, p.Limits.DNSNs = "no-such-host.invalid", int64(500*time.Millisecond)
	if r := Once(t.Context(), p); r.End.Phase != record.PhaseDNS || request.Classify(request.WebSocket, nil, r.End, 0) != record.DNSFailure {
		t.Errorf("a name that is not there: %+v", r)
	}
}

func TestANameIsResolved(t *testing.T) {
	s := listen(t, func(_ *server, _ int, c *net.TCPConn) {
		if p := upgrade(c, ""); p != nil {
			_ = p.obey()
		}
	})
	p := planTo(request.WebSocket, s.address)
	p.Target.Host = "localhost"
	if r := Once(t.Context(), p); r.End.Kind != request.EndAnswered || r.Remote != s.address {
		t.Errorf("%+v", r)
	}
}

func TestOnceEndsWithItsContext(t *testing.T) {
	for name, upgrades := range map[string]bool{"in the handshake": false, "in the exchange": true} {
		ctx, cancel := context.WithCancel(t.Context())
		s := listen(t, func(s *server, _ int, c *net.TCPConn) {
			if upgrades {
				if p := upgrade(c, ""); p != nil {
					_, _, _ = p.in.Next()
				}
			}
			cancel()
			<-s.quit
		})
		r := Once(ctx, planTo(request.WebSocket, s.address))
		if r.End.Kind != request.EndClientLimit || r.End.Message != "interrupted" {
			t.Errorf("%s: %+v", name, r)
		}
		cancel()
	}
}

func TestTLS(t *testing.T) {
	made := httptest.NewTLSServer(nil)
	made.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate().Raw})
	secured := func(_ *server, c net.Conn) {
		tc := tls.Server(c, &tls.Config{Certificates: made.TLS.Certificates})
		if p := upgrade(tc, ""); p != nil {
			_ = p.obey()
		}
		_ = tc.Close()
	}
	for name, c := range map[string]struct {
		act  func(*server, net.Conn)
		tls  request.TLS
		want request.End
	}{
		"trusted":      {secured, request.TLS{CA: ca}, request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}},
		"another name": {secured, request.TLS{CA: ca, ServerName: "example.com"}, request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}},
		"insecure":     {secured, request.TLS{Insecure: true}, request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}},
		"not trusted":  {secured, request.TLS{}, request.End{Kind: request.EndBadTLS, Phase: record.PhaseTLS}},
		"a wrong name": {secured, request.TLS{CA: ca, ServerName: "other.test"}, request.End{Kind: request.EndBadTLS, Phase: record.PhaseTLS}},
		"no TLS":       {func(_ *server, c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); finish(c) }, request.TLS{}, request.End{Kind: request.EndBadTLS, Phase: record.PhaseTLS}},
		"eof":          {func(_ *server, c net.Conn) { finish(c) }, request.TLS{}, request.End{Kind: request.EndEOF, Phase: record.PhaseTLS}},
		"silence":      {func(s *server, _ net.Conn) { <-s.quit }, request.TLS{}, request.End{Kind: request.EndTimeout, Phase: record.PhaseTLS}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := listen(t, func(s *server, _ int, conn *net.TCPConn) { c.act(s, conn) })
			p := planTo(request.WebSocket, s.address)
			p.Target.Scheme, p.Target.TLS = "https", c.tls
			if c.want.Kind == request.EndTimeout {
				p.Limits.TLSNs = int64(200 * time.Millisecond)
			}
			r := Once(t.Context(), p)
			if (r.End.Message != "") != (c.want.Kind == request.EndBadTLS) {
				t.Errorf("message %q", r.End.Message)
			}
			r.End.Message = ""
			if r.End != c.want {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestTheWholeLimitHoldsOverAllPhases(t *testing.T) {
	s := listen(t, func(s *server, _ int, _ *net.TCPConn) { <-s.quit })
	p := planTo(request.WebSocket, s.address)
	p.Limits.WholeNs = int64(200 * time.Millisecond)
	if r := Once(t.Context(), p); r.End != (request.End{Kind: request.EndTimeout, Phase: record.PhaseFirstByte}) {
		t.Errorf("%+v", r)
	}
}

func TestPongMatching(t *testing.T) {
	asked := []*exchange{{seq: 7}, {seq: 9}, {seq: 8}}
	for seq, want := range map[uint64]int{7: 1, 9: 2, 8: 3, 6: 0} {
		if got := upTo(asked, seq); len(got) != want {
			t.Errorf("a pong for %d answers %d", seq, len(got))
		}
	}
}
