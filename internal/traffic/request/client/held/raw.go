package held

import (
	"context"
	"errors"
	"syscall"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// readBuffer bounds one read. What is read only counts; what of a datagram is longer does not.
const readBuffer = 4 << 10

// stream is raw TCP.
type stream struct{ body []byte }

func (stream) greet(context.Context, *conn) *request.End { return nil }

func (s stream) ask(*exchange) []byte { return s.body }

func (stream) hear(c *conn) {
	b := make([]byte, readBuffer)
	for {
		n, err := c.Read(b)
		if n > 0 {
			c.answer(func(asked []*exchange, _ int64) []*exchange { return asked })
		}
		if err != nil {
			c.lose(c.u.e.endOf(err, record.PhaseFirstByte, request.EndBadAnswer))
			return
		}
	}
}

func (stream) leave(c *conn) { _ = c.nc.Close() }

// datagrams is raw UDP over a connected socket.
type datagrams struct{ body []byte }

func (datagrams) greet(context.Context, *conn) *request.End { return nil }

func (d datagrams) ask(*exchange) []byte { return d.body }

func (datagrams) hear(c *conn) {
	b := make([]byte, readBuffer)
	for {
		_, err := c.Read(b)
		switch {
		case err == nil:
			c.answer(func(asked []*exchange, nowNs int64) []*exchange {
				return []*exchange{nearest(asked, nowNs, c.roundTripNs)}
			})
		case unreachable(err):
			c.refused(err, nil)
		default:
			c.lose(c.u.e.endOf(err, record.PhaseFirstByte, request.EndBadAnswer))
			return
		}
	}
}

func (datagrams) leave(c *conn) { _ = c.nc.Close() }

// unreachable tells the errors by which the kernel passes an ICMP message on to a connected UDP socket (udp(7)). They are told once, and leave the socket as it was.
func unreachable(err error) bool {
	for _, e := range []syscall.Errno{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENOPROTOOPT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// nearest is the exchange whose age comes nearest to the last round trip, the oldest before there was any. asked is not empty.
func nearest(asked []*exchange, nowNs, roundTripNs int64) *exchange {
	best := asked[0]
	if roundTripNs == 0 {
		return best
	}
	off := func(x *exchange) int64 {
		d := nowNs - x.askedNs - roundTripNs
		return max(d, -d)
	}
	for _, x := range asked[1:] {
		if off(x) < off(best) {
			best = x
		}
	}
	return best
}

// refused fails the exchange that an ICMP error belongs to, which is never the one that is just being written.
func (c *conn) refused(err error, writing *exchange) {
	c.u.mu.Lock()
	defer c.u.mu.Unlock()
	now := clock.MonoNs()
	asked := live(c.awaiting)
	if n := len(asked); n > 0 && asked[n-1] == writing {
		asked = asked[:n-1]
	}
	if len(asked) == 0 {
		return // its exchange has run out of time
	}
	x := nearest(asked, now, c.roundTripNs)
	c.u.finish(x, c.u.e.endOf(err, record.PhaseFirstByte, request.EndBadAnswer), now)
	c.settle()
}

// sendAttempts bounds how often a datagram is offered to the kernel: an error of an earlier one is told in place of sending this.
const sendAttempts = 3

func (c *conn) sendDatagram(b []byte, x *exchange) {
	var err error
	for range sendAttempts {
		if _, err = c.nc.Write(b); err == nil {
			c.wrote(x)
			return
		}
		if !unreachable(err) {
			break
		}
		c.refused(err, x)
	}
	c.u.mu.Lock()
	defer c.u.mu.Unlock()
	if !x.over {
		c.u.finish(x, c.u.e.endOf(err, record.PhaseSend, request.EndClientLimit), clock.MonoNs())
		c.settle()
	}
}
