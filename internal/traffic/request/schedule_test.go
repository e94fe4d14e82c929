package request

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSchedule(t *testing.T) {
	s := NewSchedule(1_000, 50, 4)
	for k, want := range map[int64]int64{0: 1_050, 1: 250_001_050, 4: 1_000_001_050, 4_000_000: 1_000_000_000_001_050} {
		if got := s.DueNs(k); got != want {
			t.Errorf("request %d is due at %d, not %d", k, got, want)
		}
	}
}

// TestScheduleKeepsItsRate: a day of requests at any rate is in order, and no request is off by more than the nanosecond that a due time is cut to
// and what a float of that size can hold.
func TestScheduleKeepsItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := float64(rapid.IntRange(1, 20_000).Draw(t, "rate"))
		k := rapid.Int64Range(0, int64(rate)*86_400).Draw(t, "k")
		s := NewSchedule(0, 0, rate)
		if s.DueNs(k+1) <= s.DueNs(k) {
			t.Fatalf("request %d is due at %d, the next at %d", k, s.DueNs(k), s.DueNs(k+1))
		}
		// The exact time, without floats.
		exact := k/int64(rate)*1e9 + k%int64(rate)*1e9/int64(rate)
		if off := s.DueNs(k) - exact; off < -16 || off > 16 {
			t.Fatalf("request %d is %d ns off", k, off)
		}
	})
}
