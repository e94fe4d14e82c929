package traffic

import (
	"maps"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// health sums up whether the client kept up.
func health(sent, answered uint64, late *stats.Delays, limits map[string]int) record.ClientHealth {
	p999, _ := late.QuantileNs(0.999)
	h := record.ClientHealth{
		HeartbeatsSent: sent, HeartbeatsAnswered: answered,
		LateP999Ns: p999, LateMaxNs: late.MaxNs(), Limits: maps.Clone(limits),
	}
	h.FellBehind = request.FellBehind(late, limits)
	return h
}
