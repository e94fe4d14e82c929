// Package client sends what the event loop does not: names and TLS, HTTP/2,
// gRPC, WebSocket and raw flows, on goroutines and Go's own network code, in every mode and on every system.
//
// It must not know how a result is judged or kept.
package client

import (
	"errors"

	"github.com/drainproof/drainproof/internal/traffic/request"
)

// Start sends p from now on, until Stop.
func Start(p request.Plan, sink request.Sink) (request.Engine, error) {
	return nil, errors.New("not built yet")
}
