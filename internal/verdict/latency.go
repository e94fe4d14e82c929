package verdict

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/drainproof/drainproof/internal/record"
)

// latencySince is a percentile of the latencies of all requests that were answered at or after the trigger, in
// nanoseconds; null where none was, or where a histogram cannot be read.
func latencySince(r record.Record, percent float64) *float64 {
	if r.Latency == nil {
		return nil
	}
	var all *hdrhistogram.Histogram
	var most int64
	for _, q := range []*record.Quantiles{r.Latency.During, r.Latency.After} {
		if q == nil {
			continue
		}
		h, err := hdrhistogram.Decode([]byte(q.Histogram))
		if err != nil || h.TotalCount() != q.Count {
			return nil
		}
		most = max(most, q.MaxNs)
		if all == nil {
			all = h
		} else if all.Merge(h) != 0 {
			// A value outside of the other's range: histograms of two makes, of which no sum is whole.
			return nil
		}
	}
	switch {
	case all == nil || all.TotalCount() == 0:
		return nil
	case percent == 100:
		// The largest is kept exactly.
		return new(float64(most))
	}
	// The library rounds a rank to the nearest; asking for the percentage of a whole rank makes it the next one up.
	n := float64(all.TotalCount())
	rank := math.Ceil(percent/100*n - 1e-9)
	return new(float64(min(all.ValueAtPercentile(100*rank/n), most)))
}
