package clock

import "testing"

func TestStopwatchIsNeverEarly(t *testing.T) {
	w := NewStopwatch()
	closest := int64(1 << 62)
	for range 1000 {
		before := MonoNs()
		got := w.MonoNs()
		after := MonoNs()
		if got < before {
			t.Fatalf("%d ns before the clock", before-got)
		}
		closest = min(closest, got-after)
	}
	if closest > 100_000 {
		t.Errorf("always at least %d ns after the clock", closest)
	}
}
