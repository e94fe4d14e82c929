package client

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// everyMode runs f for each mode that this package sends itself.
func everyMode(t *testing.T, f func(t *testing.T, m request.Mode)) {
	for _, m := range modes {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			f(t, m)
		})
	}
}

// dialerOf is the one of the rig's sender.
func (r *rig) dialer() *dialer {
	switch s := r.sender.(type) {
	case *http1Sender:
		return s.dialer
	case *http2Sender:
		return s.dialer
	default:
		return s.(*streamSender).dialer
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, m request.Mode) {
		addr := closedPort(t)
		r := newRig(t, planFor(t, m, addr))
		res := r.send(t)
		r.want(t, res, record.Refused, record.PhaseConnect)
		if res.End.Errno != "ECONNREFUSED" || res.Remote.String() != addr || res.ConnOpenedNs == 0 {
			t.Errorf("%+v", res)
		}
	})
}

func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, m request.Mode) {
		p := planFor(t, m, closedPort(t))
		p.Limits.ConnectNs = 1 // over before the SYN is out
		r := newRig(t, p)
		r.want(t, r.send(t), record.ConnectTimeout, record.PhaseConnect)
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	addr := listen(t, func(*net.TCPConn, int) {})
	never := func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	}
	fails := func(err error) func(context.Context, string, string) ([]netip.Addr, error) {
		return func(context.Context, string, string) ([]netip.Addr, error) { return nil, err }
	}
	for _, c := range []struct {
		name   string
		lookup func(context.Context, string, string) ([]netip.Addr, error)
		end    request.End
	}{
		{"unknown", fails(&net.DNSError{Err: "no such host", IsNotFound: true}), request.End{Kind: request.EndNoName, Message: "no such host"}},
		{"its server fails", fails(&net.DNSError{Err: "server misbehaving"}), request.End{Kind: request.EndNoName, Message: "server misbehaving"}},
		{"no answer in time", never, request.End{Kind: request.EndTimeout}},
		{"no address", fails(nil), request.End{Kind: request.EndNoName, Message: "no address"}},
		{"another error", fails(errors.New("odd")), request.End{Kind: request.EndNoName, Message: "odd"}},
		{"no descriptor to ask with", fails(&net.DNSError{Err: "dial udp 10.0.0.10:53: socket: " + syscall.EMFILE.Error()}),
			request.End{Kind: request.EndClientLimit, Message: "dial udp 10.0.0.10:53: socket: too many open files"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			everyMode(t, func(t *testing.T, m request.Mode) {
				p := planFor(t, m, addr)
				p.Target.Host, p.Limits.DNSNs = "shop.example", short
				r := newRig(t, p)
				r.dialer().lookup = c.lookup
				want := c.end
				want.Phase = record.PhaseDNS
				if res := r.send(t); res.End != want || res.Remote.IsValid() {
					t.Errorf("%+v, want %+v", res, want)
				}
			})
		})
	}
}

// Each new connection asks again, and takes the first IPv4 address.
func TestNameIsAskedForEachConnection(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	p := planFor(t, request.NewConnection, srv.Listener.Addr().String())
	p.Target.Host = "shop.example"
	r := newRig(t, p)
	asked := 0
	r.dialer().lookup = func(_ context.Context, network, host string) ([]netip.Addr, error) {
		asked++
		if network != "ip" || host != "shop.example" {
			t.Errorf("asked for %s %s", network, host)
		}
		return []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("192.0.2.1")}, nil
	}
	for range 2 {
		res := r.send(t)
		r.want(t, res, record.OK, record.PhaseDone)
		if res.Remote.String() != srv.Listener.Addr().String() {
			t.Errorf("connected to %v", res.Remote)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times for 2 connections", asked)
	}
}

func TestTLSFailures(t *testing.T) {
	t.Parallel()
	own := quietTLS(t, func(http.ResponseWriter, *http.Request) {}).Listener.Addr().String()
	hello := func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)) }
	for _, c := range []struct {
		name, addr string
		kind       request.EndKind
		message    string
	}{
		{"a certificate of an unknown authority", own, request.EndBadTLS, "unknown authority"},
		{"plain HTTP", listen(t, func(c *net.TCPConn, _ int) { hello(c); fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }), request.EndBadTLS, "does not look like a TLS handshake"},
		{"closed", listen(t, func(c *net.TCPConn, _ int) { _ = c.CloseWrite(); hang(c) }), request.EndEOF, ""},
		{"reset", listen(t, func(c *net.TCPConn, _ int) { hello(c); rst(c) }), request.EndErrno, ""},
		{"silence", listen(t, func(c *net.TCPConn, _ int) { hang(c) }), request.EndTimeout, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			everyMode(t, func(t *testing.T, m request.Mode) {
				p := planFor(t, m, c.addr)
				p.Target.Scheme = "https"
				if c.kind == request.EndTimeout {
					p.Limits.TLSNs = short
				}
				r := newRig(t, p)
				res := r.send(t)
				r.want(t, res, record.TLSFailure, record.PhaseTLS)
				if res.End.Kind != c.kind || !strings.Contains(res.End.Message, c.message) {
					t.Errorf("%+v, want %s with %q", res.End, c.kind, c.message)
				}
			})
		})
	}
}

