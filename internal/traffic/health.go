package traffic

import (
	"maps"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
)

// lateLimitNs is the lateness at the 99.9th percentile from which the client
// counts as fallen behind. Ends are told apart in steps of 100 ms (the bounds that trials are held to);
// an instrument whose own delays stay below half of that cannot make up such a difference.
const lateLimitNs = 50_000_000

// health sums up whether the client kept up. Any limit of its own excuses the workload as well:
// a flow that the client could not hold might have been the one that mattered.
func health(sent, answered uint64, late *stats.Delays, limits map[string]int) record.ClientHealth {
	p999, _ := late.QuantileNs(0.999)
	h := record.ClientHealth{
		HeartbeatsSent: sent, HeartbeatsAnswered: answered,
		LateP999Ns: p999, LateMaxNs: late.MaxNs(), Limits: maps.Clone(limits),
	}
	h.FellBehind = h.LateP999Ns > lateLimitNs || len(limits) > 0
	return h
}
