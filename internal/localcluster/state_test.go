package localcluster

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestStateRoundTrip(t *testing.T) {
	dir := t.TempDir()
	s := state{Schema: stateSchema, Name: "blue", Phase: PhaseCreating, Subnet: netip.MustParsePrefix("198.18.0.0/20"), Workers: 2, ProxyMode: ProxyNftables, Version: "v1.37.2"}
	if err := writeState(dir, s); err != nil {
		t.Fatal(err)
	}
	got, err := readState(dir, "blue")
	if err != nil || *got != s {
		t.Errorf("read %+v, %v", got, err)
	}
	c, err := Open(dir, "blue")
	if err != nil {
		t.Fatal(err)
	}
	if c.Name() != "blue" || c.ProxyMode() != ProxyNftables || len(c.Nodes()) != 3 || c.Server() != "https://198.18.0.2:6443" {
		t.Errorf("opened %+v", c)
	}
	all, err := List(dir)
	if err != nil || len(all) != 1 || all[0].Name() != "blue" {
		t.Errorf("listed %v, %v", all, err)
	}
}

func TestOpenWhatIsNotThere(t *testing.T) {
	_, err := Open(t.TempDir(), "blue")
	if fault.CodeOf(err) != fault.Usage || !strings.Contains(fault.NextOf(err), "cluster up blue") {
		t.Errorf("%v (%s)", err, fault.NextOf(err))
	}
	if all, err := List(filepath.Join(t.TempDir(), "never")); err != nil || len(all) != 0 {
		t.Errorf("listed %v, %v", all, err)
	}
}

func TestStateThatCannotBeRead(t *testing.T) {
	for name, content := range map[string]string{
		"half":    `{"schema": "drainproof.dev/localcl`,
		"other":   `{"schema": "drainproof.dev/localcluster/v9", "name": "other"}`,
		"renamed": `{"schema": "drainproof.dev/localcluster/v1", "name": "blue", "subnet": "198.18.0.0/20"}`,
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(clusterDir(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(stateFile(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, name); err == nil || !strings.Contains(fault.NextOf(err), "cluster down "+name) {
			t.Errorf("%s: %v (%s)", name, err, fault.NextOf(err))
		}
		if all, err := List(dir); err != nil || len(all) != 0 {
			t.Errorf("%s: listed %v, %v", name, all, err)
		}
	}
}

func TestLogs(t *testing.T) {
	c := newCluster("/state", state{Name: "blue", Subnet: netip.MustParsePrefix("198.18.0.0/20"), Workers: 1})
	all, err := c.Logs("", "")
	if err != nil || len(all) != 10 {
		t.Errorf("%d logs, %v", len(all), err)
	}
	one, err := c.Logs("worker", "kubelet")
	want := []Log{{"blue-worker", "kubelet", "/state/clusters/blue/logs/blue-worker/kubelet.log"}}
	if err != nil || !slices.Equal(one, want) {
		t.Errorf("logs are %v, %v", one, err)
	}
	if _, err := c.Logs("worker", "etcd"); fault.CodeOf(err) != fault.Usage {
		t.Errorf("etcd of a worker: %v", err)
	}
}

func TestStatusOfWhatNeverRan(t *testing.T) {
	yes, no := true, false
	healthy := Status{Phase: PhaseRunning, APIReady: true, Processes: []ProcessStatus{{Alive: true}}, Nodes: []NodeStatus{{Ready: &yes}}}
	if !healthy.Healthy() {
		t.Error("a healthy cluster is not healthy")
	}
	for name, change := range map[string]func(*Status){
		"half made":       func(s *Status) { s.Phase = PhaseCreating },
		"no API server":   func(s *Status) { s.APIReady = false },
		"a dead program":  func(s *Status) { s.Processes = []ProcessStatus{{}} },
		"an unready node": func(s *Status) { s.Nodes = []NodeStatus{{Ready: &no}} },
		"an unknown node": func(s *Status) { s.Nodes = []NodeStatus{{}} },
	} {
		s := healthy
		change(&s)
		if s.Healthy() {
			t.Errorf("%s is healthy", name)
		}
	}
}

func TestOneFault(t *testing.T) {
	if err := oneFault(nil); err != nil {
		t.Error(err)
	}
	err := oneFault([]*fault.Error{errNotRoot(), errNoSpace("/x", 1<<20)})
	for _, want := range []string{"2 things", "needs root", "/x has 1 MiB"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if next := fault.NextOf(err); !strings.Contains(next, "sudo") || !strings.Contains(next, "2048 MiB") {
		t.Errorf("advice is %q", next)
	}
}
