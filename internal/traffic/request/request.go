// Package request is what it means to send requests: the plan, the schedule,
// how a raw end becomes an outcome, and the compact form in which a million of them are kept.
//
// It sends nothing itself: the engines eventloop (HTTP/1.1 without TLS, at the
// machine's speed) and client (everything else) do, and hand each result to a
// Collector. Times are CLOCK_MONOTONIC nanoseconds of the process that sends.
//
// It must not know Kubernetes, triggers or records beyond the enums.
package request

import (
	"net/netip"
	"time"

	"github.com/drainproof/drainproof/internal/record"
)

// Mode is how requests are sent.
type Mode string

const (
	// NewConnection: HTTP/1.1, a connection for each request, so that every request asks the data plane.
	NewConnection Mode = "new-connection"
	// KeepAlive: HTTP/1.1, each user keeps its connections.
	KeepAlive Mode = "keep-alive"
	// HTTP2: one connection a user, h2c by prior knowledge for http, ALPN for https.
	HTTP2 Mode = "http2"
	// GRPC: unary calls, each user on its connection.
	GRPC Mode = "grpc"
	// GRPCStream: each user holds one open stream; an exchange is its opening, and from then on an HTTP/2 SETTINGS frame and its acknowledgement
	// (servers end connections that send many pings).
	GRPCStream Mode = "grpc-stream"
	// WebSocket: each user holds one connection; an exchange is a ping and its pong.
	WebSocket Mode = "websocket"
	// TCP and UDP: each user holds one raw flow; an exchange is the body sent and any answer received.
	TCP Mode = "tcp"
	UDP Mode = "udp"
)

// Modes lists every mode, the default first.
func Modes() []Mode {
	return []Mode{NewConnection, KeepAlive, HTTP2, GRPC, GRPCStream, WebSocket, TCP, UDP}
}

// Held reports whether users of m hold one long connection each, whose end is a loss by itself.
func (m Mode) Held() bool { return m == GRPCStream || m == WebSocket || m == TCP || m == UDP }

// Plan is what one client is to send.
type Plan struct {
	Mode Mode `json:"mode"`
	// Rate is requests per second over all users of this client. They leave at start + PhaseNs + k/Rate,
	// whatever the server does; request k belongs to user FirstUser + k mod Users.
	Rate      float64 `json:"rate"`
	Users     int     `json:"users"`
	FirstUser int     `json:"first_user"`
	// PhaseNs shifts the schedule, so that several clients interleave.
	PhaseNs int64  `json:"phase_ns"`
	Target  Target `json:"target"`
	// Expect are the good statuses; for gRPC modes the good gRPC statuses.
	Expect []StatusRange `json:"expect"`
	Limits Limits        `json:"limits"`
	// InstanceHeader names the response header that tells the answering instance; empty for none.
	InstanceHeader string `json:"instance_header"`
}

// Target is where requests go and what they are.
type Target struct {
	// Scheme is http, https, tcp or udp.
	Scheme string `json:"scheme"`
	// Host is a name or an IP address, without port or brackets.
	Host string `json:"host"`
	Port uint16 `json:"port"`
	// Authority is the Host header or :authority; empty for Host:Port.
	Authority string `json:"authority"`
	// Path with query, beginning with a slash; for gRPC /service/method.
	Path    string   `json:"path"`
	Method  string   `json:"method"`
	Headers []Header `json:"headers"`
	// Body is the request's body; for gRPC one encoded message, for tcp and udp what is sent.
	Body []byte `json:"body"`
	TLS  TLS    `json:"tls"`
}

// Header is one request header.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TLS says how https is checked.
type TLS struct {
	// CA is PEM; empty for the system's.
	CA []byte `json:"ca"`
	// ServerName for SNI and the check; empty for Host.
	ServerName string `json:"server_name"`
	// Insecure checks nothing.
	Insecure bool `json:"insecure"`
}

// Address gives Host as an address where it is one.
func (t Target) Address() (netip.AddrPort, bool) {
	ip, err := netip.ParseAddr(t.Host)
	return netip.AddrPortFrom(ip.Unmap(), t.Port), err == nil
}

// StatusRange is an inclusive range of statuses.
type StatusRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Limits bound the phases of one request, each from its own begin, Whole from the first; none is zero.
type Limits struct {
	DNSNs       int64 `json:"dns_ns"`
	ConnectNs   int64 `json:"connect_ns"`
	TLSNs       int64 `json:"tls_ns"`
	FirstByteNs int64 `json:"first_byte_ns"`
	WholeNs     int64 `json:"whole_ns"`
}

// DefaultLimits are generous for a service and short for a test.
func DefaultLimits() Limits {
	return Limits{
		DNSNs: int64(2 * time.Second), ConnectNs: int64(2 * time.Second), TLSNs: int64(3 * time.Second),
		FirstByteNs: int64(10 * time.Second), WholeNs: int64(15 * time.Second),
	}
}

// EndKind is how a request ended, before any judgement. A closed list.
type EndKind string

const (
	EndAnswered EndKind = "answered" // whole
	EndErrno    EndKind = "errno"
	EndEOF      EndKind = "eof"
	EndTimeout  EndKind = "timeout" // of the phase it was in, or of the whole
	// EndBadAnswer: what came breaks the protocol. EndBadTLS: the handshake failed by what the peer said.
	EndBadAnswer EndKind = "bad-answer"
	EndBadTLS    EndKind = "bad-tls"
	// EndNoName: the name is not known, or its server did not answer.
	EndNoName EndKind = "no-name"
	// EndGoaway: the connection was announced to end, and this request not taken on (GOAWAY with a lower stream id, REFUSED_STREAM).
	EndGoaway EndKind = "goaway"
	// EndStreamReset: the server ended the stream alone (RST_STREAM); Message names the code.
	EndStreamReset EndKind = "stream-reset"
	// EndClientLimit: the client's own failure; Errno or Message says which.
	EndClientLimit EndKind = "client-limit"
)

// End is a raw end.
type End struct {
	Kind  EndKind
	Phase record.RequestPhase
	// Errno is the symbol, such as ECONNRESET; empty without one.
	Errno   string
	Message string
}

// Result is one request that ended. Engines fill every field that they know.
type Result struct {
	// User counts from 0 within the plan, FirstUser not added.
	User int
	// PlannedNs is when it was due, SentNs when the client began it (0: never), EndedNs when it ended.
	PlannedNs, SentNs, EndedNs int64
	End                        End
	// Reused: it was not the first on its connection.
	Reused bool
	// Status is HTTP's or gRPC's; 0 without an HTTP answer, -1 without a gRPC status.
	Status int
	// Instance by the plan's header, or what the connection was answered by before; empty where unknown.
	Instance      string
	BytesReceived int64
	// Local and Remote need to be known for failures only.
	Local, Remote netip.AddrPort
	// ConnOpenedNs is when the connection was asked for; ConnRequests how many requests it had carried before.
	ConnOpenedNs int64
	ConnRequests int
}

// Sink takes results and the client's own troubles. Calls come from one goroutine at a time of an engine, and must not block.
type Sink interface {
	Done(r Result)
	// Reconnected counts a connection opened in place of one that was closed in order while nothing was under way.
	Reconnected()
}

// Engine is running traffic.
type Engine interface {
	// Stop ends the schedule, waits for what is under way (bounded by the plan's limits), and lets go of everything.
	Stop()
}
