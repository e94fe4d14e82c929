//go:build !linux

package eventloop

import (
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

const supported = false

// Start always fails: there is no epoll here.
func Start(request.Plan, request.Sink) (request.Engine, error) {
	return nil, fault.Usagef("send from a Linux machine or from a Pod", "this client needs Linux")
}
