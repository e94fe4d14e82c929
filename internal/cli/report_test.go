package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// runLine runs one command line and gives its exit code, stdout and stderr.
func runLine(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(context.Background(), append([]string{"drainproof"}, args...), Streams{
		In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" },
	})
	return code, out.String(), errs.String()
}

// TestInterruptedSingleTrialSaysWhatToDo: there is no experiment file to resume.
func TestInterruptedSingleTrialSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	cut := records.Incomplete()
	cut.Missing = []string{`phase settle: interrupted in the phase "settle": context canceled`}
	for _, r := range []record.Record{records.Drain(), cut} {
		if _, err := record.Write(filepath.Join(dir, r.ID), r, false); err != nil {
			t.Fatal(err)
		}
	}
	code, _, stderr := runLine("report", dir)
	if code != int(fault.Inconclusive) {
		t.Errorf("exit code %d", code)
	}
	for _, w := range []string{"the single trial " + filepath.Join(dir, cut.ID), "interrupted in the phase", "next: leave that record out, or measure it again"} {
		if !strings.Contains(stderr, w) {
			t.Errorf("stderr does not say %q:\n%s", w, stderr)
		}
	}
	for _, w := range []string{"context canceled", "-f FILE", "has a hole"} {
		if strings.Contains(stderr, w) {
			t.Errorf("stderr says %q:\n%s", w, stderr)
		}
	}

	// A hole of a set beside it keeps its own advice.
	for _, r := range records.Matrix("iptables", 2)[1:] {
		if _, err := record.Write(filepath.Join(dir, "set", r.ID), r, false); err != nil {
			t.Fatal(err)
		}
	}
	_, _, stderr = runLine("report", dir)
	for _, w := range []string{"has a hole", "-f FILE", "leave the single trials out"} {
		if !strings.Contains(stderr, w) {
			t.Errorf("stderr does not say %q:\n%s", w, stderr)
		}
	}
}

// TestDefaultFolderBearsTheRecordsID: what a person sees in the folder is what the record and the namespace are called.
func TestDefaultFolderBearsTheRecordsID(t *testing.T) {
	t.Chdir(t.TempDir())
	// The server tells its version and no more: the trial ends in its first phase, and leaves an incomplete record.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"major":"1","minor":"37","gitVersion":"v1.37.2"}`)
	}))
	defer server.Close()
	config := `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "` + server.URL + `"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: lab, context: {cluster: c, user: u}}]
current-context: lab
`
	if err := os.WriteFile("config", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runLine("run", "--kubeconfig", "config", "--yes", "--image", "x:1"); code != int(fault.Unmeasurable) {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	found, err := record.Find("drainproof-runs")
	if err != nil || len(found) != 1 {
		t.Fatalf("found %q, %v", found, err)
	}
	rec, err := record.Read(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if folder := filepath.Base(filepath.Dir(found[0])); folder != rec.ID {
		t.Errorf("the folder is %s, the record %s", folder, rec.ID)
	}
}

func TestLeftoversSayWhatWasDone(t *testing.T) {
	left := []kube.Leftover{{Kind: "namespace", Namespace: "ns", Name: "ns", Trial: "t", Created: time.Date(2026, 11, 29, 16, 0, 0, 0, time.UTC)}}
	var b bytes.Buffer
	if err := writeLeftovers(&b, "would remove", left); err != nil {
		t.Fatal(err)
	}
	if want := "would remove  namespace  ns  ns  trial t  2026-11-29T16:00:00Z\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
