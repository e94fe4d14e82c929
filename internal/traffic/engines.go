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

// CheckPlan refuses a plan that no client can send, as wrong use; its host may still be unknown.
func CheckPlan(p request.Plan) error {
	if p.Target.Host == "" {
		p.Target.Host, p.Target.Port = "192.0.2.1", 80 // stands for one (RFC 5737)
	}
	return client.Check(p)
}

// sendOnce sends one request and judges it as a collector would.
func sendOnce(ctx context.Context, p request.Plan) (request.Answer, error) {
	if !slices.Contains(request.Modes(), p.Mode) {
		return request.Answer{}, errUnknownMode(p.Mode)
	}
	p.Rate, p.Users = 1, 1
	if err := client.Check(p); err != nil {
		return request.Answer{}, err
	}
	return request.AnswerOf(p, client.Once(ctx, p)), nil
}
