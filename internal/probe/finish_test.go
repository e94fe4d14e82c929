package probe

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/wire"
)

// kept is a client's connection to the HTTP port.
type kept struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func keep(t *testing.T, r *running) *kept {
	t.Helper()
	c, err := net.Dial("tcp", r.http)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return &kept{t: t, c: c, r: bufio.NewReader(c)}
}

func (k *kept) ask(path string) {
	k.t.Helper()
	if _, err := io.WriteString(k.c, "GET "+path+" HTTP/1.1\r\nHost: probe\r\n\r\n"); err != nil {
		k.t.Fatal(err)
	}
}

// hear reads one answer.
func (k *kept) hear() *http.Response {
	k.t.Helper()
	res, err := http.ReadResponse(k.r, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		k.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res
}

// hold keeps one request in flight until release.
func hold(t *testing.T, r *running) (release func()) {
	t.Helper()
	k := keep(t, r)
	k.ask(PathSlow + "?for=1h")
	r.log.find(t, LogRequestAccepted)
	return func() { _ = k.c.Close() }
}

func healthOf(t *testing.T, r *running) string {
	t.Helper()
	return r.log.find(t, LogStarting).Detail["health"].(string)
}

func TestFinish(t *testing.T) {
	r := start(t, Config{Behaviour: Finish, Announce: true, DrainWindow: time.Minute, ExitCode: 17, Health: "127.0.0.1:0"})
	health := healthOf(t, r)
	if code, _ := statusAt(t, health, PathReady); code != 200 {
		t.Errorf("ready: %d", code)
	}
	beats := connect(t, r.tcp)
	beats.ping(1)
	idle := keep(t, r)
	idle.ask(PathWho)
	if res := idle.hear(); res.Close {
		t.Error("the connection is not kept")
	}
	release := hold(t, r)
	busy := keep(t, r)
	busy.ask(PathSlow + "?for=1500ms")
	r.log.await(t, LogRequestAccepted, 2)

	r.signals <- syscall.SIGTERM
	if b, err := idle.r.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection got %d, %v", b, err)
	}
	if m := beats.hear(); m.Type != wire.Bye {
		t.Errorf("heartbeats got %+v", m)
	}
	_ = beats.c.Close()
	if res := busy.hear(); res.StatusCode != 200 || !res.Close {
		t.Errorf("in flight: %+v", res)
	}
	r.log.find(t, LogRequestDone)
	for _, address := range []string{r.tcp, r.http} {
		if c, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("it accepts while it finishes: %v", err)
			if c != nil {
				_ = c.Close()
			}
		}
	}
	if code, _ := statusAt(t, health, PathReady); code != 503 {
		t.Errorf("readiness while it finishes: %d", code)
	}
	if code, _ := statusAt(t, health, PathHealth); code != 200 {
		t.Errorf("health while it finishes: %d", code)
	}
	u, err := net.Dial("udp", r.udp)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	_ = u.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = u.Write(wire.AppendPing(nil, 5))
	if _, err := u.Read(make([]byte, 2048)); err != nil {
		t.Errorf("datagrams while it finishes: %v", err)
	}
	r.signals <- syscall.SIGTERM // once more: changes nothing
	r.log.await(t, LogSigterm, 2)
	release()
	if code := <-r.exited; code != 17 {
		t.Errorf("exit code %d", code)
	}
	if c, err := net.Dial("tcp", health); err == nil {
		_ = c.Close()
		t.Error("it answers health checks after the exit")
	}
	want := []string{LogStarting, LogStarted, LogRequestAccepted, LogRequestAccepted, LogSigterm, LogReadiness, LogListenerClosed, LogListenerClosed, LogDrainBegan,
		LogRequestDone, LogSigterm, LogRequestDone, LogDrainEnded, LogExiting}
	if got := r.log.events(); !slices.Equal(got, want) {
		t.Errorf("log %v, want %v", got, want)
	}
	if e := r.log.find(t, LogDrainBegan); e.Detail["requests"] != 2.0 || e.Detail["connections"] != 1.0 {
		t.Errorf("drain began: %+v", e)
	}
}

