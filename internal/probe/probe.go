// Package probe is the bundled workload: it answers heartbeats over TCP and
// UDP and HTTP requests, always says who it is, and does on SIGTERM exactly what it was told.
//
// Everything it does on its own account (a forced reset, a flipped readiness)
// it writes to its log, one JSON object a line, so that a record can say what
// the harness caused itself.
//
// On SIGTERM with Drain only the listener for heartbeats closes. The HTTP
// listener answers until the end, because every readiness probe of the kubelet is
// a new connection, and refusing it would fail readiness against Keep.
//
// It must not know Kubernetes' libraries, the clients or the record; of the
// project it imports wire, clock and fault.
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
	ExitCode        int
	// TickEvery is how long a TCP connection may be idle before the probe sends a tick.
	TickEvery time.Duration
	// Instance and PodUID name it in every answer.
	Instance, PodUID string
	// TCP, UDP and HTTP are listen addresses, host:port.
	TCP, UDP, HTTP string
	// Log receives JSON lines.
	Log io.Writer
}

// Ports that the bundled manifests use.
const (
	PortTCP  = 7001
	PortUDP  = 7002
	PortHTTP = 7080
)

// Paths of the HTTP endpoint.
const (
	PathHealth = "/healthz" // 200 while the process lives
	PathReady  = "/readyz"  // 200 or 503: what the readiness probe asks
	PathSlow   = "/slow"    // ?for=8s: answers after so long; accepted requests are logged
	PathWho    = "/"        // instance, Pod UID, sequence number
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
	LogStarted         = "started"
	LogSigterm         = "sigterm"
	LogReadiness       = "readiness-flipped"
	LogListenerClosed  = "listener-closed"
	LogDrainBegan      = "drain-began"
	LogDrainEnded      = "drain-ended"
	LogForcedRST       = "forced-rst"
	LogExiting         = "exiting"
	LogRequestAccepted = "request-accepted"
	LogRequestDone     = "request-done"
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
