package client

import (
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// streamServer opens the first stream of each connection, then lets serve go on.
func streamServer(t *testing.T, serve func(s *h2Server, id uint32, n int)) (addr string) {
	t.Helper()
	return listenH2(t, func(s *h2Server, n int) {
		id := s.request()
		if id == 0 {
			return
		}
		if _, ok := next(s, every[*http2.DataFrame]); !ok {
			return
		}
		s.header(id, false, ":status", "200", "content-type", "application/grpc", "x-instance", "a")
		serve(s, id, n)
	})
}

// question waits for SETTINGS of the client, without acknowledging them.
func (s *h2Server) question() bool {
	for {
		f, err := s.ReadFrame()
		if err != nil {
			return false
		}
		if set, ok := f.(*http2.SettingsFrame); ok && !set.IsAck() {
			return true
		}
	}
}

func TestStreamIsHeld(t *testing.T) {
	t.Parallel()
	addr := streamServer(t, func(s *h2Server, _ uint32, _ int) { s.idle() })
	r := newRig(t, planFor(t, request.GRPCStream, addr))
	var local string
	for i := range 5 {
		res := r.send(t)
		r.want(t, res, record.OK, record.PhaseDone)
		if i == 0 {
			local = res.Local.String()
		}
		if res.Instance != "a" || res.Reused != (i > 0) || res.ConnRequests != i || res.Local.String() != local || res.Status != 0 {
			t.Errorf("exchange %d: %+v", i, res)
		}
	}
	r.wantReconnects(t, 0)
}

// The real thing, as far as net/http can be one: the handler holds the stream and acknowledges SETTINGS by itself.
func TestStreamOnNetHTTP(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	addr := h2cServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		message := make([]byte, prefixLen+2)
		if _, err := io.ReadFull(r.Body, message); err != nil || string(message[prefixLen:]) != "hi" {
			t.Errorf("the message: %q, %v", message, err)
		}
		_, _ = w.Write(message)
		_ = http.NewResponseController(w).Flush()
		<-asked
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	p := planFor(t, request.GRPCStream, addr)
	p.Target.Body = []byte("hi")
	r := newRig(t, p)
	for range 3 {
		r.want(t, r.send(t), record.OK, record.PhaseDone)
	}
	close(asked)
	r.wantGone(t)
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	r.wantReconnects(t, 1)
}

// wantGone waits until the user's stream has ended.
func (r *rig) wantGone(t *testing.T) {
	t.Helper()
	u := &r.sender.(*streamSender).users[0]
	waitFor(t, "the end of the stream", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.now == nil
	})
}

// streamEnds are how a held stream may end while nothing is under way or while an exchange is.
var streamEnds = []struct {
	name string
	do   func(s *h2Server, id uint32)
	// inOrder, or else what it is as a result.
	inOrder bool
	outcome record.RequestOutcome
	phase   record.RequestPhase
	status  int
}{
	{"the expected status", func(s *h2Server, id uint32) { s.header(id, true, "grpc-status", "0"); s.idle() }, true, "", "", 0},
	{"goaway, then the end", func(s *h2Server, id uint32) { s.goaway(id); _ = s.conn.CloseWrite(); s.idle() }, true, "", "", 0},
	{"goaway, then a status", func(s *h2Server, id uint32) {
		s.goaway(id)
		s.header(id, true, "grpc-status", "14")
		s.idle()
	}, true, "", "", 0},
	{"fin", func(s *h2Server, _ uint32) { _ = s.conn.CloseWrite(); s.idle() }, false, record.EOFBeforeResponse, record.PhaseFirstByte, -1},
	{"rst", func(s *h2Server, _ uint32) { rst(s.conn) }, false, record.ResetBeforeResponse, record.PhaseFirstByte, -1},
	{"stream reset", func(s *h2Server, id uint32) { _ = s.WriteRSTStream(id, http2.ErrCodeInternal); s.idle() }, false, record.ResetBeforeResponse, record.PhaseFirstByte, -1},
	{"goaway with an error", func(s *h2Server, _ uint32) {
		_ = s.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
		s.idle()
	}, false, record.GoawayUnprocessed, record.PhaseFirstByte, -1},
	{"another status", func(s *h2Server, id uint32) { s.header(id, true, "grpc-status", "14"); s.idle() }, false, record.GRPCError, record.PhaseDone, 14},
	{"no status", func(s *h2Server, id uint32) { _ = s.WriteData(id, true, nil); s.idle() }, false, record.ProtocolError, record.PhaseFirstByte, -1},
}

