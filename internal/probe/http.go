package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
)

const (
	// slowLimit bounds ?for=, so that no request outlives every reasonable grace period by mistake.
	slowLimit = time.Hour
	// bytesLimit bounds ?bytes=.
	bytesLimit = 64 << 20

	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute

	// announceLead is how long the end of a connection is announced before its streams are ended, so that the one is heard before the other.
	announceLead = 100 * time.Millisecond
)

// httpServer answers who, slow and gRPC requests and holds WebSockets. Unless it
// is told to finish it keeps accepting until the process ends, also while draining: the kubelet opens a new
// connection for every readiness probe, and a refused one would flip readiness by itself.
type httpServer struct {
	server   *http.Server
	listener net.Listener
	log      *logger
	health   *health
	sockets  *sockets
	seq      atomic.Uint64
	quit     chan struct{} // closed as the process exits
	leaving  chan struct{} // closed once the end was announced

	// active counts requests in flight, streams and WebSockets apart; idle is poked as it becomes 0.
	active atomic.Int64
	idle   chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]http.ConnState
}

func newHTTPServer(log *logger, health *health, l net.Listener) *httpServer {
	h := &httpServer{
		listener: l, log: log, health: health, sockets: &sockets{all: map[*socket]struct{}{}},
		quit: make(chan struct{}), leaving: make(chan struct{}), idle: make(chan struct{}, 1), conns: map[net.Conn]http.ConnState{},
	}
	mux := http.NewServeMux()
	health.route(mux)
	mux.HandleFunc("GET "+PathSlow, h.counted(h.slow))
	mux.HandleFunc("GET "+PathWho+"{$}", h.counted(h.who))
	mux.HandleFunc("GET "+PathDrain, h.drain)
	mux.HandleFunc("POST "+PathDrain, h.drain)
	mux.HandleFunc("GET "+PathWS, h.webSocket)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	h.server = &http.Server{
		Handler:           named(log, h.grpcOr(mux)),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		ConnState:         h.track,
		Protocols:         &protocols,
	}
	return h
}

func (h *httpServer) serve() {
	// A closed listener is this program's own doing.
	if err := h.server.Serve(h.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		h.log.now(LogFailed, map[string]any{"step": "http", "error": err.Error()})
	}
}

func (h *httpServer) track(c net.Conn, state http.ConnState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch state {
	case http.StateNew, http.StateActive, http.StateIdle:
		h.conns[c] = state
	case http.StateClosed, http.StateHijacked:
		delete(h.conns, c)
	}
}

// answerLead is how long a finished answer may take to leave.
const answerLead = 200 * time.Millisecond

// answering reports whether a connection has an answer that is not sent whole.
func (h *httpServer) answering() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, state := range h.conns {
		if state == http.StateActive {
			return true
		}
	}
	return false
}

// settle waits a moment for handlers that were cut, so that they can write into the log what became of their requests.
func (h *httpServer) settle() {
	for deadline := time.Now().Add(time.Second); h.active.Load() > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// counted has a request waited for by finish.
func (h *httpServer) counted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.active.Add(1)
		defer func() {
			if h.active.Add(-1) == 0 {
				select {
				case h.idle <- struct{}{}:
				default:
				}
			}
		}()
		next(w, r)
	}
}

// finish returns when nothing is in flight any more, or with ctx. The listener
// is closed already. With announce, kept connections are closed: idle ones at once, busy ones after their
// answer, which says so; HTTP/2 gets GOAWAY, WebSockets and streams their own words.
func (h *httpServer) finish(ctx context.Context, announce bool) {
	if !announce {
		for h.active.Load() > 0 {
			select {
			case <-h.idle:
			case <-ctx.Done():
				return
			}
		}
		// A handler returns before its answer is on the way: the connection tells when it is. One of HTTP/2 with a stream that is held never does.
		for deadline := time.Now().Add(answerLead); h.answering() && ctx.Err() == nil && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		return
	}
	var ends sync.WaitGroup
	streams, none := context.WithCancel(ctx)
	ends.Go(func() {
		defer none()
		_ = h.server.Shutdown(ctx) // its only error is that ctx ended
	})
	ends.Go(h.sockets.leave)
	ends.Go(func() {
		lead := time.NewTimer(announceLead)
		defer lead.Stop()
		select {
		case <-lead.C:
			close(h.leaving)
		case <-streams.Done():
		}
	})
	ends.Wait()
}

