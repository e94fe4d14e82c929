package request

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
)

// Collector is the Sink that keeps results until they are taken. Safe for concurrent use.
type Collector struct {
	plan       Plan
	idempotent bool

	mu         sync.Mutex
	samples    []Sample
	names      map[string]int32
	fresh      []string
	failures   []Failed
	reconnects int64
	late       *stats.Delays
	limits     map[string]int
	sent       uint64
	answered   uint64
}

// NewCollector collects for one plan.
func NewCollector(p Plan) *Collector {
	return &Collector{plan: p, idempotent: !p.Mode.Held() && p.Mode != GRPC && Idempotent(p.Target.Method), names: map[string]int32{}, late: stats.NewDelays(), limits: map[string]int{}}
}

// Done takes one result.
func (c *Collector) Done(r Result) {
	outcome := Classify(c.plan.Mode, c.plan.Expect, r.End, r.Status)
	user := r.User + c.plan.FirstUser
	r.Instance = nameOf(r.Instance)
	s := Sample{
		PlannedNs: r.PlannedNs, LatencyNs: r.EndedNs - r.PlannedNs, User: int32(user), Instance: -1,
		Outcome: outcomeIndex[outcome], Reused: r.Reused,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.SentNs != 0 {
		c.sent++
		s.LateNs = r.SentNs - r.PlannedNs
		c.late.Record(max(s.LateNs, 0))
	}
	if r.End.Kind == EndAnswered {
		c.answered++
	}
	if r.Instance != "" {
		s.Instance = c.intern(r.Instance)
	}
	c.samples = append(c.samples, s)
	if outcome == record.OK {
		return
	}
	if outcome == record.ClientLimited {
		c.limits[limitName(r.End)]++
	}
	c.failures = append(c.failures, Failed{
		PlannedNs: r.PlannedNs, SentNs: r.SentNs, EndedNs: r.EndedNs, User: user, Outcome: outcome, Phase: r.End.Phase, Kind: r.End.Kind,
		Errno: r.End.Errno, Message: bounded(r.End.Message), Reused: r.Reused, Retryable: Retryable(outcome, r.End.Kind, r.Reused, c.idempotent),
		Status: r.Status, Answered: r.End.Kind == EndAnswered, Instance: r.Instance, BytesReceived: r.BytesReceived,
		Local: written(r.Local), Remote: written(r.Remote), ConnOpenedNs: r.ConnOpenedNs, ConnRequests: r.ConnRequests,
	})
}

// Reconnected counts one.
func (c *Collector) Reconnected() {
	c.mu.Lock()
	c.reconnects++
	c.mu.Unlock()
}

const (
	// maxName is what an object's name may have. maxNames bounds what a server that invents a new name for each answer can take.
	maxName  = 253
	maxNames = 10_000
)

// nameOf keeps of an instance's name what can be one.
func nameOf(s string) string {
	if len(s) > maxName {
		s = s[:maxName]
	}
	return strings.ToValidUTF8(s, "")
}

// intern gives the number of a name, -1 for one too many; the caller holds mu.
func (c *Collector) intern(name string) int32 {
	i, ok := c.names[name]
	if !ok && len(c.names) >= maxNames {
		return -1
	}
	if !ok {
		i = int32(len(c.names))
		c.names[name] = i
		c.fresh = append(c.fresh, name)
	}
	return i
}

func limitName(e End) string {
	if e.Errno != "" {
		return e.Errno
	}
	if e.Message != "" {
		return bounded(e.Message)
	}
	return string(EndClientLimit)
}

func written(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// Take gives up to maxSamples samples and maxFailures failures that were not taken yet; more says that some are left.
func (c *Collector) Take(maxSamples, maxFailures int) (b Batch, more bool) {
	c.mu.Lock()
	n := min(len(c.samples), maxSamples)
	samples := slices.Clip(c.samples[:n])
	c.samples = c.samples[n:]
	n = min(len(c.failures), maxFailures)
	b = Batch{Count: len(samples), Names: c.fresh, Failures: slices.Clip(c.failures[:n]), Reconnects: c.reconnects}
	c.failures = c.failures[n:]
	c.fresh, c.reconnects = nil, 0
	more = len(c.samples) > 0 || len(c.failures) > 0
	c.mu.Unlock()
	b.Samples = EncodeSamples(samples) // outside: an engine waits to hand over its next result
	return b, more
}

// lateLimitNs is the lateness from which what the client sent was not what was asked for: half the default interval of heartbeats.
const lateLimitNs = 250_000_000

// FellBehind reports whether a client lost its schedule, so that nothing may be blamed on a workload: it left late by more than a quarter of a
// second once in a hundred times, and three times at least. One stall of a busy machine makes some requests
// late, which each of them tells; it makes no outcome another, and the verdict on latencies takes it into account. A limit of its own excuses the
// workload as well: what the client could not hold or send might have been what mattered.
func FellBehind(late *stats.Delays, limits map[string]int) bool {
	// Of fewer than 200, the third latest.
	at, known := late.QuantileNs(min(0.99, 1-2/float64(max(late.Count(), 1))))
	return known && at > lateLimitNs || len(limits) > 0
}

// Health says whether the client kept up.
func (c *Collector) Health() record.ClientHealth {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := record.ClientHealth{HeartbeatsSent: c.sent, HeartbeatsAnswered: c.answered, LateMaxNs: c.late.MaxNs(), Limits: map[string]int{}}
	h.LateP999Ns, _ = c.late.QuantileNs(0.999)
	for k, v := range c.limits {
		h.Limits[k] = v
	}
	h.FellBehind = FellBehind(c.late, h.Limits)
	return h
}

// Answer is what became of a single request.
type Answer struct {
	Outcome  record.RequestOutcome `json:"outcome"`
	Status   int                   `json:"status"`
	Phase    record.RequestPhase   `json:"phase"`
	Errno    string                `json:"errno,omitempty"`
	Message  string                `json:"message,omitempty"`
	Instance string                `json:"instance,omitempty"`
	Remote   string                `json:"remote,omitempty"`
	TookNs   int64                 `json:"took_ns"`
}

// AnswerOf judges one result.
func AnswerOf(p Plan, r Result) Answer {
	return Answer{
		Outcome: Classify(p.Mode, p.Expect, r.End, r.Status), Status: r.Status, Phase: r.End.Phase, Errno: r.End.Errno, Message: bounded(r.End.Message),
		Instance: nameOf(r.Instance), Remote: written(r.Remote), TookNs: r.EndedNs - r.SentNs,
	}
}

// maxMessage bounds what a server's or library's words may take in a record.
const maxMessage = 200

func bounded(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + "..."
}
