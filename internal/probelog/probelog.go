// Package probelog reads the bundled probe's log as events of a record.
//
// It must not know how the log was followed.
package probelog

import (
	"encoding/json"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
)

// kinds maps the probe's words onto the record's.
var kinds = map[string]record.EventKind{
	probe.LogStarted: record.ProbeStarted, probe.LogSigterm: record.ProbeSigterm, probe.LogReadiness: record.ProbeReadyFlipped,
	probe.LogListenerClosed: record.ProbeListenClosed, probe.LogDrainBegan: record.ProbeDrainBegan, probe.LogDrainEnded: record.ProbeDrainEnded,
	probe.LogForcedRST: record.ProbeForcedRST, probe.LogExiting: record.ProbeExiting,
	probe.LogStarting: record.ProbeStarting, probe.LogHookDrain: record.ProbeHookDrain,
	probe.LogRequestAccepted: record.ProbeRequestAccepted, probe.LogRequestDone: record.ProbeRequestDone,
}

// Event reads one line. monoNs is its time on this process's clock, offset being the probe's clock against it;
// ok is false for lines that are no event of a record: a crash's trace goes to the same stream, and shows as the exit code.
func Event(line []byte, node string, offset clock.Offset) (monoNs int64, e record.Event, ok bool) {
	var l probe.LogLine
	if json.Unmarshal(line, &l) != nil {
		return 0, e, false
	}
	kind, ok := kinds[l.Event]
	return l.MonoNs - offset.AheadNs, record.Event{
		Source: record.FromProbe, Kind: kind, Subject: "pod/" + l.Instance, PodUID: l.PodUID, Node: node,
		Bound: record.Exact, UncertaintyNs: new(offset.UncertaintyNs), Detail: l.Detail,
	}, ok
}
