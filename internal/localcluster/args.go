package localcluster

import (
	"path/filepath"

	"github.com/drainproof/drainproof/internal/localcluster/parts"
)

// command gives the program of one process of a node, and its arguments.
// Programs without a slash are looked up in PATH.
func command(p plan, n nodePlan, name string) (path string, args []string) {
	switch name {
	case procNode:
		return p.pauseProgram(), nil
	case procContainerd:
		return "containerd", []string{"--config", filepath.Join(n.Dir, "containerd.toml")}
	}
	path = parts.Set{Dir: p.PartsDir}.Path(parts.Part(name))
	switch name {
	case procEtcd:
		args = etcdArgs()
	case procAPIServer:
		args = apiServerArgs(p)
	case procControllerManager:
		args = controllerManagerArgs(p, n)
	case procScheduler:
		args = schedulerArgs(n)
	case procKubelet:
		args = kubeletArgs(n)
	case procProxy:
		args = []string{"--config=" + filepath.Join(n.Dir, "kube-proxy.yaml"), "--v=2"}
	}
	return path, args
}

// etcdArgs: loopback inside the control plane's namespace, and no fsync: the
// data need not survive the machine.
func etcdArgs() []string {
	return []string{
		"--name=local",
		"--data-dir=/var/lib/etcd",
		"--listen-client-urls=http://127.0.0.1:2379",
		"--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=local=http://127.0.0.1:2380",
		"--unsafe-no-fsync",
	}
}

func apiServerArgs(p plan) []string {
	return []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address=" + p.Nodes[0].Addr.String(),
		"--service-cluster-ip-range=" + p.services().String(),
		"--tls-cert-file=" + p.pki("apiserver.crt"),
		"--tls-private-key-file=" + p.pki("apiserver.key"),
		"--client-ca-file=" + p.pki("ca.crt"),
		"--kubelet-certificate-authority=" + p.pki("ca.crt"),
		"--kubelet-client-certificate=" + p.pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + p.pki("apiserver-kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.pki("sa.key"),
		"--service-account-signing-key-file=" + p.pki("sa.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
	}
}

func controllerManagerArgs(p plan, n nodePlan) []string {
	conf := filepath.Join(n.Dir, "controller-manager.conf")
	return []string{
		"--kubeconfig=" + conf,
		"--authentication-kubeconfig=" + conf,
		"--authorization-kubeconfig=" + conf,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + p.pki("sa.key"),
		"--root-ca-file=" + p.pki("ca.crt"),
		"--cluster-signing-cert-file=" + p.pki("ca.crt"),
		"--cluster-signing-key-file=" + p.pki("ca.key"),
		"--cluster-name=" + p.Name,
		// Its default is a folder of the machine, which it would make.
		"--flex-volume-plugin-dir=" + volumePlugins,
	}
}

func schedulerArgs(n nodePlan) []string {
	conf := filepath.Join(n.Dir, "scheduler.conf")
	return []string{
		"--kubeconfig=" + conf,
		"--authentication-kubeconfig=" + conf,
		"--authorization-kubeconfig=" + conf,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
	}
}

func kubeletArgs(n nodePlan) []string {
	return []string{
		"--config=" + filepath.Join(n.Dir, "kubelet.yaml"),
		"--kubeconfig=" + filepath.Join(n.Dir, "kubelet.conf"),
		"--hostname-override=" + n.Name,
		"--node-ip=" + n.Addr.String(),
		"--v=2",
	}
}
