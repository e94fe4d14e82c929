package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/osthread"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
)

const (
	podPort = 8080
	podUID  = "0badcafe-0000-4000-8000-00000000be9c"
)

// front is the Service's address, behind which the Pod is.
var front = netip.MustParseAddrPort("10.204.0.1:80")

// rules are those of kube-proxy in its nftables mode for one Service of one Pod.
const rules = `table ip kube-proxy {
  chain service-bench {
    meta l4proto tcp dnat to 10.202.2.2:8080
  }
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.204.0.1 . tcp . 80 : goto service-bench }
  }
  map service-nodeports { type inet_proto . inet_service : verdict; }
  map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }
  map no-endpoint-nodeports { type inet_proto . inet_service : verdict; }
  chain services {
    ip daddr . meta l4proto . th dport vmap @service-ips
    fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @service-nodeports
  }
  chain nat-prerouting {
    type nat hook prerouting priority -100
    jump services
  }
}
`

// stage is a node with one Pod, and a client elsewhere.
type stage struct {
	node        *os.File // its network namespace
	pod, client *process
	// block counts the loads.
	block int
}

// newStage makes one whose Pod runs that server. It ends with the benchmark.
func newStage(b *testing.B, server string) *stage {
	b.Helper()
	testkit.Require(b, testkit.Root, testkit.Program("ip"), testkit.Program("nft"), testkit.Program("go"))
	s := &stage{}
	err := osthread.Run(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		var err error
		s.node, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if errors.Is(err, unix.EPERM) {
		b.Skip("needs the right to make a network namespace: ", err)
	} else if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.node.Close() })
	cgroup := newCgroup(b) // before the process that is put into it, so that it is removed after its end
	s.pod = start(b, "pod", unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWPID)
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), fmt.Append(nil, s.pod.Process.Pid), 0); err != nil {
		b.Fatal(err)
	}
	s.client = start(b, "client", unix.CLONE_NEWNET)
	s.in(b, s.node, func() error {
		return errors.Join(run("ip", "-batch", "-", fmt.Sprintf(`link set lo up
link add toclient type veth peer name eth0 netns %d
link add topod type veth peer name eth0 netns %d
link set toclient up
link set topod up
addr add 10.202.1.1/24 dev toclient
addr add 10.202.2.1/24 dev topod
route add 10.203.0.0/16 via 10.202.1.2
`, s.client.Process.Pid, s.pod.Process.Pid)), run("nft", "-f", "-", rules), sysctl("net/ipv4/ip_forward", "1"),
			// Entries end while the load goes on, as in a trial that is longer than two minutes.
			sysctl("net/netfilter/nf_conntrack_tcp_timeout_time_wait", "2"))
	})
	for p, text := range map[*process]string{
		s.client: "link set lo up\nlink set eth0 up\naddr add 10.202.1.2/24 dev eth0\nroute add default via 10.202.1.1\nroute add local 10.203.0.0/16 dev lo\n",
		s.pod:    "link set lo up\nlink set eth0 up\naddr add 10.202.2.2/24 dev eth0\nroute add default via 10.202.2.1\n",
	} {
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", p.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		s.in(b, ns, func() error {
			return errors.Join(run("ip", "-batch", "-", text), sysctl("net/ipv4/tcp_max_tw_buckets", "2000000"))
		})
		_ = ns.Close()
	}
	tell[bool](b, s.pod, order{Do: "serve", Server: server})
	return s
}

// in runs f in a network namespace.
func (s *stage) in(b *testing.B, ns *os.File, f func() error) {
	b.Helper()
	err := osthread.Run(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
	if err != nil {
		b.Fatal(err)
	}
}

// run runs a program with all of its arguments but the last, which it gets as its input.
func run(program string, args ...string) error {
	last := len(args) - 1
	c := exec.Command(program, args[:last]...)
	c.Stdin = strings.NewReader(args[last])
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}

// sysctl sets one of the calling thread's network namespace.
func sysctl(name, value string) error { return os.WriteFile("/proc/sys/"+name, []byte(value), 0) }

// newCgroup makes one such as the kubelet and a runtime make for a container.
func newCgroup(b *testing.B) (dir string) {
	b.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		b.Fatal(err)
	}
	var mount string
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		if f, is := strings.Fields(before), strings.Fields(after); len(f) > 4 && (is[0] == "cgroup2" || is[0] == "cgroup" && mount == "") {
			mount = f[4]
		}
	}
	if mount == "" {
		b.Skip("needs a cgroup file system, by which an agent tells a Pod's processes")
	}
	root, err := os.MkdirTemp(mount, "drainproof-bench-")
	if err != nil {
		b.Skipf("needs to make a cgroup, by which an agent tells a Pod's processes: %v", err)
	}
	pod := filepath.Join(root, "pod"+podUID)
	dir = filepath.Join(pod, strings.Repeat("be", 32))
	b.Cleanup(func() {
		for _, d := range []string{dir, pod, root} {
			if err := os.Remove(d); err != nil {
				b.Error(err)
			}
		}
	})
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	return dir
}

// load lets the client send.
func (s *stage) load(b *testing.B, l load) (loaded, int) {
	b.Helper()
	s.block++
	l.Block = s.block
	r := tell[loaded](b, s.client, order{Do: "load", Load: l})
	if r.Failed > 0 {
		b.Errorf("%d of %d requests failed, as did this: %s", r.Failed, r.Failed+r.requests(), r.Why)
	}
	return r, l.Block
}

// watcher is an agent in its session.
type watcher struct {
	*agent.Session
	command *exec.Cmd
	// startCPUNs is what its process took until it watched.
	startCPUNs int64

	mu    sync.Mutex
	facts []agent.Fact
	gaps  []agent.Gap
}

func (w *watcher) pid() int { return w.command.Process.Pid }

// watch starts an agent on the node and has it watch what a trial would: the Service's address, the Pod and its port.
func (s *stage) watch(b *testing.B) *watcher {
	b.Helper()
	path, err := program()
	if err != nil {
		b.Fatal(err)
	}
	c := exec.Command(path, "agent", "watch")
	in, out := testkit.Pipes(b, c)
	s.in(b, s.node, c.Start)
	w := &watcher{command: c}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	w.Session, err = agent.Dial(ctx, out, in, in.Close, version, agent.Heard{Facts: w.hear, Gap: w.miss})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Watch(ctx, agent.Watch{
		Pods: []string{podUID}, Fronts: []agent.Front{{Protocol: agent.TCP, Addr: front}}, Ports: []agent.Port{{Protocol: agent.TCP, Port: podPort}},
	}); err != nil {
		b.Fatal(err)
	}
	w.startCPUNs = cpuNs(b, w.pid())
	for _, sight := range w.Sights() {
		if !sight.Seen || sight.Why != "" {
			b.Logf("%s, seen: %v, missing: %s", sight.Name, sight.Seen, sight.Why)
		}
	}
	return w
}

// end ends it and gives what it lost.
func (w *watcher) end(b *testing.B) (lost map[string]uint64) {
	b.Helper()
	lost, _, err := w.End(context.WithoutCancel(b.Context()))
	if err != nil {
		b.Error(err)
	}
	if err := w.command.Wait(); err != nil {
		b.Errorf("the agent: %v", err)
	}
	return lost
}

func (w *watcher) hear(facts []agent.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts = append(w.facts, facts...)
}

func (w *watcher) miss(g agent.Gap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gaps = append(w.gaps, g)
}

// heard gives the facts of one kind so far.
func (w *watcher) heard(kind record.EventKind) (found []agent.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.facts {
		if f.Event.Kind == kind {
			found = append(found, f)
		}
	}
	return found
}
