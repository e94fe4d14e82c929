//go:build e2e

// Package e2e drives the built program against a real local cluster, as a
// user would: flags in, files and exit codes out.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
)

// ownCluster names a cluster to use in place of the tests' own: it is left standing, for whoever writes a test.
var ownCluster = os.Getenv("DRAINPROOF_E2E_CLUSTER")

// clusterName is the cluster that the tests share.
var clusterName = cmp.Or(ownCluster, "e2e")

// program is the built binary; clusterUp brings the shared cluster up once.
var program string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "drainproof-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "drainproof")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X github.com/drainproof/drainproof/internal/cli.version=e2e",
		"-o", program, "../../cmd/drainproof")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, out)
		return 1
	}
	defer func() {
		for _, name := range []string{clusterName, nftablesName, brokenName} {
			if name == ownCluster {
				continue
			}
			if out, err := exec.Command(program, "cluster", "down", name).CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "taking cluster %s down: %v\n%s", name, err, out)
			}
		}
	}()
	return m.Run()
}

// result is how one command line ended.
type result struct {
	code        int
	out, errOut string
}

// do runs the program to its end.
func do(t *testing.T, args ...string) result {
	t.Helper()
	return doWithin(t, 5*time.Minute, args...)
}

func doWithin(t *testing.T, limit time.Duration, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit) // clean-up runs after the test
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Minute
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	r := result{code: cmd.ProcessState.ExitCode(), out: out.String(), errOut: errOut.String()}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("drainproof %s: %v\n%s", strings.Join(args, " "), err, r.errOut)
	}
	if ctx.Err() != nil {
		t.Fatalf("drainproof %s did not end within %v\n%s", strings.Join(args, " "), limit, r.errOut)
	}
	return r
}

// must runs the program and demands exit code 0.
func must(t *testing.T, args ...string) result {
	t.Helper()
	r := do(t, args...)
	if r.code != 0 {
		t.Fatalf("drainproof %s: exit code %d\n%s", strings.Join(args, " "), r.code, r.errOut)
	}
	return r
}

// fails runs the program and demands an exit code and words in its message.
func fails(t *testing.T, code int, words []string, args ...string) result {
	t.Helper()
	r := do(t, args...)
	r.check(t, code, words)
	return r
}

func (r result) check(t *testing.T, code int, words []string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\n%s", r.code, code, r.errOut)
	}
	for _, w := range words {
		if !strings.Contains(r.errOut, w) {
			t.Errorf("stderr does not say %q:\n%s", w, r.errOut)
		}
	}
	if strings.Contains(r.errOut, "goroutine ") || strings.Contains(r.errOut, "panic") {
		t.Errorf("stderr has a stack trace:\n%s", r.errOut)
	}
}

var shared = sync.OnceValue(repair)

// clusterUp makes the shared cluster, or starts what does not run of it.
func clusterUp() *exec.Cmd {
	return exec.Command(program, "cluster", "up", clusterName, "--kubernetes-from", "build", "--install-packages")
}

// cluster gives the shared cluster, made on first use.
func cluster(t *testing.T) {
	t.Helper()
	testkit.Require(t, testkit.Linux, testkit.Root)
	if err := shared(); err != nil {
		t.Fatal(err)
	}
}

// kubectl runs kubectl against a cluster and returns what it printed.
func kubectl(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := kubectlTry(t, name, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func kubectlTry(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	return kubectlOf(t, name)(args...)
}

// kubectlOf finds the kubectl of a cluster, for what must be quick later.
func kubectlOf(t *testing.T, name string) func(args ...string) (string, error) {
	t.Helper()
	var status struct {
		Kubectl string `json:"kubectl"`
	}
	if err := json.Unmarshal([]byte(must(t, "cluster", "status", name, "-o", "json").out), &status); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(must(t, "cluster", "kubeconfig", name).out), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(args ...string) (string, error) {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), status.Kubectl, append([]string{"--kubeconfig", kubeconfig}, args...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// readRecord reads and validates a record, against its invariants and its schema.
func readRecord(t *testing.T, dir string) record.Record {
	t.Helper()
	rec, err := record.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range record.Validate(rec) {
		t.Errorf("%s: %v", dir, p)
	}
	testkit.ValidateRecordFile(t, filepath.Join(dir, record.FileName))
	return rec
}

// noNamespaceLeft demands that no trial left a namespace.
func noNamespaceLeft(t *testing.T, name string) {
	t.Helper()
	out := kubectl(t, name, "get", "namespaces", "-l", "drainproof.dev/trial", "-o", "name")
	if strings.TrimSpace(out) != "" {
		t.Errorf("left behind: %s", out)
	}
}
