//go:build e2e

package localcluster

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/localcluster/parts"
)

// stages are the steps in which the tool is killed: one of each kind.
var stages = []string{
	"making cgroups",
	"making the network",
	"writing keys",
	"making the nodes",
	"starting containerd",
	"waiting for the API server",
}

// TestKilledTool kills the tool in the middle of Up and takes down what it left.
func TestKilledTool(t *testing.T) {
	for _, stage := range stages {
		t.Run(stage, func(t *testing.T) {
			dir := newMachine(t, "")
			upUntilKilled(t, dir, stage, 20*time.Millisecond)
			if err := Down(t.Context(), dir, ""); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestKilledThenUp finds a half-made cluster and makes it anew; it is killed
// when the Pods' world is as full as it gets.
func TestKilledThenUp(t *testing.T) {
	dir := newMachine(t, "")
	upUntilKilled(t, dir, "waiting until the nodes are ready", 200*time.Millisecond)
	o := e2eOptions(dir)
	o.Progress = logProgress(t)
	c, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	healthy(t, c)
}

// upUntilKilled runs Up in another process and kills it a moment after it has said stage.
func upUntilKilled(t *testing.T, dir, stage string, moment time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reached := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), stage) {
			reached = true
			// Into the step, not to its edge.
			time.Sleep(moment)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if err := cmd.Wait(); err == nil || !reached {
		t.Fatalf("the tool was not killed in %q: %v\n%s", stage, err, said.String())
	}
}

// TestCancelledUp ends the context in the middle of Up, which must leave nothing by itself.
func TestCancelledUp(t *testing.T) {
	for _, stage := range []string{"making the network", "waiting for the API server"} {
		t.Run(stage, func(t *testing.T) {
			dir := newMachine(t)
			before := lookAround(t, dir, []string{""})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := e2eOptions(dir)
			o.Progress = func(line string) {
				if strings.Contains(line, stage) {
					cancel()
				}
			}
			if _, err := Up(ctx, o); !errors.Is(err, context.Canceled) {
				t.Errorf("Up ended with %v", err)
			}
			leftNothing(t, dir, []string{""}, before)
		})
	}
}

// TestPartThatEnds gives a broken API server: Up says what its log says, and leaves nothing.
func TestPartThatEnds(t *testing.T) {
	dir := newMachine(t)
	before := lookAround(t, dir, []string{""})
	o := e2eOptions(dir)
	set, err := parts.Get(t.Context(), o.Parts)
	if err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	for _, name := range []parts.Part{parts.Etcd, parts.ControllerManager, parts.Scheduler, parts.Kubelet, parts.Proxy, parts.Kubectl} {
		if err := os.Symlink(set.Path(name), filepath.Join(broken, string(name))); err != nil {
			t.Fatal(err)
		}
	}
	script := "#!/bin/sh\necho no such luck >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(broken, string(parts.APIServer)), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	o.Parts.From = broken
	_, err = Up(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver of node drainproof-control-plane ended") || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("Up ended with %v", err)
	}
	leftNothing(t, dir, []string{""}, before)
}

func TestDownOfNothing(t *testing.T) {
	dir := newMachine(t, "never-was")
	if err := Down(t.Context(), dir, "never-was"); err != nil {
		t.Fatal(err)
	}
}
