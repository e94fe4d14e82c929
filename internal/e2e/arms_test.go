//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/record"
)

const nftablesName = "e2e-nft"

// expectation is what physics says about one arm of experiments/quick.yaml
// (grace 6 s, drain window 4 s, readiness probed each second).
type expectation struct {
	arm      string
	tcp, udp record.Outcome // the outcome of every flow
	// udpMechanisms are the mechanisms that may carry the UDP flows' end.
	udpMechanisms []record.Mechanism
	exitCode      int
	// lastTCP bounds the end of the last TCP flow.
	lastTCPFrom, lastTCPTo time.Duration
	// reset: every TCP flow ends by RST.
	reset bool
}

var quick = []expectation{
	// The upper bounds leave room for a busy machine; docs/results.md has the true figures.
	{arm: "exit-delete", tcp: record.Severed, udp: record.Rehomed, udpMechanisms: []record.Mechanism{record.OtherInstance}, lastTCPTo: 3 * time.Second, reset: true},
	{arm: "drain-delete", tcp: record.Drained, udp: record.Rehomed, udpMechanisms: []record.Mechanism{record.OtherInstance}, lastTCPFrom: 4 * time.Second, lastTCPTo: 7 * time.Second},
	{arm: "ignore-delete", tcp: record.Severed, exitCode: 137, lastTCPFrom: 6 * time.Second, lastTCPTo: 10 * time.Second},
	{arm: "drain-evict", tcp: record.Drained, udp: record.Rehomed, udpMechanisms: []record.Mechanism{record.OtherInstance}, lastTCPFrom: 4 * time.Second, lastTCPTo: 7 * time.Second},
	{arm: "drain-scale", tcp: record.Drained, udp: record.Severed, udpMechanisms: []record.Mechanism{record.ICMPPort, record.ICMPHost, record.Silence}, lastTCPFrom: 4 * time.Second, lastTCPTo: 7 * time.Second},
	{arm: "drain-ready-delete", tcp: record.Drained, lastTCPFrom: 4 * time.Second, lastTCPTo: 7 * time.Second},
	{arm: "drain-ready-scale", tcp: record.Drained, udp: record.Severed, udpMechanisms: []record.Mechanism{record.ICMPPort, record.ICMPHost, record.Silence}, lastTCPFrom: 4 * time.Second, lastTCPTo: 7 * time.Second},
}

// TestE2EQuickExperiment runs the shipped experiment and holds each record to the physics.
func TestE2EQuickExperiment(t *testing.T) {
	cluster(t)
	out := filepath.Join(t.TempDir(), "quick")
	r := doWithin(t, 10*time.Minute, "run", "--cluster", clusterName, "-f", "../../experiments/quick.yaml", "--out", out, "-o", "json")
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.errOut)
	}
	var report struct {
		Sets []json.RawMessage `json:"sets"`
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || len(report.Sets) != 1 {
		t.Errorf("stdout is not one set as JSON: %v\n%.300s", err, r.out)
	}
	for _, want := range quick {
		t.Run(want.arm, func(t *testing.T) { want.check(t, readRecord(t, filepath.Join(out, want.arm, "repeat-01"))) })
	}
	t.Run("control", func(t *testing.T) {
		rec := readRecord(t, filepath.Join(out, "control", "repeat-01"))
		if rec.Summary.TCP[record.Survived] != 10 || rec.Summary.UDP[record.Survived] != 10 {
			t.Errorf("the control lost something: %v %v", rec.Summary.TCP, rec.Summary.UDP)
		}
	})
	noNamespaceLeft(t, clusterName)

	t.Run("report", func(t *testing.T) {
		table := must(t, "report", out).out
		for _, w := range []string{"exit-delete", "drain-delete", "137", "rehomed"} {
			if !strings.Contains(table, w) {
				t.Errorf("the report does not say %q:\n%s", w, table)
			}
		}
	})
	t.Run("resume finds nothing to do", func(t *testing.T) {
		r := must(t, "run", "--cluster", clusterName, "-f", "../../experiments/quick.yaml", "--out", out, "--resume")
		if strings.Contains(r.errOut, "repeat 1 of 1") {
			t.Errorf("a complete set was measured again:\n%s", r.errOut)
		}
	})
	t.Run("a second run does not overwrite", func(t *testing.T) {
		fails(t, 2, []string{"not empty", "--resume"}, "run", "--cluster", clusterName, "-f", "../../experiments/quick.yaml", "--out", out)
	})
}

