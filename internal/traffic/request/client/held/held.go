// Package held sends over connections that are held open: WebSocket, raw TCP
// and raw UDP. Each user has one connection, opened by the user's first exchange
// and kept; its end is a loss by itself, also while nothing is under way.
//
// An exchange is due on the plan's schedule, whatever became of those before it:
//
//   - WebSocket: a ping with a number of its own, answered by its pong, or by one
//     for a later ping (RFC 6455, 5.5.3, lets a server answer only the latest).
//   - TCP with a body: the body is sent, and whatever comes after it answers it.
//     Bytes name no exchange: one that is answered answers all that were sent before.
//   - TCP without a body: answered at once where the connection stands. Keepalive
//     probes of the kernel find a peer that is gone in silence.
//   - UDP: the body is sent, and a datagram answers one exchange. Datagrams name
//     none either: it is the one whose age comes nearest to the last round trip, the oldest
//     before there was any. So a lost datagram stays lost, instead of handing each answer on
//     to the wrong exchange from then on. An ICMP error is placed likewise; the socket stays in use.
//
// An exchange that is due while no connection stands opens one; others that come
// due meanwhile wait for it and share its fate.
//
// A WebSocket ends in order by a close frame that says nothing worse than that
// the server goes away (1000, 1001, 1012, 1013, or no code at all). Nothing is
// lost then, and the next exchange opens a new connection; a ping that crossed with
// the close frame is repeated there, once, its planned time kept. Every other end
// fails at once: the exchanges under way or, where there are none, by a result of
// its own whose times are all those at which it was noticed. Raw TCP knows no
// announcement, so that a server's FIN is a failure always.
//
// A stream on which an exchange ran out of time takes no further ones: the next
// opens another, while those that are under way on it keep the time that is theirs.
//
// It must not know how a result is judged or kept.
package held

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// Start sends p from now on, until Stop. It opens nothing yet. The error is wrong use, a plan that cannot be sent so.
func Start(p request.Plan, sink request.Sink) (request.Engine, error) {
	e, err := newEngine(context.Background(), p, sink)
	if err != nil {
		return nil, err
	}
	e.begin()
	return e, nil
}

// Once opens one connection, makes one exchange on it, and closes it. Where p
// cannot be sent or ctx ends first, the result is an EndClientLimit that says so.
func Once(ctx context.Context, p request.Plan) request.Result {
	now := clock.MonoNs()
	p.Users, p.Rate = 1, cmp.Or(p.Rate, 1)
	first := make(firstResult, 1)
	e, err := newEngine(ctx, p, first)
	if err != nil {
		return request.Result{PlannedNs: now, SentNs: now, EndedNs: now, End: request.End{Kind: request.EndClientLimit, Phase: record.PhaseDNS, Message: err.Error()}}
	}
	defer e.Stop()
	e.due(0, now)
	select {
	case r := <-first:
		return r
	case <-ctx.Done():
		e.users[0].interrupt()
		return <-first
	}
}

// firstResult is a Sink that keeps one result.
type firstResult chan request.Result

func (f firstResult) Done(r request.Result) {
	select {
	case f <- r:
	default:
	}
}

func (firstResult) Reconnected() {}

// maxDatagram is the largest payload of a UDP datagram over IPv4.
const maxDatagram = 65507

