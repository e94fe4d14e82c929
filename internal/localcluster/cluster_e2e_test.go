//go:build e2e

package localcluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/fault"
)

func TestClusterServes(t *testing.T) {
	dir := newMachine(t, "", "second")
	archive := servedArchive(t)
	o := e2eOptions(dir)
	o.Workers, o.Progress = 2, logProgress(t)
	began := time.Now()
	c, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	up := time.Since(began)
	if err := c.LoadImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	api := clientOf(t, c)
	deploy(t, api, c.Nodes())
	served(t, "http://"+c.Nodes()[1].Addr.String()+":30080/")
	t.Logf("up %v, served through a NodePort %v", up, time.Since(began))
	reachable(t, c)
	if log := podLog(t, c, "served-1"); !strings.Contains(log, "serving") {
		t.Errorf("log of a Pod is %q", log)
	}
	published(t, c, api)
	status := healthy(t, c)

	t.Run("up again keeps every process", func(t *testing.T) { upAgain(t, o, status) })
	t.Run("other options are refused", func(t *testing.T) {
		other := o
		other.ProxyMode = ProxyNftables
		_, err := Up(t.Context(), other)
		if fault.CodeOf(err) != fault.Usage || !strings.Contains(err.Error(), "iptables, not nftables") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a second cluster with nftables lives beside it", func(t *testing.T) { besides(t, o, archive, c) })
	t.Run("up repairs what was killed", func(t *testing.T) { repair(t, o, c) })
	t.Run("down after everything was killed", func(t *testing.T) { killEverything(t, c) })
}

func healthy(t *testing.T, c *Cluster) Status {
	t.Helper()
	s, err := c.Status(t.Context())
	if err != nil || !s.Healthy() {
		t.Fatalf("status is not healthy: %+v, %v", s, err)
	}
	if s.ServerVersion != c.Version() {
		t.Errorf("the server is %s, the cluster %s", s.ServerVersion, c.Version())
	}
	return s
}

// published checks what tools read to learn about the cluster.
func published(t *testing.T, c *Cluster, api *apiClient) {
	t.Helper()
	var config struct{ Data map[string]string }
	if err := api.get(t.Context(), "/api/v1/namespaces/kube-system/configmaps/kube-proxy", &config); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(config.Data["config.conf"], "mode: "+c.ProxyMode()) {
		t.Errorf("the proxies' configuration is %q", config.Data["config.conf"])
	}
	var node struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct {
			PodCIDR string
			Taints  []struct{ Key, Effect string }
		}
	}
	cp := c.Nodes()[0]
	if err := api.get(t.Context(), "/api/v1/nodes/"+cp.Name, &node); err != nil {
		t.Fatal(err)
	}
	if _, ok := node.Metadata.Labels[controlPlaneRole]; !ok {
		t.Errorf("the control plane's labels are %v", node.Metadata.Labels)
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != controlPlaneRole || node.Spec.Taints[0].Effect != "NoSchedule" {
		t.Errorf("the control plane's taints are %v", node.Spec.Taints)
	}
	if node.Spec.PodCIDR != cp.Pods.String() {
		t.Errorf("the control plane's Pod addresses are %s, not %s", node.Spec.PodCIDR, cp.Pods)
	}
}

func upAgain(t *testing.T, o Options, before Status) {
	c, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	after := healthy(t, c)
	for i, p := range after.Processes {
		if p != before.Processes[i] {
			t.Errorf("process was %+v and is %+v", before.Processes[i], p)
		}
	}
}

func besides(t *testing.T, o Options, archive string, first *Cluster) {
	o.Name, o.Workers, o.ProxyMode, o.Progress = "second", 1, ProxyNftables, logProgress(t)
	c, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if c.Subnet().Overlaps(first.Subnet()) {
		t.Fatalf("both clusters have addresses in %s", c.Subnet())
	}
	if all, err := List(o.StateDir); err != nil || len(all) != 2 {
		t.Errorf("list has %d clusters: %v", len(all), err)
	}
	if err := c.LoadImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	deploy(t, clientOf(t, c), c.Nodes())
	reachable(t, c)
	reachable(t, first)
	if err := Down(t.Context(), o.StateDir, o.Name); err != nil {
		t.Fatal(err)
	}
	reachable(t, first)
}

func repair(t *testing.T, o Options, c *Cluster) {
	cp := c.plan.Nodes[0]
	for _, name := range []string{procKubelet, procEtcd, procScheduler, procContainerd, procProxy} {
		killPart(t, c.plan, cp, name)
	}
	c, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	healthy(t, c)
	reachable(t, c)
}

// killEverything kills each program of each node, the holders of namespaces
// too. The Pods and their shims live on; newMachine checks that Down ends them.
func killEverything(t *testing.T, c *Cluster) {
	for _, n := range c.plan.Nodes {
		for _, name := range n.processes() {
			killPart(t, c.plan, n, name)
		}
	}
	pids, err := clusterProcesses(c.plan.remains())
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) == 0 {
		t.Error("no Pod lives on: this proves less than it should")
	}
	if err := Down(t.Context(), c.stateDir, c.Name()); err != nil {
		t.Fatal(err)
	}
	for pid := range pids {
		if _, zombie, err := procStat(pid); err == nil && !zombie {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			t.Errorf("process %d lives on: %q", pid, line)
		}
	}
}

func killPart(t *testing.T, p plan, n nodePlan, name string) {
	t.Helper()
	r, ok := readPID(p, n, name)
	if !ok || !r.alive() {
		t.Fatalf("%s of node %s does not run", name, n.Name)
	}
	if err := unix.Kill(r.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := poll(t.Context(), 5*time.Millisecond, 5*time.Second, func() (bool, error) { return !r.alive(), nil }); err != nil {
		t.Fatal(err)
	}
}
