package traffic

import (
	"context"
	"slices"

	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/traffic/request/client"
	"github.com/drainproof/drainproof/internal/traffic/request/eventloop"
)

// startEngine picks who sends a plan: the event loop where it can, as it costs the machine least.
func startEngine(p request.Plan, sink request.Sink) (request.Engine, error) {
	switch {
	case !slices.Contains(request.Modes(), p.Mode):
		return nil, errUnknownMode(p.Mode)
	case eventloop.Can(p):
		return eventloop.Start(p, sink)
	default:
		return client.Start(p, sink)
	}
}

// sendOnce sends one request and judges it as a collector would.
func sendOnce(ctx context.Context, p request.Plan) (request.Answer, error) {
	if !slices.Contains(request.Modes(), p.Mode) {
		return request.Answer{}, errUnknownMode(p.Mode)
	}
	return request.AnswerOf(p, client.Once(ctx, p)), nil
}
