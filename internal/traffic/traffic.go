// Package traffic is the client: it holds flows, notices how each one ends and
// keeps what it saw, without judging why.
//
// The same engine runs in this process or as a worker elsewhere (`drainproof
// worker`, in a Pod, over its stdin and stdout): Session is the coordinator's end of
// one protocol that both speak (protocol.go). Times are CLOCK_MONOTONIC
// nanoseconds of the process that holds the flows; the coordinator ties them to its own.
//
// It must not know Kubernetes, how a workload is terminated, or how a record
// is assembled; of the project it imports record (for the enums), wire, clock, stats and fault.
package traffic

import (
	"context"
	"io"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
)

// Plan is what a client is to hold. It is the same wherever the client runs.
type Plan struct {
	Flows []FlowPlan `json:"flows"`
	// HeartbeatNs is the interval between two pings of one flow. Flows are spread evenly over it.
	HeartbeatNs int64 `json:"heartbeat_ns"`
	// ReadTimeoutNs: a flow whose oldest unanswered ping is older than this has ended.
	ReadTimeoutNs int64 `json:"read_timeout_ns"`
	// ConnectTimeoutNs bounds opening one flow, first answer included.
	ConnectTimeoutNs int64 `json:"connect_timeout_ns"`
}

// FlowPlan is one flow to hold.
type FlowPlan struct {
	ID       string          `json:"id"`
	Protocol record.Protocol `json:"protocol"`
	// Address is IP:port; names are resolved by the coordinator, once, before.
	Address string `json:"address"`
}

// Note is what the client tells at once, in the order in which it happened.
type Note struct {
	Kind NoteKind `json:"kind"`
	// MonoNs is on the client's clock.
	MonoNs int64 `json:"mono_ns"`
	// Flow is the flow's id; empty for notes on the client as a whole.
	Flow string `json:"flow,omitempty"`
	// Instance and PodUID: who answered (opened, rehomed).
	Instance string `json:"instance,omitempty"`
	PodUID   string `json:"pod_uid,omitempty"`
	Local    string `json:"local,omitempty"`
	Remote   string `json:"remote,omitempty"`
	// ClosesInMs comes with announced-draining.
	ClosesInMs int64 `json:"closes_in_ms,omitempty"`
	// End comes with ended.
	End *RawEnd `json:"end,omitempty"`
}

// NoteKind is a closed list.
type NoteKind string

const (
	NoteOpened   NoteKind = "opened"   // first answer received
	NoteDraining NoteKind = "draining" // the server said that it will close
	NoteBye      NoteKind = "bye"      // the server announced its FIN
	NoteRehomed  NoteKind = "rehomed"  // another instance answered; the flow goes on being held
	// NoteRefused: an ICMP error answered a datagram; the flow goes on being held, End says who sent it.
	NoteRefused NoteKind = "refused"
	NoteEnded   NoteKind = "ended"
)

// RawEnd is how a flow ended, before any judgement. Classify turns it into an outcome.
type RawEnd struct {
	Kind EndKind `json:"kind"`
	// Errno is the symbol, such as ECONNRESET; "" without one.
	Errno string `json:"errno,omitempty"`
	// LastAnswerMonoNs is the last proof of life before it; 0 without any.
	LastAnswerMonoNs int64        `json:"last_answer_mono_ns"`
	PartialBytes     int          `json:"partial_bytes"`
	Promised         bool         `json:"promised"`
	Announced        bool         `json:"announced"`
	Unanswered       uint64       `json:"unanswered"`
	ICMP             *record.ICMP `json:"icmp,omitempty"`
}

// EndKind is a closed list of raw ends; the record's FlowDetail.End holds the same words.
type EndKind string

const (
	EndEOF           EndKind = "eof"
	EndReadError     EndKind = "read-error"
	EndWriteError    EndKind = "write-error"
	EndNoAnswer      EndKind = "no-answer"
	EndOtherInstance EndKind = "other-instance"
	EndWindowClosed  EndKind = "window-closed"
	EndClientLimit   EndKind = "client-limit"
	// EndNotOpened: it never got a first answer within the connect timeout.
	EndNotOpened EndKind = "not-opened"
	// EndClientLost: the worker that held it was lost first. Only in a report that came with an error.
	EndClientLost EndKind = "client-lost"
)

