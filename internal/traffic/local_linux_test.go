package traffic

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
)

// workload is the real probe, running in this process.
type workload struct {
	tcp, udp string
	signals  chan os.Signal
	log      *bytes.Buffer
	stop     func()
}

func startProbe(t *testing.T, c probe.Config) *workload {
	t.Helper()
	w := &workload{signals: make(chan os.Signal, 1), log: &bytes.Buffer{}}
	c.TCP, c.UDP, c.HTTP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	if c.ReadinessOnTerm == "" {
		c.ReadinessOnTerm = probe.Keep
	}
	if c.Instance == "" {
		c.Instance, c.PodUID = "probe-a", "uid-a"
	}
	c.Log = w.log
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		_, err := probe.Run(ctx, c, w.signals, func(tcp, udp, _ string) { w.tcp, w.udp = tcp, udp; close(ready) })
		if err != nil {
			t.Error(err)
		}
	})
	<-ready
	w.stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	t.Cleanup(w.stop)
	return w
}

// planFor makes a plan of n flows of a protocol to an address, quick enough for tests.
func planFor(p record.Protocol, address string, n int) Plan {
	plan := Plan{HeartbeatNs: int64(20 * time.Millisecond), ReadTimeoutNs: int64(10 * time.Second), ConnectTimeoutNs: int64(10 * time.Second)}
	for i := range n {
		plan.Flows = append(plan.Flows, FlowPlan{ID: fmt.Sprintf("%s-%d", p, i+1), Protocol: p, Address: address})
	}
	return plan
}

// listener collects a session's notes.
type listener struct {
	mu    sync.Mutex
	notes []Note
	more  chan struct{}
	done  chan struct{}
}

func listen(s Session) *listener {
	l := &listener{more: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for n := range s.Notes() {
			l.mu.Lock()
			l.notes = append(l.notes, n)
			l.mu.Unlock()
			select {
			case l.more <- struct{}{}:
			default:
			}
		}
	}()
	return l
}

// await waits until count notes of a kind have come.
func (l *listener) await(t *testing.T, kind NoteKind, count int) []Note {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		l.mu.Lock()
		var got []Note
		for _, n := range l.notes {
			if n.Kind == kind {
				got = append(got, n)
			}
		}
		l.mu.Unlock()
		if len(got) >= count {
			return got
		}
		select {
		case <-l.more:
		case <-deadline:
			t.Fatalf("%d of %d notes %q in 10 s", len(got), count, kind)
		}
	}
}

func openLocal(t *testing.T, p Plan) (Session, *listener) {
	t.Helper()
	s, err := StartLocal()
	if err != nil {
		t.Fatal(err)
	}
	l := listen(s)
	t.Cleanup(func() {
		_, _ = s.Close(context.Background())
		<-l.done
	})
	if err := s.Open(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return s, l
}

func closeSession(t *testing.T, s Session) *Report {
	t.Helper()
	r, err := s.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHoldsFlowsOfARealProbe(t *testing.T) {
	w := startProbe(t, probe.Config{Behaviour: probe.Ignore, TickEvery: time.Second})
	plan := planFor(record.TCP, w.tcp, 200)
	plan.Flows = append(plan.Flows, planFor(record.UDP, w.udp, 20).Flows...)
	s, l := openLocal(t, plan)
	if o, r := s.Clock(); o.UncertaintyNs != 0 || o.AheadNs != 0 || r.MonoNs == 0 {
		t.Errorf("one kernel, one clock, but offset %+v of %+v", o, r)
	}
	opened := l.await(t, NoteOpened, 220)
	for _, n := range opened {
		if n.Instance != "probe-a" || n.PodUID != "uid-a" || n.Local == "" || n.Remote == "" || n.MonoNs == 0 {
			t.Fatalf("opened without all facts: %+v", n)
		}
	}
	time.Sleep(200 * time.Millisecond) // ten heartbeats
	r := closeSession(t, s)
	if len(r.Flows) != 220 {
		t.Fatalf("%d flows in the report", len(r.Flows))
	}
	for i, f := range r.Flows {
		if f.ID != plan.Flows[i].ID || f.End.Kind != EndWindowClosed || f.Answered < 2 || f.Answered > f.Sent || f.LastSeq == 0 || f.OpenedMonoNs == 0 || f.LastInstance != "probe-a" {
			t.Fatalf("flow %+v", f)
		}
	}
	h := r.Health
	if h.HeartbeatsSent < 220*2 || h.HeartbeatsAnswered > h.HeartbeatsSent || h.Limits == nil || len(h.Limits) != 0 || r.Answers == nil {
		t.Errorf("health %+v, answers %+v", h, r.Answers)
	}
}

func TestExitIsAReset(t *testing.T) {
	w := startProbe(t, probe.Config{Behaviour: probe.Exit, ForceRST: true})
	s, l := openLocal(t, planFor(record.TCP, w.tcp, 20))
	w.signals <- syscall.SIGTERM
	l.await(t, NoteEnded, 20)
	for _, f := range closeSession(t, s).Flows {
		o, m := Classify(f.Protocol, f.End)
		if o != record.Severed || m != record.RST || !f.End.Promised || f.End.Announced || f.EndedMonoNs < f.End.LastAnswerMonoNs {
			t.Errorf("%s %s: %+v", o, m, f)
		}
	}
}

func TestDrainIsAnnounced(t *testing.T) {
	w := startProbe(t, probe.Config{Behaviour: probe.Drain, DrainWindow: 200 * time.Millisecond})
	plan := planFor(record.TCP, w.tcp, 20)
	plan.Flows = append(plan.Flows, planFor(record.UDP, w.udp, 2).Flows...)
	plan.ReadTimeoutNs = int64(300 * time.Millisecond) // how long the refused datagrams wait for another answer
	s, l := openLocal(t, plan)
	w.signals <- syscall.SIGTERM
	draining := l.await(t, NoteDraining, 20)
	if draining[0].ClosesInMs != 200 {
		t.Errorf("closes in %d ms", draining[0].ClosesInMs)
	}
	l.await(t, NoteBye, 20)
	l.await(t, NoteEnded, 22)
	for _, f := range closeSession(t, s).Flows {
		o, m := Classify(f.Protocol, f.End)
		switch {
		case f.Protocol == record.TCP && (o != record.Drained || m != record.AnnouncedFIN || f.EndedMonoNs-draining[0].MonoNs < int64(150*time.Millisecond)):
			t.Errorf("%s %s: %+v", o, m, f)
		case f.Protocol == record.UDP && (o != record.Severed || m != record.ICMPPort || f.End.ICMP == nil || f.End.ICMP.From != "127.0.0.1"):
			t.Errorf("%s %s: %+v", o, m, f)
		}
	}
}
