package traffic

import (
	"testing"

	"github.com/drainproof/drainproof/internal/clock"
)

func TestStopwatchIsNeverEarly(t *testing.T) {
	w := newStopwatch()
	closest := int64(1 << 62)
	for range 1000 {
		before := clock.MonoNs()
		got := w.ns()
		after := clock.MonoNs()
		if got < before {
			t.Fatalf("%d ns before the clock", before-got)
		}
		closest = min(closest, got-after)
	}
	if closest > 100_000 {
		t.Errorf("always at least %d ns after the clock", closest)
	}
}
