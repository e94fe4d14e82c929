package tally

import (
	"slices"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// The phases of a trial.
const (
	before = iota
	during
	after
	phases
)

func latency(in Input, p *peers) record.Latency {
	byPhase := grouped(in.Samples, phases, func(s *request.Sample) int {
		switch {
		case endedBefore(s):
			return before
		case s.PlannedNs < 0:
			return during // under way when the trigger was sent: what held it up may have been that
		case in.DuringToTNs == nil || s.PlannedNs < *in.DuringToTNs:
			return during
		default:
			return after
		}
	})
	l := record.Latency{
		Before: quantiles(byPhase[before]), During: quantiles(byPhase[during]), After: quantiles(byPhase[after]),
		DuringToTNs: in.DuringToTNs, Instances: []record.InstanceQuantile{},
	}
	for i, ns := range grouped(in.Samples, len(p.names), p.at) {
		if q := quantiles(ns); q != nil && i != unknown {
			l.Instances = append(l.Instances, record.InstanceQuantile{Instance: p.names[i], Quantiles: q})
		}
	}
	return l
}

// grouped gives the latencies of the answered samples in n groups, each in ascending order. All lie in one array, so that a
// million of them cost eight megabytes whatever n is.
func grouped(samples []request.Sample, n int, group func(*request.Sample) int) [][]int64 {
	sizes := make([]int, n)
	total := 0
	for i := range samples {
		if s := &samples[i]; s.RequestOutcome().Answered() {
			sizes[group(s)]++
			total++
		}
	}
	all := make([]int64, total)
	groups := make([][]int64, n)
	for g, size := range sizes {
		groups[g], all = all[:0:size], all[size:]
	}
	for i := range samples {
		if s := &samples[i]; s.RequestOutcome().Answered() {
			g := group(s)
			groups[g] = append(groups[g], max(s.LatencyNs, 0))
		}
	}
	for _, g := range groups {
		slices.Sort(g)
	}
	return groups
}

// quantiles describes latencies in ascending order by values that were seen; nil without any.
func quantiles(sorted []int64) *record.Quantiles {
	if len(sorted) == 0 {
		return nil
	}
	at := func(q float64) int64 {
		v, _ := stats.SortedQuantile(sorted, q) // the sample is not empty
		return v
	}
	return &record.Quantiles{
		Count: int64(len(sorted)), MinNs: sorted[0], P50Ns: at(0.5), P90Ns: at(0.9), P99Ns: at(0.99), P999Ns: at(0.999), MaxNs: sorted[len(sorted)-1],
		Histogram: stats.ExportHistogram(sorted),
	}
}
