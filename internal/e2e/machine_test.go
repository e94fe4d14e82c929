//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// machine is a node of the shared cluster as this machine has it.
type machine struct {
	name string
	// port is its end of the cable at the cluster's switch.
	port string
	// holder is the process that holds its namespaces, and proxy its kube-proxy.
	holder, proxy int
	// netns is the inode of its network namespace, and netnsName its name below /run/netns.
	netns     uint64
	netnsName string
	// cgroup is a part of the path of everything that runs on it.
	cgroup string
}

// machines lists the nodes of the shared cluster: the control plane first, then the workers.
func machines(t *testing.T) []machine {
	t.Helper()
	var status struct {
		Nodes []struct {
			Name string `json:"name"`
		} `json:"nodes"`
		Processes []struct {
			Node string `json:"node"`
			Part string `json:"part"`
			PID  int    `json:"pid"`
		} `json:"processes"`
	}
	if err := json.Unmarshal([]byte(must(t, "cluster", "status", clusterName, "-o", "json").out), &status); err != nil {
		t.Fatal(err)
	}
	var list []machine
	for i, n := range status.Nodes {
		m := machine{name: n.Name, port: fmt.Sprintf("node%d", i)}
		for _, p := range status.Processes {
			switch {
			case p.Node != n.Name:
			case p.Part == "node":
				m.holder = p.PID
			case p.Part == "kube-proxy":
				m.proxy = p.PID
			}
		}
		m.netns = netnsOf(m.holder)
		names, _ := filepath.Glob("/run/netns/*")
		for _, name := range names {
			var st syscall.Stat_t
			if syscall.Stat(name, &st) == nil && st.Ino == m.netns {
				m.netnsName = filepath.Base(name)
			}
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", m.holder))
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		_, path, _ := strings.Cut(line[strings.IndexByte(line, ':')+1:], ":")
		m.cgroup = strings.TrimSuffix(path, "parts")
		if m.netns == 0 || m.netnsName == "" || m.cgroup == path || m.proxy == 0 {
			t.Fatalf("node %s is not understood: %+v", n.Name, m)
		}
		list = append(list, m)
	}
	if len(list) != 3 {
		t.Fatalf("%d nodes, want 3", len(list))
	}
	return list
}

// netnsOf gives the inode of a process's network namespace; 0 for none.
func netnsOf(pid int) uint64 {
	var st syscall.Stat_t
	if syscall.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st) != nil {
		return 0
	}
	return st.Ino
}

// processes lists all of this machine, by number.
func processes() (pids []int) {
	list, _ := os.ReadDir("/proc")
	for _, d := range list {
		if pid, err := strconv.Atoi(d.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// sessions lists the processes of agents' sessions on the node.
func (m machine) sessions() (pids []int) {
	for _, pid := range processes() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.HasSuffix(args, []byte("drainproof\x00agent\x00watch\x00")) && netnsOf(pid) == m.netns {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killSessions ends the agent's sessions on the node with SIGKILL, and reports how many there were.
func (m machine) killSessions() int {
	pids := m.sessions()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(pids)
}

// powerOff pulls the node's cable and kills all that runs on it: its programs, and its Pods. Its disk stays.
func (m machine) powerOff() error {
	if err := m.cable("down"); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := 0
		for _, pid := range processes() {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			if pid == m.holder || !strings.Contains(string(text), m.cgroup) {
				continue
			}
			if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(stat), ") Z ") {
				continue
			}
			left++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of node %s do not end", left, m.name)
		}
	}
}

// powerOn plugs it in again. Its programs are started by repairing the cluster.
func (m machine) powerOn() error { return m.cable("up") }

func (m machine) cable(state string) error {
	i := strings.LastIndex(m.netnsName, "-")
	if strings.HasSuffix(m.netnsName, "-control-plane") {
		i = len(m.netnsName) - len("-control-plane")
	}
	out, err := exec.Command("ip", "-n", m.netnsName[:i]+"-switch", "link", "set", m.port, state).CombinedOutput()
	if err != nil {
		return fmt.Errorf("the cable of node %s: %w: %s", m.name, err, out)
	}
	return nil
}

// repair starts what does not run of the shared cluster.
func repair() error {
	if out, err := clusterUp().CombinedOutput(); err != nil {
		return fmt.Errorf("cluster up: %w\n%s", err, out)
	}
	return nil
}

// foreignRules are the node's rules without kube-proxy's own chains, which come and go with Services, and without counters.
func (m machine) foreignRules(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "netns", "exec", m.netnsName, "nft", "--stateless", "list", "ruleset").CombinedOutput()
	if err != nil {
		t.Fatalf("listing the rules of node %s: %v\n%s", m.name, err, out)
	}
	var kept []string
	skip := false
	for _, line := range strings.Split(string(out), "\n") {
		if strings.HasPrefix(line, "\tchain KUBE-") {
			skip = true
		}
		if !skip && line != "" { // blank ones stand between chains
			kept = append(kept, line)
		}
		if line == "\t}" {
			skip = false
		}
	}
	return strings.Join(kept, "\n")
}

// bpf is what is loaded into the kernel, by number: a number is never given again.
type bpf struct {
	programs map[ebpf.ProgramID]bool
	maps     map[ebpf.MapID]bool
	links    map[link.ID]bool
}

// loadedBPF lists it.
func loadedBPF(t *testing.T) bpf {
	t.Helper()
	b := bpf{map[ebpf.ProgramID]bool{}, map[ebpf.MapID]bool{}, map[link.ID]bool{}}
	var err error
	for id := ebpf.ProgramID(0); ; b.programs[id] = true {
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
	for id := ebpf.MapID(0); ; b.maps[id] = true {
		if id, err = ebpf.MapGetNextID(id); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
	var it link.Iterator
	defer it.Close()
	for it.Next() {
		b.links[it.ID] = true
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return b
}

// without is what is not in other.
func (b bpf) without(other bpf) bpf {
	return bpf{minus(b.programs, other.programs), minus(b.maps, other.maps), minus(b.links, other.links)}
}

func minus[K comparable](a, b map[K]bool) map[K]bool {
	left := map[K]bool{}
	for k := range a {
		if !b[k] {
			left[k] = true
		}
	}
	return left
}

// and is what is in both.
func (b bpf) and(other bpf) bpf { return b.without(b.without(other)) }

func (b bpf) empty() bool { return len(b.programs)+len(b.maps)+len(b.links) == 0 }

// gone waits until nothing of it is loaded any more: the kernel frees programs after a grace period.
func (b bpf) gone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		left := b.and(loadedBPF(t))
		if left.empty() {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d programs, %d maps and %d links are still loaded", len(left.programs), len(left.maps), len(left.links))
			return
		}
	}
}

// pinned lists what is pinned in BPF file systems of this machine and its nodes.
func pinned(t *testing.T, nodes []machine) (paths []string) {
	t.Helper()
	roots := []string{"/sys/fs/bpf"}
	for _, m := range nodes {
		roots = append(roots, fmt.Sprintf("/proc/%d/root/sys/fs/bpf", m.holder))
	}
	for _, root := range roots {
		list, err := os.ReadDir(root)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, d := range list {
			paths = append(paths, filepath.Join(root, d.Name()))
		}
	}
	slices.Sort(paths)
	return paths
}
