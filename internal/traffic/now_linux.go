package traffic

import (
	"time"

	"github.com/drainproof/drainproof/internal/clock"
)

// stopwatch reads CLOCK_MONOTONIC without a system call: Go's own monotonic
// clock is the same one, read through the vDSO, and only its zero is hidden. The
// loop reads it for every heartbeat, and where system calls are dear they were an eighth of its time.
type stopwatch struct {
	base   time.Time
	baseNs int64
}

// newStopwatch finds the zero. Readings are never early, and late by no more
// than the narrowest of some brackets around the base: about a microsecond.
func newStopwatch() stopwatch {
	var best stopwatch
	narrowest := int64(1 << 62)
	for range 50 {
		before := clock.MonoNs()
		base := time.Now()
		after := clock.MonoNs()
		if after-before < narrowest {
			narrowest, best = after-before, stopwatch{base: base, baseNs: after}
		}
	}
	return best
}

// ns is now on the clock of clock.MonoNs.
func (w *stopwatch) ns() int64 { return w.baseNs + time.Since(w.base).Nanoseconds() }
