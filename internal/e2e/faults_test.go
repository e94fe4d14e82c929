//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
)

const brokenName = "e2e-broken"

// short are the flags of a trial that is over quickly.
func short(name, out string, more ...string) []string {
	return append([]string{"run", "--cluster", name, "--arm", "drain", "--grace", "6s", "--settle", "1s", "--tcp", "2", "--udp", "2", "--out", out}, more...)
}

func TestE2EImageThatCannotBePulled(t *testing.T) {
	cluster(t)
	out := filepath.Join(t.TempDir(), "out")
	fails(t, 4, []string{"image", "drainproof.invalid/nothing:1", "next:"}, short(clusterName, out, "--image", "drainproof.invalid/nothing:1")...)
	mustBeIncomplete(t, out)
	noNamespaceLeft(t, clusterName)
}

func TestE2ENamespaceThatRefusesTheProbe(t *testing.T) {
	cluster(t)
	policy := `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-probes}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: refuses-by-policy}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "false", message: "no probes here"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-probes}
spec: {policyName: no-probes, validationActions: [Deny]}
`
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, clusterName, "create", "namespace", "refuses-by-quota")
	kubectl(t, clusterName, "create", "quota", "none", "-n", "refuses-by-quota", "--hard=pods=0")
	kubectl(t, clusterName, "create", "namespace", "refuses-by-policy")
	kubectl(t, clusterName, "apply", "-f", file)
	t.Cleanup(func() {
		kubectl(t, clusterName, "delete", "namespace", "refuses-by-quota", "refuses-by-policy")
		kubectl(t, clusterName, "delete", "-f", file)
	})
	// A policy takes a moment to be enforced.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		out, err := kubectlTry(t, clusterName, "run", "try", "--image=none", "--dry-run=server", "-n", "refuses-by-policy")
		if err != nil && strings.Contains(out, "no probes here") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy is not enforced: %v %s", err, out)
		}
	}
	for ns, word := range map[string]string{"refuses-by-quota": "quota", "refuses-by-policy": "no probes here"} {
		t.Run(ns, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			fails(t, 4, []string{word, "next:"}, short(clusterName, out, "-n", ns)...)
			mustBeIncomplete(t, out)
			if left := kubectl(t, clusterName, "get", "deployments,services,pods", "-n", ns, "-o", "name"); strings.TrimSpace(left) != "" {
				t.Errorf("left behind in %s: %s", ns, left)
			}
		})
	}
}

func TestE2EAccountWithoutRights(t *testing.T) {
	cluster(t)
	kubectl(t, clusterName, "create", "serviceaccount", "weak", "-n", "default")
	t.Cleanup(func() { kubectl(t, clusterName, "delete", "serviceaccount", "weak", "-n", "default") })
	token := strings.TrimSpace(kubectl(t, clusterName, "create", "token", "weak", "-n", "default"))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(must(t, "cluster", "kubeconfig", clusterName).out), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"config", "set-credentials", "weak", "--token=" + token},
		{"config", "set-context", "weak", "--user=weak", "--cluster=" + strings.TrimSpace(kubectl(t, clusterName, "config", "view", "-o", "jsonpath={.clusters[0].name}"))},
	} {
		kubectl(t, clusterName, append(args, "--kubeconfig", path)...)
	}
	out := filepath.Join(t.TempDir(), "out")
	fails(t, 4, []string{"it lacks: ", "create namespaces", "docs/permissions.md"}, "run", "--kubeconfig", path, "--context", "weak", "--yes", "--image", "x:1", "--out", out)
	fails(t, 2, []string{"no-such-context", "weak"}, "run", "--kubeconfig", path, "--context", "no-such-context", "--yes", "--image", "x:1", "--out", out+"2")
	fails(t, 2, []string{"--yes"}, "run", "--kubeconfig", path, "--context", "weak", "--image", "x:1", "--out", out+"3")
}

func mustBeIncomplete(t *testing.T, dir string) {
	t.Helper()
	rec := readRecord(t, dir)
	if rec.Completeness != record.Incomplete || len(rec.Missing) == 0 {
		t.Errorf("the record says %s, missing %v", rec.Completeness, rec.Missing)
	}
}

