package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestColumns(t *testing.T) {
	for value, want := range map[string]int{"80": 80, "": 0, "wide": 0, "-1": 0} {
		if got := columnsOf(func(name string) string {
			if name != "COLUMNS" {
				t.Errorf("asked for %s", name)
			}
			return value
		}); got != want {
			t.Errorf("COLUMNS=%s: %d, want %d", value, got, want)
		}
	}
}

// leftPipe is the writing end of a pipe whose reader has gone.
func leftPipe(t *testing.T) io.Writer {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("the pipe does not break: %v", err)
	}
	return w
}

// TestReaderThatLeavesIsNoError: a command whose stdout was closed ends quietly, with the code that it earned.
func TestReaderThatLeavesIsNoError(t *testing.T) {
	dir := t.TempDir()
	for _, s := range records.Named() {
		if _, err := record.Write(filepath.Join(dir, s.Name), s.Record, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		code int
		err  string
	}{
		{"schema", 0, ""},
		{"--help", 0, ""},
		{"run --help", 0, ""},
		{"version", 0, ""},
		{"report " + filepath.Join(dir, "drain"), 0, ""},
		{"report -o json " + filepath.Join(dir, "drain"), 0, ""},
		{"report " + filepath.Join(dir, "drain") + " " + filepath.Join(dir, "exit"), 0, ""},
		{"report " + filepath.Join(dir, "incomplete"), 3, "is incomplete"},
	} {
		var errs bytes.Buffer
		code := Run(context.Background(), append([]string{"drainproof"}, strings.Fields(c.args)...), Streams{
			In: strings.NewReader(""), Out: leftPipe(t), Err: &errs, Getenv: func(string) string { return "" },
		})
		if code != c.code || strings.Contains(errs.String(), "pipe") || !strings.Contains(errs.String(), c.err) || c.err == "" && errs.Len() > 0 {
			t.Errorf("%s: exit code %d, want %d; stderr %q", c.args, code, c.code, &errs)
		}
	}
}

// Every other failure to write stays one: a full disk behind stdout loses the result.
func TestOtherWriteErrorsAreErrors(t *testing.T) {
	full := errors.New("no space")
	p := &quietPipe{writer(func([]byte) (int, error) { return 3, full })}
	if n, err := p.Write([]byte("hello")); n != 3 || !errors.Is(err, full) {
		t.Errorf("%d, %v", n, err)
	}
	a := &app{Streams: Streams{Out: p}}
	if _, err := a.bareOut().Write(nil); !errors.Is(err, full) {
		t.Errorf("the bare writer says %v", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
