package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMedianInterval(t *testing.T) {
	var twenty []float64
	for i := range 20 {
		twenty = append(twenty, float64(20-i))
	}
	for name, c := range map[string]struct {
		sample     []float64
		confidence float64
		lo, hi     float64
		ok         bool
	}{
		// Ranks as tables of the sign test have them.
		"20 at 95 %":             {twenty, 0.95, 6, 15, true},
		"20 at 99 %":             {twenty, 0.99, 4, 17, true},
		"6, the fewest for 95 %": {twenty[:6], 0.95, 15, 20, true},
		"5 are too few":          {twenty[:5], 0.95, 0, 0, false},
		"none":                   {nil, 0.95, 0, 0, false},
		"a certainty":            {twenty, 1, 0, 0, false},
		"less than none":         {twenty, -0.1, 0, 0, false},
		"no number":              {twenty, math.NaN(), 0, 0, false},
	} {
		lo, hi, ok := MedianInterval(c.sample, c.confidence)
		if lo != c.lo || hi != c.hi || ok != c.ok {
			t.Errorf("%s: %v to %v, %v; want %v to %v, %v", name, lo, hi, ok, c.lo, c.hi, c.ok)
		}
	}
}

// The interval holds the true median as often as it says, also of a distribution with a long tail.
func TestMedianIntervalCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const times, median = 4000, 0.6931471805599453 // ln 2, of the exponential distribution
	held := 0
	for range times {
		var sample []float64
		for range 15 {
			sample = append(sample, random.ExpFloat64())
		}
		if lo, hi, ok := MedianInterval(sample, 0.9); ok && lo <= median && median <= hi {
			held++
		}
	}
	if share := float64(held) / times; share < 0.9 || share > 0.98 {
		t.Errorf("the median was within in %.3f of %d samples, want 0.9 or somewhat more", share, times)
	}
}