func (want expectation) check(t *testing.T, rec record.Record) {
	t.Helper()
	if rec.Completeness != record.Complete {
		t.Errorf("incomplete: %v", rec.Missing)
	}
	if got := rec.Summary.TCP[want.tcp]; got != 10 {
		t.Errorf("TCP: %v, want 10 %s", rec.Summary.TCP, want.tcp)
	}
	if want.udp != "" && rec.Summary.UDP[want.udp] != 10 {
		t.Errorf("UDP: %v, want 10 %s", rec.Summary.UDP, want.udp)
	}
	if c := rec.Summary.ContainerExitCode; c == nil || *c != want.exitCode {
		t.Errorf("container exit code %v, want %d", deref(c), want.exitCode)
	}
	var last int64
	rehomed, byProxy := 0, 0
	for _, f := range rec.Flows {
		if f.UncertaintyNs == nil || *f.UncertaintyNs != 0 {
			t.Errorf("%s: on one kernel the clock's uncertainty is 0, not %v", f.ID, f.UncertaintyNs)
		}
		switch f.Protocol {
		case record.TCP:
			if f.EndedTNs == nil {
				t.Errorf("%s has no end", f.ID)
				continue
			}
			last = max(last, *f.EndedTNs)
			if want.reset && f.Mechanism != record.RST {
				t.Errorf("%s ended by %s, want %s", f.ID, f.Mechanism, record.RST)
			}
		case record.UDP:
			if len(want.udpMechanisms) > 0 && !contains(want.udpMechanisms, f.Mechanism) {
				t.Errorf("%s ended by %s, want one of %v", f.ID, f.Mechanism, want.udpMechanisms)
			}
			if f.Outcome == record.Rehomed && (f.FirstInstance == nil || f.LastInstance == nil || *f.FirstInstance == *f.LastInstance) {
				t.Errorf("%s is rehomed, but its record does not keep both names", f.ID)
			}
			if f.Outcome == record.Rehomed {
				rehomed++
				if f.Cause != nil && f.Cause.Kind == "rehomed-by-dataplane" && len(f.Cause.Evidence) > 0 {
					byProxy++
				}
			}
		}
	}
	// A local cluster has agents. Whose next datagram was there before the agent's news of the deletion may lack a proof.
	if byProxy*10 < rehomed*9 {
		t.Errorf("%d of %d rehomed flows are proved to be rehomed by kube-proxy", byProxy, rehomed)
	}
	if d := time.Duration(last); d < want.lastTCPFrom || d > want.lastTCPTo {
		t.Errorf("the last TCP flow ended at %v, want between %v and %v", d, want.lastTCPFrom, want.lastTCPTo)
	}
	for _, kind := range []record.EventKind{record.TriggerSent, record.PodTerminating, record.ProbeSigterm, record.ContainerExited, record.EndpointRemoved, record.PodRemoved} {
		if !has(rec, kind) {
			t.Errorf("no event %s", kind)
		}
	}
	for _, s := range rec.Sources {
		if s.Events == 0 {
			t.Errorf("source %s gave no event", s.Name)
		}
	}
}

