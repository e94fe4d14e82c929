package figure

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumbers(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "0 s", 7: "7 ns", 999: "999 ns", 1000: "1 µs", 221_000: "221 µs", 999_499: "999 µs", 999_500: "1.0 ms",
		6_240_000: "6.2 ms", 9_949_000: "9.9 ms", 9_950_000: "10 ms", 45_000_000: "45 ms", 999_499_999: "999 ms", 999_500_000: "1.00 s",
		25_040_000_000: "25.04 s", 99_994_000_000: "99.99 s", 99_995_000_000: "100.0 s", 3_600_000_000_000: "3600.0 s",
		-21_000_000: "-21 ms", -25_021_000_000: "-25.02 s",
	} {
		if got := Nanoseconds(ns); got != want {
			t.Errorf("%d is %q, not %q", ns, got, want)
		}
	}
	for _, c := range []struct {
		from, to int64
		want     string
	}{
		{37_100_000, 39_800_000, "37–40 ms"}, {25_038_000_000, 25_040_000_000, "25.04 s"}, {-5_000_000, 3_000_000, "-5.0 to 3.0 ms"},
		{40_000_000, 2_400_000_000, "0.04–2.40 s"}, {0, 0, "0 ns"},
	} {
		if got := Interval(c.from, c.to); got != c.want {
			t.Errorf("%d to %d is %q, not %q", c.from, c.to, got, c.want)
		}
	}
	for ns, want := range map[int64]string{0: "0 s", 500e6: "500 ms", 30e9: "30 s", 1500e6: "1.5 s", 125e9: "125 s"} {
		if got := Setting(ns); got != want {
			t.Errorf("a setting of %d is %q, not %q", ns, got, want)
		}
	}
}

func TestCountsAndShares(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 1_200: "1,200", 1_234_567: "1,234,567", -1000: "-1,000", -999: "-999", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %q, not %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 trials", 1: "1 trial", 2: "2 trials", 1500: "1,500 trials"} {
		if got := Plural(n, "trial"); got != want {
			t.Errorf("%d is %q, not %q", n, got, want)
		}
	}
	for v, want := range map[float64]string{
		0: "0 %", 1: "100 %", 1e-9: "<0.001 %", 0.00075: "0.075 %", 0.009: "0.9 %", 0.0075: "0.75 %", 0.123: "12.3 %", 0.5: "50 %", 0.99951: ">99.9 %", 0.99: "99 %",
	} {
		if got := Share(v); got != want {
			t.Errorf("%v is %q, not %q", v, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for want, of := range map[string]map[string]int{
		"":                                  nil,
		"1,200 refused, 8 eof, 8 truncated": {"truncated": 8, "refused": 1200, "eof": 8},
	} {
		if got := Counts(of); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestWords(t *testing.T) {
	got := Words("from ≥ +1.2 s to 30 ms, 3 % of (5 s) it s and 7 Pods")
	want := []string{"from", "≥ +1.2 s", "to", "30 ms,", "3 %", "of", "(5 s)", "it", "s", "and", "7", "Pods"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUnbroken(t *testing.T) {
	for in, want := range map[string]string{
		"at most 86 ms late": "at most 86\u00a0ms late", "≤ 25 s, 3.4 % of 5 Pods": "≤\u00a025\u00a0s, 3.4\u00a0% of 5 Pods", "web-1 s1 2 3": "web-1 s1 2 3", "": "",
		"12 sheep": "12 sheep", "30 s/60 ms": "30\u00a0s/60\u00a0ms", "not known": "not known",
	} {
		if got := Unbroken(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestHalves(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 310.5: "310.5", 1200: "1,200", 1200.5: "1,200.5"} {
		if got := Halves(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
