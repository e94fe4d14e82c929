package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/testkit"
)

// roleVariable makes the test binary one of the processes of the stage in place of a test run.
const roleVariable = "DRAINPROOF_AGENT_BENCH_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(roleVariable); role {
	case "":
		code := m.Run()
		if programDir != "" {
			_ = os.RemoveAll(programDir)
		}
		os.Exit(code)
	case "pod":
		signal.Notify(make(chan os.Signal, 1), unix.SIGTERM) // it goes on
		err = obey(podOrders)
	case "client":
		err = obey(clientOrders)
	case "exit":
		fmt.Println(clock.MonoNs())
		os.Exit(0)
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// order is what a process of the stage is told to do.
type order struct {
	Do     string
	Times  int
	Server string
	Load   load
}

// bracket is a call that was made: between these two readings of CLOCK_MONOTONIC it took effect.
type bracket struct {
	BeforeNs, AfterNs int64
	// Ends tell which socket or connection it was about, as far as it was one.
	Local, Remote string
}

// obey does what comes on stdin, one JSON object after another, and answers each on stdout, until stdin ends.
func obey(orders map[string]func(order) (any, error)) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		do := orders[o.Do]
		if do == nil {
			return fmt.Errorf("no order %q", o.Do)
		}
		answer, err := do(o)
		if err != nil {
			return fmt.Errorf("%s: %w", o.Do, err)
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
}

// process is one of the stage's.
type process struct {
	*exec.Cmd
	in     io.WriteCloser
	orders *json.Encoder
	out    *json.Decoder
}

// start runs this binary in a role, in namespaces of its own as the flags of clone(2) say.
func start(b *testing.B, role string, namespaces uintptr) *process {
	b.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), roleVariable+"="+role)
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: namespaces}
	in, out := testkit.Pipes(b, c)
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	p := &process{Cmd: c, in: in, orders: json.NewEncoder(in), out: json.NewDecoder(out)}
	b.Cleanup(func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			b.Errorf("the %s: %v", role, err)
		}
	})
	return p
}

// tell gives an order and waits for its answer.
func tell[T any](b *testing.B, p *process, o order) (answer T) {
	b.Helper()
	if err := p.orders.Encode(o); err != nil {
		b.Fatal(err)
	}
	if err := p.out.Decode(&answer); err != nil {
		b.Fatalf("%s: no answer: %v", o.Do, err)
	}
	return answer
}

// cpuNs is the processor time of a process so far, to the nanosecond (clock_getcpuclockid(3)).
func cpuNs(b *testing.B, pid int) int64 {
	b.Helper()
	const ofProcess = 2 // CPUCLOCK_SCHED of include/linux/posix-timers_types.h
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &t); err != nil {
		b.Fatalf("processor time of process %d: %v", pid, err)
	}
	return t.Nano()
}

// resident is a process's resident memory in MiB (proc(5)): now and at most (VmRSS, VmHWM), and what of the present is its own (RssAnon) and not
// pages of its program's file, which give way to whoever needs the room.
type resident struct{ now, most, own float64 }

func residentOf(b *testing.B, pid int) (r resident) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		for name, to := range map[string]*float64{"VmRSS": &r.now, "VmHWM": &r.most, "RssAnon": &r.own} {
			var kib float64
			if n, _ := fmt.Sscanf(line, name+": %f kB", &kib); n == 1 {
				*to = kib / 1024
			}
		}
	}
	return r
}

// programDir is where program builds it; empty where it did not.
var programDir string

// program builds the program that is measured, once.
var program = sync.OnceValues(func() (string, error) {
	var err error
	if programDir, err = os.MkdirTemp("", "drainproof-bench-"); err != nil {
		return "", err
	}
	path := programDir + "/drainproof"
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X github.com/drainproof/drainproof/internal/cli.version="+version, "-o", path, "../../../cmd/drainproof")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build drainproof: %w\n%s", err, text)
	}
	return path, nil
})

const version = "bench"