// cut ends the server and its connections at once.
func (h *httpServer) cut(reset bool) (cut int) {
	if reset {
		h.mu.Lock()
		for c := range h.conns {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
				cut++
			}
		}
		h.mu.Unlock()
	}
	close(h.quit)
	_ = h.server.Close()
	return cut + h.sockets.cut(reset)
}

func plain(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client's loss where it fails
}

// whoAnswer is the body of PathWho and PathSlow.
type whoAnswer struct {
	Instance string `json:"instance"`
	PodUID   string `json:"pod_uid"`
	Seq      uint64 `json:"seq"`
	TookNs   int64  `json:"took_ns,omitempty"`
}

func (h *httpServer) answer(w http.ResponseWriter, seq uint64, took time.Duration) (int, error) {
	b, err := json.Marshal(whoAnswer{Instance: h.log.instance, PodUID: h.log.podUID, Seq: seq, TookNs: took.Nanoseconds()})
	if err != nil {
		return 0, err
	}
	w.Header().Set("Content-Type", "application/json")
	return w.Write(append(b, '\n'))
}

func (h *httpServer) who(w http.ResponseWriter, r *http.Request) {
	seq := h.seq.Add(1)
	if asked := r.URL.Query().Get("bytes"); asked != "" {
		filler(w, asked)
		return
	}
	_, _ = h.answer(w, seq, 0)
}

// filler answers with as many bytes as asked for.
func filler(w http.ResponseWriter, asked string) {
	left, err := strconv.Atoi(asked)
	if err != nil || left < 0 || left > bytesLimit {
		plain(w, http.StatusBadRequest, "give ?bytes= a number from 0 to 67108864\n")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(left))
	piece := bytes.Repeat([]byte{'x'}, min(left, 64<<10))
	for err == nil && left > 0 {
		var n int
		n, err = w.Write(piece[:min(left, len(piece))])
		left -= n
	}
}

// drain is the preStop hook's word: readiness fails from now on, whatever it does on SIGTERM.
func (h *httpServer) drain(w http.ResponseWriter, r *http.Request) {
	h.log.now(LogHookDrain, map[string]any{"client": r.RemoteAddr})
	h.health.fail()
	plain(w, http.StatusOK, "not ready from now on\n")
}

// slow answers after a while. The acceptance is stamped before any work, so
// that a client can prove that its request had been taken on.
func (h *httpServer) slow(w http.ResponseWriter, r *http.Request) {
	accepted := clock.Read()
	d, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil || d < 0 || d > slowLimit {
		plain(w, http.StatusBadRequest, "give ?for= a duration from 0s to 1h, such as for=8s\n")
		return
	}
	seq := h.seq.Add(1)
	h.log.at(accepted, LogRequestAccepted, map[string]any{"id": seq, "for_ns": d.Nanoseconds(), "client": r.RemoteAddr})
	done := map[string]any{"id": seq, "bytes": 0}
	defer func() { h.log.now(LogRequestDone, done) }()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
		done["abandoned"] = "client"
		return
	case <-h.quit:
		done["abandoned"] = "exit"
		vanish(r)
	}
	n, err := h.answer(w, seq, d)
	done["bytes"] = n
	if err != nil {
		done["error"] = err.Error()
	}
}

// vanish ends a request as the exit of the process does: without a response, which a return would make up. On
// HTTP/2 an aborted stream would be reset by a frame of its own, so the connection's end is waited for there.
func vanish(r *http.Request) {
	if r.ProtoMajor >= 2 {
		<-r.Context().Done()
	}
	panic(http.ErrAbortHandler)
}
