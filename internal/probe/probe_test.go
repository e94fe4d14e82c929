package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lineLog collects log lines, and checks that each came with one Write.
type lineLog struct {
	mu    sync.Mutex
	lines []LogLine
	bad   []string
	more  chan struct{}
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, err := ParseLogLine(b)
	if err != nil || b[len(b)-1] != '\n' || strings.Count(string(b), "\n") != 1 {
		l.bad = append(l.bad, string(b))
	}
	l.lines = append(l.lines, line)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (l *lineLog) events() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, line := range l.lines {
		out = append(out, line.Event)
	}
	return out
}

// find waits for a line with an event.
func (l *lineLog) find(t *testing.T, event string) LogLine {
	t.Helper()
	return l.await(t, event, 1)
}

// await waits for the n-th line with an event.
func (l *lineLog) await(t *testing.T, event string, n int) LogLine {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		l.mu.Lock()
		left := n
		for _, line := range l.lines {
			if line.Event == event {
				if left--; left == 0 {
					l.mu.Unlock()
					return line
				}
			}
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-deadline:
			t.Fatalf("no %q in the log: %v", event, l.events())
		}
	}
}

type running struct {
	tcp, udp, http string
	ready          chan struct{} // closed once it listens, with the addresses set
	signals        chan os.Signal
	log            *lineLog
	exited         chan int
	cancel         func()
}

// start runs a probe and waits until it listens.
func start(t *testing.T, c Config) *running {
	t.Helper()
	r := launch(t, c)
	<-r.ready
	return r
}

func launch(t *testing.T, c Config) *running {
	t.Helper()
	r := &running{ready: make(chan struct{}), signals: make(chan os.Signal, 1), log: &lineLog{more: make(chan struct{}, 1)}, exited: make(chan int, 1)}
	c.TCP, c.UDP, c.HTTP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Instance, c.PodUID, c.Log = "probe-a", "uid-a", r.log
	if c.ReadinessOnTerm == "" {
		c.ReadinessOnTerm = Fail
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	var done sync.WaitGroup
	done.Go(func() {
		code, err := Run(ctx, c, r.signals, func(tcp, udp, http string) { r.tcp, r.udp, r.http = tcp, udp, http; close(r.ready) })
		if err != nil {
			t.Error(err)
		}
		r.exited <- code
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
		http.DefaultClient.CloseIdleConnections()
		if len(r.log.bad) > 0 {
			t.Errorf("log lines that are none: %q", r.log.bad)
		}
	})
	return r
}

// talk is a client of the heartbeat port.
type talk struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func connect(t *testing.T, address string) *talk {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	k := &talk{t: t, c: c, r: bufio.NewReader(c)}
	if m := k.hear(); m.Type != wire.Hello || m.Promises != wire.PromiseAnnounce || m.Instance != "probe-a" || m.PodUID != "uid-a" {
		t.Fatalf("hello %+v", m)
	}
	return k
}

func (k *talk) hear() wire.Message {
	k.t.Helper()
	line, err := k.r.ReadBytes('\n')
	if err != nil {
		k.t.Fatalf("reading a message: %v", err)
	}
	m, err := wire.Parse(line[:len(line)-1])
	if err != nil {
		k.t.Fatal(err)
	}
	return m
}

func (k *talk) say(s string) {
	k.t.Helper()
	if _, err := io.WriteString(k.c, s); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) ping(seq uint64) {
	k.t.Helper()
	k.say(string(wire.AppendPing(nil, seq)) + "\n")
	if m := k.hear(); m.Type != wire.Beat || m.Seq != seq {
		k.t.Fatalf("ping %d was answered by %+v", seq, m)
	}
}

func status(t *testing.T, r *running, path string) (int, string) {
	t.Helper()
	return statusAt(t, r.http, path)
}

func statusAt(t *testing.T, address, path string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestAnswers(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	k := connect(t, r.tcp)
	k.ping(1)
	// Two and a half pings in one segment, then the rest.
	k.say(`{"type":"ping","seq":2}` + "\n" + `{"type":"ping","seq":3}` + "\n" + `{"type":"pi`)
	for seq := uint64(2); seq <= 3; seq++ {
		if m := k.hear(); m.Seq != seq {
			t.Fatalf("got %+v", m)
		}
	}
	k.say(`ng","seq":4}` + "\n")
	if m := k.hear(); m.Seq != 4 {
		t.Fatalf("got %+v", m)
	}

	u, err := net.Dial("udp", r.udp)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	_ = u.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = u.Write([]byte("junk"))
	_, _ = u.Write(wire.AppendPing(nil, 5))
	buf := make([]byte, 2048)
	n, err := u.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := wire.Parse(buf[:n]); err != nil || m.Type != wire.Beat || m.Seq != 5 || m.PodUID != "uid-a" {
		t.Errorf("datagram %s", buf[:n])
	}
	started := r.log.find(t, LogStarted)
	if started.MonoNs == 0 || started.WallUnixNs == 0 || started.Instance != "probe-a" || started.PodUID != "uid-a" || started.Detail["tcp"] != r.tcp {
		t.Errorf("started: %+v", started)
	}
}

func TestTicksOnIdleConnections(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore, TickEvery: 20 * time.Millisecond})
	k := connect(t, r.tcp)
	for seq := uint64(1); seq <= 3; seq++ {
		if m := k.hear(); m.Type != wire.Tick || m.Seq != seq || m.PodUID != "uid-a" {
			t.Fatalf("tick %d: %+v", seq, m)
		}
	}
}

