package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/drainproof/drainproof/internal/fault"
)

// Cluster is a local cluster that has a state, whether it runs or not.
type Cluster struct {
	stateDir string
	state    state
	plan     plan
}

// Node is one node of a cluster.
type Node struct {
	Name         string
	ControlPlane bool
	// Addr is reachable from the machine: NodePorts answer on every node's.
	Addr netip.Addr
	// Pods is the range of the node's Pod addresses.
	Pods netip.Prefix
	// Netns is the node's network namespace: a name below /run/netns.
	Netns string
}

// Log is the log file of one program of one node.
type Log struct {
	Node, Part, Path string
}

// Up makes the cluster that o describes and waits until every node is Ready
// and programmed. A healthy cluster with the same options is left as it is, a
// cluster that lost programs gets them back, and one that is half made or from
// before the machine's last start is made anew. When Up fails or ctx ends, it
// leaves nothing of what it began.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.normalize()
	if err != nil {
		return nil, err
	}
	return up(ctx, o)
}

// Down ends the cluster and removes everything of it; no such cluster is no
// error. It needs nothing but the name, so that it also clears what a killed
// Up left.
func Down(ctx context.Context, stateDir, name string) error {
	stateDir, err := nameAndDir(stateDir, &name)
	if err != nil {
		return err
	}
	return down(ctx, stateDir, name)
}

// Open finds a cluster by its name; it need not run.
func Open(stateDir, name string) (*Cluster, error) {
	stateDir, err := nameAndDir(stateDir, &name)
	if err != nil {
		return nil, err
	}
	s, err := readState(stateDir, name)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, fault.Usagef("make it with: drainproof cluster up "+name+" (drainproof cluster list shows what is there)",
			"there is no local cluster %s", name)
	}
	return newCluster(stateDir, *s), nil
}

// List gives all clusters in order of their names. Folders without a state
// that can be read are left out: Down clears them.
func List(stateDir string) ([]*Cluster, error) {
	stateDir, err := realStateDir(stateDir)
	if err != nil {
		return nil, err
	}
	names, err := stateNames(stateDir)
	if err != nil {
		return nil, err
	}
	var cs []*Cluster
	for _, name := range names {
		if s, err := readState(stateDir, name); err == nil && s != nil {
			cs = append(cs, newCluster(stateDir, *s))
		}
	}
	return cs, nil
}

// Names gives the names of all clusters of which anything is left, also of
// those whose state cannot be read.
func Names(stateDir string) ([]string, error) {
	stateDir, err := realStateDir(stateDir)
	if err != nil {
		return nil, err
	}
	return stateNames(stateDir)
}

func nameAndDir(stateDir string, name *string) (string, error) {
	if *name == "" {
		*name = DefaultName
	}
	if err := checkName(*name); err != nil {
		return "", err
	}
	return realStateDir(stateDir)
}

func newCluster(stateDir string, s state) *Cluster {
	return &Cluster{stateDir: stateDir, state: s, plan: s.plan(stateDir)}
}

// Name of the cluster.
func (c *Cluster) Name() string { return c.state.Name }

// Dir is the folder that holds everything of the cluster.
func (c *Cluster) Dir() string { return c.plan.Dir }

// Context is the name of the context in its kubeconfig.
func (c *Cluster) Context() string { return contextName(c.state.Name) }

// Version is the version of Kubernetes, such as v1.37.2.
func (c *Cluster) Version() string { return c.state.Version }

// ProxyMode is iptables or nftables.
func (c *Cluster) ProxyMode() string { return c.state.ProxyMode }

// Workers is the number of nodes beside the control plane.
func (c *Cluster) Workers() int { return c.state.Workers }

// Server is the address of the API server.
func (c *Cluster) Server() string { return c.plan.server() }

// PartsDir holds the programs of Kubernetes, kubectl among them.
func (c *Cluster) PartsDir() string { return c.state.PartsDir }

// Subnet holds every address of the cluster.
func (c *Cluster) Subnet() netip.Prefix { return c.plan.Subnet }

// Nodes lists the nodes, the control plane first.
func (c *Cluster) Nodes() []Node {
	var ns []Node
	for _, n := range c.plan.Nodes {
		ns = append(ns, Node{Name: n.Name, ControlPlane: n.ControlPlane, Addr: n.Addr, Pods: n.Pods, Netns: n.Netns})
	}
	return ns
}

// Kubeconfig gives the administrator's kubeconfig, keys included.
func (c *Cluster) Kubeconfig() ([]byte, error) {
	b, err := os.ReadFile(c.plan.adminKubeconfig())
	if errors.Is(err, fs.ErrPermission) {
		return nil, fault.Usagef("run it as root (sudo)", "the kubeconfig of cluster %s may be read by root only", c.Name())
	}
	if err != nil {
		return nil, fault.Measuref(err, "make the cluster anew: drainproof cluster up "+c.Name(), "cluster %s has no kubeconfig", c.Name())
	}
	return b, nil
}

// KubeconfigPath is the file that Kubeconfig reads; it goes with the cluster.
func (c *Cluster) KubeconfigPath() string { return c.plan.adminKubeconfig() }

// Logs lists the log files. Empty node or part means all of them.
func (c *Cluster) Logs(node, part string) ([]Log, error) {
	var logs []Log
	for _, n := range c.plan.Nodes {
		if node != "" && node != n.Name && node != n.Short {
			continue
		}
		for _, name := range n.processes() {
			// The holder of the namespaces never says anything.
			if name == procNode || (part != "" && part != name) {
				continue
			}
			logs = append(logs, Log{Node: n.Name, Part: name, Path: c.plan.logFile(n, name)})
		}
	}
	if len(logs) == 0 {
		return nil, fault.Usagef("leave both out to see all", "cluster %s has no logs of part %q on node %q", c.Name(), part, node)
	}
	return logs, nil
}

// LoadImage puts the images of an OCI or docker archive into every node.
func (c *Cluster) LoadImage(ctx context.Context, archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return fmt.Errorf("locate image archive: %w", err)
	}
	if st, err := os.Stat(archive); err != nil || !st.Mode().IsRegular() {
		return fault.Usagef("give an archive made by drainproof image save or docker save", "image archive %s cannot be read", archive)
	}
	return loadImage(ctx, c.plan, archive)
}