func has(rec record.Record, kind record.EventKind) bool {
	for _, e := range rec.Events {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

func contains[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

func deref(c *int) string {
	if c == nil {
		return "not measured"
	}
	return fmt.Sprint(*c)
}

// TestE2EPathsAndVantages: the same flow engine reaches the probe on every path from both vantages.
func TestE2EPathsAndVantages(t *testing.T) {
	cluster(t)
	t.Run("beside each other", func(t *testing.T) {
		for _, vantage := range []string{"host", "pod"} {
			for _, path := range []string{"pod", "clusterip", "nodeport"} {
				t.Run(vantage+"/"+path, func(t *testing.T) {
					t.Parallel()
					out := filepath.Join(t.TempDir(), "out")
					must(t, "run", "--cluster", clusterName, "--arm", "exit", "--grace", "4s", "--settle", "1s", "--tcp", "3", "--udp", "3",
						"--path", path, "--vantage", vantage, "--out", out)
					rec := readRecord(t, out)
					if rec.Summary.TCP[record.Severed] != 3 || rec.Completeness != record.Complete {
						t.Errorf("TCP %v, %s %v", rec.Summary.TCP, rec.Completeness, rec.Missing)
					}
					if rec.Config.Path != path || rec.Config.Vantage != vantage {
						t.Errorf("the record says path %s, vantage %s", rec.Config.Path, rec.Config.Vantage)
					}
				})
			}
		}
	})
	noNamespaceLeft(t, clusterName)
}

// TestE2EBareExit: without the forced reset, the kernel ends the connections, and the record does not say forced.
func TestE2EBareExit(t *testing.T) {
	cluster(t)
	out := filepath.Join(t.TempDir(), "out")
	must(t, "run", "--cluster", clusterName, "--arm", "exit", "--no-force-rst", "--exit-code", "17", "--grace", "4s", "--settle", "1s", "--tcp", "5", "--udp", "0", "--out", out)
	rec := readRecord(t, out)
	if rec.Summary.TCP[record.Severed] != 5 {
		t.Errorf("TCP: %v", rec.Summary.TCP)
	}
	if has(rec, record.ProbeForcedRST) {
		t.Error("the record says that a reset was forced")
	}
	if c := rec.Summary.ContainerExitCode; c == nil || *c != 17 {
		t.Errorf("exit code %s, want 17", deref(c))
	}
}

// TestE2EPreStopSleep: the hook runs first, so that SIGTERM comes that much later.
func TestE2EPreStopSleep(t *testing.T) {
	cluster(t)
	out := filepath.Join(t.TempDir(), "out")
	must(t, "run", "--cluster", clusterName, "--arm", "exit", "--pre-stop-sleep", "2s", "--grace", "6s", "--settle", "1s", "--tcp", "3", "--udp", "0", "--out", out)
	rec := readRecord(t, out)
	for _, e := range rec.Events {
		if e.Kind == record.ProbeSigterm {
			if d := time.Duration(e.TNs); d < 2*time.Second || d > 4*time.Second {
				t.Errorf("SIGTERM came at %v, want 2 s or a little later", d)
			}
			return
		}
	}
	t.Error("no SIGTERM in the record")
}

// TestE2ENftables: the other proxy mode, on a second cluster beside the first.
func TestE2ENftables(t *testing.T) {
	cluster(t)
	must(t, "cluster", "up", nftablesName, "--workers", "1", "--proxy-mode", "nftables", "--kubernetes-from", "build")
	defer must(t, "cluster", "down", nftablesName)
	fails(t, 2, []string{clusterName, nftablesName, "--cluster"}, "run", "--arm", "exit")
	for _, want := range quick[:2] {
		out := filepath.Join(t.TempDir(), want.arm)
		arm, _, _ := strings.Cut(want.arm, "-")
		must(t, "run", "--cluster", nftablesName, "--arm", arm, "--grace", "6s", "--out", out)
		rec := readRecord(t, out)
		want.check(t, rec)
		if m := rec.Environment.ProxyMode; m == nil || *m != "nftables" {
			t.Errorf("the record does not say nftables: %v", m)
		}
	}
}

// TestE2EDemo is what `make demo` runs, with a short grace.
func TestE2EDemo(t *testing.T) {
	cluster(t)
	out := filepath.Join(t.TempDir(), "demo")
	r := must(t, "demo", "--kubernetes-from", "build", "--grace", "6s", "--out", out)
	rec := readRecord(t, out)
	if rec.Summary.TCP[record.Drained] != 10 || rec.Summary.UDP[record.Rehomed] != 10 {
		t.Errorf("TCP %v, UDP %v", rec.Summary.TCP, rec.Summary.UDP)
	}
	for _, w := range []string{"drained", "rehomed"} {
		if !strings.Contains(r.out, w) {
			t.Errorf("the demo does not show %q:\n%s", w, r.out)
		}
	}
	if list := must(t, "cluster", "list").out; strings.Contains(list, "demo-") {
		t.Errorf("the demo's cluster is still there:\n%s", list)
	}
}
