package localcluster

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// read parses YAML or JSON strictly and gives the value at a path of keys.
func read(t *testing.T, data []byte, path ...string) any {
	t.Helper()
	var v any
	if err := yaml.UnmarshalStrict(data, &v); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("no %s in %v", key, v)
		}
		v = m[key]
	}
	return v
}

func TestKubeletConfig(t *testing.T) {
	p := testPlan(1)
	data := kubeletConfig(p, p.Nodes[0])
	if got, want := read(t, data, "cgroupRoot"), p.cgroup()+"/control-plane"; got != want {
		t.Errorf("cgroupRoot is %v, not %v", got, want)
	}
	taints, err := json.Marshal(read(t, data, "registerWithTaints"))
	if err != nil || string(taints) != `[{"effect":"NoSchedule","key":"node-role.kubernetes.io/control-plane"}]` {
		t.Errorf("taints are %s, %v", taints, err)
	}
	worker := kubeletConfig(p, p.Nodes[1])
	if read(t, worker, "registerWithTaints") != nil {
		t.Error("a worker has taints")
	}
	if got := read(t, worker, "authentication", "anonymous", "enabled"); got != false {
		t.Errorf("anonymous access to the kubelet is %v", got)
	}
	if got := read(t, worker, "evictionHard", "nodefs.available"); got != "1%" {
		t.Errorf("eviction begins at %v", got)
	}
}

func TestProxyConfig(t *testing.T) {
	p := testPlan(1)
	p.ProxyMode = ProxyNftables
	data := proxyConfig(p, "/conf", "blue-worker")
	for key, want := range map[string]any{"mode": "nftables", "clusterCIDR": "198.18.40.0/21", "hostnameOverride": "blue-worker"} {
		if got := read(t, data, key); got != want {
			t.Errorf("%s is %v, not %v", key, got, want)
		}
	}
	// What is measured must be kube-proxy's own default.
	for _, key := range []string{"iptables", "nftables"} {
		if read(t, data, key) != nil {
			t.Errorf("the configuration sets %s", key)
		}
	}
	object, err := proxyConfigMap(p)
	if err != nil {
		t.Fatal(err)
	}
	published, ok := read(t, object, "data", "config.conf").(string)
	if !ok || read(t, []byte(published), "mode") != "nftables" || read(t, []byte(published), "hostnameOverride") != nil {
		t.Errorf("published is %q", published)
	}
}

func TestCNIAndContainerdConfig(t *testing.T) {
	p := testPlan(1)
	var conf struct {
		Plugins []struct {
			Type string
			IPAM struct {
				Ranges [][]struct{ Subnet netip.Prefix }
			}
		}
	}
	if err := json.Unmarshal(cniConfig(p.Nodes[1]), &conf); err != nil {
		t.Fatal(err)
	}
	if conf.Plugins[0].IPAM.Ranges[0][0].Subnet != p.Nodes[1].Pods {
		t.Errorf("Pods get addresses of %v", conf.Plugins[0].IPAM)
	}
	toml := string(containerdConfig(p.Nodes[1], machine{CNIBin: "/opt/cni/bin", Snapshotter: "native"}))
	for _, want := range []string{"version = 2", "restrict_oom_score_adj = true", `sandbox_image = "` + pauseImage + `"`, `bin_dir = "/opt/cni/bin"`, `snapshotter = "native"`} {
		if !strings.Contains(toml, want) {
			t.Errorf("containerd's configuration lacks %s", want)
		}
	}
}

func TestWriteConfigs(t *testing.T) {
	p := testPlan(1)
	p.Dir = t.TempDir()
	for i := range p.Nodes {
		p.Nodes[i].Dir = filepath.Join(p.Dir, "nodes", p.Nodes[i].Name)
	}
	if err := writePKI(p, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := writeConfigs(p, machine{CNIBin: "/usr/lib/cni", Snapshotter: "overlayfs"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(p.adminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, data, "current-context"); got != "drainproof-blue" {
		t.Errorf("context is %v", got)
	}
	if !bytes.Contains(data, []byte("server: https://198.18.32.2:6443")) {
		t.Errorf("kubeconfig is\n%s", data)
	}
	// Every file that a program is told to read exists.
	for _, n := range p.Nodes {
		for _, name := range n.processes() {
			_, args := command(p, n, name)
			for i, arg := range args {
				if _, value, ok := strings.Cut(arg, "="); ok {
					arg = value
				} else if i == 0 {
					continue
				}
				if !strings.HasPrefix(arg, p.Dir) {
					continue
				}
				if _, err := os.Stat(arg); err != nil {
					t.Errorf("%s of node %s reads %s: %v", name, n.Name, arg, err)
				}
			}
		}
	}
}

func TestCommands(t *testing.T) {
	p := testPlan(1)
	for _, n := range p.Nodes {
		for _, name := range n.processes() {
			path, args := command(p, n, name)
			if path == "" || (name != procNode && len(args) == 0) {
				t.Errorf("%s of node %s is %s %v", name, n.Name, path, args)
			}
		}
	}
	path, args := command(p, p.Nodes[0], procAPIServer)
	if path != "/parts/kube-apiserver" || !slices.Contains(args, "--authorization-mode=Node,RBAC") || !slices.Contains(args, "--service-cluster-ip-range=198.18.36.0/22") {
		t.Errorf("the API server is %s %v", path, args)
	}
	if got := p.Nodes[1].processes(); slices.Contains(got, procEtcd) {
		t.Errorf("a worker runs %v", got)
	}
}

func TestContextName(t *testing.T) {
	if contextName("drainproof") != "drainproof" || contextName("x") != "drainproof-x" {
		t.Error(contextName("drainproof"), contextName("x"))
	}
}
