package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/traffic"
)

const (
	heldFlows  = 15_000
	resetFlows = 5_000
	heartbeat  = 500 * time.Millisecond
	hold       = 15 * time.Second
)

func plan(address string, n int) traffic.Plan {
	p := traffic.Plan{HeartbeatNs: int64(heartbeat), ReadTimeoutNs: int64(5 * time.Second), ConnectTimeoutNs: int64(10 * time.Second)}
	for i := range n {
		p.Flows = append(p.Flows, traffic.FlowPlan{ID: fmt.Sprintf("tcp-%d", i+1), Protocol: record.TCP, Address: address})
	}
	return p
}

// open starts a client whose notes are read and dropped until it ends.
func open(b *testing.B, p traffic.Plan) traffic.Session {
	b.Helper()
	s, err := traffic.StartLocal()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range s.Notes() {
		}
	}()
	b.Cleanup(func() {
		_, _ = s.Close(context.Background())
		<-done
	})
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	if err := s.Open(ctx, p); err != nil {
		b.Fatal(err)
	}
	return s
}

func report(b *testing.B, s traffic.Session) *traffic.Report {
	b.Helper()
	r, err := s.Close(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// rssKiB is this process's resident memory (proc(5), VmRSS).
func rssKiB(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			return kib
		}
	}
	b.Fatal("no VmRSS in /proc/self/status")
	return 0
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHold holds 15,000 TCP flows of the probe with a heartbeat of 500 ms.
func BenchmarkHold(b *testing.B) {
	peer := startPeer(b, "probe")
	p := plan(peer.address, heldFlows)
	for b.Loop() {
		before := rssKiB(b)
		s := open(b, p)
		cpuBefore, began := cpu(b), time.Now()
		time.Sleep(hold)
		spent, window := cpu(b)-cpuBefore, time.Since(began)
		after := rssKiB(b)
		r := report(b, s)

		alive := 0
		for _, f := range r.Flows {
			if f.End.Kind == traffic.EndWindowClosed {
				alive++
			}
		}
		if alive != heldFlows || r.Answers == nil {
			b.Fatalf("%d of %d flows lived through it", alive, heldFlows)
		}
		heartbeats := float64(heldFlows) * window.Seconds() / heartbeat.Seconds()
		b.ReportMetric((after-before)/heldFlows, "KiB/flow")
		b.ReportMetric(after/heldFlows, "total-KiB/flow")
		b.ReportMetric(float64(r.Health.LateP999Ns)/1e6, "late-p99.9-ms")
		b.ReportMetric(float64(r.Health.LateMaxNs)/1e6, "late-max-ms")
		b.ReportMetric(float64(r.Answers.P999Ns)/1e6, "answer-p99.9-ms")
		b.ReportMetric(float64(r.Answers.P50Ns)/1e6, "answer-p50-ms")
		b.ReportMetric(float64(spent.Microseconds())/heartbeats, "cpu-us/heartbeat")
		b.ReportMetric(float64(r.Unsent), "unsent")
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkReset resets 5,000 TCP flows at once and asks how soon each end was recorded.
func BenchmarkReset(b *testing.B) {
	for b.Loop() {
		peer := startPeer(b, "reset")
		s := open(b, plan(peer.address, resetFlows))
		time.Sleep(time.Second)
		if _, err := peer.in.Write([]byte("reset\n")); err != nil {
			b.Fatal(err)
		}
		var stamps []resetStamp
		if err := json.NewDecoder(peer.out).Decode(&stamps); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Second)
		r := report(b, s)

		ended := map[string]int64{}
		for _, f := range r.Flows {
			if f.End.Kind == traffic.EndReadError || f.End.Kind == traffic.EndWriteError {
				ended[f.Local] = f.EndedMonoNs
			}
		}
		var delays []float64
		for _, st := range stamps {
			end, ok := ended[st.Client]
			if !ok {
				b.Fatalf("the reset of %s was not recorded", st.Client)
			}
			delays = append(delays, float64(end-st.MonoNs)/1e6)
		}
		if len(delays) != resetFlows {
			b.Fatalf("%d stamps for %d flows", len(delays), resetFlows)
		}
		sum, _ := stats.Summarize(delays)
		p99, _ := stats.Quantile(delays, 0.99)
		b.ReportMetric(sum.Median, "p50-ms")
		b.ReportMetric(p99, "p99-ms")
		b.ReportMetric(sum.Max, "max-ms")
		b.ReportMetric(float64(stamps[len(stamps)-1].MonoNs-stamps[0].MonoNs)/1e6, "burst-ms")
		b.ReportMetric(0, "ns/op")
	}
}
