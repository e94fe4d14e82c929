package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/stats"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// roleVariable makes the test binary a server or a client in place of a test run.
const roleVariable = "DRAINPROOF_BENCH_ROLE"

func TestMain(m *testing.M) {
	role, argument, _ := strings.Cut(os.Getenv(roleVariable), " ")
	var err error
	switch role {
	case "":
		os.Exit(m.Run())
	case "server":
		failEvery := 0
		if _, err = fmt.Sscan(argument, &failEvery); err == nil {
			err = serve(failEvery)
		}
	case "client":
		var o order
		if err = json.Unmarshal([]byte(argument), &o); err == nil {
			err = client(o)
		}
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// as is a command that runs this binary in a role.
func as(b *testing.B, role string, argument any) *exec.Cmd {
	b.Helper()
	text, err := json.Marshal(argument)
	if err != nil {
		b.Fatal(err)
	}
	c := exec.CommandContext(b.Context(), os.Args[0])
	c.Env = append(os.Environ(), roleVariable+"="+role+" "+string(text))
	c.Stderr = os.Stderr
	return c
}

// startServer gives a server's address; it ends with the benchmark.
func startServer(b *testing.B, failEvery int) (address string) {
	b.Helper()
	c := as(b, "server", failEvery)
	in, out := testkit.Pipes(b, c)
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// run runs a client to its end and gives its output and its processor time, start and end included.
func run(b *testing.B, c *exec.Cmd) (out []byte, cpu time.Duration) {
	b.Helper()
	var problems bytes.Buffer
	if c.Stderr == nil {
		c.Stderr = &problems
	}
	out, err := c.Output()
	if err != nil {
		b.Fatalf("%s: %v\n%s%s", filepath.Base(c.Path), err, problems.Bytes(), out)
	}
	return out, c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

// ours sends with this project's client.
func ours(b *testing.B, o order) (sent, time.Duration) {
	b.Helper()
	out, cpu := run(b, as(b, "client", o))
	var s sent
	if err := json.Unmarshal(out, &s); err != nil {
		b.Fatal(err)
	}
	return s, cpu
}

// peers are the programs that are compared with. Those of Go are built from tools/peer; wrk is Debian's.
type peers struct{ vegeta, hey, wrk string }

// build makes the peers. wrk is empty where it is not installed.
func build(b *testing.B) (p peers) {
	b.Helper()
	dir := b.TempDir()
	for pkg, out := range map[string]*string{"github.com/tsenart/vegeta/v12": &p.vegeta, "github.com/rakyll/hey": &p.hey} {
		*out = filepath.Join(dir, strings.Split(pkg, "/")[2])
		c := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", *out, pkg)
		c.Dir, c.Env = "../../../../tools/peer", append(os.Environ(), "CGO_ENABLED=0")
		if text, err := c.CombinedOutput(); err != nil {
			b.Fatalf("build %s: %v\n%s", pkg, err, text)
		}
	}
	p.wrk, _ = exec.LookPath("wrk")
	if p.wrk == "" {
		b.Log("wrk is not installed (apt-get install wrk): compared without it")
	}
	return p
}

// perSecond is how many requests a client had answered for each second of processor time.
func perSecond(requests int64, cpu time.Duration) float64 { return float64(requests) / cpu.Seconds() }

func (p peers) runVegeta(b *testing.B, o order) float64 {
	b.Helper()
	results := filepath.Join(b.TempDir(), "results")
	c := exec.CommandContext(b.Context(), p.vegeta, "attack", "-rate", fmt.Sprint(o.Rate), "-duration", o.For.String(), "-output", results,
		fmt.Sprintf("-keepalive=%v", o.Mode == request.KeepAlive))
	c.Stdin = strings.NewReader("GET http://" + o.Address + "/\n")
	_, cpu := run(b, c)
	text, err := exec.CommandContext(b.Context(), p.vegeta, "report", "-type", "json", results).Output()
	if err != nil {
		b.Fatal(err)
	}
	var report struct {
		Requests int64
		Success  float64
	}
	if err := json.Unmarshal(text, &report); err != nil {
		b.Fatal(err)
	}
	if n := float64(report.Requests) * report.Success; n < 0.99*o.Rate*o.For.Seconds() {
		b.Logf("vegeta had %.0f requests answered of %.0f", n, o.Rate*o.For.Seconds())
	}
	return perSecond(report.Requests, cpu)
}

func (p peers) runHey(b *testing.B, o order) float64 {
	b.Helper()
	const workers = 50
	c := exec.CommandContext(b.Context(), p.hey, "-z", o.For.String(), "-c", fmt.Sprint(workers), "-q", fmt.Sprint(o.Rate/workers),
		fmt.Sprintf("-disable-keepalive=%v", o.Mode == request.NewConnection), "http://"+o.Address+"/")
	out, cpu := run(b, c)
	_, text, _ := bytes.Cut(out, []byte("Status code distribution:")) // its histogram has numbers in brackets too
	_, text, found := bytes.Cut(text, []byte("[200]\t"))
	var n int64
	if _, err := fmt.Sscan(string(text), &n); !found || err != nil {
		b.Fatalf("hey: no count of answers: %v\n%s", err, out)
	}
	return perSecond(n, cpu)
}

// runWrk sends as fast as it can on 50 connections: it knows no rate, and so pays less for waiting than those that keep one.
func (p peers) runWrk(b *testing.B, o order) float64 {
	b.Helper()
	args := []string{"-t1", "-c50", fmt.Sprintf("-d%.0fs", o.For.Seconds())}
	if o.Mode == request.NewConnection {
		args = append(args, "-H", "Connection: close")
	}
	out, cpu := run(b, exec.CommandContext(b.Context(), p.wrk, append(args, "http://"+o.Address+"/")...))
	for line := range strings.Lines(string(out)) {
		var n int64
		if _, err := fmt.Sscanf(line, " %d requests in", &n); err == nil {
			return perSecond(n, cpu)
		}
	}
	b.Fatalf("wrk: no count of answers\n%s", out)
	return 0
}

// compare runs this client and its peers in turn against one server, at one rate, and reports medians over the rounds.
//
//	x-NAME: our requests per second of processor time over the peer's
//	requests/cpu-s: ours
//	late-p99.9-ms, late-max-ms: how long after its plan a request left; within-1ms is the share that left within a millisecond
//	machine-within-1ms: the same share for a thread that does nothing but sleep, with nothing beside it: what the machine allows
func compare(b *testing.B, mode request.Mode, rate float64) {
	p := build(b)
	o := order{Address: startServer(b, 0), Mode: mode, Rate: rate, For: 5 * time.Second}
	var mine, vegeta, hey, wrk, late, latest, within, machine []float64
	for b.Loop() {
		machine = append(machine, sleeper(b))
		s, cpu := ours(b, o)
		if s.Outcomes[record.OK] != s.Requests || s.Requests < int64(o.Rate*o.For.Seconds()) {
			b.Fatalf("%d requests ended as %v: is the machine busy with something else?", s.Requests, s.Outcomes)
		}
		mine = append(mine, perSecond(s.Requests, cpu))
		late = append(late, float64(s.LateP999Ns)/1e6)
		latest = append(latest, float64(s.LateMaxNs)/1e6)
		within = append(within, s.WithinMs)
		vegeta = append(vegeta, p.runVegeta(b, o))
		hey = append(hey, p.runHey(b, o))
		if p.wrk != "" {
			wrk = append(wrk, p.runWrk(b, o))
		}
	}
	b.ReportMetric(median(mine), "requests/cpu-s")
	b.ReportMetric(median(mine)/median(vegeta), "x-vegeta")
	b.ReportMetric(median(mine)/median(hey), "x-hey")
	if p.wrk != "" {
		b.ReportMetric(median(mine)/median(wrk), "x-wrk")
	}
	b.ReportMetric(median(late), "late-p99.9-ms")
	b.ReportMetric(median(latest), "late-max-ms")
	b.ReportMetric(median(within), "within-1ms")
	b.ReportMetric(median(machine), "machine-within-1ms")
	b.ReportMetric(0, "ns/op")
}

// sleeper sleeps from one instant to the next, 5,000 a second as the client does, and gives the share of those that came within 1 ms.
func sleeper(b *testing.B) float64 {
	b.Helper()
	const naps, apartNs = 10_000, 200_000
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := clock.MonoNs()
	within := 0
	for i := range int64(naps) {
		due := begin + (i+1)*apartNs
		until := unix.NsecToTimespec(due)
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil); err != nil && err != unix.EINTR {
			b.Fatal(err)
		}
		if clock.MonoNs()-due <= int64(time.Millisecond) {
			within++
		}
	}
	return float64(within) / naps
}

func median(list []float64) float64 {
	m, _ := stats.Quantile(list, 0.5)
	return m
}

// BenchmarkNewConnection opens a connection for each of 5,000 requests a second.
func BenchmarkNewConnection(b *testing.B) { compare(b, request.NewConnection, 5_000) }

// BenchmarkKeepAlive sends 10,000 requests a second on the connections of 50 users.
func BenchmarkKeepAlive(b *testing.B) { compare(b, request.KeepAlive, 10_000) }

// BenchmarkMillion records 1,000,000 requests, of which one in a hundred fails, and counts them as a record does.
//
//	MiB: the greatest resident memory of the client
func BenchmarkMillion(b *testing.B) {
	const total, failEvery = 1_000_000, 100
	o := order{Address: startServer(b, failEvery), Mode: request.KeepAlive, Rate: 10_000, For: total / 10_000 * time.Second}
	for b.Loop() {
		s, cpu := ours(b, o)
		if failed := s.Requests - s.Outcomes[record.OK]; s.Requests < total || int64(s.Failures) != failed || failed < total/failEvery*9/10 {
			b.Fatalf("%d requests ended as %v, %d failures are kept", s.Requests, s.Outcomes, s.Failures)
		} else if failed > 2*total/failEvery {
			b.Fatalf("%d requests ended as %v: is the machine busy with something else?", s.Requests, s.Outcomes)
		}
		b.ReportMetric(float64(s.RSSKiB)/1024, "MiB")
		b.ReportMetric(float64(s.Failures), "failures")
		b.ReportMetric(perSecond(s.Requests, cpu), "requests/cpu-s")
		b.ReportMetric(float64(s.LateP999Ns)/1e6, "late-p99.9-ms")
		b.ReportMetric(0, "ns/op")
	}
}
