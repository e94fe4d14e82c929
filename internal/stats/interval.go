package stats

import (
	"math"
	"slices"
)

// MedianInterval gives an interval that holds the median of what the sample was drawn from with at least that confidence (0 to 1), whatever its
// distribution: between two of its values that are as far from its ends as the sign test allows. False where the sample is too small for it, or there is no such confidence.
func MedianInterval[T Number](sample []T, confidence float64) (lo, hi T, ok bool) {
	if !(confidence >= 0 && confidence < 1) {
		return lo, hi, false
	}
	n := len(sample)
	// outside is how likely fewer than k of the n values are below the median.
	outside, k := 0.0, 0
	for k < n/2 {
		p := math.Exp(logChoose(int64(n), int64(k)) - float64(n)*math.Ln2)
		if outside+p > (1-confidence)/2 {
			break
		}
		outside += p
		k++
	}
	if k == 0 {
		return lo, hi, false
	}
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[k-1], sorted[n-k], true
}