func TestJunkIsTurnedAway(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	for _, junk := range []string{"GET / HTTP/1.1\r\n", "\n", `{"type":"ping","seq":-1}` + "\n", strings.Repeat("x", 2*wire.MaxMessageBytes)} {
		k := connect(t, r.tcp)
		k.say(junk)
		if b, err := k.r.ReadByte(); err == nil {
			t.Errorf("%.20q was answered with %q", junk, b)
		}
	}
	for range 2 * refusalsLogged {
		k := connect(t, r.tcp)
		k.say("junk\n")
		_, _ = k.r.ReadByte()
	}
	r.log.find(t, LogRefused)
	r.cancel()
	<-r.exited
	exiting := r.log.find(t, LogExiting)
	if exiting.Detail["refused"] != float64(2*refusalsLogged+4) {
		t.Errorf("exiting: %+v", exiting)
	}
	refusals := 0
	for _, e := range r.log.events() {
		if e == LogRefused {
			refusals++
		}
	}
	if refusals != refusalsLogged {
		t.Errorf("%d refusals in the log", refusals)
	}
}

func TestDrain(t *testing.T) {
	r := start(t, Config{Behaviour: Drain, DrainWindow: 300 * time.Millisecond, ExitCode: 7})
	k, silent := connect(t, r.tcp), connect(t, r.tcp)
	k.ping(1)
	silent.ping(1)
	if code, _ := status(t, r, PathReady); code != 200 {
		t.Errorf("ready: %d", code)
	}
	began := time.Now()
	r.signals <- syscall.SIGTERM
	if m := k.hear(); m.Type != wire.Draining || m.ClosesInMs != 300 {
		t.Fatalf("got %+v", m)
	}
	k.ping(2)
	if code, _ := status(t, r, PathReady); code != 503 {
		t.Errorf("readiness while draining: %d", code)
	}
	if code, _ := status(t, r, PathHealth); code != 200 {
		t.Errorf("health while draining: %d", code)
	}
	if c, err := net.Dial("tcp", r.tcp); err == nil {
		_ = c.Close()
		t.Error("it accepts while draining")
	}
	r.signals <- syscall.SIGTERM // once more: changes nothing
	if m := k.hear(); m.Type != wire.Bye {
		t.Fatalf("got %+v", m)
	}
	if took := time.Since(began); took < 290*time.Millisecond {
		t.Errorf("bye after %v", took)
	}
	// A ping under way must not turn the FIN into a reset.
	k.say(`{"type":"ping","seq":3}` + "\n")
	if _, err := k.r.ReadByte(); err != io.EOF {
		t.Errorf("after the bye: %v", err)
	}
	_ = k.c.Close()
	if code := <-r.exited; code != 7 {
		t.Errorf("exit code %d", code)
	}
	if m := silent.hear(); m.Type != wire.Draining {
		t.Errorf("got %+v", m)
	}
	if m := silent.hear(); m.Type != wire.Bye {
		t.Errorf("got %+v", m)
	}
	want := []string{LogStarting, LogStarted, LogSigterm, LogReadiness, LogListenerClosed, LogDrainBegan, LogSigterm, LogDrainEnded, LogExiting}
	if got := r.log.events(); !slices.Equal(got, want) {
		t.Errorf("log %v, want %v", got, want)
	}
	if e := r.log.find(t, LogExiting); e.Detail["exit_code"] != 7.0 {
		t.Errorf("exiting: %+v", e)
	}
}

