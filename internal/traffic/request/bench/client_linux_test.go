package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/tally"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/traffic/request/eventloop"
)

// order is what the client's process is told to send.
type order struct {
	Address string
	Mode    request.Mode
	Rate    float64
	For     time.Duration
}

// sent is what it tells of that.
type sent struct {
	Requests int64
	Outcomes map[record.RequestOutcome]int64
	Failures int
	Health   record.ClientHealth
	// Late are quantiles of the delay of sends against the plan, in nanoseconds.
	LateP50Ns, LateP999Ns, LateMaxNs, LatencyP50Ns int64
	// WithinMs is the share of sends that left within 1 ms of their plan.
	WithinMs float64
	RSSKiB   int64
}

// client sends, records and counts all as the product does, and prints what came of it.
func client(o order) error {
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	p := request.Plan{
		Mode: o.Mode, Rate: o.Rate, Users: 50,
		Target: request.Target{Scheme: "http", Host: host, Port: uint16(number), Path: "/", Method: "GET"},
		Expect: []request.StatusRange{{From: 200, To: 299}}, Limits: request.DefaultLimits(), InstanceHeader: "X-Instance",
	}
	collector := request.NewCollector(p)
	engine, err := eventloop.Start(p, collector)
	if err != nil {
		return err
	}
	var in tally.Input
	var failures []request.Failed
	take := func() error {
		for more := true; more; {
			var b request.Batch
			b, more = collector.Take(math.MaxInt, math.MaxInt)
			if in.Samples, err = request.DecodeSamples(b.Samples, b.Count, in.Samples); err != nil {
				return err
			}
			in.Names = append(in.Names, b.Names...)
			in.Reconnects += b.Reconnects
			failures = append(failures, b.Failures...)
		}
		return nil
	}
	for end := time.Now().Add(o.For); time.Now().Before(end); {
		time.Sleep(min(time.Until(end), 500*time.Millisecond))
		if err := take(); err != nil {
			return err
		}
	}
	engine.Stop()
	if err := take(); err != nil {
		return err
	}
	in.Users = p.Users
	requests, _, latency := tally.Fold(in)
	s := sent{Requests: requests.Total, Outcomes: requests.Outcomes, Failures: len(failures), Health: collector.Health()}
	late := stats.NewDelays()
	within := 0
	for _, one := range in.Samples {
		late.Record(one.LateNs)
		if one.LateNs <= int64(time.Millisecond) {
			within++
		}
	}
	s.WithinMs = float64(within) / float64(max(len(in.Samples), 1))
	s.LateP50Ns, _ = late.QuantileNs(0.5)
	s.LateP999Ns, _ = late.QuantileNs(0.999)
	s.LateMaxNs = late.MaxNs()
	if latency.During != nil {
		s.LatencyP50Ns = latency.During.P50Ns
	}
	if s.RSSKiB, err = peakKiB(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// peakKiB is this process's greatest resident memory (proc(5), VmHWM). Unlike getrusage's it begins with
// this program, not with the one that started it.
func peakKiB() (kib int64, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib, nil
		}
	}
	return 0, fmt.Errorf("no VmHWM in /proc/self/status")
}