// TestE2EInterruptedInEveryPhase: Ctrl-C ends it in order, wherever it stands.
func TestE2EInterruptedInEveryPhase(t *testing.T) {
	cluster(t)
	t.Run("beside each other", func(t *testing.T) {
		for _, phase := range []string{"preflight", "deploy", "attach", "settle", "trigger", "observe", "put back"} {
			t.Run(strings.ReplaceAll(phase, " ", "-"), func(t *testing.T) {
				t.Parallel()
				out := filepath.Join(t.TempDir(), "out")
				code, errOut := interruptAt(t, phase, short(clusterName, out)...)
				if strings.Contains(errOut, "panic") || strings.Contains(errOut, "goroutine ") {
					t.Errorf("a stack trace:\n%s", errOut)
				}
				rec := readRecord(t, out)
				if phase == "put back" { // the measurement was over
					if code != 0 || rec.Completeness != record.Complete {
						t.Errorf("exit code %d, record %s %v", code, rec.Completeness, rec.Missing)
					}
				} else if code != 4 || rec.Completeness != record.Incomplete || !has(rec, record.Interrupted) {
					t.Errorf("exit code %d, record %s %v\n%s", code, rec.Completeness, rec.Missing, errOut)
				}
			})
		}
	})
	noNamespaceLeft(t, clusterName)
}

// interruptAt sends SIGINT as soon as the phase is announced.
func interruptAt(t *testing.T, phase string, args ...string) (code int, errOut string) {
	t.Helper()
	return whenSeen(t, phase, func(cmd *exec.Cmd) {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
	}, args...)
}

// whenSeen runs the program and calls do once, when the phase is announced on stderr.
func whenSeen(t *testing.T, phase string, do func(*exec.Cmd), args ...string) (code int, errOut string) {
	t.Helper()
	var once sync.Once
	code, errOut = whenEachSeen(t, phase, func(cmd *exec.Cmd) { once.Do(func() { do(cmd) }) }, args...)
	if !strings.Contains(errOut, phase) {
		t.Fatalf("phase %q was never announced:\n%s", phase, errOut)
	}
	return code, errOut
}

// TestE2EAPIServerDies: no verdict, an incomplete record, and a later command cleans up.
func TestE2EAPIServerDies(t *testing.T) {
	cluster(t)
	must(t, "cluster", "up", brokenName, "--workers", "1", "--kubernetes-from", "build")
	defer must(t, "cluster", "down", brokenName)
	out := filepath.Join(t.TempDir(), "out")
	code, errOut := whenSeen(t, "observe", func(*exec.Cmd) { killPart(t, brokenName, "kube-apiserver") }, short(brokenName, out, "--observe", "12s")...)
	if code != 4 {
		t.Errorf("exit code %d, want 4\n%s", code, errOut)
	}
	if !strings.Contains(errOut, "drainproof cleanup") {
		t.Errorf("the message does not say how to clean up:\n%s", errOut)
	}
	mustBeIncomplete(t, out)
	must(t, "cluster", "up", brokenName, "--workers", "1", "--kubernetes-from", "build") // repairs it
	r := must(t, "cleanup", "--cluster", brokenName)
	if !strings.Contains(r.out, "drainproof-") {
		t.Errorf("cleanup found nothing:\n%s%s", r.out, r.errOut)
	}
	noNamespaceLeft(t, brokenName)
}

