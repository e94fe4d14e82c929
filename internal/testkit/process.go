package testkit

import (
	"io"
	"os"
	"os/exec"
	"testing"
)

// Pipes are those to and from a command that has not started; its errors go where the test's do.
func Pipes(t testing.TB, c *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err = c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}