// FlowReport is the last word on one flow, given when the session is closed.
type FlowReport struct {
	ID           string          `json:"id"`
	Protocol     record.Protocol `json:"protocol"`
	Local        string          `json:"local"`
	Remote       string          `json:"remote"`
	OpenedMonoNs int64           `json:"opened_mono_ns"` // 0: never opened
	// First* and Last* name who answered first and last.
	FirstInstance string `json:"first_instance"`
	FirstPodUID   string `json:"first_pod_uid"`
	LastInstance  string `json:"last_instance"`
	LastPodUID    string `json:"last_pod_uid"`
	LastSeq       uint64 `json:"last_seq"`
	Sent          uint64 `json:"sent"`
	Answered      uint64 `json:"answered"`
	// RehomedMonoNs is the first answer from another instance; 0 without.
	RehomedMonoNs int64 `json:"rehomed_mono_ns"`
	// RehomeEnd is the raw end that a rehome is: what was last heard of the first instance.
	RehomeEnd *RawEnd `json:"rehome_end,omitempty"`
	// EndedMonoNs and End are how the socket ended: window-closed for those that lived.
	EndedMonoNs int64  `json:"ended_mono_ns"`
	End         RawEnd `json:"end"`
}

// Report is what a closed session leaves.
type Report struct {
	Flows  []FlowReport        `json:"flows"`
	Health record.ClientHealth `json:"health"`
	// Unsent counts heartbeats that found a full socket buffer, or whose time was over before the client came to them.
	Unsent uint64 `json:"unsent"`
	// Answers says how long after its planned time a heartbeat was answered; nil without any answer.
	Answers *AnswerTimes `json:"answers"`
}

// AnswerTimes are quantiles over all answered heartbeats, from the planned time of the ping.
type AnswerTimes struct {
	P50Ns  int64 `json:"p50_ns"`
	P999Ns int64 `json:"p999_ns"`
	MaxNs  int64 `json:"max_ns"`
}

// Status is a look at a client while it runs.
type Status struct {
	// Flows were planned, Opening have no answer yet, Live have not ended (Opening included).
	Flows   int                 `json:"flows"`
	Opening int                 `json:"opening"`
	Live    int                 `json:"live"`
	Health  record.ClientHealth `json:"health"`
}

// holder is what holds the flows: the engine, seen by the worker.
type holder interface {
	// Open starts the flows of a valid plan. done is called once, with what could not be opened and why; it must not block.
	Open(p Plan, done func(failures []string)) error
	Status() Status
	// Close ends all flows and gives the report, once.
	Close() *Report
}

// Session is a running client, wherever it runs. Its methods are for one
// goroutine; notes come in the order in which they happened.
type Session interface {
	// Clock gives the offset of the client's clock against this process's.
	Clock() (clock.Offset, clock.Reading)
	// Open starts all flows and returns when each has its first answer, or
	// with an error that names the flows that have none and why.
	Open(ctx context.Context, p Plan) error
	// Notes is closed when the session has ended, and must be read until then.
	// It never blocks the flows: it is buffered without bound, as notes are few.
	Notes() <-chan Note
	// Close ends the observation: flows still alive are closed by the client
	// and reported as window-closed. It returns the report, and an error when
	// the client was lost (the report is then what is known, possibly nil).
	Close(ctx context.Context) (*Report, error)
}

// StartLocal runs the client in this process. Only on Linux; elsewhere the
// error says to use vantage pod.
func StartLocal() (Session, error) {
	s, err := startLocal()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Option changes how Dial works.
type Option func(*dialer)

// ExpectVersion refuses a worker whose version is another than v: one trial is measured by one program.
func ExpectVersion(v string) Option { return func(d *dialer) { d.version = v } }

// Dial speaks to a worker over its stdout, which is read, and its stdin,
// which is written. The handshake measures its clock, so a session that is
// never opened serves to learn a clock alone. closeTransport is called once, at the
// end or when ctx ends during the handshake, and must make a pending read of stdout return.
func Dial(ctx context.Context, stdout io.Reader, stdin io.Writer, closeTransport func() error, options ...Option) (Session, error) {
	s, err := dial(ctx, stdout, stdin, closeTransport, options...)
	if err != nil {
		return nil, err // no pointer that is nil inside an interface that is not
	}
	return s, nil
}

// Serve is the worker: it obeys one coordinator on in and out until in ends,
// then lets go of everything. It never outlives lifetime (0: no bound). When ctx or the lifetime ends first and
// in is an io.Closer, it is closed, so that no read is left behind.
func Serve(ctx context.Context, in io.Reader, out io.Writer, version string, lifetime time.Duration) error {
	return serve(ctx, in, out, version, lifetime)
}

// Classify turns a raw end into an outcome and its mechanism. Pure and total: every end has a
// place, and the pair says no more than the facts in e do.
func Classify(p record.Protocol, e RawEnd) (record.Outcome, record.Mechanism) { return classify(p, e) }
