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
	for _, w := range []string{"context canceled", "--resume", "has a hole"} {
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
	for _, w := range []string{"has a hole", "--resume", "leave the single trials out"} {
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

// TestExplainAgain: the causes are derived from the events, whatever the record says, and the record stays.
// What a report cannot do is refused before anything is written.
func TestReportRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, r := range records.Matrix("iptables", 2)[:2] {
		if _, err := record.Write(filepath.Join(dir, "set", r.ID), r, false); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"all of several trials":          {[]string{"-v"}, "--verbose tells all of one trial, and these are 2"},
		"a page and another form":        {[]string{"--html", "-", "-o", "json"}, "--html excludes"},
		"a page in a folder that is not": {[]string{"--html", filepath.Join(dir, "nosuch", "page.html")}, "does not exist"},
	} {
		code, stdout, stderr := runLine(append([]string{"report", filepath.Join(dir, "set")}, c.args...)...)
		if code != int(fault.Usage) || stdout != "" || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, "next: ") {
			t.Errorf("%s: exit code %d, stdout %q, stderr:\n%s", name, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "nosuch")); !os.IsNotExist(err) {
		t.Errorf("the folder was made: %v", err)
	}
}

func TestExplainAgain(t *testing.T) {
	dir := t.TempDir()
	r := records.RolloutWatched()
	for i := range r.Failures {
		r.Failures[i].Cause = &record.Cause{Kind: "unattributed", Evidence: []int{}, Sentence: "an older version's word"}
	}
	path, err := record.Write(dir, r, false)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args      []string
		want, not string
	}{
		{nil, "9 unattributed", "dead-endpoint"},
		{[]string{"--explain-again"}, "Pods that were ended", "an older version's word"},
		{[]string{"--explain-again"}, "dead-endpoint", "9 unattributed"},
	} {
		code, stdout, stderr := runLine(append([]string{"report", dir}, c.args...)...)
		if code != 0 || !strings.Contains(stdout, c.want) || strings.Contains(stdout, c.not) {
			t.Errorf("%v: exit code %d, want %q and not %q:\n%s%s", c.args, code, c.want, c.not, stdout, stderr)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the record was changed (%v)", err)
	}
}