// check refuses plans that this package cannot send.
// Check refuses a plan that cannot be sent, as wrong use.
func Check(p request.Plan) error {
	schemes := map[request.Mode][]string{request.WebSocket: {"http", "https"}, request.TCP: {"tcp"}, request.UDP: {"udp"}}[p.Mode]
	switch {
	case schemes == nil:
		return fault.Usagef("choose websocket, tcp or udp", "mode %s holds no connection of this kind", p.Mode)
	case !slices.Contains(schemes, p.Target.Scheme):
		return fault.Usagef("give a URL of "+strings.Join(schemes, " or "), "mode %s cannot be sent to scheme %q", p.Mode, p.Target.Scheme)
	case p.Target.Host == "" || p.Target.Port == 0:
		return fault.Usagef("give a host and a port", "the target %q has no host or no port", net.JoinHostPort(p.Target.Host, strconv.Itoa(int(p.Target.Port))))
	case p.Users < 1 || !(p.Rate > 0):
		return fault.Usagef("give at least one user and a rate above 0", "%d users at %v per second send nothing", p.Users, p.Rate)
	case min(p.Limits.DNSNs, p.Limits.ConnectNs, p.Limits.TLSNs, p.Limits.FirstByteNs, p.Limits.WholeNs) <= 0:
		return fault.Usagef("give timeouts above 0", "a timeout of the plan is not positive")
	case p.Mode == request.UDP && len(p.Target.Body) == 0:
		return fault.Usagef("give a body that the server answers", "an exchange over UDP needs something to send")
	case p.Mode == request.UDP && len(p.Target.Body) > maxDatagram:
		return fault.Usagef("give at most "+strconv.Itoa(maxDatagram)+" bytes", "a body of %d bytes is more than a datagram holds", len(p.Target.Body))
	case p.Mode == request.WebSocket:
		return checkHandshake(p.Target)
	}
	return nil
}

// handshakeFields are those that the handshake itself writes, or that would change how its message is framed.
var handshakeFields = []string{
	"Host", "Connection", "Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions", "Sec-WebSocket-Accept",
	"Content-Length", "Transfer-Encoding", "TE", "Trailer", "Keep-Alive", "Proxy-Connection",
}

func checkHandshake(t request.Target) error {
	if t.Method != "" && t.Method != "GET" || len(t.Body) > 0 {
		return fault.Usagef("leave method and body out", "a WebSocket's handshake is a GET without a body")
	}
	if !strings.HasPrefix(t.Path, "/") || strings.ContainsFunc(t.Path, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fault.Usagef("begin it with a slash and escape what is not ASCII", "the path %q cannot be asked for", t.Path)
	}
	if !httpguts.ValidHostHeader(t.Authority) {
		return fault.Usagef("give a host, with a port where it has one", "%q is no value for the Host header", t.Authority)
	}
	for _, h := range t.Headers {
		if !httpguts.ValidHeaderFieldName(h.Name) || !httpguts.ValidHeaderFieldValue(h.Value) {
			return fault.Usagef("see RFC 9110, section 5, for what a field may hold", "the header %q cannot be sent", h.Name)
		}
		for _, own := range handshakeFields {
			if strings.EqualFold(h.Name, own) {
				return fault.Usagef("leave it out; the host is set by the target's authority", "the header %q belongs to the WebSocket handshake itself", h.Name)
			}
		}
	}
	return nil
}

// tlsConfig is nil where there is no TLS.
func tlsConfig(t request.Target) (*tls.Config, error) {
	if t.Scheme != "https" {
		return nil, nil
	}
	c := &tls.Config{
		ServerName: cmp.Or(t.TLS.ServerName, t.Host), InsecureSkipVerify: t.TLS.Insecure,
		NextProtos: []string{"http/1.1"}, // WebSocket over HTTP/2 is another handshake (RFC 8441)
	}
	if len(t.TLS.CA) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(t.TLS.CA) {
			return nil, fault.Usagef("give certificates in PEM", "the certificate authority's file holds no certificate")
		}
	}
	return c, nil
}

// talk is what the users say over their connections.
type talk interface {
	// greet makes a new connection ready for exchanges; nil when it is.
	greet(ctx context.Context, c *conn) *request.End
	// ask gives what is written for an exchange.
	ask(x *exchange) []byte
	// hear reads until the connection's end and tells c of every answer and of that end.
	hear(c *conn)
	// leave begins the end from our side.
	leave(c *conn)
}

func talkOf(p request.Plan) talk {
	switch p.Mode {
	case request.WebSocket:
		return newWebSocket(p)
	case request.TCP:
		return stream{body: p.Target.Body}
	default:
		return datagrams{body: p.Target.Body}
	}
}

// goodbye bounds how long the other end may take over the end of a connection, once it is decided.
const goodbye = time.Second
