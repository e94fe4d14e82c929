//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
	"github.com/drainproof/drainproof/internal/record"
)

// shortBudget does not add up: the hook takes 3 s, the application drains for
// 5 s more, and SIGKILL comes after 6 s.
const shortBudget = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web # the shop's front
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
      annotations:
        drainproof.dev/drain: 5s
    spec:
      terminationGracePeriodSeconds: 6 # copied from somewhere
      containers:
        - name: web
          image: registry.example.com/web:v1
          ports:
            - containerPort: 8080
          readinessProbe:
            httpGet: {path: /ready, port: 8080}
          lifecycle:
            preStop:
              sleep: {seconds: 3}
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
    - port: 80
      targetPort: 8080
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: web
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {app: web}
`

// TestE2EAuditFixIsProved: the audit says that a budget does not add up, a trial with these numbers loses every
// connection, the fix is accepted by the API server, and a trial with the fixed numbers loses none.
func TestE2EAuditFixIsProved(t *testing.T) {
	cluster(t)
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(shortBudget), 0o644); err != nil {
		t.Fatal(err)
	}
	before := auditJSON(t, 1, "-f", file)
	if !hasTopic(before, finding.Grace, finding.Error) {
		t.Fatalf("the audit does not say that the grace period is too short: %+v", before.Findings)
	}
	cut := budgetTrial(t, file)
	if cut.Summary.TCP[record.Severed] != 4 || cut.Summary.ContainerExitCode == nil || *cut.Summary.ContainerExitCode != 137 {
		t.Errorf("the audit foretold SIGKILL within the drain, the trial saw %v and exit code %v", cut.Summary.TCP, deref(cut.Summary.ContainerExitCode))
	}

	must(t, "audit", "fix", "-f", file, "--write", "--kubernetes", "v1.37")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, comment := range []string{"# the shop's front", "# copied from somewhere"} {
		if !strings.Contains(string(text), comment) {
			t.Errorf("the fix lost the comment %q:\n%s", comment, text)
		}
	}
	after := auditJSON(t, 0, "-f", file)
	for _, f := range after.Findings {
		if f.Severity != finding.Info {
			t.Errorf("the fixed manifest does not audit clean: %s %s", f.Rule, f.Message)
		}
	}
	if out, err := kubectlTry(t, clusterName, "apply", "--dry-run=server", "-f", file); err != nil {
		t.Errorf("the API server refuses the fixed manifest: %v\n%s", err, out)
	}
	kept := budgetTrial(t, file)
	if kept.Summary.TCP[record.Drained] != 4 || kept.Summary.ContainerExitCode == nil || *kept.Summary.ContainerExitCode != 0 {
		t.Errorf("after the fix the trial saw %v and exit code %v, want 4 drained and 0", kept.Summary.TCP, deref(kept.Summary.ContainerExitCode))
	}
}

func auditJSON(t *testing.T, code int, args ...string) finding.Report {
	t.Helper()
	r := do(t, append([]string{"audit", "-o", "json", "--kubernetes", "v1.37"}, args...)...)
	if r.code != code {
		t.Fatalf("exit code %d, want %d\n%s%s", r.code, code, r.out, r.errOut)
	}
	var report finding.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

func hasTopic(r finding.Report, topic finding.Topic, s finding.Severity) bool {
	for _, f := range r.Findings {
		if f.Topic == topic && f.Severity == s {
			return true
		}
	}
	return false
}

// budgetTrial measures a drain with the numbers that the manifest holds.
func budgetTrial(t *testing.T, file string) record.Record {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	w := model.Build(objects, model.Options{}).Workloads[0]
	hook := w.Pod.Containers[0].PreStop
	out := filepath.Join(t.TempDir(), "trial")
	must(t, "run", "--cluster", clusterName, "--out", out, "--arm", "drain", "--tcp", "4", "--udp", "0", "--settle", "1s",
		"--grace", fmt.Sprintf("%ds", w.Pod.Grace.N), "--pre-stop-sleep", hook.Took.String(), "--drain-window", w.Annotations["drainproof.dev/drain"],
		"--observe", (time.Duration(w.Pod.Grace.N)*time.Second + 15*time.Second).String())
	return readRecord(t, out)
}

// TestE2EAuditLive reads a live cluster: what was applied is found, and judged as its manifest is.
func TestE2EAuditLive(t *testing.T) {
	cluster(t)
	ns := "audit-live"
	kubectl(t, clusterName, "create", "namespace", ns)
	t.Cleanup(func() { kubectl(t, clusterName, "delete", "namespace", ns, "--wait=false") })
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(shortBudget), 0o644); err != nil {
		t.Fatal(err)
	}
	kubectl(t, clusterName, "apply", "-n", ns, "-f", file)
	live := auditJSON(t, 1, "--cluster", clusterName, "-n", ns)
	if len(live.Workloads) != 1 || live.Workloads[0].Object.Name != "web" || live.Workloads[0].Object.Namespace != ns {
		t.Errorf("the live audit judged %+v, want the Deployment alone", live.Workloads)
	}
	want := ruleCounts(auditJSON(t, 1, "-f", file))
	if got := ruleCounts(live); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the live audit found %v, the manifest's %v", got, want)
	}
}

func ruleCounts(r finding.Report) map[string]int {
	counts := map[string]int{}
	for _, f := range r.Findings {
		counts[f.Rule]++
	}
	return counts
}