// killPart kills one program of a cluster.
func killPart(t *testing.T, name, part string) {
	var status struct {
		Processes []struct {
			Part string `json:"part"`
			PID  int    `json:"pid"`
		} `json:"processes"`
	}
	if err := json.Unmarshal([]byte(must(t, "cluster", "status", name, "-o", "json").out), &status); err != nil {
		t.Error(err)
		return
	}
	for _, p := range status.Processes {
		if p.Part == part {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Errorf("no process of %s in the status", part)
}

// TestE2EFullDisk: no partial record, and the cluster is put back.
func TestE2EFullDisk(t *testing.T) {
	cluster(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(dir, 0)
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 8<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	fails(t, 4, []string{"no space", "next:"}, short(clusterName, out)...)
	if left, _ := filepath.Glob(filepath.Join(out, "*")); len(left) > 0 {
		t.Errorf("a partial record was left: %v", left)
	}
	noNamespaceLeft(t, clusterName)
}

// TestE2EKilledThenCleanedUp: a kill -9 leaves things behind, and a later command removes them.
func TestE2EKilledThenCleanedUp(t *testing.T) {
	cluster(t)
	out := filepath.Join(t.TempDir(), "out")
	whenSeen(t, "settle", func(cmd *exec.Cmd) {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	}, short(clusterName, out)...)
	if _, err := os.Stat(filepath.Join(out, record.FileName)); err == nil {
		t.Error("a killed trial left a record")
	}
	if r := must(t, "cleanup", "--cluster", clusterName, "--dry-run"); !strings.Contains(r.out, "drainproof-") {
		t.Errorf("the dry run finds nothing:\n%s%s", r.out, r.errOut)
	}
	must(t, "cleanup", "--cluster", clusterName)
	noNamespaceLeft(t, clusterName)
}

// TestE2ESetResumesAfterAnInterruption: what is complete stays, what was cut is history.
func TestE2ESetResumesAfterAnInterruption(t *testing.T) {
	cluster(t)
	file := filepath.Join(t.TempDir(), "two.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: drainproof.dev/v1
kind: Experiment
name: two
repeats: 2
defaults: {grace: 4s, settle: 1s, tcp: 2, udp: 0}
arms: [{name: exits, arm: exit}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "set")
	args := []string{"run", "--cluster", clusterName, "-f", file, "--out", out}
	n := 0
	code, errOut := whenEachSeen(t, "settle", func(cmd *exec.Cmd) {
		if n++; n == 2 {
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}, args...)
	if code != 4 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	fails(t, 3, []string{"repeat 2"}, "report", out)
	first, err := os.ReadFile(filepath.Join(out, "exits", "repeat-01", record.FileName))
	if err != nil {
		t.Fatal(err)
	}
	must(t, append(args, "--resume")...)
	again, err := os.ReadFile(filepath.Join(out, "exits", "repeat-01", record.FileName))
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("the complete repeat was not left alone (%v)", err)
	}
	if history, _ := filepath.Glob(filepath.Join(out, "history", "*", record.FileName)); len(history) != 1 {
		t.Errorf("the interrupted repeat is not kept as history: %v", history)
	}
	must(t, "report", out)
}

// whenEachSeen calls do each time that the phase is announced on stderr.
func whenEachSeen(t *testing.T, phase string, do func(*exec.Cmd), args ...string) (code int, errOut string) {
	t.Helper()
	return eachLine(t, func(cmd *exec.Cmd, line string) {
		if strings.HasPrefix(line, phase) {
			do(cmd)
		}
	}, args...)
}

// atPhases calls each function once, when its phase is announced on stderr.
func atPhases(t *testing.T, do map[string]func(*exec.Cmd), args ...string) (code int, errOut string) {
	t.Helper()
	code, errOut = eachLine(t, func(cmd *exec.Cmd, line string) {
		phase, _, _ := strings.Cut(line, " ")
		if act := do[phase]; act != nil {
			delete(do, phase)
			act(cmd)
		}
	}, args...)
	for phase := range do {
		t.Errorf("phase %q was never announced:\n%s", phase, errOut)
	}
	return code, errOut
}

// eachLine runs the program and calls do with each line of its stderr, as it comes.
func eachLine(t *testing.T, do func(*exec.Cmd, string), args ...string) (code int, errOut string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout = io.Discard
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		fmt.Fprintln(&seen, lines.Text())
		do(cmd, strings.TrimSpace(lines.Text()))
	}
	_ = cmd.Wait() // the exit code says it
	return cmd.ProcessState.ExitCode(), seen.String()
}
