package containers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The namespaces of a made-up node.
const nodeNet, nodeMnt, nodePID = 10, 11, 12

// fakeProc is a /proc of processes that a test makes up.
type fakeProc struct {
	t   testing.TB
	dir string
}

func newFakeProc(t testing.TB) fakeProc {
	f := fakeProc{t, t.TempDir()}
	f.add(1, 0, "systemd", "0::/init.scope\n", nodeNet, nodeMnt, nodePID)
	return f
}

// add puts a process there, in the place of one that had its number.
func (f fakeProc) add(pid, started int, comm, cgroup string, netns, mntns, pidns int) {
	f.t.Helper()
	made := filepath.Join(f.dir, "new")
	if err := os.MkdirAll(filepath.Join(made, "ns"), 0o700); err != nil {
		f.t.Fatal(err)
	}
	flags := 0x400100
	if cgroup == kernelThread {
		flags |= isKernelThread
	}
	stat := fmt.Sprintf("%d (%s) S 1 1 1 0 -1 %d 100 0 0 0 1 2 0 0 20 0 1 0 %d 1000 100\n", pid, comm, flags, started)
	for name, text := range map[string]string{"stat": stat, "cgroup": cgroup} {
		if err := os.WriteFile(filepath.Join(made, name), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	for i, inode := range []int{netns, mntns, pidns} {
		name := kindNames[i]
		if err := os.Symlink(fmt.Sprintf("%s:[%d]", name, inode), filepath.Join(made, "ns", name)); err != nil {
			f.t.Fatal(err)
		}
	}
	// The old one is there until the new one is: their folders have different inodes, as the kernel's have.
	path := filepath.Join(f.dir, fmt.Sprint(pid))
	if err := os.Rename(path, filepath.Join(f.dir, "old")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.t.Fatal(err)
	}
	if err := os.Rename(made, path); err != nil {
		f.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.dir, "old")); err != nil {
		f.t.Fatal(err)
	}
}

// kernelThread as a cgroup makes one of the kernel's.
const kernelThread = "0::/kernel\n"

func (f fakeProc) remove(pids ...int) {
	f.t.Helper()
	for _, pid := range pids {
		if err := os.RemoveAll(filepath.Join(f.dir, fmt.Sprint(pid))); err != nil {
			f.t.Fatal(err)
		}
	}
}

// in is the cgroup of a container in a Pod.
func in(pod, id string) string { return "0::/kubepods/besteffort/pod" + pod + "/" + id + "\n" }

// number makes an id of a container.
func number(n int) string { return fmt.Sprintf("%064x", n) }

// seconds in the tests' clock.
func seconds(n float64) int64 { return int64(n * float64(time.Second)) }

func scan(t *testing.T, m *Map, nowNs int64) {
	t.Helper()
	if err := m.Scan(nowNs); err != nil {
		t.Fatal(err)
	}
}

func TestPodsAndContainers(t *testing.T) {
	f := newFakeProc(t)
	f.add(2, 0, "kthreadd", kernelThread, nodeNet, nodeMnt, nodePID)
	f.add(300, 30, "kubelet", "0::/system.slice/kubelet.service\n", nodeNet, nodeMnt, nodePID)
	// A Pod of a sandbox and a container with two processes; the second has the lower number.
	f.add(400, 40, "pause", in(podA, number(1)), 100, 101, 102)
	f.add(500, 50, "a) (b", in(podA, number(2)), 100, 111, 112)
	f.add(450, 60, "child", in(podA, number(2)), 100, 111, 112)
	// One that uses the node's network, whose containers share their PID namespace.
	f.add(600, 61, "pause", in(podB, number(3)), nodeNet, 121, 122)
	f.add(601, 62, "proxy", in(podB, number(4)), nodeNet, 131, 122)
	// One that is in no Pod.
	f.add(700, 70, "nginx", "0::/system.slice/docker-"+number(5)+".scope\n", 140, 141, 142)
	// A container of the first Pod runs others in itself.
	f.add(800, 80, "inner", in(podA, number(2))[:len(in(podA, number(2)))-1]+"/docker/"+number(6)+"\n", 150, 151, 152)
	if err := os.WriteFile(filepath.Join(f.dir, "12x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.dir, "999"), 0o700); err != nil { // ended while it was looked at
		t.Fatal(err)
	}
	m := New(f.dir)
	scan(t, m, 5)

	app := Container{PodUID: podA, ID: number(2), PID: 500, Comm: "a) (b", NetNs: 100, MntNs: 111, PIDNs: 112, FirstNs: 5, LastNs: 5}
	pause := Container{PodUID: podA, ID: number(1), PID: 400, Comm: "pause", NetNs: 100, MntNs: 101, PIDNs: 102, FirstNs: 5, LastNs: 5}
	proxy := Container{PodUID: podB, ID: number(4), PID: 601, Comm: "proxy", MntNs: 131, PIDNs: 122, FirstNs: 5, LastNs: 5}
	docker := Container{ID: number(5), PID: 700, Comm: "nginx", NetNs: 140, MntNs: 141, PIDNs: 142, FirstNs: 5, LastNs: 5}
	for _, tt := range []struct {
		name                string
		netns, mntns, pidns uint32
		want                Container
	}{
		{"all three", 100, 111, 112, app},
		{"the sandbox", 100, 101, 102, pause},
		{"by its mount namespace", 0, 111, 0, app},
		{"by its PID namespace", 0, 0, 112, app},
		{"only the Pod's network", 100, 0, 0, Container{PodUID: podA, NetNs: 100, FirstNs: 5, LastNs: 5}},
		{"on the node's network", nodeNet, 131, 122, proxy},
		{"only a shared PID namespace", nodeNet, 0, 122, Container{PodUID: podB, FirstNs: 5, LastNs: 5}},
		{"in no Pod", 140, 0, 0, docker},
		{"nested", 150, 151, 152, app},
		{"nested, by its network", 150, 0, 0, Container{PodUID: podA, NetNs: 100, FirstNs: 5, LastNs: 5}},
		{"the node", nodeNet, nodeMnt, nodePID, Container{}},
		{"unknown", 1, 2, 3, Container{}},
		{"nothing", 0, 0, 0, Container{}},
	} {
		if got, ok := m.Lookup(tt.netns, tt.mntns, tt.pidns); got != tt.want || ok != (tt.want != Container{}) {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, ok, tt.want)
		}
	}
	if got, want := m.Pods(), []Pod{{podA, 100, 5, 5}, {podB, 0, 5, 5}}; !slices.Equal(got, want) {
		t.Errorf("Pods %+v, want %+v", got, want)
	}
	for netns, want := range map[uint32]string{100: podA, 150: podA, nodeNet: "", 140: "", 0: ""} {
		if got, ok := m.PodByNetNs(netns); got.UID != want || ok != (want != "") {
			t.Errorf("network namespace %d: %+v, %v; want %q", netns, got, ok, want)
		}
	}
}

func TestTheGoneAreRemembered(t *testing.T) {
	f := newFakeProc(t)
	f.add(400, 40, "pause", in(podA, number(1)), 100, 101, 102)
	f.add(500, 50, "app", in(podA, number(2)), 100, 111, 112)
	m := New(f.dir)
	scan(t, m, 1)
	scan(t, m, 2)
	f.remove(500)
	scan(t, m, 3)
	if c, ok := m.Lookup(100, 111, 112); !ok || c.ID != number(2) || c.FirstNs != 1 || c.LastNs != 2 {
		t.Errorf("the container that ended: %+v, %v", c, ok)
	}
	if p, ok := m.PodByNetNs(100); !ok || p != (Pod{podA, 100, 1, 3}) {
		t.Errorf("its Pod, of which the sandbox is left: %+v, %v", p, ok)
	}
	f.remove(400)
	scan(t, m, 4)
	if p, ok := m.PodByNetNs(100); !ok || p != (Pod{podA, 100, 1, 3}) {
		t.Errorf("its Pod, of which nothing is left: %+v, %v", p, ok)
	}
	// Its namespaces' inodes are another's then.
	f.add(900, 90, "pause", in(podB, number(3)), 100, 111, 113)
	scan(t, m, 5)
	if c, ok := m.Lookup(100, 111, 113); !ok || c.ID != number(3) {
		t.Errorf("the next one's: %+v, %v", c, ok)
	}
	if p, ok := m.PodByNetNs(100); !ok || p != (Pod{podB, 100, 5, 5}) {
		t.Errorf("the next one's Pod: %+v, %v", p, ok)
	}
	if c, ok := m.Lookup(0, 0, 112); !ok || c.ID != number(2) {
		t.Errorf("by what nobody has since: %+v, %v", c, ok)
	}
	// A Pod may get a new sandbox.
	f.remove(900)
	f.add(910, 91, "pause", in(podB, number(4)), 200, 201, 202)
	scan(t, m, 6)
	if got, want := m.Pods(), []Pod{{podA, 100, 1, 3}, {podB, 200, 5, 6}}; !slices.Equal(got, want) {
		t.Errorf("Pods %+v, want %+v", got, want)
	}
}

func TestVisitorsOwnNothing(t *testing.T) {
	f := newFakeProc(t)
	f.add(300, 30, "agent", in(podB, number(9)), nodeNet, 91, 92)
	f.add(400, 40, "pause", in(podA, number(1)), 100, 101, 102)
	f.add(350, 50, "nsenter", in(podB, number(9)), 100, 101, 92)
	m := New(f.dir)
	owner := func(when string) {
		t.Helper()
		if p, ok := m.PodByNetNs(100); !ok || p.UID != podA {
			t.Errorf("%s: %+v, %v", when, p, ok)
		}
		if c, ok := m.Lookup(0, 101, 0); !ok || c.PodUID != podA {
			t.Errorf("%s: %+v, %v", when, c, ok)
		}
	}
	scan(t, m, 1)
	owner("both at once")
	f.add(300, 30, "agent", in(podB, number(9)), 100, 101, 92) // it is older, but comes later
	scan(t, m, 2)
	owner("an older process comes")
	f.remove(400)
	scan(t, m, 3)
	owner("only visitors are left, so that its inode is no other's")
	if c, ok := m.See(350, 4); !ok || c.PodUID != podB {
		t.Errorf("the visitor itself: %+v, %v", c, ok)
	}
	owner("a visitor was looked at")
}

// runc starts a container's process in the node's namespaces, and moves it by steps.
func TestProcessesSettle(t *testing.T) {
	f := newFakeProc(t)
	f.add(400, 40, "runc", "0::/system.slice/containerd.service\n", nodeNet, nodeMnt, nodePID)
	m := New(f.dir)
	scan(t, m, seconds(1))
	f.add(400, 40, "runc", in(podA, number(1)), nodeNet, nodeMnt, nodePID)
	scan(t, m, seconds(2))
	if c, ok := m.Lookup(nodeNet, nodeMnt, nodePID); ok {
		t.Errorf("the node's namespaces are %+v", c)
	}
	f.add(400, 40, "app", in(podA, number(1)), 100, 101, 102)
	scan(t, m, seconds(3))
	want := Container{PodUID: podA, ID: number(1), PID: 400, Comm: "app", NetNs: 100, MntNs: 101, PIDNs: 102, FirstNs: seconds(2), LastNs: seconds(3)}
	if c, ok := m.Lookup(100, 101, 102); !ok || c != want {
		t.Errorf("%+v, %v; want %+v", c, ok, want)
	}
	if got, want := m.Pods(), []Pod{{podA, 100, seconds(2), seconds(3)}}; !slices.Equal(got, want) {
		t.Errorf("Pods %+v, want %+v", got, want)
	}

	// After a while it is not read any more: what its files say then is not noticed.
	scan(t, m, seconds(12))
	if err := os.WriteFile(filepath.Join(f.dir, "400", "cgroup"), []byte(in(podB, number(7))), 0o600); err != nil {
		t.Fatal(err)
	}
	scan(t, m, seconds(13))
	if c, ok := m.Lookup(100, 101, 102); !ok || c.ID != number(1) || c.LastNs != seconds(13) {
		t.Errorf("a settled process: %+v, %v", c, ok)
	}
	// Another process with its number is another.
	f.add(400, 99, "next", in(podB, number(7)), 200, 201, 202)
	scan(t, m, seconds(14))
	if c, ok := m.Lookup(200, 201, 202); !ok || c.ID != number(7) || c.Comm != "next" || c.FirstNs != seconds(14) {
		t.Errorf("the next process of that number: %+v, %v", c, ok)
	}
	if c, ok := m.Lookup(100, 101, 102); !ok || c.ID != number(1) || c.LastNs != seconds(13) {
		t.Errorf("the one before: %+v, %v", c, ok)
	}
}

// At an agent's start all processes but its own are old: they are read once.
func TestOldProcessesAreSettled(t *testing.T) {
	f := newFakeProc(t)
	f.add(400, 40, "app", in(podA, number(1)), 100, 101, 102)
	f.add(500, 40+int(settledTicks), "agent", in(podB, number(2)), 200, 201, 202)
	m := New(f.dir)
	scan(t, m, 1)
	for pid, cgroup := range map[int]string{400: in(podB, number(3)), 500: in(podB, number(4))} {
		if err := os.WriteFile(filepath.Join(f.dir, fmt.Sprint(pid), "cgroup"), []byte(cgroup), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scan(t, m, 2)
	if c, ok := m.Lookup(100, 101, 102); !ok || c.ID != number(1) || c.LastNs != 2 {
		t.Errorf("an old process was read again: %+v, %v", c, ok)
	}
	if c, ok := m.Lookup(200, 201, 202); !ok || c.ID != number(4) {
		t.Errorf("a new process was not read again: %+v, %v", c, ok)
	}
}

func TestSee(t *testing.T) {
	f := newFakeProc(t)
	f.add(300, 30, "kubelet", "0::/system.slice/kubelet.service\n", nodeNet, nodeMnt, nodePID)
	f.add(310, 31, "proxy", in(podHash, number(9)), nodeNet, 91, 92)
	f.add(400, 40, "pause", in(podA, number(1)), 100, 101, 102)
	m := New(f.dir)
	if c, ok := m.See(310, 1); !ok || c.NetNs != 0 || c.MntNs != 91 {
		t.Errorf("one on the node's network: %+v, %v", c, ok)
	}
	if p, ok := m.PodByNetNs(nodeNet); ok {
		t.Errorf("the node's network is %+v", p)
	}
	if c, ok := m.See(400, 1); !ok || c.ID != number(1) || c.NetNs != 100 || c.FirstNs != 1 {
		t.Errorf("before any scan: %+v, %v", c, ok)
	}
	if p, ok := m.PodByNetNs(100); !ok || p.UID != podA {
		t.Errorf("its Pod: %+v, %v", p, ok)
	}
	for _, pid := range []int{300, 301} {
		if c, ok := m.See(pid, 2); ok {
			t.Errorf("process %d: %+v", pid, c)
		}
	}
	// The Pod ends, and the next one gets its namespaces' inodes before a scan.
	f.remove(400)
	f.add(500, 50, "pause", in(podB, number(2)), 100, 101, 102)
	if c, ok := m.See(500, 3); !ok || c.ID != number(2) || c.FirstNs != 3 {
		t.Errorf("the next one's: %+v, %v", c, ok)
	}
	if p, ok := m.PodByNetNs(100); !ok || p != (Pod{podB, 100, 3, 3}) {
		t.Errorf("the next one's Pod: %+v, %v", p, ok)
	}
	if c, ok := m.Lookup(0, 101, 0); !ok || c.ID != number(2) {
		t.Errorf("by a namespace: %+v, %v", c, ok)
	}
}

func TestErrors(t *testing.T) {
	f := newFakeProc(t)
	f.add(400, 40, "pause", in(podA, number(1)), 100, 101, 102)
	f.add(500, 50, "app", in(podA, number(2)), 100, 111, 112)
	if err := os.WriteFile(filepath.Join(f.dir, "500", "stat"), []byte("500 (app) S\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := New(f.dir)
	if err := m.Scan(1); err == nil || !strings.Contains(err.Error(), "process 500") || !strings.Contains(err.Error(), "too short") {
		t.Errorf("a stat that is cut: %v", err)
	}
	if c, ok := m.Lookup(0, 101, 0); !ok || c.ID != number(1) {
		t.Errorf("the other one: %+v, %v", c, ok)
	}
	if err := New(filepath.Join(f.dir, "none")).Scan(1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no proc file system: %v", err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := New(t.TempDir())
	const rounds, each = 12, 1000
	for round := range rounds {
		var processes []*process
		for i := range each {
			n := round*each + i
			pod := fmt.Sprintf("%032x", n/2)
			inode := uint32(100 + 3*n)
			processes = append(processes, &process{
				pid: 1000 + n, key: key{pod, number(n)}, namespaces: [kinds]uint32{inode, inode + 1, inode + 2},
				firstNs: int64(round), sinceNs: int64(round),
			})
		}
		m.learn(slices.Values(processes), int64(round), true)
	}
	if n := len(m.containers); n > maxContainers || n < maxContainers/2 {
		t.Errorf("%d containers are kept", n)
	}
	if len(m.pods) > len(m.containers) || len(m.pods) == 0 {
		t.Errorf("%d Pods are kept", len(m.pods))
	}
	for kind, owners := range m.owners {
		if len(owners) > maxNamespaces {
			t.Errorf("%d namespaces of %s are kept", len(owners), kindNames[kind])
		}
		for inode, o := range owners {
			if m.containers[o.key] == nil || m.pods[o.key.pod] == nil {
				t.Fatalf("%s:[%d] is of one that is forgotten", kindNames[kind], inode)
			}
		}
	}
	// All that live are known.
	for n := (rounds - 1) * each; n < rounds*each; n++ {
		if c, ok := m.Lookup(0, uint32(100+3*n+1), 0); !ok || c.ID != number(n) {
			t.Fatalf("container %d: %+v, %v", n, c, ok)
		}
	}
}

func TestAtTheSameTime(t *testing.T) {
	f := newFakeProc(t)
	f.add(400, 40, "pause", in(podA, number(1)), 100, 101, 102)
	m := New(f.dir)
	scan(t, m, 1)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 20 {
				at := int64(2 + 20*i + n)
				switch i {
				case 0:
					if err := m.Scan(at); err != nil {
						t.Error(err)
					}
				case 1:
					if c, ok := m.See(400, at); !ok || c.ID != number(1) {
						t.Errorf("%+v, %v", c, ok)
					}
				default:
					if c, ok := m.Lookup(100, 101, 102); !ok || c.ID != number(1) {
						t.Errorf("%+v, %v", c, ok)
					}
					if pods := m.Pods(); len(pods) != 1 {
						t.Errorf("%+v", pods)
					}
				}
			}
		})
	}
	all.Wait()
}

// This machine's own processes.
func TestRealProc(t *testing.T) {
	m := New("/proc")
	if err := m.Scan(seconds(1)); err != nil && !errors.Is(err, fs.ErrPermission) { // it is of another user's container
		t.Fatal(err)
	}
	own := m.reader.processes[os.Getpid()]
	if own == nil || own.startedTicks == 0 || own.comm == "" || own.namespaces[netNs] == 0 {
		t.Fatalf("this process is %+v", own)
	}
	if err := m.Scan(seconds(20)); err != nil && !errors.Is(err, fs.ErrPermission) {
		t.Fatal(err)
	}
	if again := m.reader.processes[os.Getpid()]; again == nil || again.startedTicks != own.startedTicks || !again.settled {
		t.Errorf("and later %+v", again)
	}
	for _, pod := range m.Pods() {
		if pod.NetNs == 0 || pod.LastNs != seconds(20) {
			continue // its inode may be another's by now
		}
		if found, ok := m.PodByNetNs(pod.NetNs); !ok || found.UID != pod.UID {
			t.Errorf("%+v is not found by its network namespace, but %+v, %v", pod, found, ok)
		}
	}
}
