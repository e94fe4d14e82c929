// Package client sends what the event loop does not: names and TLS, HTTP/2 and
// gRPC, on goroutines and Go's own network code, in every mode and on every Unix; connections that are held raw it
// leaves to package held. It speaks the protocols itself, because libraries try again, keep connections of their own and hide the end of them.
//
// Nothing waits for an earlier request, with one exception: users of HTTP/2 and
// gRPC share one connection among their requests, so while that is opened (until the server's SETTINGS) all of a
// user's requests wait for it, and end with it if it fails. No request is ever sent a second time: one
// that finds its connection ended before a byte of it was written goes to another.
//
// A connection closed in order is one that ended while nothing was under way,
// or that a GOAWAY without an error or Connection: close had announced. An
// HTTP/2 connection that has gone silent is kept, as libraries keep it that are not told to ping.
//
// In grpc-stream each user opens one stream, on a connection of its own, at its
// first exchange, and keeps it:
//   - The exchange that opens is answered when the response's HEADERS have come, with grpc-status 0 where they do not end the
//     stream. It sends Body as one message. Methods with a stream on the server's side alone may begin only when the request
//     has ended, which the plan does not tell: the first opening that gets no answer for a second ends its request; what the
//     first answer shows is then done by all.
//   - Each further exchange is a SETTINGS frame without content, answered by its acknowledgement, which RFC 9113, 6.5.3, demands at once.
//     A PING would say the same, but gRPC servers end connections that ping more often than once in five minutes.
//   - A stream that ends with an expected status, or after a GOAWAY without an error, ended in order: the exchange that is under way, or else the
//     next, opens another. Any other end is a loss: the exchanges under way end with it, and where there are none, it is
//     a result of its own, planned and sent at the moment of its end, on a reused connection, in phase first-byte.
//   - A stream on which an exchange ran out of time takes no further ones, and says nothing more of its own: the next opens another.
//
// It must not know how a result is judged or kept.
package client

import (
	"context"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/traffic/request/client/held"
)

// Check refuses a plan that cannot be sent, as wrong use.
func Check(p request.Plan) error {
	if rawHeld(p.Mode) {
		return held.Check(p)
	}
	return check(p)
}

// Start sends p from now on, until Stop. A plan that cannot be sent is wrong use.
func Start(p request.Plan, sink request.Sink) (request.Engine, error) {
	if rawHeld(p.Mode) {
		return held.Start(p, sink)
	}
	out := &reports{to: sink}
	s, err := newSender(p, out.reconnected, out.done)
	if err != nil {
		return nil, err
	}
	return start(p, s, out, mostUnderWay), nil
}

// Once makes one request of p now, on a fresh connection. Where ctx ends first, the result is the client's own end.
// A plan that cannot be sent is the client's own end as well, with the error as its message.
func Once(ctx context.Context, p request.Plan) request.Result {
	if rawHeld(p.Mode) {
		return held.Once(ctx, p)
	}
	p.Users, p.Rate = 1, 1
	s, err := newSender(p, func() {}, func(request.Result) {})
	a := begin(ctx, p, 0, clock.MonoNs())
	if err != nil {
		a.end(limitEnd(firstPhase, err.Error()))
		return a.Result
	}
	defer s.close()
	s.send(a)
	return a.Result
}

// rawHeld tells the modes that package held sends.
func rawHeld(m request.Mode) bool { return m.Held() && !overHTTP2(m) }

// sender makes the requests of one mode.
type sender interface {
	// send makes one request and says in a how it ended. Many calls may be under way.
	send(a *attempt)
	// close lets go of what the users keep, and waits for every goroutine. No send is under way or follows.
	close()
}

// newSender makes the sender of p's mode. It calls reconnected for every connection in place of one that was
// closed in order, and result for ends that belong to no attempt.
func newSender(p request.Plan, reconnected func(), result func(request.Result)) (sender, error) {
	if err := check(p); err != nil {
		return nil, err
	}
	d, err := newDialer(p)
	if err != nil {
		return nil, err
	}
	switch p.Mode {
	case request.GRPCStream:
		return newStreams(p, d, reconnected, result), nil
	case request.HTTP2, request.GRPC:
		return newHTTP2(p, d, reconnected), nil
	default:
		return newHTTP1(p, d, reconnected), nil
	}
}
