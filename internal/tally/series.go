package tally

import (
	"math"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

const (
	// narrowestNs is the shortest bucket: a tenth of a second, which still shows an endpoint that was dead for a moment.
	narrowestNs = 100_000_000
	// maxBuckets bounds a series. A minute of test is shown in tenths of a second, an hour in tens.
	maxBuckets = 600
)

// grid cuts time into buckets of one width. Its edges lie at multiples of the width from the trigger, so that none spans it.
type grid struct {
	widthNs int64
	// first is the number of the first bucket, counted from the trigger; n is how many there are.
	first int64
	n     int
}

// newGrid takes the narrowest of 100, 200, 500 ms, 1, 2, 5 s and so on that covers both times with maxBuckets.
func newGrid(fromNs, toNs int64) grid {
	for unit := int64(narrowestNs); ; unit *= 10 {
		for _, step := range []int64{1, 2, 5} {
			g := grid{widthNs: unit * step, first: floorDiv(fromNs, unit*step)}
			if n := floorDiv(toNs, g.widthNs) - g.first + 1; n <= maxBuckets {
				g.n = int(n)
				return g
			}
		}
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (g grid) bucket(s *request.Sample) int { return int(floorDiv(s.PlannedNs, g.widthNs) - g.first) }

// series is the course over time; nil without a request.
func series(in Input, p *peers) *record.Series {
	if len(in.Samples) == 0 {
		return nil
	}
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range in.Samples {
		from, to = min(from, in.Samples[i].PlannedNs), max(to, in.Samples[i].PlannedNs)
	}
	g := newGrid(from, to)
	out := &record.Series{
		FromTNs: g.first * g.widthNs, BucketNs: g.widthNs, Sent: make([]int64, g.n), Failed: make([]int64, g.n),
		P50Ns: make([]*int64, g.n), P99Ns: make([]*int64, g.n), Instances: []record.InstanceSeries{},
	}
	answered := make([][]int64, len(p.names))
	for i := range in.Samples {
		s := &in.Samples[i]
		b := g.bucket(s)
		out.Sent[b]++
		o := s.RequestOutcome()
		if o.Failed() {
			out.Failed[b]++
		}
		if at := p.at(s); o.Answered() && at != unknown {
			if answered[at] == nil {
				answered[at] = make([]int64, g.n)
			}
			answered[at][b]++
		}
	}
	for i, list := range answered {
		if list != nil {
			out.Instances = append(out.Instances, record.InstanceSeries{Instance: p.names[i], Answered: list})
		}
	}
	for b, ns := range grouped(in.Samples, g.n, g.bucket) {
		if p50, ok := stats.SortedQuantile(ns, 0.5); ok {
			p99, _ := stats.SortedQuantile(ns, 0.99)
			out.P50Ns[b], out.P99Ns[b] = &p50, &p99
		}
	}
	return out
}
