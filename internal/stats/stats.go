// Package stats describes small samples and large streams of durations: the
// median and the range of a handful of repeats, quantiles of many delays.
//
// Nothing here averages, and nothing invents a value for an empty sample: the
// caller is told that there is none.
//
// It must not know what it counts, nor any other package of the project.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Number is what a sample may hold.
type Number interface{ ~int | ~int64 | ~float64 }

// Summary describes one sample by its order alone.
type Summary[T Number] struct {
	N      int `json:"n"`
	Median T   `json:"median"`
	Min    T   `json:"min"`
	Max    T   `json:"max"`
}

// Whole describes a sample that is to have n values; nil where it has fewer, or none: one with a hole is not summed up.
func Whole[T Number](sample []T, n int) *Summary[T] {
	s, ok := Summarize(sample)
	if !ok || s.N < n {
		return nil
	}
	return &s
}

// Summarize describes sample, which it leaves as it was. ok is false for an empty sample.
func Summarize[T Number](sample []T) (s Summary[T], ok bool) {
	if len(sample) == 0 {
		return s, false
	}
	sorted := slices.Sorted(slices.Values(sample))
	return Summary[T]{N: len(sorted), Median: median(sorted), Min: sorted[0], Max: sorted[len(sorted)-1]}, true
}

// Median is the middle value, or the midpoint of the two middle ones (rounded
// towards the lower one for integers). ok is false for an empty sample.
func Median[T Number](sample []T) (m T, ok bool) {
	if len(sample) == 0 {
		return m, false
	}
	return median(slices.Sorted(slices.Values(sample))), true
}

func median[T Number](sorted []T) T {
	low, high := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	// The halved distance cannot overflow where both have the same sign, as durations do.
	return low + (high-low)/2
}

// Quantile is the smallest value of the sample that at least the share q of it
// does not exceed (nearest rank), so it is always a value that was seen. q
// outside 0..1 is taken as the nearer end. ok is false for an empty sample or a q that is no number.
func Quantile[T Number](sample []T, q float64) (v T, ok bool) {
	return SortedQuantile(slices.SortedFunc(slices.Values(sample), cmp.Compare[T]), q)
}

// SortedQuantile is Quantile of a sample that is in ascending order already.
func SortedQuantile[T Number](sorted []T, q float64) (v T, ok bool) {
	if len(sorted) == 0 || math.IsNaN(q) {
		return v, false
	}
	q = min(max(q, 0), 1)
	rank := int(math.Ceil(q * float64(len(sorted))))
	// 0.9*10 is 9.000000000000002 in floats: a rank may only be raised by a real excess.
	if exact := math.Round(q * float64(len(sorted))); math.Abs(exact-q*float64(len(sorted))) < 1e-9 {
		rank = int(exact)
	}
	return sorted[max(rank, 1)-1], true
}
