package stats

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func near(got, want, relative float64) bool {
	return math.Abs(got-want) <= relative*math.Abs(want)
}

func TestFisherKnownTables(t *testing.T) {
	for _, c := range []struct {
		name       string
		a, b, c, d int64
		want       float64
	}{
		// Fisher's lady: 34/70.
		{"eight cups of tea", 3, 1, 1, 3, 34.0 / 70},
		{"all guessed", 4, 0, 0, 4, 2.0 / 70},
		{"nine of twelve against one of twelve", 1, 11, 9, 3, 0.002759456185220088},
		{"eight of ten against one of six", 8, 2, 1, 5, 0.034965034965034965},
		{"no difference", 5, 95, 5, 95, 1},
		{"nothing failed", 0, 1000, 0, 1000, 1},
		{"everything failed", 10, 0, 12, 0, 1},
		{"an empty row", 0, 0, 3, 9, 1},
		{"negative counts are none", -3, 1, 1, -3, 1},
		{"one failure", 1, 999_999, 0, 1_000_000, 1},
		// All ten in one of two equal rows: 2 * C(1e6,10)/C(2e6,10), a little under 2/1024.
		{"ten failures on one side of a million", 10, 999_990, 0, 1_000_000, 0.0019530810605},
	} {
		if got := Fisher(c.a, c.b, c.c, c.d); !near(got, c.want, 1e-7) {
			t.Errorf("%s: p is %.12g, not %.12g", c.name, got, c.want)
		}
	}
	// Beyond what a float holds: still a probability, still small.
	if got := Fisher(0, 10_000_000, 5_000_000, 5_000_000); got != 0 {
		t.Errorf("a hopeless table has p %g", got)
	}
}

// fisherByCounting adds up whole numbers: no logarithm, no rounding before the end.
func fisherByCounting(a, b, c, d int64) float64 {
	ways := func(k int64) *big.Int {
		x := new(big.Int).Binomial(a+b, k)
		return x.Mul(x, new(big.Int).Binomial(c+d, a+c-k))
	}
	seen, sum, all := ways(a), new(big.Int), new(big.Int)
	for k := max(0, a-d); k <= min(a+b, a+c); k++ {
		w := ways(k)
		all.Add(all, w)
		if w.Cmp(seen) <= 0 {
			sum.Add(sum, w)
		}
	}
	p, _ := new(big.Rat).SetFrac(sum, all).Float64()
	return p
}

func TestFisherCountsEveryTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.OneOf(rapid.Int64Range(0, 12), rapid.Int64Range(0, 400))
		a, b, c, d := count.Draw(t, "a"), count.Draw(t, "b"), count.Draw(t, "c"), count.Draw(t, "d")
		got, want := Fisher(a, b, c, d), fisherByCounting(a, b, c, d)
		if !near(got, want, 1e-7) {
			t.Fatalf("p of %d/%d against %d/%d is %.12g, not %.12g", a, b, c, d, got, want)
		}
		if other := Fisher(c, d, a, b); !near(other, got, 1e-7) {
			t.Fatalf("the other way round p is %g, not %g", other, got)
		}
	})
}

// A few failures among very many requests is what two sets of trials are.
func TestFisherOfFewAmongMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		many := rapid.Int64Range(100_000, 5_000_000)
		few := rapid.Int64Range(0, 40)
		a, b, c, d := few.Draw(t, "a"), many.Draw(t, "b"), few.Draw(t, "c"), many.Draw(t, "d")
		if rapid.Bool().Draw(t, "equal") {
			d = a + b - c // equal rows: the mirrored table is exactly as likely
		}
		if got, want := Fisher(a, b, c, d), fisherByCounting(a, b, c, d); !near(got, want, 1e-5) {
			t.Fatalf("p of %d/%d against %d/%d is %.12g, not %.12g", a, b, c, d, got, want)
		}
	})
}

