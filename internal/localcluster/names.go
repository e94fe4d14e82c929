package localcluster

import "github.com/drainproof/drainproof/internal/localcluster/parts"

// The names of a node's programs, as Status, Logs and the pid files use them.
const (
	// procNode holds a node's namespaces open; it does nothing else.
	procNode              = "node"
	procContainerd        = "containerd"
	procEtcd              = string(parts.Etcd)
	procAPIServer         = string(parts.APIServer)
	procControllerManager = string(parts.ControllerManager)
	procScheduler         = string(parts.Scheduler)
	procKubelet           = string(parts.Kubelet)
	procProxy             = string(parts.Proxy)
)

// cgroupParent is the cgroup below which every local cluster has its own.
const cgroupParent = "drainproof"

// Paths inside a node. They are the usual ones: a node has its own /run,
// /var/lib and /var/log.
const (
	containerdSocket = "/run/containerd/containerd.sock"
	volumePlugins    = "/var/lib/kubelet/volume-plugins"
	pauseImage       = "localhost/drainproof/pause:1"
	controlPlaneRole = "node-role.kubernetes.io/control-plane"
)
