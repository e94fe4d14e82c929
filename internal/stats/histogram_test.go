package stats

import (
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

func TestExportHistogram(t *testing.T) {
	if got := ExportHistogram(nil); got != "" {
		t.Errorf("an empty sample gives %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		sample := rapid.SliceOfN(rapid.Int64Range(-5, 2*int64(histogramMax)), 1, 300).Draw(t, "sample")
		h, err := hdrhistogram.Decode([]byte(ExportHistogram(sample)))
		if err != nil {
			t.Fatal(err)
		}
		if h.TotalCount() != int64(len(sample)) || h.SignificantFigures() != 3 {
			t.Fatalf("%d values with %d digits came back of %d", h.TotalCount(), h.SignificantFigures(), len(sample))
		}
		slices.Sort(sample)
		for _, q := range []float64{0.5, 0.9, 1} {
			want, _ := SortedQuantile(sample, q)
			want = min(max(want, 0), int64(histogramMax))
			// The library rounds a rank to the nearest, which may be one below.
			got := h.ValueAtQuantile(100 * q)
			if got > want+want/1000+1 {
				t.Fatalf("quantile %v is %d, the sample's is %d", q, got, want)
			}
			if q == 1 && got < want {
				t.Fatalf("the largest is %d, not %d", got, want)
			}
		}
	})
}
