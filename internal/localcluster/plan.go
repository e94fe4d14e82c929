package localcluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
)

// plan is everything about a cluster that follows from its name, its state
// folder and its range of addresses. It is pure data: making a plan touches nothing.
type plan struct {
	Name string
	// ID tells clusters of one name in different state folders apart; it is
	// part of every name that the kernel sees.
	ID        string
	Dir       string
	Subnet    netip.Prefix
	ProxyMode string
	Version   string
	// PartsDir holds the programs of Kubernetes.
	PartsDir string
	Nodes    []nodePlan
}

// nodePlan is one node, the control plane first.
type nodePlan struct {
	Name         string
	Short        string // the name without the cluster's: control-plane, worker, worker2
	ControlPlane bool
	Addr         netip.Addr
	Pods         netip.Prefix
	Netns        string // name below /run/netns
	Dir          string
}

// The layout of a cluster's /20, in units of one /24 from its start:
// 0 nodes, 4-7 Services, 8-15 Pods (one per node).
const (
	serviceOffset = 4 * 256
	podOffset     = 8 * 256
	apiPort       = 6443
)

// clusterID is the same for the same state folder and name, always.
func clusterID(stateDir, name string) string {
	sum := sha256.Sum256([]byte(stateDir + "\x00" + name))
	return hex.EncodeToString(sum[:4])
}

func clustersDir(stateDir string) string      { return filepath.Join(stateDir, "clusters") }
func clusterDir(stateDir, name string) string { return filepath.Join(clustersDir(stateDir), name) }

func newPlan(stateDir, name string, subnet netip.Prefix, workers int) plan {
	p := plan{Name: name, ID: clusterID(stateDir, name), Dir: clusterDir(stateDir, name), Subnet: subnet}
	for i := range workers + 1 {
		short := "control-plane"
		if i == 1 {
			short = "worker"
		} else if i > 1 {
			short = fmt.Sprintf("worker%d", i)
		}
		full := name + "-" + short
		p.Nodes = append(p.Nodes, nodePlan{
			Name: full, Short: short, ControlPlane: i == 0,
			Addr:  addOffset(subnet.Addr(), 2+i),
			Pods:  netip.PrefixFrom(addOffset(subnet.Addr(), podOffset+256*i), 24),
			Netns: p.netnsPrefix() + short,
			Dir:   filepath.Join(p.Dir, "nodes", full),
		})
	}
	return p
}

func (p plan) netnsPrefix() string { return "dp-" + p.ID + "-" }
func (p plan) switchNetns() string { return p.netnsPrefix() + "switch" }

// hostLink is the end of the cable that the host holds.
func (p plan) hostLink() string { return "dp" + p.ID }

// cgroup is the cluster's path below the root of every hierarchy.
func (p plan) cgroup() string                { return "/" + cgroupParent + "/" + p.Name + "-" + p.ID }
func (p plan) nodeCgroup(n nodePlan) string  { return p.cgroup() + "/" + n.Short }
func (p plan) partsCgroup(n nodePlan) string { return p.nodeCgroup(n) + "/parts" }

func (p plan) nodeNet() netip.Prefix { return netip.PrefixFrom(p.Subnet.Addr(), 24) }
func (p plan) hostAddr() netip.Addr  { return addOffset(p.Subnet.Addr(), 1) }
func (p plan) services() netip.Prefix {
	return netip.PrefixFrom(addOffset(p.Subnet.Addr(), serviceOffset), 22)
}
func (p plan) pods() netip.Prefix { return netip.PrefixFrom(addOffset(p.Subnet.Addr(), podOffset), 21) }

// apiService is the address of the Service default/kubernetes.
func (p plan) apiService() netip.Addr { return addOffset(p.Subnet.Addr(), serviceOffset+1) }
func (p plan) server() string {
	return "https://" + netip.AddrPortFrom(p.Nodes[0].Addr, apiPort).String()
}

func (p plan) pki(file string) string  { return filepath.Join(p.Dir, "pki", file) }
func (p plan) adminKubeconfig() string { return filepath.Join(p.Dir, "kubeconfig") }
func (p plan) pauseProgram() string    { return filepath.Join(p.Dir, "pause") }
func (p plan) pauseArchive() string    { return filepath.Join(p.Dir, "pause.tar") }
func (p plan) logFile(n nodePlan, part string) string {
	return filepath.Join(p.Dir, "logs", n.Name, part+".log")
}
func (p plan) pidFile(n nodePlan, part string) string {
	return filepath.Join(p.Dir, "pids", n.Short+"."+part+".json")
}

// processes lists the long-running programs of a node in the order of their start.
func (n nodePlan) processes() []string {
	if n.ControlPlane {
		return []string{procNode, procEtcd, procAPIServer, procContainerd, procControllerManager, procScheduler, procKubelet, procProxy}
	}
	return []string{procNode, procContainerd, procKubelet, procProxy}
}

func addOffset(a netip.Addr, n int) netip.Addr {
	b := a.As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v += uint32(n)
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}