func TestTLSWithoutHTTP2(t *testing.T) {
	t.Parallel()
	for _, alpn := range [][]string{nil, {"http/1.1"}} {
		srv := quietTLS(t, http.NotFound, func(s *httptest.Server) {
			// Only a configuration for each client keeps net/http from adding to it.
			s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return &tls.Config{NextProtos: alpn, Certificates: s.TLS.Certificates}, nil
			}}
		})
		for _, m := range []request.Mode{request.HTTP2, request.GRPC, request.GRPCStream} {
			p := planFor(t, m, srv.Listener.Addr().String())
			p.Target.Scheme, p.Target.TLS.Insecure = "https", true
			r := newRig(t, p)
			r.want(t, r.send(t), record.TLSFailure, record.PhaseTLS)
		}
	}
}

// What TLS is checked by: a CA and a name, or nothing.
func TestTLS(t *testing.T) {
	t.Parallel()
	for _, m := range []request.Mode{request.NewConnection, request.KeepAlive, request.HTTP2} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			srv := quietTLS(t, func(_ http.ResponseWriter, r *http.Request) {
				if (r.ProtoMajor == 2) != (m == request.HTTP2) {
					t.Errorf("%s arrived as %s", m, r.Proto)
				}
			})
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
			for _, c := range []struct {
				name string
				tls  request.TLS
				want record.RequestOutcome
			}{
				{"the address is in the certificate", request.TLS{CA: ca}, record.OK},
				{"a name that is in it", request.TLS{CA: ca, ServerName: "example.com"}, record.OK},
				{"a name that is not", request.TLS{CA: ca, ServerName: "shop.invalid"}, record.TLSFailure},
				{"nothing checked", request.TLS{Insecure: true}, record.OK},
			} {
				p := planFor(t, m, srv.Listener.Addr().String())
				p.Target.Scheme, p.Target.TLS = "https", c.tls
				r := newRig(t, p)
				for i := range 3 {
					res := r.send(t)
					if got := request.Classify(m, p.Expect, res.End, res.Status); got != c.want {
						t.Fatalf("%s: %s, want %s: %+v", c.name, got, c.want, res.End)
					}
					if c.want == record.OK && res.Reused != (i > 0 && m != request.NewConnection) {
						t.Errorf("%s: request %d reused: %v", c.name, i, res.Reused)
					}
				}
			}
		})
	}
}

// A server may refuse a client only after the handshake (TLS 1.3): the alert comes in place of the answer.
func TestTLSAlertAfterTheHandshake(t *testing.T) {
	t.Parallel()
	srv := quietTLS(t, http.NotFound, func(s *httptest.Server) {
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	})
	for _, m := range modes {
		p := planFor(t, m, srv.Listener.Addr().String())
		p.Target.Scheme, p.Target.TLS.Insecure = "https", true
		r := newRig(t, p)
		res := r.send(t)
		if got := request.Classify(m, p.Expect, res.End, res.Status); got != record.TLSFailure || !strings.Contains(res.End.Message, "certificate required") {
			t.Errorf("%s: %s: %+v", m, got, res.End)
		}
	}
}

// What no server on loopback can make the kernel say.
func TestErrnos(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		errno syscall.Errno
		name  string
		want  record.RequestOutcome
	}{
		{syscall.EHOSTUNREACH, "EHOSTUNREACH", record.Unreachable},
		{syscall.ENETUNREACH, "ENETUNREACH", record.Unreachable},
		{syscall.ETIMEDOUT, "ETIMEDOUT", record.ConnectTimeout},
		{syscall.EADDRNOTAVAIL, "EADDRNOTAVAIL", record.ClientLimited},
		{syscall.EMFILE, "EMFILE", record.ClientLimited},
		{syscall.Errno(4000), "errno 4000", record.ClientLimited},
	} {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", c.errno)}
		e := endOf(err, record.PhaseConnect)
		if got := request.Classify(request.HTTP2, nil, e, 0); e.Errno != c.name || got != c.want {
			t.Errorf("%v: %s as %q, want %s as %q", c.errno, got, e.Errno, c.want, c.name)
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	if got := brief("a\nb\x00c\xff" + strings.Repeat("x", 500)); !strings.HasPrefix(got, "a b cxxx") || len(got) > briefLen {
		t.Errorf("%q", got)
	}
}