func TestForcedReset(t *testing.T) {
	r := start(t, Config{Behaviour: Exit, ForceRST: true, ReadinessOnTerm: Keep, ExitCode: 3})
	k := connect(t, r.tcp)
	k.ping(1)
	r.signals <- syscall.SIGTERM
	if _, err := k.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the read ended with %v", err)
	}
	if code := <-r.exited; code != 3 {
		t.Errorf("exit code %d", code)
	}
	want := []string{LogStarting, LogStarted, LogSigterm, LogForcedRST, LogExiting}
	if got := r.log.events(); !slices.Equal(got, want) {
		t.Errorf("log %v, want %v", got, want)
	}
	f := r.log.find(t, LogForcedRST)
	if first, last := f.Detail["first_mono_ns"].(float64), f.Detail["last_mono_ns"].(float64); f.Detail["connections"] != 1.0 || first > last || last == 0 {
		t.Errorf("forced: %+v", f)
	}
}

func TestBareExit(t *testing.T) {
	r := start(t, Config{Behaviour: Exit})
	k := connect(t, r.tcp)
	k.ping(1)
	r.signals <- syscall.SIGTERM
	if _, err := k.r.ReadByte(); err != io.EOF {
		t.Errorf("the read ended with %v", err)
	}
	<-r.exited
	if slices.Contains(r.log.events(), LogForcedRST) {
		t.Error("a bare exit claims to have forced resets")
	}
}

func TestIgnore(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore, ReadinessOnTerm: Fail})
	k := connect(t, r.tcp)
	r.signals <- syscall.SIGTERM
	r.log.find(t, LogReadiness)
	k.ping(1)
	if code, _ := status(t, r, PathReady); code != 503 {
		t.Errorf("ready: %d", code)
	}
	connect(t, r.tcp).ping(1)
}

