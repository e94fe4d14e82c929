package client

import (
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// modes are those that this package sends itself.
var modes = []request.Mode{request.NewConnection, request.KeepAlive, request.HTTP2, request.GRPC, request.GRPCStream}

// check refuses what cannot be sent as it was meant.
func check(p request.Plan) error {
	t, l := p.Target, p.Limits
	switch {
	case !slices.Contains(modes, p.Mode):
		return fault.Usagef("see `drainproof test --help`", "there is no mode %q", p.Mode)
	case !(p.Rate > 0) || p.Users < 1: // NaN is not above zero either
		return fault.Usagef("give a rate and a number of users above 0", "a rate of %g per second over %d users sends nothing", p.Rate, p.Users)
	case min(l.DNSNs, l.ConnectNs, l.TLSNs, l.FirstByteNs, l.WholeNs) <= 0:
		return fault.Usagef("give durations such as 5s", "every timeout must be above zero")
	case t.Scheme != "http" && t.Scheme != "https":
		return fault.Usagef("give a URL with http or https", "mode %s does not send to %s://", p.Mode, t.Scheme)
	case t.Host == "" || t.Port == 0:
		return fault.Usagef("give a URL such as http://web.shop:80/", "the target has no host or no port")
	case !strings.HasPrefix(t.Path, "/") || strings.ContainsFunc(t.Path, notInTarget):
		return fault.Usagef("a path begins with a slash and is percent-encoded", "%q is no path of a request", t.Path)
	case !httpguts.ValidHostHeader(authority(t)):
		return fault.Usagef("give a name such as shop.example", "%q is no host for a request", t.Authority)
	case !overGRPC(p.Mode) && !httpguts.ValidHeaderFieldName(t.Method):
		return fault.Usagef("give a method such as GET", "%q is no method", t.Method)
	}
	for _, h := range t.Headers {
		if err := checkHeader(p.Mode, h); err != nil {
			return err
		}
	}
	return nil
}

// notInTarget tells the bytes that would end a request line, or a target in it (RFC 9112, 3.2).
func notInTarget(r rune) bool { return r <= ' ' || r >= 0x7f }

// ours are the headers that the client itself writes, or must not write: where
// the request goes and where it ends, what holds for one hop alone (RFC 9110,
// 7.6.1; RFC 9113, 8.2.2), and why each cannot be chosen.
var ours = map[string]string{
	"host":              "the authority says it",
	"content-length":    "the body says it",
	"transfer-encoding": "the body is sent with its length",
	"connection":        "the mode decides how long a connection is kept",
	"keep-alive":        "the mode decides how long a connection is kept",
	"proxy-connection":  "the mode decides how long a connection is kept",
	"upgrade":           "the mode decides the protocol",
	"http2-settings":    "the mode decides the protocol",
	"te":                "it holds for one hop alone",
	"trailer":           "the body is sent without trailers",
}

var oursInGRPC = map[string]string{
	"content-type":         "gRPC decides it",
	"grpc-timeout":         "the timeout of the whole request decides it",
	"grpc-encoding":        "the message is sent as it is",
	"grpc-accept-encoding": "the message is sent as it is",
}

func checkHeader(m request.Mode, h request.Header) error {
	name := strings.ToLower(h.Name)
	why, taken := ours[name]
	if !taken && overGRPC(m) {
		why, taken = oursInGRPC[name]
	}
	switch {
	case strings.HasPrefix(name, ":"):
		return fault.Usagef("leave it out: method, path and authority have their own places", "the header %s cannot be set", h.Name)
	case taken:
		return fault.Usagef("leave it out: "+why, "the header %s cannot be set", h.Name)
	case !httpguts.ValidHeaderFieldName(h.Name):
		return fault.Usagef("give it as Name: value", "%q is no name of a header", h.Name)
	case !httpguts.ValidHeaderFieldValue(h.Value):
		return fault.Usagef("leave out line ends and other control characters", "the value of the header %s holds bytes that no header may", h.Name)
	}
	return nil
}

// overHTTP2 tells the modes whose connections speak HTTP/2.
func overHTTP2(m request.Mode) bool { return m == request.HTTP2 || overGRPC(m) }

func overGRPC(m request.Mode) bool { return m == request.GRPC || m == request.GRPCStream }
