package held

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// connect opens c: name, connection, TLS, greeting, each within its own limit and all within the whole. nil when it stands.
func (e *engine) connect(c *conn) *request.End {
	ctx, cancel := context.WithTimeout(e.ctx, time.Duration(e.plan.Limits.WholeNs))
	defer cancel()
	address, end := e.resolve(ctx)
	if end != nil {
		return end
	}
	c.remote = address
	if end := e.dial(ctx, c); end != nil {
		return end
	}
	if e.tls != nil {
		if end := e.secure(ctx, c); end != nil {
			return end
		}
	}
	return e.talk.greet(ctx, c)
}

// resolve asks for the host's addresses anew for every connection, and takes the first, IPv4 before IPv6.
func (e *engine) resolve(ctx context.Context) (netip.AddrPort, *request.End) {
	if a, ok := e.plan.Target.Address(); ok {
		return a, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.plan.Limits.DNSNs))
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", e.plan.Target.Host)
	if err == nil && len(ips) == 0 {
		err = errors.New("the name has no address")
	}
	if err != nil {
		end := e.endOf(err, record.PhaseDNS, request.EndNoName)
		if unknown, ok := errors.AsType[*net.DNSError](err); ok && !unknown.IsTimeout && end.Kind != request.EndClientLimit {
			end = request.End{Kind: request.EndNoName, Phase: record.PhaseDNS, Message: unknown.Err}
		}
		return netip.AddrPort{}, &end
	}
	first := max(slices.IndexFunc(ips, func(ip netip.Addr) bool { return ip.Unmap().Is4() }), 0)
	return netip.AddrPortFrom(ips[first].Unmap(), e.plan.Target.Port), nil
}

func (e *engine) dial(ctx context.Context, c *conn) *request.End {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.plan.Limits.ConnectNs))
	defer cancel()
	network := "tcp"
	if c.datagrams() {
		network = "udp"
	}
	nc, err := (&net.Dialer{KeepAlive: -1, KeepAliveConfig: e.keepAlive()}).DialContext(ctx, network, c.remote.String())
	if err != nil {
		end := e.endOf(err, record.PhaseConnect, request.EndClientLimit)
		return &end
	}
	c.nc = nc
	c.local = addrPort(nc.LocalAddr())
	return nil
}

// keepAlive has the kernel probe only connections on which nothing else would
// ever find that the peer is gone, as often as that is found within the limit for an answer. Elsewhere it would only blur what is measured.
func (e *engine) keepAlive() net.KeepAliveConfig {
	if !e.standing() {
		return net.KeepAliveConfig{}
	}
	const maxProbes = 127 // of Linux (tcp(7), TCP_KEEPCNT)
	probes := min(max(e.plan.Limits.FirstByteNs/int64(time.Second), 1), maxProbes)
	return net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: int(probes)}
}

func (e *engine) secure(ctx context.Context, c *conn) *request.End {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.plan.Limits.TLSNs))
	defer cancel()
	secured := tls.Client(c.nc, e.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		end := e.endOf(err, record.PhaseTLS, request.EndBadTLS)
		return &end
	}
	c.nc = secured
	return nil
}

func addrPort(a net.Addr) netip.AddrPort {
	var at netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		at = a.AddrPort()
	case *net.UDPAddr:
		at = a.AddrPort()
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// endOf turns an error into a raw end. otherwise is its kind where it is no errno, no timeout, no end of the stream and not our own doing.
func (e *engine) endOf(err error, phase record.RequestPhase, otherwise request.EndKind) request.End {
	if e.ctx.Err() != nil {
		return *interrupted(phase)
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return request.End{Kind: request.EndErrno, Phase: phase, Errno: request.Symbol(errno)}
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case ok && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return request.End{Kind: request.EndTimeout, Phase: phase}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return request.End{Kind: request.EndEOF, Phase: phase}
	default:
		message := err.Error()
		return request.End{Kind: otherwise, Phase: phase, Message: strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")}
	}
}

// maxMessage bounds what is kept of an error's text: a certificate may name a hundred hosts.
const maxMessage = 200
