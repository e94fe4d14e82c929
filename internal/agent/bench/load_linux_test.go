package bench

import (
	"context"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
)

const (
	perS    = 5000
	loadFor = 12 * time.Second
	workers = 16
)

// BenchmarkNewConnections has an agent watch 5,000 new connections a second, and then asks it for every one of them.
func BenchmarkNewConnections(b *testing.B) {
	s := newStage(b, bareServer)
	for b.Loop() {
		w := s.watch(b)
		time.Sleep(2 * time.Second) // what follows a start has settled
		start := residentOf(b, w.pid())
		before := cpuNs(b, w.pid())
		began := time.Now()
		r, block := s.load(b, load{PerS: perS, ForNs: int64(loadFor), Workers: workers})
		window := time.Since(began)
		cpu := float64(cpuNs(b, w.pid())-before) / float64(window)
		after := residentOf(b, w.pid())

		missing := map[record.EventKind]int{}
		var pairs []agent.Pair
		for _, client := range r.connections(block) {
			pairs = append(pairs, agent.Pair{Protocol: agent.TCP, A: client, B: front})
			pairs = append(pairs, agent.Pair{Protocol: agent.TCP, A: client, B: netip.AddrPortFrom(netip.MustParseAddr("10.202.2.2"), podPort)})
		}
		time.Sleep(time.Second) // the last are on their way
		facts, forgotten, err := w.Find(context.WithoutCancel(b.Context()), pairs)
		if err != nil {
			b.Fatal(err)
		}
		known := map[record.EventKind]map[string]bool{record.ConntrackNew: {}, record.SocketClosed: {}}
		for _, f := range facts {
			switch d := f.Event.Detail; f.Event.Kind {
			case record.ConntrackNew:
				known[record.ConntrackNew][d["original_source"].(string)] = true
			case record.SocketClosed:
				known[record.SocketClosed][d["remote"].(string)] = true
			}
		}
		for _, client := range r.connections(block) {
			for kind, of := range known {
				if !of[client.String()] {
					missing[kind]++
				}
			}
		}
		var lost uint64
		told := w.end(b)
		for _, n := range told {
			lost += n
		}
		if len(told) > 0 || len(w.gaps) > 0 || forgotten != 0 {
			b.Logf("lost %v, gaps %+v, forgotten before %d", told, w.gaps, forgotten)
		}
		b.ReportMetric(float64(r.requests())/(float64(r.TookNs)/1e9), "connections/s")
		b.ReportMetric(float64(lost), "lost")
		b.ReportMetric(float64(missing[record.ConntrackNew]), "entries-missing")
		b.ReportMetric(float64(missing[record.SocketClosed]), "closes-missing")
		b.ReportMetric(100*cpu, "%-of-a-core")
		b.ReportMetric(float64(w.startCPUNs)/1e6, "start-cpu-ms")
		b.ReportMetric(start.now, "start-MiB")
		b.ReportMetric(start.own, "start-own-MiB")
		b.ReportMetric(after.most, "peak-MiB")
		b.ReportMetric(after.own, "end-own-MiB")
		b.ReportMetric(0, "ns/op")
	}
}

// flatOut is how many requests are under way where there is no rate: enough for two processors, and none waits for another.
const flatOut = 4

// kept is how many requests a connection carries where clients keep theirs.
const kept = 100

// BenchmarkThroughput compares how many requests a second there are at most with an agent and without.
func BenchmarkThroughput(b *testing.B) {
	for _, c := range []struct {
		name, server string
		each         int
	}{{httpServer, httpServer, 1}, {bareServer, bareServer, 1}, {httpServer + "-kept", httpServer, kept}} {
		b.Run(c.name, func(b *testing.B) {
			s := newStage(b, c.server)
			for b.Loop() {
				compare(b, s, 20, func() map[string]float64 {
					r, _ := s.load(b, load{Each: c.each, ForNs: int64(2 * time.Second), Workers: flatOut})
					return map[string]float64{"throughput-ratio": float64(r.requests()) / (float64(r.TookNs) / 1e9)}
				})
			}
		})
	}
}

// BenchmarkCost compares how many requests are served at a rate, and what one costs, with an agent and without.
func BenchmarkCost(b *testing.B) {
	s := newStage(b, bareServer)
	for b.Loop() {
		ofService := func() int64 { return cpuNs(b, s.pod.Process.Pid) + cpuNs(b, s.client.Process.Pid) }
		compare(b, s, 10, func() map[string]float64 {
			service, machine := ofService(), busyNs(b)
			r, _ := s.load(b, load{PerS: perS, ForNs: int64(2 * time.Second), Workers: workers})
			n := float64(r.requests())
			return map[string]float64{
				"served-ratio": n / (float64(r.TookNs) / 1e9), "cost-ratio": float64(ofService()-service) / n, "machine-ratio": float64(busyNs(b)-machine) / n,
			}
		})
	}
}

// compare measures in pairs of rounds, with an agent and without; which of them is first changes from pair to pair. Reported is for each measure of a round
// the median of its pairs' ratios, with over without, and between what that is with 95 % confidence.
func compare(b *testing.B, s *stage, pairs int, round func() map[string]float64) {
	b.Helper()
	ratios := map[string][]float64{}
	for i := range pairs {
		var got [2]map[string]float64
		for turn := range 2 {
			on := (turn + i) % 2
			var w *watcher
			if on == 1 {
				w = s.watch(b)
			}
			time.Sleep(time.Second) // what follows a start has settled
			got[on] = round()
			if w != nil {
				w.end(b)
			}
		}
		for unit := range got[0] {
			ratios[unit] = append(ratios[unit], got[1][unit]/got[0][unit])
			b.Logf("%s: %.4g without, %.4g with: %.3f", unit, got[0][unit], got[1][unit], got[1][unit]/got[0][unit])
		}
	}
	for unit, all := range ratios {
		m, _ := stats.Median(all)
		b.ReportMetric(m, unit)
		if lo, hi, ok := stats.MedianInterval(all, 0.95); ok {
			b.ReportMetric(lo, unit+"-from")
			b.ReportMetric(hi, unit+"-to")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// busyNs is how long all processors together were not idle, in ticks of 10 ms (proc(5), /proc/stat).
func busyNs(b *testing.B) (ns int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(first) {
		if i == 0 || i == 4 || i == 5 || i > 7 { // its name; idle; waiting for disks; guests' time is in that of others
			continue
		}
		ns += parseTicks(b, field) * int64(10*time.Millisecond)
	}
	return ns
}

func parseTicks(b *testing.B, field string) int64 {
	b.Helper()
	n, err := strconv.ParseInt(field, 10, 64)
	if err != nil {
		b.Fatalf("/proc/stat: %v", err)
	}
	return n
}
