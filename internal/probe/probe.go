// Package probe is the bundled workload: it answers heartbeats over TCP and
// UDP, requests over HTTP/1.1, HTTP/2 without TLS and gRPC, and WebSockets, always
// says who it is, and does on SIGTERM exactly what it was told.
//
// Everything it does on its own account (a forced reset, a flipped readiness)
// it writes to its log, one JSON object a line, so that a record can say what
// the harness caused itself.
//
// On SIGTERM with Drain only the listener for heartbeats closes. The HTTP
// listener answers until the end, because every readiness probe of the kubelet is
// a new connection, and refusing it would fail readiness against Keep. With Finish, which
// is what a server's own graceful shutdown does, it closes at once; readiness is then asked at
// a listener of its own (Health), which answers from the first moment to the last.
//
// It must not know Kubernetes' libraries, the clients or the record; of the
// project it imports wire, its framing of WebSockets, clock and fault.
package probe

import (
	"context"
	"io"
	"os"
	"time"
)

// Behaviour on SIGTERM.
type Behaviour string

const (
	// Exit at once, resetting every TCP connection (SO_LINGER 0) unless NoForceRST.
	Exit Behaviour = "exit"
	// Drain: stop accepting, keep serving, announce, close at the end of DrainWindow.
	Drain Behaviour = "drain"
	// Finish: stop accepting (UDP apart), finish the requests in flight, then exit; at the end of DrainWindow in any case.
	Finish Behaviour = "finish"
	// Ignore SIGTERM; only SIGKILL ends it.
	Ignore Behaviour = "ignore"
)

// Readiness on SIGTERM.
type Readiness string

const (
	Fail Readiness = "fail"
	Keep Readiness = "keep"
)

// Config is one probe. The zero value of an address means a port of the kernel's choice on all addresses.
type Config struct {
	Behaviour       Behaviour
	ForceRST        bool
	ReadinessOnTerm Readiness
	DrainWindow     time.Duration
	// Announce, with Finish only: kept connections are told of the end, each in its protocol's
	// way. Without it they stay open until the kernel closes them at the exit.
	Announce bool
	// StartDelay passes before it listens (Health apart): an application that takes its time to start.
	StartDelay time.Duration
	ExitCode   int
	// TickEvery is how long a TCP connection may be idle before the probe sends a tick.
	TickEvery time.Duration
	// Instance and PodUID name it in every answer.
	Instance, PodUID string
	// TCP, UDP and HTTP are listen addresses, host:port.
	TCP, UDP, HTTP string
	// Health is one more listen address, for PathHealth and PathReady only; empty for none. HTTP serves both in any case.
	Health string
	// Log receives JSON lines.
	Log io.Writer
}

// Ports that the bundled manifests use.
const (
	PortTCP    = 7001
	PortUDP    = 7002
	PortHTTP   = 7080
	PortHealth = 7081
)

// Paths of the HTTP endpoint.
const (
	PathHealth = "/healthz" // 200 while the process lives
	PathReady  = "/readyz"  // 200 or 503: what the readiness probe asks
	PathSlow   = "/slow"    // ?for=8s: answers after so long; accepted requests are logged
	PathWho    = "/"        // instance, Pod UID, sequence number; with ?bytes=1000 so many bytes instead
	PathDrain  = "/drain"   // what a preStop hook calls: readiness fails from then on
	PathWS     = "/ws"      // a WebSocket that echoes
)

// Methods of gRPC's health service, on the HTTP port: Check answers, Watch stays open.
const (
	PathCheck = "/grpc.health.v1.Health/Check"
	PathWatch = "/grpc.health.v1.Health/Watch"
)

// Headers of every HTTP answer.
const (
	HeaderInstance = "Drainproof-Instance"
	HeaderPodUID   = "Drainproof-Pod-Uid"
)

// LogLine is one line of the probe's log.
type LogLine struct {
	// Event is one of the Log constants.
	Event      string `json:"event"`
	MonoNs     int64  `json:"mono_ns"`
	WallUnixNs int64  `json:"wall_unix_ns"`
	BootID     string `json:"boot_id,omitempty"` // in LogStarted
	Instance   string `json:"instance"`
	PodUID     string `json:"pod_uid"`
	// Detail holds raw values: addresses, counts, exit code, a request's id.
	Detail map[string]any `json:"detail,omitempty"`
}

// Events of the log.
const (
	LogStarting        = "starting" // the process began; it does not listen yet
	LogStarted         = "started"  // it listens
	LogSigterm         = "sigterm"
	LogReadiness       = "readiness-flipped"
	LogListenerClosed  = "listener-closed"
	LogDrainBegan      = "drain-began"
	LogDrainEnded      = "drain-ended"
	LogForcedRST       = "forced-rst"
	LogExiting         = "exiting"
	LogRequestAccepted = "request-accepted"
	LogRequestDone     = "request-done"
	LogHookDrain       = "hook-drain" // PathDrain was called
	LogFailed          = "failed"
	// LogRefused: a client spoke junk and was turned away. Only the first hundred are logged; LogExiting counts them all.
	LogRefused = "refused"
)

// Run serves until its behaviour on a signal from signals ends it, or ctx
// does, and returns the exit code. An error means that it could not start. started, when
// not nil, is called once with the addresses that it listens on.
func Run(ctx context.Context, c Config, signals <-chan os.Signal, started func(tcp, udp, http string)) (int, error) {
	return run(ctx, c, signals, started)
}
