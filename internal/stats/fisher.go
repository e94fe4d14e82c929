package stats

import (
	"cmp"
	"math"
	"slices"
)

// The exact tests of this file ask how often chance alone would give a difference at least as large as the one that was
// seen. They assume no distribution, so they hold for the handful of repeats that a trial is worth.

// Fisher is the two-sided p of Fisher's exact test on a table of two rows, a of a+b and c of c+d: the
// probability, with all sums given, of every table that is no likelier than this one. Negative counts are taken as
// 0; a table with an empty row or column tells nothing and gives 1.
func Fisher(a, b, c, d int64) float64 {
	t := newMargins(max(a, 0), max(b, 0), max(c, 0), max(d, 0))
	if t.lo == t.hi {
		return 1
	}
	seen := max(a, 0)
	limit := t.logP(seen) + tie
	// The distribution has one peak and falls on both sides of it, so the tables that count are two tails.
	peak := t.peak()
	left := searchLast(t.lo, peak, func(k int64) bool { return t.logP(k) <= limit })
	right := searchFirst(max(left+1, peak), t.hi, func(k int64) bool { return t.logP(k) <= limit })
	return min(1, t.tail(left, -1)+t.tail(right, +1))
}

// tie is how much likelier, as a logarithm, a table may be and still count as equally likely: what rounding can do to logarithms of
// factorials of large counts.
const tie = 1e-7

// margins are the sums of a table of two rows, and so all tables that have them; k is the first row's first count.
type margins struct {
	row1, row2, col1 int64
	// lo and hi are the smallest and the largest k.
	lo, hi int64
	// logAll is the logarithm of the number of ways to choose col1 of all.
	logAll float64
}

func newMargins(a, b, c, d int64) margins {
	t := margins{row1: a + b, row2: c + d, col1: a + c}
	t.lo, t.hi = max(0, t.col1-t.row2), min(t.row1, t.col1)
	t.logAll = logChoose(t.row1+t.row2, t.col1)
	return t
}

// logP is the logarithm of the hypergeometric probability of k; below any other outside of lo..hi.
func (t margins) logP(k int64) float64 {
	if k < t.lo || k > t.hi {
		return math.Inf(-1)
	}
	return logChoose(t.row1, k) + logChoose(t.row2, t.col1-k) - t.logAll
}

// peak is the likeliest k.
func (t margins) peak() int64 {
	k := float64(t.row1+1) * float64(t.col1+1) / float64(t.row1+t.row2+2)
	return min(max(int64(k), t.lo), t.hi)
}

// tail sums the probabilities from k on, away from the peak, until they no longer matter.
func (t margins) tail(k, step int64) float64 {
	sum, term := 0.0, math.Exp(t.logP(k))
	for ; term > 0 && k >= t.lo && k <= t.hi; k += step {
		sum += term
		if term < sum*1e-17 {
			break
		}
		// The ratio of neighbours follows from the factorials; it costs no logarithm.
		f, g := float64(k), float64(k)
		if step > 0 {
			term *= (float64(t.row1) - f) * (float64(t.col1) - f) / ((f + 1) * (float64(t.row2-t.col1) + f + 1))
		} else {
			term *= g * (float64(t.row2-t.col1) + g) / ((float64(t.row1) - g + 1) * (float64(t.col1) - g + 1))
		}
	}
	return sum
}

func logChoose(n, k int64) float64 { return logFactorial(n) - (logFactorial(k) + logFactorial(n-k)) }

func logFactorial(n int64) float64 {
	v, _ := math.Lgamma(float64(n) + 1)
	return v
}

// searchLast gives the last k of lo..hi for which ok, which holds up to some k and not beyond; lo-1 where it never holds.
func searchLast(lo, hi int64, ok func(int64) bool) int64 {
	for lo <= hi {
		if mid := lo + (hi-lo)/2; ok(mid) {
			lo = mid + 1
		} else {
			hi = mid - 1
		}
	}
	return hi
}

// searchFirst gives the first k of lo..hi for which ok, which holds from some k on; hi+1 where it never holds.
func searchFirst(lo, hi int64, ok func(int64) bool) int64 {
	return searchLast(lo, hi, func(k int64) bool { return !ok(k) }) + 1
}

// MaxRankSum is how many values RankSum takes in all: beyond, its exact distribution is not counted.
const MaxRankSum = 100

// RankSum is the two-sided p of the exact rank-sum test (Wilcoxon, Mann and Whitney) that x and y come from one
// distribution: the share of all ways to deal the pooled values out in which the ranks of x add up to a sum at
// least as far from its expectation. Equal values share their mean rank. ok is false for an empty sample, more than MaxRankSum values, or one that is no number.
func RankSum(x, y []float64) (p float64, ok bool) {
	n, all := len(x), len(x)+len(y)
	if len(x) == 0 || len(y) == 0 || all > MaxRankSum || slices.ContainsFunc(slices.Concat(x, y), math.IsNaN) {
		return 0, false
	}
	ranks := doubledRanks(slices.Concat(x, y))
	seen, total := 0, 0
	for i, r := range ranks {
		if total += r; i < n {
			seen += r
		}
	}
	// ways[k][s] counts the choices of k values whose doubled ranks add up to s.
	ways := make([][]float64, n+1)
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k > 0; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	// Both sides times the number of values: the expectation n/all*total then is whole.
	far := abs(seen*all - n*total)
	var extreme, sum float64
	for s, w := range ways[n] {
		sum += w
		if abs(s*all-n*total) >= far {
			extreme += w
		}
	}
	return extreme / sum, true
}

// SmallestRankSum is the smallest p that RankSum can give for samples of n and m values, whatever they are: samples that do
// not overlap are one way of all to deal them out. In samples of one size the opposite way is always as extreme; in
// others it need not be where values are equal. 1 for an empty sample.
func SmallestRankSum(n, m int) float64 {
	if n <= 0 || m <= 0 {
		return 1
	}
	one := math.Exp(-logChoose(int64(n+m), int64(n)))
	if n == m {
		return 2 * one
	}
	return one
}

// doubledRanks gives each value twice its rank, from 2 on, so that the mean rank of equal values is whole.
func doubledRanks(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	ranks := make([]int, len(values))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			ranks[i] = from + 1 + to
		}
		from = to
	}
	return ranks
}

func abs(n int) int { return max(n, -n) }
