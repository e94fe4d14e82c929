package dataplane

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/testkit"
)

// namespace is a network namespace of a test's own, which lives as long as the test.
type namespace struct{ path string }

func newNamespace(t *testing.T) namespace {
	t.Helper()
	testkit.Require(t, testkit.Linux, testkit.Root)
	opened := make(chan any)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and takes the way into the namespace along.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			opened <- fmt.Errorf("make a network namespace: %w", err)
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			opened <- err
			return
		}
		opened <- f
	}()
	switch got := (<-opened).(type) {
	case *os.File:
		t.Cleanup(func() { got.Close() })
		return namespace{fmt.Sprintf("/proc/self/fd/%d", got.Fd())}
	default:
		t.Fatal(got)
		return namespace{}
	}
}

// run runs a program in the namespace.
func (n namespace) run(t *testing.T, stdin string, name string, args ...string) {
	t.Helper()
	testkit.Require(t, testkit.Program(name))
	var out bytes.Buffer
	err := inNamespace(n.path, func(int) error {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader([]byte(stdin)), &out, &out
		return cmd.Run()
	})
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out.Bytes())
	}
}

// file reads one of testdata.
func file(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
