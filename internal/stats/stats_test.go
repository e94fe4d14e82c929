package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		name   string
		sample []int64
		want   Summary[int64]
		ok     bool
	}{
		{"empty", nil, Summary[int64]{}, false},
		{"one", []int64{7}, Summary[int64]{1, 7, 7, 7}, true},
		{"odd, unsorted", []int64{9, 1, 5}, Summary[int64]{3, 5, 1, 9}, true},
		{"even", []int64{4, 1, 2, 9}, Summary[int64]{4, 3, 1, 9}, true},
		{"even, rounded to the lower", []int64{1, 2}, Summary[int64]{2, 1, 1, 2}, true},
		{"negative", []int64{-5, -1, -3}, Summary[int64]{3, -3, -5, -1}, true},
	} {
		before := slices.Clone(c.sample)
		got, ok := Summarize(c.sample)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: got %+v, %v; want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
		if !slices.Equal(before, c.sample) {
			t.Errorf("%s: the sample was changed to %v", c.name, c.sample)
		}
	}
	if m, ok := Median([]float64{1, 2}); !ok || m != 1.5 {
		t.Errorf("median of 1 and 2 = %v, %v", m, ok)
	}
	if _, ok := Median[int](nil); ok {
		t.Error("an empty sample has a median")
	}
}

func TestQuantileIsNearestRank(t *testing.T) {
	ten := []int{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	for q, want := range map[float64]int{-1: 1, 0: 1, 0.1: 1, 0.11: 2, 0.5: 5, 0.9: 9, 0.91: 10, 1: 10, 3: 10} {
		if got, ok := Quantile(ten, q); !ok || got != want {
			t.Errorf("quantile %v = %v, %v; want %v", q, got, ok, want)
		}
	}
	if _, ok := Quantile([]int{}, 0.5); ok {
		t.Error("an empty sample has a quantile")
	}
	if _, ok := Quantile(ten, math.NaN()); ok {
		t.Error("NaN is no share")
	}
}

func TestQuantileCoversItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sample := rapid.SliceOfN(rapid.Int64Range(-1000, 1000), 1, 50).Draw(t, "sample")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		v, _ := Quantile(sample, q)
		if !slices.Contains(sample, v) {
			t.Fatalf("%d was never seen", v)
		}
		covered := 0
		for _, s := range sample {
			if s <= v {
				covered++
			}
		}
		if float64(covered) < q*float64(len(sample))-1e-9 {
			t.Fatalf("only %d of %d are at most the %v quantile", covered, len(sample), q)
		}
	})
}

func TestDelays(t *testing.T) {
	d := NewDelays()
	if _, ok := d.QuantileNs(0.5); ok || d.MaxNs() != 0 || d.Count() != 0 {
		t.Error("no delays, but a value")
	}
	for i := range int64(1000) {
		d.Record((i + 1) * 1_000_000)
	}
	d.Record(-5)
	for q, want := range map[float64]int64{0.5: 500e6, 0.99: 990e6, 0.999: 999e6, 1: 1000e6} {
		got, ok := d.QuantileNs(q)
		if !ok || math.Abs(float64(got-want)) > float64(want)/500 {
			t.Errorf("quantile %v = %d, want about %d", q, got, want)
		}
	}
	d.Record(int64(10 * delayMax))
	if d.MaxNs() != int64(10*delayMax) || d.Count() != 1002 {
		t.Errorf("max %d, count %d", d.MaxNs(), d.Count())
	}
}

func TestDelaysBoundTheTrueQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sample := rapid.SliceOfN(rapid.Int64Range(0, int64(delayMax)), 1, 200).Draw(t, "sample")
		q := rapid.SampledFrom([]float64{0.5, 0.9, 0.99, 1}).Draw(t, "q")
		d := NewDelays()
		for _, ns := range sample {
			d.Record(ns)
		}
		got, _ := d.QuantileNs(q)
		want, _ := Quantile(sample, q)
		if got < want || float64(got-want) > float64(want)/1000+2*float64(delayStep) {
			t.Fatalf("quantile %v: got %d, the sample's is %d", q, got, want)
		}
	})
}
