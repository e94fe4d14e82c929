//go:build amd64 || arm64

package kernel

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
)

// checkSelf compares with this thread, which the caller has locked: other threads of this process may be in other namespaces.
func checkSelf(t *testing.T, by Process) {
	t.Helper()
	comm, err := os.ReadFile("/proc/thread-self/comm")
	if err != nil {
		t.Fatal(err)
	}
	if by.PID != uint32(os.Getpid()) || by.NsPID != uint32(os.Getpid()) || by.Comm != strings.TrimSpace(string(comm)) {
		t.Errorf("it was by %+v, want this process: %d, %q", by, os.Getpid(), comm)
	}
	for kind, inode := range map[string]uint32{"net": by.NetNs, "mnt": by.MntNs, "pid": by.PIDNs} {
		if want, err := namespace("thread-self", kind); err != nil || inode != want {
			t.Errorf("its %s namespace is %d, want %d (%v)", kind, inode, want, err)
		}
	}
}

func within(t *testing.T, e Event, before, after int64) {
	t.Helper()
	if e.MonoNs < before || e.MonoNs > after {
		t.Errorf("the event is of %d, and it happened between %d and %d", e.MonoNs, before, after)
	}
}

func signalTo(pid uint32, number int) func(Event) bool {
	return func(e Event) bool { return e.Kind == SignalSent && e.To.PID == pid && e.Signal == number }
}

func exitOf(pid uint32) func(Event) bool {
	return func(e Event) bool { return e.Kind == ProcessExited && e.By.PID == pid }
}

func TestSignalAndExit(t *testing.T) {
	w := watch(t, Options{})
	p := start(t)
	if err := w.Watch(p.pidns, Processes); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := clock.MonoNs()
	if err := p.command.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	after := clock.MonoNs()
	e, err := w.wait("TERM", signalTo(p.pid, int(unix.SIGTERM)))
	if err != nil {
		t.Fatal(err)
	}
	within(t, e, before, after)
	checkSelf(t, e.By)
	if e.To.NsPID != 1 || e.To.PIDNs != p.pidns || e.To.NetNs != p.netns {
		t.Errorf("TERM went to %+v, want the first process of PID namespace %d in network namespace %d", e.To, p.pidns, p.netns)
	}
	if e.Result != SignalDelivered || e.FromKernel || e.Bystander {
		t.Errorf("TERM has result %d, from the kernel %t, by a bystander %t", e.Result, e.FromKernel, e.Bystander)
	}

	if err := p.input.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = w.wait("the exit", exitOf(p.pid)); err != nil {
		t.Fatal(err)
	}
	if e.ExitCode != childExitCode || e.Signal != 0 || e.By.NsPID != 1 || e.By.PIDNs != p.pidns || e.By.NetNs != p.netns {
		t.Errorf("the exit is %+v, want code %d of the first process of PID namespace %d", e, childExitCode, p.pidns)
	}
	exits := 0
	_ = p.command.Wait() // it ended with a code
	for _, e := range w.snapshot() {
		if e.Kind == ProcessExited {
			exits++
		}
	}
	if exits != 1 {
		t.Errorf("%d exits were told of a process with several threads", exits)
	}
}

func TestKilled(t *testing.T) {
	w := watch(t, Options{})
	p := start(t)
	if err := w.Watch(p.netns, Processes); err != nil { // as good as its PID namespace
		t.Fatal(err)
	}
	if err := p.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.wait("KILL", signalTo(p.pid, int(unix.SIGKILL))); err != nil {
		t.Fatal(err)
	}
	e, err := w.wait("the exit", exitOf(p.pid))
	if err != nil {
		t.Fatal(err)
	}
	if e.Signal != int(unix.SIGKILL) || e.ExitCode != 0 {
		t.Errorf("the exit is by signal %d with code %d, want 9 and 0", e.Signal, e.ExitCode)
	}
}

// The first process of a PID namespace that handles no TERM does not even notice it.
func TestIgnoredSignal(t *testing.T) {
	w := watch(t, Options{})
	p := start(t, "/bin/sh", "-c", "echo ready; read line; exit 5")
	if err := w.Watch(p.pidns, Processes); err != nil {
		t.Fatal(err)
	}
	if err := p.command.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e, err := w.wait("TERM", signalTo(p.pid, int(unix.SIGTERM)))
	if err != nil {
		t.Fatal(err)
	}
	if e.Result != SignalIgnored {
		t.Errorf("TERM has result %d, want ignored", e.Result)
	}
	if err := p.input.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = w.wait("the exit", exitOf(p.pid)); err != nil {
		t.Fatal(err)
	}
	if e.ExitCode != 5 || e.Signal != 0 {
		t.Errorf("the exit is by signal %d with code %d, want 0 and 5", e.Signal, e.ExitCode)
	}
}

// What is not watched comes before what is, so that it would have been told before it.
func TestUnwatchedProcessesAreNotTold(t *testing.T) {
	w := watch(t, Options{Signals: []int{int(unix.SIGTERM)}})
	other, sockets, former, p := start(t), start(t), start(t), start(t)
	for inode, what := range map[uint32]Subject{sockets.netns: Sockets, former.pidns: Processes, p.pidns: Processes} {
		if err := w.Watch(inode, what); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second one finds nothing to end
		if err := w.Unwatch(former.pidns); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []*process{other, sockets, former} {
		if err := q.command.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, number := range []unix.Signal{unix.SIGHUP, unix.SIGTERM} { // HUP is not among the signals
		if err := p.command.Process.Signal(number); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.wait("TERM", signalTo(p.pid, int(unix.SIGTERM))); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.snapshot() {
		if e.To.PID != p.pid && e.By.PID != p.pid || e.Signal == int(unix.SIGHUP) {
			t.Errorf("told, though not watched: %+v", e)
		}
	}
}
