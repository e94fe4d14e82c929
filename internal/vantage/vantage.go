// Package vantage starts what measures where it is to stand, over an exec: a client as a worker in a Pod, an agent on a node.
//
// It must not know what the client is to do or the agent to see.
package vantage

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
)

// Execer runs a command in a Pod's only container with streams attached. kube.API is one.
type Execer interface {
	Exec(ctx context.Context, namespace, pod string, command []string, stdin io.Reader, stdout, stderr io.Writer) error
}

// transport is an exec's two streams. Its end ends the worker.
type transport struct {
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

func open(ctx context.Context, x Execer, namespace, pod string, args ...string) *transport {
	execCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stdinR, stdinW := io.Pipe()
	stdoutR, stdoutW := io.Pipe()
	t := &transport{stdin: stdinW, stdout: stdoutR, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		var stderr strings.Builder
		err := x.Exec(execCtx, namespace, pod, append([]string{"/drainproof"}, args...), stdinR, stdoutW, &stderr)
		if err == nil {
			err = io.EOF
		} else if s := strings.TrimSpace(stderr.String()); s != "" {
			err = fmt.Errorf("%w (%s)", err, s)
		}
		stdoutW.CloseWithError(err)
		stdinR.CloseWithError(err)
	}()
	return t
}

func (t *transport) close() error {
	t.stdin.Close()
	select {
	case <-t.done:
	case <-time.After(3 * time.Second):
		t.cancel()
		<-t.done
	}
	t.cancel()
	return nil
}

// Hold opens a session for flows with a worker in the Pod, of the same version as this program.
func Hold(ctx context.Context, x Execer, namespace, pod, version string) (traffic.Session, error) {
	t := open(ctx, x, namespace, pod, "worker")
	s, err := traffic.Dial(ctx, t.stdout, t.stdin, t.close, traffic.ExpectVersion(version))
	if err != nil {
		t.cancel()
		return nil, fmt.Errorf("speaking to the worker in pod/%s: %w", pod, err)
	}
	return s, nil
}

// Send opens a session for requests with a worker in the Pod, of the same version as this program.
func Send(ctx context.Context, x Execer, namespace, pod, version string) (traffic.Sender, error) {
	t := open(ctx, x, namespace, pod, "worker")
	s, err := traffic.DialSender(ctx, t.stdout, t.stdin, t.close, traffic.ExpectVersion(version))
	if err != nil {
		t.cancel()
		return nil, fmt.Errorf("speaking to the worker in pod/%s: %w", pod, err)
	}
	return s, nil
}

// Watch opens a session with the agent in the Pod, of the same version as this program.
func Watch(ctx context.Context, x Execer, namespace, pod, version string, heard agent.Heard) (*agent.Session, error) {
	t := open(ctx, x, namespace, pod, "agent", "watch")
	s, err := agent.Dial(ctx, t.stdout, t.stdin, t.close, version, heard)
	if err != nil {
		t.cancel()
		return nil, fmt.Errorf("speaking to the agent in pod/%s: %w", pod, err)
	}
	return s, nil
}

// ClockOf writes a measured offset as a record does.
func ClockOf(name string, o clock.Offset, remote clock.Reading) record.Clock {
	c := record.Clock{Name: name, BootID: remote.BootID, OffsetNs: new(o.AheadNs), UncertaintyNs: new(o.UncertaintyNs), Samples: o.Samples, Method: "round-trips"}
	if o.Samples == 0 {
		c.Method = "same-kernel"
	}
	return c
}