func TestStreamEndsWhileIdle(t *testing.T) {
	t.Parallel()
	for _, e := range streamEnds {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			now := make(chan struct{})
			addr := streamServer(t, func(s *h2Server, id uint32, n int) {
				if n > 0 {
					s.idle()
					return
				}
				s.question()
				_ = s.WriteSettingsAck()
				<-now
				e.do(s, id)
			})
			r := newRig(t, planFor(t, request.GRPCStream, addr))
			r.want(t, r.send(t), record.OK, record.PhaseDone)
			r.want(t, r.send(t), record.OK, record.PhaseDone)
			close(now)
			if e.inOrder {
				r.wantGone(t)
			} else {
				lost := await(t, r.own, "the loss")
				r.want(t, lost, e.outcome, e.phase)
				if lost.PlannedNs == 0 || lost.PlannedNs != lost.SentNs || lost.SentNs != lost.EndedNs || !lost.Reused || lost.ConnRequests != 2 ||
					lost.Instance != "a" || lost.Remote.String() != addr || lost.Status != e.status {
					t.Errorf("%+v", lost)
				}
			}
			res := r.send(t)
			r.want(t, res, record.OK, record.PhaseDone)
			if res.Reused {
				t.Error("no new connection")
			}
			if e.inOrder {
				r.wantReconnects(t, 1)
			} else {
				r.wantReconnects(t, 0)
			}
			r.wantNoOwn(t)
		})
	}
}

func (r *rig) wantNoOwn(t *testing.T) {
	t.Helper()
	select {
	case res := <-r.own:
		t.Errorf("a second result for one end: %+v", res)
	default:
	}
}

func TestStreamEndsUnderAnExchange(t *testing.T) {
	t.Parallel()
	for _, e := range streamEnds {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			addr := streamServer(t, func(s *h2Server, id uint32, n int) {
				if n > 0 {
					s.idle()
					return
				}
				s.question()
				e.do(s, id)
			})
			r := newRig(t, planFor(t, request.GRPCStream, addr))
			first := r.send(t)
			r.want(t, first, record.OK, record.PhaseDone)
			res := r.send(t)
			if e.inOrder { // the exchange opened the next
				r.want(t, res, record.OK, record.PhaseDone)
				if res.Reused || res.Local == first.Local {
					t.Errorf("%+v", res)
				}
				r.wantReconnects(t, 1)
			} else {
				r.want(t, res, e.outcome, e.phase)
				if !res.Reused || res.ConnRequests != 1 || res.Local != first.Local || res.Status != e.status {
					t.Errorf("%+v", res)
				}
				r.wantReconnects(t, 0)
			}
			r.wantNoOwn(t) // the exchange has told it
		})
	}
}

// openingFaults are what a server does to the request for a stream.
var openingFaults = []struct {
	name    string
	do      func(s *h2Server, id uint32)
	outcome record.RequestOutcome
	phase   record.RequestPhase
	status  int
}{
	{"reset", func(s *h2Server, _ uint32) { rst(s.conn) }, record.ResetBeforeResponse, record.PhaseFirstByte, -1},
	{"closed", func(s *h2Server, _ uint32) { _ = s.conn.CloseWrite(); s.idle() }, record.EOFBeforeResponse, record.PhaseFirstByte, -1},
	{"refused", func(s *h2Server, id uint32) { _ = s.WriteRSTStream(id, http2.ErrCodeRefusedStream); s.idle() }, record.GoawayUnprocessed, record.PhaseFirstByte, -1},
	{"another status", func(s *h2Server, id uint32) {
		s.header(id, true, ":status", "200", "grpc-status", "14", "grpc-message", "no")
		s.idle()
	}, record.GRPCError, record.PhaseDone, 14},
	{"the expected status at once", func(s *h2Server, id uint32) { s.header(id, true, ":status", "200", "grpc-status", "0"); s.idle() }, record.OK, record.PhaseDone, 0},
	{"a proxy's error", func(s *h2Server, id uint32) { s.header(id, false, ":status", "502"); s.idle() }, record.ProtocolError, record.PhaseBody, -1},
	{"silence", func(s *h2Server, _ uint32) { s.idle() }, record.ResponseTimeout, record.PhaseFirstByte, -1},
}

