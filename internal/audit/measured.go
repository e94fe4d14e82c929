package audit

import (
	"fmt"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/record"
)

// Measured works out from records how long new traffic goes on arriving at a Pod through
// the nodes' own data plane, on the cluster that they were made on.
//
// A trial shows it in two parts. The API withdraws the endpoint at the latest when its news arrives
// (delete-to-not-ready). How long the client's node then takes to act on an endpoint's change is
// seen on the replacement: from the news that it is ready to the first answer from it that the last of the UDP flows
// got. Heartbeats make the second part too long by up to their interval. The floor is the worst sum of all
// trials. Trials without a replacement, or whose Pod kept its readiness, do not show the second part.
//
// from names the records in the floors' source. trials counts those that show it; with none of them there are no floors.
func Measured(records []record.Record, from string) (floors map[string]budget.Floor, trials int) {
	var worst, withdrawn, acted time.Duration
	for _, r := range records {
		a, b, ok := propagation(r)
		if !ok {
			continue
		}
		trials++
		if a+b > worst {
			worst, withdrawn, acted = a+b, a, b
		}
	}
	if trials == 0 {
		return nil, 0
	}
	source := fmt.Sprintf("measured: worst of %s in %s, endpoint withdrawn after %s and acted on after %s more, at most",
		plural(trials, "trial"), from, seconds(withdrawn), seconds(acted))
	floors = map[string]budget.Floor{}
	// Both paths are the same rules on the same nodes.
	for _, path := range []string{budget.ClusterIP, budget.NodePort} {
		floors[path] = budget.Floor{Path: path, Least: worst.Round(time.Millisecond), Measured: true, Source: source}
	}
	return floors, trials
}

// seconds are whole milliseconds below one second.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.3f s", d.Seconds())
}

func propagation(r record.Record) (withdrawn, acted time.Duration, ok bool) {
	// A Pod that keeps its readiness holds its UDP flows to its end: then they show the end.
	if r.Completeness != record.Complete || r.Config.Path == "pod" || r.Config.ReadinessOnTerm != "fail" {
		return 0, 0, false
	}
	notReady, a := r.Window(record.DeleteToNotReady)
	replaced, b := r.Window(record.ReplacementEndpointReady)
	if !a || !b || notReady.Ns == nil || replaced.Ns == nil {
		return 0, 0, false
	}
	last := int64(-1)
	for _, f := range r.Flows {
		if f.Protocol != record.UDP {
			continue
		}
		if f.Outcome != record.Rehomed || f.EndedTNs == nil {
			return 0, 0, false
		}
		last = max(last, *f.EndedTNs)
	}
	if last < *replaced.Ns {
		return 0, 0, false
	}
	return time.Duration(*notReady.Ns), time.Duration(last - *replaced.Ns), true
}
