package bench

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
)

const (
	calls     = 300
	processes = 60
)

// BenchmarkEventTime compares the time of an event with the clock right before and right after the call that made it.
func BenchmarkEventTime(b *testing.B) {
	s := newStage(b, bareServer)
	w := s.watch(b)
	defer func() {
		if lost := w.end(b); len(lost) > 0 {
			b.Errorf("lost: %v", lost)
		}
	}()
	for _, c := range []struct {
		name string
		act  func(b *testing.B) []bracket
		// of gives the events that these calls should have made, with their times.
		of func(b *testing.B, calls []bracket) []int64
	}{
		{"signals", s.signal, w.inTurn(record.SignalSent)},
		{"exits", func(b *testing.B) []bracket { return tell[[]bracket](b, s.pod, order{Do: "exit", Times: processes}) }, w.inTurn(record.ProcessExited)},
		{"listeners", func(b *testing.B) []bracket { return tell[[]bracket](b, s.pod, order{Do: "listen", Times: calls}) }, w.inTurn(record.ListenerOpened, record.ListenerClosed)},
		{"sockets", func(b *testing.B) []bracket { return tell[[]bracket](b, s.pod, order{Do: "close", Times: calls}) }, w.byConnection(record.SocketClosed)},
		{"resets", func(b *testing.B) []bracket { return tell[[]bracket](b, s.pod, order{Do: "reset", Times: calls}) }, w.byConnection(record.ResetSent)},
		{"conntrack", func(b *testing.B) []bracket {
			s.block++
			return tell[[]bracket](b, s.client, order{Do: "dial", Times: calls, Load: load{Block: s.block}})
		}, w.byConnection(record.ConntrackNew)},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				done := c.act(b)
				at := c.of(b, done)
				var outside, width []float64
				for i, call := range done {
					outside = append(outside, float64(max(call.BeforeNs-at[i], at[i]-call.AfterNs, 0))/1e3)
					width = append(width, float64(call.AfterNs-call.BeforeNs)/1e3)
				}
				off, ok := stats.Summarize(outside)
				if !ok {
					b.Fatal("nothing was done")
				}
				p99, _ := stats.Quantile(outside, 0.99)
				within, _ := stats.Median(width)
				b.ReportMetric(off.Median, "off-p50-us")
				b.ReportMetric(p99, "off-p99-us")
				b.ReportMetric(off.Max, "off-max-us")
				b.ReportMetric(within, "call-p50-us")
				b.ReportMetric(float64(len(done)), "events")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// signal sends the Pod's first process a signal that it handles.
func (s *stage) signal(b *testing.B) (all []bracket) {
	for range calls {
		one := bracket{BeforeNs: clock.MonoNs()}
		err := unix.Kill(s.pod.Process.Pid, unix.SIGTERM)
		one.AfterNs = clock.MonoNs()
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// patience is longer than an agent takes to tell what it knows.
const patience = 20 * time.Second

// inTurn gives the times of the next events of some kinds, which are told as they happen: the first is that of the first call, and so on.
func (w *watcher) inTurn(kinds ...record.EventKind) func(*testing.B, []bracket) []int64 {
	return func(b *testing.B, done []bracket) (at []int64) {
		b.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			at = nil
			for _, kind := range kinds {
				for _, f := range w.heard(kind) {
					if first, _ := f.Event.Detail["first"].(bool); !first && f.MonoNs >= done[0].BeforeNs-int64(100*time.Millisecond) {
						at = append(at, f.MonoNs)
					}
				}
			}
			if len(at) >= len(done) || time.Now().After(deadline) {
				break
			}
		}
		if len(at) != len(done) {
			b.Fatalf("%d events of kinds %v for %d calls", len(at), kinds, len(done))
		}
		slices.Sort(at)
		return at
	}
}

// byConnection gives the time of the event of one kind that each connection has, which the agent remembers.
func (w *watcher) byConnection(kind record.EventKind) func(*testing.B, []bracket) []int64 {
	return func(b *testing.B, done []bracket) (at []int64) {
		b.Helper()
		var pairs []agent.Pair
		for _, call := range done {
			pairs = append(pairs, agent.Pair{Protocol: agent.TCP, A: netip.MustParseAddrPort(call.Local), B: netip.MustParseAddrPort(call.Remote)})
		}
		of := map[string]int64{}
		for deadline := time.Now().Add(patience); len(of) < len(done) && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			facts, _, err := w.Find(context.WithoutCancel(b.Context()), pairs)
			if err != nil {
				b.Fatal(err)
			}
			for _, f := range facts {
				if d := f.Event.Detail; f.Event.Kind == kind {
					of[fmt.Sprint(cmp.Or(d["local"], d["original_source"]), cmp.Or(d["remote"], d["original_destination"]))] = f.MonoNs
				}
			}
		}
		for _, call := range done {
			monoNs, ok := of[call.Local+call.Remote]
			if !ok {
				b.Fatalf("no %s of %s to %s", kind, call.Local, call.Remote)
			}
			at = append(at, monoNs)
		}
		return at
	}
}
