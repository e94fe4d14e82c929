package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// dialer opens connections to a plan's target.
type dialer struct {
	target request.Target
	// address is known where the host is one; otherwise lookup is asked for each connection.
	address netip.AddrPort
	literal bool
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// tls is nil for http.
	tls *tls.Config
}

func newDialer(p request.Plan) (*dialer, error) {
	d := &dialer{target: p.Target, lookup: net.DefaultResolver.LookupNetIP}
	d.address, d.literal = p.Target.Address()
	if p.Target.Scheme != "https" {
		return d, nil
	}
	d.tls = &tls.Config{ServerName: p.Target.TLS.ServerName, InsecureSkipVerify: p.Target.TLS.Insecure, NextProtos: []string{"http/1.1"}}
	if d.tls.ServerName == "" {
		d.tls.ServerName = p.Target.Host
	}
	if overHTTP2(p.Mode) {
		d.tls.NextProtos = []string{"h2"}
	}
	if ca := p.Target.TLS.CA; len(ca) > 0 {
		d.tls.RootCAs = x509.NewCertPool()
		if !d.tls.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fault.Usagef("give certificates in PEM, as a file that begins with -----BEGIN CERTIFICATE-----", "no certificate in the CA that the server is to be checked with")
		}
	}
	return d, nil
}

// connection is an open one, and what results say about it.
type connection struct {
	net.Conn // TLS, or the TCP connection itself
	tcp      *net.TCPConn
	secure   bool
	// openedNs is when it was asked for.
	openedNs      int64
	local, remote netip.AddrPort
}

// abort lets go of it at once with a RST, so that no port stays behind in TIME_WAIT.
func (c *connection) abort() {
	_ = c.tcp.SetLinger(0)
	_ = c.tcp.Close()
}

// dial opens a connection, each phase within its limit. It is nil where that failed; a has then ended.
func (d *dialer) dial(a *attempt) *connection {
	// Nothing of a connection that the attempt was on before is true of this one.
	a.Local, a.Remote, a.Reused, a.ConnRequests, a.Instance, a.BytesReceived = netip.AddrPort{}, netip.AddrPort{}, false, 0, "", 0
	a.ConnOpenedNs = clock.MonoNs()
	remote, ok := d.resolve(a)
	if !ok {
		return nil
	}
	a.Remote = remote
	ctx, cancel := context.WithDeadline(a.ctx, a.by(a.limits.ConnectNs))
	defer cancel()
	// No TCP keep-alive: only the plan's limits end what has gone silent.
	tcp, err := (&net.Dialer{KeepAlive: -1}).DialTCP(ctx, "tcp", netip.AddrPort{}, remote)
	if err != nil {
		a.fail(err, record.PhaseConnect)
		return nil
	}
	c := &connection{Conn: tcp, tcp: tcp, openedNs: a.ConnOpenedNs, remote: remote, local: unmapped(tcp.LocalAddr())}
	a.Local = c.local
	if d.tls == nil {
		return c
	}
	ctx, cancel = context.WithDeadline(a.ctx, a.by(a.limits.TLSNs))
	defer cancel()
	secure := tls.Client(tcp, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		a.fail(err, record.PhaseTLS)
		return nil
	}
	if got := secure.ConnectionState().NegotiatedProtocol; d.tls.NextProtos[0] == "h2" && got != "h2" {
		_ = tcp.Close()
		a.end(request.End{Kind: request.EndBadTLS, Phase: record.PhaseTLS, Message: "the server does not offer HTTP/2 (ALPN)"})
		return nil
	}
	c.Conn, c.secure = secure, true
	return c
}

// resolve gives the address to connect to: the first, IPv4 before IPv6.
func (d *dialer) resolve(a *attempt) (netip.AddrPort, bool) {
	if d.literal {
		return d.address, true
	}
	ctx, cancel := context.WithDeadline(a.ctx, a.by(a.limits.DNSNs))
	defer cancel()
	found, err := d.lookup(ctx, "ip", d.target.Host)
	if err != nil {
		a.end(a.nameEnd(err))
		return netip.AddrPort{}, false
	}
	if len(found) == 0 {
		a.end(request.End{Kind: request.EndNoName, Phase: record.PhaseDNS, Message: "no address"})
		return netip.AddrPort{}, false
	}
	i := max(0, slices.IndexFunc(found, func(ip netip.Addr) bool { return ip.Unmap().Is4() }))
	return netip.AddrPortFrom(found[i].Unmap(), d.target.Port), true
}

// nameEnd is the end of a lookup that failed.
func (a *attempt) nameEnd(err error) request.End {
	if a.ctx.Err() != nil {
		return a.overdue(record.PhaseDNS)
	}
	dns, ok := errors.AsType[*net.DNSError](err)
	switch {
	case !ok:
		return request.End{Kind: request.EndNoName, Phase: record.PhaseDNS, Message: brief(err.Error())}
	case dns.IsTimeout:
		return request.End{Kind: request.EndTimeout, Phase: record.PhaseDNS}
	case strings.Contains(dns.Err, syscall.EMFILE.Error()):
		// Of what kept it from asking, net leaves the text alone. ENFILE's begins with EMFILE's; both are the client's own.
		return limitEnd(record.PhaseDNS, dns.Err)
	default:
		return request.End{Kind: request.EndNoName, Phase: record.PhaseDNS, Message: brief(dns.Err)}
	}
}

func unmapped(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
