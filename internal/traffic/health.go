package traffic

import (
	"maps"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
)

// lateLimitNs is the lateness at the 99th percentile from which the client
// counts as fallen behind: half the default interval of heartbeats. One stall
// of a busy machine makes a few heartbeats late and the time of an end that
// falls into it later by as much, which the record shows (late_max_ns); it makes
// no outcome another. A client that sends one heartbeat in a hundred that late has lost its schedule.
const lateLimitNs = 250_000_000

// health sums up whether the client kept up. Any limit of its own excuses the workload as well:
// a flow that the client could not hold might have been the one that mattered.
func health(sent, answered uint64, late *stats.Delays, limits map[string]int) record.ClientHealth {
	p999, _ := late.QuantileNs(0.999)
	h := record.ClientHealth{
		HeartbeatsSent: sent, HeartbeatsAnswered: answered,
		LateP999Ns: p999, LateMaxNs: late.MaxNs(), Limits: maps.Clone(limits),
	}
	p99, _ := late.QuantileNs(0.99)
	h.FellBehind = p99 > lateLimitNs || len(limits) > 0
	return h
}
