package stats

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histogram's range: values are counted in steps of a microsecond, three
// digits exact, up to two minutes. That is about 130 KiB, however many delays there are.
const (
	delayStep = time.Microsecond
	delayMax  = 2 * time.Minute
	digits    = 3
)

// Delays counts many durations in bounded memory. The largest is kept exactly;
// quantiles are upper bounds of the true ones, by at most 0.1 % and one
// microsecond. It is not safe for use by several goroutines.
type Delays struct {
	h     *hdrhistogram.Histogram
	count int64
	maxNs int64
}

// NewDelays makes an empty one.
func NewDelays() *Delays {
	return &Delays{h: hdrhistogram.New(1, int64(delayMax/delayStep), digits)}
}

// Record counts one delay of ns nanoseconds. Negative ones count as 0; ones
// beyond two minutes fall into the last class, and Max still tells their size.
func (d *Delays) Record(ns int64) {
	ns = max(ns, 0)
	d.count++
	d.maxNs = max(d.maxNs, ns)
	steps := (ns + int64(delayStep) - 1) / int64(delayStep)
	// The value is inside the histogram's range by construction, so there is no error to have.
	_ = d.h.RecordValue(min(steps, int64(delayMax/delayStep)))
}

// Count is how many delays were recorded.
func (d *Delays) Count() int64 { return d.count }

// MaxNs is the largest delay, 0 without any.
func (d *Delays) MaxNs() int64 { return d.maxNs }

// QuantileNs is the delay that the share q of all did not exceed. ok is false without any.
func (d *Delays) QuantileNs(q float64) (ns int64, ok bool) {
	if d.count == 0 {
		return 0, false
	}
	// The library rounds a rank to the nearest; asking for the share of a whole rank makes it the next one up.
	rank := math.Ceil(min(max(q, 0), 1)*float64(d.count) - 1e-9)
	v := d.h.ValueAtQuantile(100*rank/float64(d.count)) * int64(delayStep)
	return min(v, d.maxNs), true
}