func TestHTTP(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	for seq := 1; seq <= 2; seq++ {
		code, body := status(t, r, PathWho)
		var who struct {
			Instance string `json:"instance"`
			PodUID   string `json:"pod_uid"`
			Seq      int    `json:"seq"`
		}
		if err := json.Unmarshal([]byte(body), &who); err != nil || code != 200 || who.Instance != "probe-a" || who.PodUID != "uid-a" || who.Seq != seq {
			t.Errorf("who: %d %s", code, body)
		}
	}
	code, body := status(t, r, PathSlow+"?for=30ms")
	if code != 200 || !strings.Contains(body, "probe-a") {
		t.Errorf("slow: %d %s", code, body)
	}
	accepted, done := r.log.find(t, LogRequestAccepted), r.log.find(t, LogRequestDone)
	if took := done.MonoNs - accepted.MonoNs; took < int64(30*time.Millisecond) || accepted.Detail["id"] != done.Detail["id"] || done.Detail["bytes"] != float64(len(body)) {
		t.Errorf("accepted %+v, done %+v", accepted, done)
	}
	for _, bad := range []string{"", "?for=", "?for=-1s", "?for=2h", "?for=soon"} {
		if code, _ := status(t, r, PathSlow+bad); code != 400 {
			t.Errorf("slow%s: %d", bad, code)
		}
	}
	if code, _ := status(t, r, "/nothing"); code != 404 {
		t.Errorf("an unknown path: %d", code)
	}
	for _, n := range []int{0, 1, 200000} {
		if code, body := status(t, r, fmt.Sprintf("%s?bytes=%d", PathWho, n)); code != 200 || len(body) != n {
			t.Errorf("%d bytes: %d, %d bytes", n, code, len(body))
		}
	}
	for _, bad := range []string{"-1", "many", "67108865"} {
		if code, _ := status(t, r, PathWho+"?bytes="+bad); code != 400 {
			t.Errorf("bytes=%s: %d", bad, code)
		}
	}
}

func TestEveryAnswerSaysWhoItIsFrom(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	for _, path := range []string{PathWho, PathHealth, PathSlow, "/nothing"} {
		res, err := http.Head("http://" + r.http + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.Header.Get(HeaderInstance) != "probe-a" || res.Header.Get(HeaderPodUID) != "uid-a" {
			t.Errorf("%s: %v", path, res.Header)
		}
	}
}

func TestASlowRequestIsCutByTheExit(t *testing.T) {
	r := start(t, Config{Behaviour: Exit, ForceRST: true})
	result := make(chan error, 1)
	go func() {
		res, err := http.Get("http://" + r.http + PathSlow + "?for=1m")
		if err == nil {
			_ = res.Body.Close()
			err = fmt.Errorf("answered with %s", res.Status)
		}
		result <- err
	}()
	r.log.find(t, LogRequestAccepted)
	r.signals <- syscall.SIGTERM
	if err := <-result; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the request ended with %v", err)
	}
	<-r.exited
}

func TestWrongUse(t *testing.T) {
	good := Config{Behaviour: Drain, ReadinessOnTerm: Keep, TCP: "127.0.0.1:0", UDP: "127.0.0.1:0", HTTP: "127.0.0.1:0"}
	for name, change := range map[string]func(*Config){
		"behaviour": func(c *Config) { c.Behaviour = "sleep" },
		"readiness": func(c *Config) { c.ReadinessOnTerm = "" },
		"window":    func(c *Config) { c.DrainWindow = -1 },
		"exit code": func(c *Config) { c.ExitCode = 256 },
		"delay":     func(c *Config) { c.StartDelay = -1 },
	} {
		c := good
		change(&c)
		if _, err := Run(t.Context(), c, nil, nil); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	withHealth := good
	withHealth.Health = l.Addr().String()
	if _, err := Run(t.Context(), withHealth, nil, nil); fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "listening for health checks") {
		t.Errorf("a busy port for health checks: %v", err)
	}
	good.HTTP = l.Addr().String()
	if _, err := Run(t.Context(), good, nil, nil); fault.CodeOf(err) != fault.Unmeasurable || !strings.Contains(err.Error(), "listening for HTTP") {
		t.Errorf("a busy port: %v", err)
	}
}

func TestParseLogLineRefuses(t *testing.T) {
	for _, text := range []string{"", "panic: no", "{}", `{"event":"sigterm"}`, `[1]`} {
		if l, err := ParseLogLine([]byte(text)); !errors.Is(err, ErrNotLogLine) {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	}
}

func FuzzParseLogLine(f *testing.F) {
	f.Add([]byte(`{"event":"sigterm","mono_ns":1,"wall_unix_ns":2,"instance":"a","pod_uid":"b","detail":{"x":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLogLine(b)
		if err == nil && (l.Event == "" || l.MonoNs <= 0) {
			t.Fatalf("%q: %+v", b, l)
		}
	})
}