func TestRankSumKnown(t *testing.T) {
	for _, c := range []struct {
		name string
		x, y []float64
		want float64
	}{
		{"three and three apart", []float64{7, 8, 9}, []float64{0, 1, 2}, 0.1},
		{"four and four apart", []float64{7, 8, 9, 10}, []float64{0, 1, 2, 3}, 2.0 / 70},
		{"two and two apart", []float64{5, 6}, []float64{0, 1}, 1.0 / 3},
		{"one and one", []float64{5}, []float64{0}, 1},
		// Nothing failed after: of 20 ways to deal out three zeros, 1 puts all three there and 1 none.
		{"apart, with ties", []float64{0.1, 0.2, 0.3}, []float64{0, 0, 0}, 0.1},
		{"all equal", []float64{0, 0, 0}, []float64{0, 0}, 1},
		// The zeros share a rank, so their being dealt to x is less extreme than what was seen: one way of ten.
		{"two and three apart, with ties", []float64{0.1, 0.2}, []float64{0, 0, 0}, 0.1},
		{"two and three apart", []float64{4, 5}, []float64{1, 2, 3}, 0.2},
		{"overlapping", []float64{1, 4}, []float64{2, 3}, 1},
	} {
		got, ok := RankSum(c.x, c.y)
		if !ok || !near(got, c.want, 1e-12) {
			t.Errorf("%s: p is %v, %t, not %v", c.name, got, ok, c.want)
		}
	}
	for name, s := range map[string][2][]float64{
		"empty": {nil, {1}}, "no number": {{math.NaN()}, {1, 2}}, "too many": {make([]float64, 60), make([]float64, 41)},
	} {
		if p, ok := RankSum(s[0], s[1]); ok {
			t.Errorf("%s: p is %v", name, p)
		}
	}
	if p, ok := RankSum(make([]float64, 50), make([]float64, 50)); !ok || p != 1 {
		t.Errorf("a hundred equal values: p is %v, %t", p, ok)
	}
}

// rankSumByDealing tries every way to deal the values out.
func rankSumByDealing(x, y []float64) float64 {
	all := append(append([]float64{}, x...), y...)
	rank := func(v float64) float64 {
		below, equal := 0.0, 0.0
		for _, w := range all {
			if w < v {
				below++
			} else if w == v {
				equal++
			}
		}
		return below + (equal+1)/2
	}
	expected := float64(len(x)) * float64(len(all)+1) / 2
	var seen float64
	for _, v := range x {
		seen += rank(v)
	}
	var ways, extreme float64
	for set := range 1 << len(all) {
		var sum float64
		n := 0
		for i, v := range all {
			if set>>i&1 == 1 {
				n++
				sum += rank(v)
			}
		}
		if n != len(x) {
			continue
		}
		ways++
		if math.Abs(sum-expected) >= math.Abs(seen-expected)-1e-9 {
			extreme++
		}
	}
	return extreme / ways
}

func TestRankSumCountsEveryDeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Map(rapid.IntRange(0, 5), func(n int) float64 { return float64(n) / 8 })
		x := rapid.SliceOfN(value, 1, 5).Draw(t, "x")
		y := rapid.SliceOfN(value, 1, 5).Draw(t, "y")
		got, ok := RankSum(x, y)
		want := rankSumByDealing(x, y)
		if !ok || !near(got, want, 1e-12) {
			t.Fatalf("p is %v, %t, not %v", got, ok, want)
		}
		if least := SmallestRankSum(len(x), len(y)); got < least*(1-1e-9) {
			t.Fatalf("p is %v, below the smallest possible %v", got, least)
		}
	})
}

func TestSmallestRankSum(t *testing.T) {
	for sizes, want := range map[[2]int]float64{{3, 3}: 0.1, {4, 4}: 2.0 / 70, {1, 1}: 1, {1, 5}: 1.0 / 6, {0, 4}: 1, {5, 5}: 2.0 / 252} {
		if got := SmallestRankSum(sizes[0], sizes[1]); !near(got, want, 1e-9) {
			t.Errorf("%v: %v, not %v", sizes, got, want)
		}
	}
}