func TestFinishWithoutAWord(t *testing.T) {
	r := start(t, Config{Behaviour: Finish, DrainWindow: time.Minute, ReadinessOnTerm: Keep, Health: "127.0.0.1:0"})
	idle := keep(t, r)
	idle.ask(PathWho)
	idle.hear()
	release := hold(t, r)
	r.signals <- syscall.SIGTERM
	r.log.find(t, LogDrainBegan)
	if code, _ := statusAt(t, healthOf(t, r), PathReady); code != 200 {
		t.Errorf("readiness that is kept: %d", code)
	}
	idle.ask(PathWho)
	if res := idle.hear(); res.StatusCode != 200 || res.Close {
		t.Errorf("a kept connection: %+v", res)
	}
	_ = idle.c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := idle.r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a kept connection while a request is in flight: %v", err)
	}
	_ = idle.c.SetReadDeadline(time.Now().Add(10 * time.Second))
	release()
	if _, err := idle.r.ReadByte(); err != io.EOF {
		t.Errorf("a kept connection at the exit: %v", err)
	}
	<-r.exited
}

func TestFinishEndsWithTheWindow(t *testing.T) {
	for _, announce := range []bool{true, false} {
		r := start(t, Config{Behaviour: Finish, Announce: announce, DrainWindow: 100 * time.Millisecond, ExitCode: 17})
		k := keep(t, r)
		k.ask(PathSlow + "?for=1h")
		r.log.find(t, LogRequestAccepted)
		r.signals <- syscall.SIGTERM
		if b, err := k.r.ReadByte(); err != io.EOF {
			t.Errorf("announce %v: the request got %d, %v", announce, b, err)
		}
		if code := <-r.exited; code != 17 {
			t.Errorf("announce %v: exit code %d", announce, code)
		}
		if e := r.log.find(t, LogRequestDone); e.Detail["abandoned"] != "exit" {
			t.Errorf("announce %v: %+v", announce, e)
		}
		began, exiting := r.log.find(t, LogDrainBegan), r.log.find(t, LogExiting)
		if took := time.Duration(exiting.MonoNs - began.MonoNs); took < 100*time.Millisecond {
			t.Errorf("announce %v: it exited after %v, with a request in flight", announce, took)
		}
	}
}

func TestFinishWithNothingToDo(t *testing.T) {
	r := start(t, Config{Behaviour: Finish, Announce: true, DrainWindow: time.Hour})
	r.signals <- syscall.SIGTERM
	<-r.exited
}

func TestStartDelay(t *testing.T) {
	r := launch(t, Config{Behaviour: Finish, StartDelay: time.Hour, ExitCode: 17, Health: "127.0.0.1:0"})
	health := healthOf(t, r)
	if code, body := statusAt(t, health, PathReady); code != 503 || body != "starting\n" {
		t.Errorf("ready: %d %q", code, body)
	}
	if code, _ := statusAt(t, health, PathHealth); code != 200 {
		t.Errorf("health: %d", code)
	}
	r.signals <- syscall.SIGTERM
	if code := <-r.exited; code != 17 {
		t.Errorf("exit code %d", code)
	}
	if want, got := []string{LogStarting, LogSigterm, LogExiting}, r.log.events(); !slices.Equal(got, want) {
		t.Errorf("log %v, want %v", got, want)
	}

	r = launch(t, Config{Behaviour: Ignore, StartDelay: time.Hour})
	r.cancel()
	<-r.exited

	r = launch(t, Config{Behaviour: Ignore, StartDelay: 200 * time.Millisecond, Health: "127.0.0.1:0"})
	r.signals <- syscall.SIGTERM
	<-r.ready
	if code, _ := statusAt(t, healthOf(t, r), PathReady); code != 503 {
		t.Errorf("readiness after a SIGTERM that is ignored: %d", code)
	}
	starting, started := r.log.find(t, LogStarting), r.log.find(t, LogStarted)
	if took := time.Duration(started.MonoNs - starting.MonoNs); took < 200*time.Millisecond {
		t.Errorf("it listened after %v", took)
	}
}

func TestDrainHook(t *testing.T) {
	r := start(t, Config{Behaviour: Exit, ReadinessOnTerm: Fail})
	if err := Hook(t.Context(), "http://"+r.http+PathDrain, 0); err != nil {
		t.Fatal(err)
	}
	if code, _ := status(t, r, PathReady); code != 503 {
		t.Errorf("ready: %d", code)
	}
	if code, _ := status(t, r, PathDrain); code != 200 {
		t.Errorf("GET: %d", code)
	}
	http.DefaultClient.CloseIdleConnections()
	r.signals <- syscall.SIGTERM
	<-r.exited
	want := []string{LogStarting, LogStarted, LogHookDrain, LogReadiness, LogHookDrain, LogSigterm, LogExiting}
	if got := r.log.events(); !slices.Equal(got, want) {
		t.Errorf("log %v, want %v", got, want)
	}
}
