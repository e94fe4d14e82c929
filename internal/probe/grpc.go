package probe

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Statuses of gRPC (its "Status codes and their use in gRPC").
const (
	grpcOK            = 0
	grpcUnimplemented = 12
	grpcUnavailable   = 14
)

// serving is one gRPC message: not compressed, 2 bytes long, HealthCheckResponse{status: SERVING}, which is field 1 (shifted by the three bits of its type, 0) as the varint 1.
var serving = []byte{0, 0, 0, 0, 2, 1 << 3, 1}

// requestLimit bounds what is read of a gRPC request.
const requestLimit = 1 << 20

// grpcOr answers gRPC itself and leaves the rest to next.
func (h *httpServer) grpcOr(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 || r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		switch r.URL.Path {
		case PathCheck:
			h.counted(check)(w, r)
		case PathWatch:
			h.watch(w, r)
		default: // the status alone, in the headers
			w.Header().Set("Grpc-Status", strconv.Itoa(grpcUnimplemented))
			w.Header().Set("Grpc-Message", "there is only grpc.health.v1.Health")
		}
	})
}

func check(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, requestLimit))
	_, _ = w.Write(serving)
	endStream(w, grpcOK, "")
}

// watch says once that it serves, and then holds the stream. It waits for no request: whoever opens the stream may send or end its own side later.
func (h *httpServer) watch(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write(serving)
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	select {
	case <-r.Context().Done():
	case <-h.leaving:
		endStream(w, grpcUnavailable, "the server goes away")
	case <-h.quit:
		vanish(r)
	}
}

// endStream sets the trailers that end a stream.
func endStream(w http.ResponseWriter, status int, message string) {
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(status))
	if message != "" {
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", message)
	}
}
