package traffic

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/jsonlines"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
)

// remote is a worker behind two pipes, as an exec into a Pod would give.
type remote struct {
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	served chan error
	cut    func() // loses the transport
}

func startWorker(t *testing.T, version string, lifetime time.Duration) *remote {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &remote{stdin: inW, stdout: outR, served: make(chan error, 1)}
	var done sync.WaitGroup
	done.Go(func() {
		err := Serve(t.Context(), inR, outW, version, lifetime)
		_ = outW.Close()
		r.served <- err
	})
	r.cut = func() {
		_ = outR.CloseWithError(errors.New("the connection was lost"))
		_ = inR.CloseWithError(errors.New("the connection was lost"))
	}
	t.Cleanup(func() { r.cut(); done.Wait() })
	return r
}

func (r *remote) close() error {
	_ = r.stdin.Close()
	return r.stdout.Close()
}

func TestAWorkerElsewhere(t *testing.T) {
	w := startProbe(t, probe.Config{Behaviour: probe.Ignore})
	r := startWorker(t, "v1", time.Minute)
	s, err := Dial(t.Context(), r.stdout, r.stdin, r.close, ExpectVersion("v1"))
	if err != nil {
		t.Fatal(err)
	}
	l := listen(s)
	plan := planFor(record.TCP, w.tcp, 2*chunk+1) // more than two lines of flows
	if err := s.Open(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	rep := closeSession(t, s)
	<-l.done
	if len(rep.Flows) != len(plan.Flows) || rep.Flows[len(rep.Flows)-1].ID != plan.Flows[len(plan.Flows)-1].ID {
		t.Errorf("%d flows in the report", len(rep.Flows))
	}
	if err := <-r.served; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

func TestASessionForTheClockAlone(t *testing.T) {
	r := startWorker(t, "v1", time.Minute)
	s, err := Dial(t.Context(), r.stdout, r.stdin, r.close)
	if err != nil {
		t.Fatal(err)
	}
	if _, reading := s.Clock(); reading.MonoNs == 0 || reading.WallUnixNs == 0 {
		t.Errorf("reading %+v", reading)
	}
	if rep, err := s.Close(t.Context()); err != nil || len(rep.Flows) != 0 {
		t.Errorf("report %+v, error %v", rep, err)
	}
	if _, more := <-s.Notes(); more {
		t.Error("a note from a session without flows")
	}
}

func TestAnotherVersionIsRefused(t *testing.T) {
	r := startWorker(t, "v1", time.Minute)
	_, err := Dial(t.Context(), r.stdout, r.stdin, r.close, ExpectVersion("v2"))
	if err == nil || !strings.Contains(err.Error(), `"v1"`) || !strings.Contains(err.Error(), `"v2"`) || fault.CodeOf(err) != fault.Unmeasurable || fault.NextOf(err) == "" {
		t.Errorf("error %v", err)
	}
}

func TestWhatIsNoWorker(t *testing.T) {
	for text, want := range map[string]string{
		"sh: drainproof: not found\n":                         "not found",
		`{"say":"hello","protocol":99,"version":"v1"}` + "\n": "protocol 99",
		"": "its output ended",
		`{"say":"hello","protocol":2,"error":"no epoll"}` + "\n":   "no epoll",
		`{"say":"hello","protocol":2}` + "\n{\"say\":\"song\"}\n":  "song",
		strings.Repeat("x", jsonlines.MaxLine+1):                   "longer than",
		`{"say":"hello","protocol":2}` + "\n{\"say\":\"clock\"}\n": "without a reading",
	} {
		_, err := Dial(t.Context(), strings.NewReader(text), io.Discard, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q in it", text, err, want)
		}
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	outR, outW := io.Pipe()
	defer outW.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, outR, io.Discard, outR.Close); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestALostWorkerLeavesWhatItTold(t *testing.T) {
	w := startProbe(t, probe.Config{Behaviour: probe.Ignore})
	r := startWorker(t, "v1", time.Minute)
	s, err := Dial(t.Context(), r.stdout, r.stdin, r.close)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(s)
	if err := s.Open(t.Context(), planFor(record.TCP, w.tcp, 3)); err != nil {
		t.Fatal(err)
	}
	l.await(t, NoteOpened, 3)
	r.cut()
	<-l.done
	rep, err := s.Close(t.Context())
	if err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("error %v", err)
	}
	if rep == nil || len(rep.Flows) != 3 {
		t.Fatalf("report %+v", rep)
	}
	for _, f := range rep.Flows {
		if o, m := Classify(f.Protocol, f.End); o != record.NotMeasured || m != record.ClientLimit || f.OpenedMonoNs == 0 || f.FirstInstance != "probe-a" {
			t.Errorf("%s/%s %+v", o, m, f)
		}
	}
	if err := <-r.served; err == nil {
		t.Error("the worker does not know that it was cut off")
	}
}

func TestAWorkerEndsWithItsInputAndItsLifetime(t *testing.T) {
	r := startWorker(t, "v1", time.Minute)
	go func() { _, _ = io.Copy(io.Discard, r.stdout) }()
	_ = r.stdin.Close()
	if err := <-r.served; err != nil {
		t.Errorf("the end of its input is no error, but: %v", err)
	}
	r = startWorker(t, "v1", 20*time.Millisecond)
	go func() { _, _ = io.Copy(io.Discard, r.stdout) }()
	if err := <-r.served; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the end of its lifetime: %v", err)
	}
}

func TestAWorkerRefusesNonsense(t *testing.T) {
	for _, text := range []string{"what?\n", `{"do":"dance"}` + "\n", `{"do":"plan"}` + "\n", `{"do":"open"}` + "\n" + `{"do":"open"}` + "\n"} {
		if err := Serve(t.Context(), strings.NewReader(text), io.Discard, "v1", time.Minute); err == nil {
			t.Errorf("%q was obeyed", text)
		}
	}
}

func TestPlansThatNoClientCanHold(t *testing.T) {
	good := planFor(record.TCP, "127.0.0.1:1", 1)
	for name, change := range map[string]func(*Plan){
		"no heartbeat":     func(p *Plan) { p.HeartbeatNs = 0 },
		"no read timeout":  func(p *Plan) { p.ReadTimeoutNs = -1 },
		"no flows":         func(p *Plan) { p.Flows = nil },
		"a name":           func(p *Plan) { p.Flows = []FlowPlan{{ID: "a", Protocol: record.TCP, Address: "probe:7001"}} },
		"no port":          func(p *Plan) { p.Flows = []FlowPlan{{ID: "a", Protocol: record.TCP, Address: "127.0.0.1:0"}} },
		"an id used twice": func(p *Plan) { p.Flows = append(p.Flows, p.Flows[0]) },
		"unknown protocol": func(p *Plan) { p.Flows = []FlowPlan{{ID: "a", Protocol: "sctp", Address: "127.0.0.1:1"}} },
	} {
		p := good
		p.Flows = append([]FlowPlan(nil), good.Flows...)
		change(&p)
		if _, err := p.targets(); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := good.targets(); err != nil {
		t.Error(err)
	}
}
