package localcluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// machine is what the configuration needs to know about this machine.
type machine struct {
	// CNIBin is the folder that holds the CNI plugins.
	CNIBin string
	// Snapshotter of containerd: overlayfs, or native where overlayfs cannot work.
	Snapshotter string
}

// writeConfigs writes every file that the programs read.
func writeConfigs(p plan, m machine) error {
	kubeconfigs := map[string]string{p.adminKubeconfig(): "admin"}
	cp := p.Nodes[0]
	kubeconfigs[filepath.Join(cp.Dir, "controller-manager.conf")] = "controller-manager"
	kubeconfigs[filepath.Join(cp.Dir, "scheduler.conf")] = "scheduler"
	for _, n := range p.Nodes {
		for _, d := range []string{n.Dir, filepath.Join(n.Dir, "cni"), filepath.Join(p.Dir, "logs", n.Name), filepath.Join(p.Dir, "pids")} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return fmt.Errorf("make a folder of node %s: %w", n.Name, err)
			}
		}
		kubeconfigs[filepath.Join(n.Dir, "kubelet.conf")] = "kubelet-" + n.Short
		kubeconfigs[filepath.Join(n.Dir, "kube-proxy.conf")] = "proxy"
		files := map[string][]byte{
			"containerd.toml":      containerdConfig(n, m),
			"cni/10-pods.conflist": cniConfig(n),
			"kubelet.yaml":         kubeletConfig(p, n),
			"kube-proxy.yaml":      proxyConfig(p, filepath.Join(n.Dir, "kube-proxy.conf"), n.Name),
		}
		for name, data := range files {
			if err := writeFile(filepath.Join(n.Dir, name), data, 0o644); err != nil {
				return err
			}
		}
	}
	for path, id := range kubeconfigs {
		data, err := kubeconfig(p, id)
		if err != nil {
			return err
		}
		if err := writeFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// contextName is the context in the cluster's kubeconfig.
func contextName(name string) string {
	if name == DefaultName {
		return DefaultName
	}
	return DefaultName + "-" + name
}

// kubeconfig holds keys and certificates itself, so that it can be copied.
func kubeconfig(p plan, id string) ([]byte, error) {
	data := map[string]string{}
	for key, file := range map[string]string{"ca": "ca.crt", "cert": id + ".crt", "key": id + ".key"} {
		b, err := os.ReadFile(p.pki(file))
		if err != nil {
			return nil, fmt.Errorf("write the kubeconfig of %s: %w", id, err)
		}
		data[key] = base64.StdEncoding.EncodeToString(b)
	}
	name := contextName(p.Name)
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[1]s
current-context: %[1]s
`, name, p.server(), data["ca"], data["cert"], data["key"]), nil
}

// containerdConfig is in version 2, which containerd 1.4 to 2.x read.
// restrict_oom_score_adj lets runc start Pods where CAP_SYS_RESOURCE is missing.
func containerdConfig(n nodePlan, m machine) []byte {
	return fmt.Appendf(nil, `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]

[grpc]
  address = %[1]q

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[2]q
  restrict_oom_score_adj = true
  disable_apparmor = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[3]q
    conf_dir = %[4]q

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %[5]q
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`, containerdSocket, pauseImage, m.CNIBin, filepath.Join(n.Dir, "cni"), m.Snapshotter)
}

// cniConfig gives every Pod a cable of its own into the node (ptp, not a
// bridge): what a Pod answers to a neighbour is then routed through the node,
// where kube-proxy's translation is undone, whether or not the kernel filters bridges.
func cniConfig(n nodePlan) []byte {
	return fmt.Appendf(nil, `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni-ipam",
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
`, n.Pods)
}

// kubeletConfig keeps Kubernetes' defaults except where a machine that is
// shared by several nodes needs otherwise: cgroups of its own, no eviction
// because the machine's disk is rather full, swap allowed.
func kubeletConfig(p plan, n nodePlan) []byte {
	var taint string
	if n.ControlPlane {
		taint = fmt.Sprintf("registerWithTaints:\n- key: %s\n  effect: NoSchedule\n", controlPlaneRole)
	}
	return fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %q}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: %s
cgroupsPerQOS: true
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "10Mi", nodefs.available: "1%%", imagefs.available: "1%%"}
resolvConf: ""
volumePluginDir: %s
%s`, p.pki("ca.crt"), p.pki("kubelet-"+n.Short+".crt"), p.pki("kubelet-"+n.Short+".key"),
		containerdSocket, p.nodeCgroup(n), volumePlugins, taint)
}

// proxyConfig leaves the sync periods at kube-proxy's own defaults: they are
// part of what is measured. The limits of conntrack cannot be set inside a
// network namespace. node is empty for the copy that the cluster publishes.
func proxyConfig(p plan, kubeconfig, node string) []byte {
	var override string
	if node != "" {
		override = "hostnameOverride: " + node + "\n"
	}
	return fmt.Appendf(nil, `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %s
clusterCIDR: %s
clientConnection: {kubeconfig: %q}
conntrack: {maxPerCore: 0, min: 0}
%s`, p.ProxyMode, p.pods(), kubeconfig, override)
}

// proxyConfigMap is where tools look for the proxy's mode (kubeadm's habit).
func proxyConfigMap(p plan) ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": "kube-proxy", "namespace": "kube-system", "labels": map[string]string{"app": "kube-proxy"}},
		"data":       map[string]string{"config.conf": string(proxyConfig(p, "/var/lib/kube-proxy/kubeconfig.conf", ""))},
	})
}

// nodePatch sets what a kubelet may not say about itself.
func nodePatch(n nodePlan) ([]byte, error) {
	labels := map[string]string{}
	if n.ControlPlane {
		labels[controlPlaneRole] = ""
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": labels},
		"spec":     map[string]any{"podCIDR": n.Pods.String(), "podCIDRs": []string{n.Pods.String()}},
	})
}
