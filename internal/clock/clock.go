// Package clock reads the one clock that all evidence shares.
//
// The kernel's CLOCK_MONOTONIC is the same for every process, container and
// network namespace of one running kernel (time_namespaces(7) apart, which
// container runtimes do not use by default), and it is the clock of kernel
// tracing (bpf_ktime_get_ns). Two processes with the same boot id may
// therefore compare their readings directly; all others must measure an offset.
//
// It must not know events, records or any other package of the project.
package clock

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MonoNs reads CLOCK_MONOTONIC, in nanoseconds since an arbitrary point at boot.
func MonoNs() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock: CLOCK_MONOTONIC cannot be read: " + err.Error())
	}
	return ts.Nano()
}

// BootID identifies the running kernel (proc(5), random/boot_id), or "" where
// there is none. Equal, non-empty ids mean one kernel and one clock.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Reading is one look at both clocks of a process, taken together.
type Reading struct {
	MonoNs     int64  `json:"mono_ns"`
	WallUnixNs int64  `json:"wall_unix_ns"`
	BootID     string `json:"boot_id"`
}

// Read takes a Reading now.
func Read() Reading {
	return Reading{MonoNs: MonoNs(), WallUnixNs: time.Now().UnixNano(), BootID: BootID()}
}

// Offset says how far another process's clock is ahead of ours.
type Offset struct {
	// AheadNs is to be subtracted from the other clock's readings.
	AheadNs int64 `json:"ahead_ns"`
	// UncertaintyNs bounds the error of AheadNs; 0 on one kernel.
	UncertaintyNs int64 `json:"uncertainty_ns"`
	// Samples is how many round trips were measured; 0 where none was needed.
	Samples int `json:"samples"`
}

// Exchange is one round trip: our clock before and after, theirs in between.
type Exchange struct {
	SentMonoNs, ReceivedMonoNs int64
	Remote                     Reading
}

// Estimate turns round trips into an offset: exact when local and remote run
// on one kernel, else by the round trip with the smallest delay, whose half is
// the bound (the argument of RFC 5905, section 8). ok is false without exchanges.
func Estimate(localBootID string, exchanges []Exchange) (o Offset, ok bool) {
	if len(exchanges) == 0 {
		return Offset{}, false
	}
	if localBootID != "" && exchanges[0].Remote.BootID == localBootID {
		return Offset{}, true
	}
	best := exchanges[0]
	for _, e := range exchanges[1:] {
		if e.ReceivedMonoNs-e.SentMonoNs < best.ReceivedMonoNs-best.SentMonoNs {
			best = e
		}
	}
	half := (best.ReceivedMonoNs - best.SentMonoNs + 1) / 2
	return Offset{
		AheadNs:       best.Remote.MonoNs - (best.SentMonoNs + half),
		UncertaintyNs: half,
		Samples:       len(exchanges),
	}, true
}