func TestStreamOpening(t *testing.T) {
	t.Parallel()
	for _, f := range openingFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			addr := listenH2(t, func(s *h2Server, _ int) {
				id := s.request()
				next(s, every[*http2.DataFrame])
				f.do(s, id)
			})
			p := planFor(t, request.GRPCStream, addr)
			limit(&p, f.outcome, f.phase)
			r := newRig(t, p)
			for i := range 2 {
				res := r.send(t)
				r.want(t, res, f.outcome, f.phase)
				if res.Status != f.status || res.Reused || res.Remote.String() != addr {
					t.Errorf("%+v", res)
				}
				if f.outcome == record.OK {
					r.wantReconnects(t, int64(i))
				} else {
					r.wantReconnects(t, 0)
				}
			}
			r.wantNoOwn(t)
		})
	}
}

// A method that begins only when the request has ended gets its end, and the next stream at once.
func TestStreamLearnsThatTheRequestMustEnd(t *testing.T) {
	t.Parallel()
	frames := make(chan int, 10) // of each request
	addr := listenH2(t, func(s *h2Server, _ int) {
		id, n := s.request(), 0
		if _, ok := next(s, func(f *http2.DataFrame) bool { n++; return f.StreamEnded() }); !ok {
			return
		}
		frames <- n
		s.header(id, false, ":status", "200")
		s.idle()
	})
	p := planFor(t, request.GRPCStream, addr)
	p.Users = 2
	r := newRig(t, p)
	r.want(t, r.send(t), record.OK, record.PhaseDone)
	if n := await(t, frames, "the first request's end"); n != 2 {
		t.Errorf("the first request came in %d frames, want its message and its end", n)
	}
	a := begin(t.Context(), p, 1, 1)
	r.sender.send(a)
	r.want(t, a.Result, record.OK, record.PhaseDone)
	if n := await(t, frames, "the second request's end"); n != 1 {
		t.Errorf("the second request came in %d frames, want its message with its end", n)
	}
}

// An exchange that ran out of time is the loss; the next opens another stream, and the old one's end is no loss again.
func TestStreamSilence(t *testing.T) {
	t.Parallel()
	addr := streamServer(t, func(s *h2Server, _ uint32, n int) {
		if n == 0 {
			hang(s.conn)
			return
		}
		s.idle()
	})
	p := planFor(t, request.GRPCStream, addr)
	r := newRig(t, p)
	first := r.send(t)
	r.want(t, first, record.OK, record.PhaseDone)
	r.plan.Limits.FirstByteNs = short
	r.want(t, r.send(t), record.ResponseTimeout, record.PhaseFirstByte)
	r.plan.Limits.FirstByteNs = p.Limits.FirstByteNs
	res := r.send(t)
	r.want(t, res, record.OK, record.PhaseDone)
	if res.Local == first.Local || res.Reused {
		t.Errorf("%+v", res)
	}
	r.wantReconnects(t, 0)
	r.wantNoOwn(t)
}

// Exchanges that come due while the stream is opened wait for it.
func TestStreamWaitersShareTheOpening(t *testing.T) {
	t.Parallel()
	arrived, open := make(chan struct{}, 2), make(chan struct{})
	addr := listenH2(t, func(s *h2Server, _ int) {
		id := s.request()
		arrived <- struct{}{}
		<-open
		s.header(id, false, ":status", "200")
		s.idle()
	})
	r := newRig(t, planFor(t, request.GRPCStream, addr))
	a := r.async(t)
	await(t, arrived, "the opening")
	b := r.async(t)
	close(open)
	x, y := await(t, a, "the opening"), await(t, b, "the exchange")
	r.want(t, x, record.OK, record.PhaseDone)
	r.want(t, y, record.OK, record.PhaseDone)
	if x.Local != y.Local || x.Reused || !y.Reused {
		t.Errorf("%+v\n%+v", x, y)
	}
}
