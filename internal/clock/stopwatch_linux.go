package clock

import "time"

// Stopwatch reads CLOCK_MONOTONIC without a system call: Go's own monotonic
// clock is the same one, read through the vDSO, and only its zero is hidden. Loops
// read it for every message, and where system calls are dear they were an eighth of their time.
type Stopwatch struct {
	base   time.Time
	baseNs int64
}

// NewStopwatch finds the zero. Readings are never early, and late by no more
// than the narrowest of some brackets around the base: about a microsecond.
func NewStopwatch() (best Stopwatch) {
	narrowest := int64(1 << 62)
	for range 50 {
		before := MonoNs()
		base := time.Now()
		after := MonoNs()
		if after-before < narrowest {
			narrowest, best = after-before, Stopwatch{base: base, baseNs: after}
		}
	}
	return best
}

// MonoNs is now on the clock of MonoNs.
func (w *Stopwatch) MonoNs() int64 { return w.baseNs + time.Since(w.base).Nanoseconds() }

// Both is now on the clock of MonoNs and on the wall clock.
func (w *Stopwatch) Both() (monoNs, wallNs int64) {
	now := time.Now()
	return w.baseNs + now.Sub(w.base).Nanoseconds(), now.UnixNano()
}
