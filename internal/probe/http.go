package probe

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
)

// slowLimit bounds ?for=, so that no request outlives every reasonable grace period by mistake.
const slowLimit = time.Hour

// httpServer answers health, readiness, who and slow requests. It keeps
// accepting until the process ends, also while draining: the kubelet opens a new
// connection for every readiness probe, and a refused one would flip readiness by itself.
type httpServer struct {
	server   *http.Server
	log      *logger
	notReady atomic.Bool
	seq      atomic.Uint64
	quit     chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newHTTPServer(log *logger) *httpServer {
	h := &httpServer{log: log, quit: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathHealth, func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET "+PathReady, h.ready)
	mux.HandleFunc("GET "+PathSlow, h.slow)
	mux.HandleFunc("GET "+PathWho+"{$}", h.who)
	h.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ConnState:         h.track,
	}
	return h
}

func (h *httpServer) serve(l net.Listener) {
	if err := h.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		h.log.now(LogFailed, map[string]any{"step": "http", "error": err.Error()})
	}
}

func (h *httpServer) track(c net.Conn, state http.ConnState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch state {
	case http.StateNew:
		h.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(h.conns, c)
	}
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
	return cut
}

func plain(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client's loss where it fails
}

func (h *httpServer) ready(w http.ResponseWriter, _ *http.Request) {
	if h.notReady.Load() {
		plain(w, http.StatusServiceUnavailable, "terminating\n")
		return
	}
	plain(w, http.StatusOK, "ready\n")
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

func (h *httpServer) who(w http.ResponseWriter, _ *http.Request) {
	_, _ = h.answer(w, h.seq.Add(1), 0)
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
		panic(http.ErrAbortHandler) // no response at all, which a return would make up
	}
	n, err := h.answer(w, seq, d)
	done["bytes"] = n
	if err != nil {
		done["error"] = err.Error()
	}
}
