//go:build amd64 || arm64

package kernel

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/testkit"
)

const childVariable = "DRAINPROOF_KERNEL_TEST_CHILD"

// TestMain lets the test binary be the process under observation too.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
	}
	os.Exit(m.Run())
}

const (
	childExitCode = 3
	traceArgument = "trace"
)

// child handles TERM by doing nothing, and exits when its input ends. With the argument "trace" it holds a Tracer meanwhile.
func child() {
	if slices.Contains(os.Args[1:], traceArgument) {
		if _, err := Open(Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM)
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // whichever way it ends, it has ended
	os.Exit(childExitCode)
}

// typeInformation is needed by every program.
var typeInformation = testkit.Need{Name: "BTF", Missing: func() string {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return "needs a kernel with BTF"
	}
	return ""
}}

// watcher is a Tracer that is being read.
type watcher struct {
	*Tracer
	mu     sync.Mutex
	events []Event
	news   chan struct{} // holds one token when events were added
}

func watch(t *testing.T, o Options) *watcher {
	t.Helper()
	testkit.Require(t, testkit.Linux, testkit.Root, typeInformation)
	tracer, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{Tracer: tracer, news: make(chan struct{}, 1)}
	var reading sync.WaitGroup
	reading.Go(func() {
		// t.Context ends before the cleanup below runs.
		if err := tracer.Read(t.Context(), w.add); err == nil {
			t.Error("Read ended without an error")
		}
	})
	t.Cleanup(func() {
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
		reading.Wait()
	})
	return w
}

func (w *watcher) add(e *Event) {
	w.mu.Lock()
	w.events = append(w.events, *e)
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *watcher) snapshot() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Event(nil), w.events...)
}

// patience is longer than any machine needs for what a test waits for.
const patience = 20 * time.Second

// wait answers the first event that fits.
func (w *watcher) wait(what string, fits func(Event) bool) (Event, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		for _, e := range w.snapshot() {
			if fits(e) {
				return e, nil
			}
		}
		select {
		case <-w.news:
		case <-deadline.C:
			return Event{}, fmt.Errorf("%s: not told; told were %+v", what, w.snapshot())
		}
	}
}

// needs skips the test where the kernel or the machine does not let the source be seen.
func (w *watcher) needs(t *testing.T, what string) {
	t.Helper()
	for _, s := range w.Sights() {
		if s.What == what {
			if !s.Seen {
				t.Skipf("%s are not seen: %s", what, s.Why)
			}
			return
		}
	}
	t.Fatalf("no source %q", what)
}

// inNetNs runs act on a thread in a network namespace of its own, with a loopback interface, which ends with the thread.
func inNetNs(t *testing.T, act func(netns uint32) error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return fmt.Errorf("lo: %w", err)
			}
			if err := netlink.LinkSetUp(lo); err != nil {
				return fmt.Errorf("lo: %w", err)
			}
			inode, err := namespace("thread-self", "net")
			if err != nil {
				return err
			}
			return act(inode)
		}()
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// namespace is the inode of a process's namespace.
func namespace(process, kind string) (uint32, error) {
	target, err := os.Readlink(filepath.Join("/proc", process, "ns", kind))
	if err != nil {
		return 0, err
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(target, kind+":["), "]"), 10, 32)
	return uint32(inode), err
}

// process is one in a PID and a network namespace of its own, in which it is the first.
type process struct {
	pid          uint32
	pidns, netns uint32
	command      *exec.Cmd
	input        io.Closer
}

// start runs a command that says "ready", or without one the child of this test.
func start(t *testing.T, command ...string) *process {
	t.Helper()
	if len(command) == 0 {
		command = []string{"/proc/self/exe"}
	}
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(), childVariable+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	input, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{pid: uint32(c.Process.Pid), command: c, input: input}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	})
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(output, ready); err != nil {
		t.Fatalf("%v did not begin: %v", command, err)
	}
	pid := strconv.Itoa(c.Process.Pid)
	if p.pidns, err = namespace(pid, "pid"); err != nil {
		t.Fatal(err)
	}
	if p.netns, err = namespace(pid, "net"); err != nil {
		t.Fatal(err)
	}
	return p
}
