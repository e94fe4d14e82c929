package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// health answers liveness and readiness, on the application's listener and, where it has one, on its own.
type health struct {
	log       *logger
	listening atomic.Bool // the application's sockets
	failing   atomic.Bool
}

func (h *health) route(mux *http.ServeMux) {
	mux.HandleFunc("GET "+PathHealth, func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET "+PathReady, h.ready)
}

func (h *health) ready(w http.ResponseWriter, _ *http.Request) {
	switch {
	case !h.listening.Load():
		plain(w, http.StatusServiceUnavailable, "starting\n")
	case h.failing.Load():
		plain(w, http.StatusServiceUnavailable, "terminating\n")
	default:
		plain(w, http.StatusOK, "ready\n")
	}
}

// fail makes readiness fail from now on, and logs it once.
func (h *health) fail() {
	if !h.failing.Swap(true) {
		h.log.now(LogReadiness, map[string]any{"ready": false})
	}
}

// serve answers on a listener of its own until stop.
func (h *health) serve(l net.Listener) (stop func()) {
	mux := http.NewServeMux()
	h.route(mux)
	server := &http.Server{Handler: named(h.log, mux), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.log.now(LogFailed, map[string]any{"step": "health", "error": err.Error()})
		}
	})
	return func() {
		_ = server.Close()
		serving.Wait()
	}
}

// begin lets StartDelay pass. It is false where ctx or a signal ended the probe meanwhile: it has nothing to drain or finish yet.
func (h *health) begin(ctx context.Context, c Config, signals <-chan os.Signal) bool {
	if c.StartDelay == 0 {
		return true
	}
	delay := time.NewTimer(c.StartDelay)
	defer delay.Stop()
	for {
		select {
		case <-delay.C:
			return true
		case <-ctx.Done():
			return false
		case sig := <-signals:
			h.log.now(LogSigterm, map[string]any{"signal": sig.String(), "during": "start"})
			if c.Behaviour != Ignore {
				return false
			}
			if c.ReadinessOnTerm == Fail {
				h.fail()
			}
		}
	}
}

// named lets every answer say who it is from.
func named(log *logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HeaderInstance, log.instance)
		w.Header().Set(HeaderPodUID, log.podUID)
		next.ServeHTTP(w, r)
	})
}
