package dataplane

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/testkit"
)

// form is one way in which kube-proxy writes its rules.
type form struct {
	name, plane string
	load        func(t *testing.T, n namespace)
	// shrink, empty and refill leave Service "three" one endpoint, none, and two; each runs one program.
	shrink, empty, refill func(t *testing.T, n namespace)
	// comm is that program as the kernel names it; "" where it names none.
	comm string
}

func forms() []form {
	nft := func(version string) func(*testing.T, namespace) {
		return func(t *testing.T, n namespace) { n.run(t, file(t, "nftables-"+version+".nft"), "nft", "-f", "-") }
	}
	iptables := func(variant string) func(*testing.T, namespace) {
		return func(t *testing.T, n namespace) {
			n.run(t, file(t, "iptables.rules"), "iptables-"+variant+"-restore", "--noflush")
			n.run(t, file(t, "ip6tables.rules"), "ip6tables-"+variant+"-restore", "--noflush")
		}
	}
	script := func(program, text string, args ...string) func(*testing.T, namespace) {
		return func(t *testing.T, n namespace) { n.run(t, text, program, args...) }
	}
	const chain = "service-6MNTB2ND-shop/three/tcp/p"
	key := "172.30.0.41 . tcp . 80"
	var out []form
	for _, version := range []string{"1.34", "1.37"} {
		out = append(out, form{name: "nftables of " + version, plane: NFTables, load: nft(version), comm: "nft",
			shrink: script("nft", "flush chain ip kube-proxy "+chain+"\nadd rule ip kube-proxy "+chain+" meta l4proto tcp dnat to 10.244.1.3:8080\n", "-f", "-"),
			empty: script("nft", "delete element ip kube-proxy service-ips { "+key+" }\nadd element ip kube-proxy no-endpoint-services { "+key+" : goto reject-chain }\n"+
				"flush chain ip kube-proxy "+chain+"\n", "-f", "-"),
			refill: script("nft", "add rule ip kube-proxy "+chain+" meta l4proto tcp dnat ip addr . port to numgen random mod 2 map { 0 : 10.244.1.3 . 8080, 1 : 10.244.1.4 . 8080 }\n"+
				"delete element ip kube-proxy no-endpoint-services { "+key+" }\nadd element ip kube-proxy service-ips { "+key+" : goto "+chain+" }\n", "-f", "-"),
		})
	}
	for _, v := range []struct{ variant, plane, comm string }{{"nft", IPTablesNFT, "iptables-nft-re"}, {"legacy", IPTablesLegacy, ""}} {
		out = append(out, form{name: "iptables-" + v.variant, plane: v.plane, load: iptables(v.variant), comm: v.comm,
			shrink: script("iptables-"+v.variant+"-restore", iptablesThree("10.244.1.3"), "--noflush"),
			empty:  script("iptables-"+v.variant+"-restore", iptablesThree(), "--noflush"),
			refill: script("iptables-"+v.variant+"-restore", iptablesThree("10.244.1.3", "10.244.1.4"), "--noflush"),
		})
	}
	return out
}

// iptablesThree is what kube-proxy would restore for a Service alone: the chains that name all are written anew, as it does each time.
func iptablesThree(endpoints ...string) string {
	front := "-m tcp -p tcp -d 172.30.0.41 --dport 80 "
	filter, nat := "*filter\n:KUBE-SERVICES - [0:0]\n", "*nat\n:KUBE-SERVICES - [0:0]\n"
	if len(endpoints) == 0 {
		filter += `-A KUBE-SERVICES -m comment --comment "shop/three:p has no endpoints" ` + front + "-j REJECT\n"
	} else {
		nat += ":KUBE-SVC-NEW - [0:0]\n"
		for _, e := range endpoints {
			nat += ":KUBE-SEP-NEW-" + e + " - [0:0]\n"
		}
		nat += "-A KUBE-SERVICES " + front + "-j KUBE-SVC-NEW\n"
		for i, e := range endpoints {
			chance := ""
			if i < len(endpoints)-1 {
				chance = "-m statistic --mode random --probability 0.5 "
			}
			nat += "-A KUBE-SVC-NEW " + chance + "-j KUBE-SEP-NEW-" + e + "\n"
			nat += "-A KUBE-SEP-NEW-" + e + " -s " + e + " -j KUBE-MARK-MASQ\n-A KUBE-SEP-NEW-" + e + " -m tcp -p tcp -j DNAT --to-destination " + e + ":8080\n"
		}
	}
	return filter + "COMMIT\n" + nat + "COMMIT\n"
}

// startReading reads until what it gives is called.
func startReading(t *testing.T, w *Watcher, each func(Change)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		if err := w.Read(ctx, each); err != nil {
			t.Errorf("read: %v", err)
		}
	})
	return func() { cancel(); reading.Wait() }
}

// watching is a Watcher that reads, and what it told.
type watching struct {
	mu      sync.Mutex
	changes []Change
	stop    func()
}

func watch(t *testing.T, n namespace, plane string, fronts []Front) *watching {
	t.Helper()
	w, sights, err := Open(Options{NetNS: n.path, Fronts: fronts, Poll: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if w == nil {
		t.Fatalf("nothing to read: %+v", sights)
	}
	for _, s := range sights {
		if s.Name != plane || !s.Seen || s.Why != "" {
			t.Errorf("sight %+v, not of %s", s, plane)
		}
	}
	g := &watching{}
	stopReading := startReading(t, w, func(c Change) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.changes = append(g.changes, c)
	})
	g.stop = sync.OnceFunc(func() {
		stopReading()
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if c := w.Counts(); c.Lost != 0 {
			t.Errorf("%d commits were lost: %+v", c.Lost, c)
		}
	})
	t.Cleanup(g.stop)
	return g
}

// until waits until the last change of a front is as wanted, and gives it.
func (g *watching) until(t *testing.T, f Front, is func(State) bool) Change {
	t.Helper()
	var last Change
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		g.mu.Lock()
		for _, c := range g.changes {
			if c.State.Front == f {
				last = c
			}
		}
		g.mu.Unlock()
		if is(last.State) {
			return last
		}
	}
	t.Fatalf("front %v stays %+v", f, last)
	return last
}

// firsts are the states told at the beginning.
func (g *watching) firsts(t *testing.T, want int) []State {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		g.mu.Lock()
		var out []State
		for _, c := range g.changes {
			if c.First {
				out = append(out, c.State)
			}
		}
		g.mu.Unlock()
		if len(out) == want {
			return out
		}
	}
	t.Fatalf("not all of %d states were told", want)
	return nil
}

func TestReadsRealRules(t *testing.T) {
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			n := newNamespace(t)
			f.load(t, n)
			want := append(wanted(), wanted6()...)
			g := watch(t, n, f.plane, frontsOf(want))
			got := g.firsts(t, len(want))
			g.stop()
			compareStates(t, f.plane, got, want)
			if testkit.Updating() {
				record(t, n, f)
			}
		})
	}
}

// record keeps what the kernel says of a form's rules, for the tests that need no root.
func record(t *testing.T, n namespace, f form) {
	t.Helper()
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile("testdata/"+name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := inNamespace(n.path, func(netns int) error {
		if f.plane == IPTablesLegacy {
			for bits, family := range map[int]string{32: "ip", 128: "ip6"} {
				l, err := openLegacy(bits)
				if err != nil {
					return err
				}
				defer l.close()
				for _, name := range []string{"nat", "filter"} {
					table, err := l.table(name, nil)
					if err != nil {
						return err
					}
					write("legacy-"+name+"."+family+".bin", table.entries)
				}
			}
			return nil
		}
		nft, err := dialNFTables(netns)
		if err != nil {
			return err
		}
		defer nft.conn.Close()
		for family, name := range map[uint8]string{unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6"} {
			if f.plane == NFTables {
				write(strings.ReplaceAll(f.name, " of ", "-")+"."+name+".txt", recordTable(t, nft, family, proxyTable))
				continue
			}
			for _, table := range []string{"nat", "filter"} {
				write("iptables-nft-"+table+"."+name+".txt", recordTable(t, nft, family, table))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTellsChanges(t *testing.T) {
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			n := newNamespace(t)
			f.load(t, n)
			three, other := front(tcp, "172.30.0.41:80"), front(tcp, "172.30.0.99:80")
			g := watch(t, n, f.plane, []Front{three, other})
			first := g.until(t, three, func(s State) bool { return len(s.Backends) == 3 })
			last := first
			for _, step := range []struct {
				run  func(*testing.T, namespace)
				want State
			}{
				{f.shrink, State{Front: three, Plane: f.plane, Known: true, Backends: addrs("10.244.1.3:8080")}},
				{f.empty, State{Front: three, Plane: f.plane, Known: true, Verdict: Reject}},
				{f.refill, State{Front: three, Plane: f.plane, Known: true, Backends: addrs("10.244.1.3:8080", "10.244.1.4:8080")}},
			} {
				began := clock.MonoNs()
				step.run(t, n)
				ended := clock.MonoNs()
				c := g.until(t, three, step.want.Same)
				if c.First || c.NotBeforeNs > c.MonoNs || c.MonoNs < began || c.NotBeforeNs > ended || c.NotBeforeNs < last.NotBeforeNs {
					t.Errorf("a change between %d and %d, made between %d and %d, after %d: %+v", c.NotBeforeNs, c.MonoNs, began, ended, last.NotBeforeNs, c)
				}
				if c.ByComm != f.comm || (c.ByPID != 0) != (f.comm != "") || (c.Commits != 0) != (f.comm != "") {
					t.Errorf("%d commits by %q, %d; want %q", c.Commits, c.ByComm, c.ByPID, f.comm)
				}
				last = c
			}
			g.stop()
			if slices.ContainsFunc(g.changes, func(c Change) bool { return c.State.Front == other && (!c.First || c.State.Known) }) {
				t.Errorf("a change of a front that is nobody's: %+v", g.changes)
			}
		})
	}
}

// Commits that come faster than rules can be read: what is told is of one commit always, never half of one and half of the next.
func TestNeverMixesCommits(t *testing.T) {
	n := newNamespace(t)
	n.run(t, file(t, "nftables-1.37.nft"), "nft", "-f", "-")
	three, one := front(tcp, "172.30.0.41:80"), front(tcp, "172.30.0.42:80")
	g := watch(t, n, NFTables, []Front{three, one})
	g.firsts(t, 2)
	const commits = 200
	var script strings.Builder
	for i := range commits {
		to := "10.0.0." + strconv.Itoa(i+1)
		for _, chain := range []string{"service-6MNTB2ND-shop/three/tcp/p", "service-A5XI3FMV-shop/one/tcp/p"} {
			script.WriteString("flush chain ip kube-proxy " + chain + "; add rule ip kube-proxy " + chain + " meta l4proto tcp dnat to " + to + ":80; ")
		}
		script.WriteString("\n") // a line is a commit
	}
	n.run(t, script.String(), "nft", "-i")
	last := addrs("10.0.0." + strconv.Itoa(commits) + ":80")
	for _, f := range []Front{three, one} {
		g.until(t, f, func(s State) bool { return slices.Equal(s.Backends, last) })
	}
	g.stop()
	byTime := map[int64][]Change{}
	seen := uint32(0)
	for _, c := range g.changes {
		if c.First {
			continue
		}
		byTime[c.MonoNs] = append(byTime[c.MonoNs], c)
		if c.State.Front == three {
			seen += c.Commits
		}
		if c.ByComm != "nft" || c.ByPID == 0 || c.Commits == 0 {
			t.Errorf("by %q, %d: %+v", c.ByComm, c.ByPID, c)
		}
	}
	for _, cs := range byTime {
		if len(cs) != 2 || !slices.Equal(cs[0].State.Backends, cs[1].State.Backends) {
			t.Errorf("not both fronts at once: %+v", cs)
		}
	}
	if seen != commits {
		t.Errorf("changes are of %d commits, not of %d", seen, commits)
	}
}

// The kernel's word on a commit is lost: the change is found, and nobody is named for it.
func TestFindsWhatItWasNotTold(t *testing.T) {
	n := newNamespace(t)
	f := forms()[1]
	f.load(t, n)
	three := front(tcp, "172.30.0.41:80")
	w, _, err := Open(Options{NetNS: n.path, Fronts: []Front{three}, Poll: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.commits.LeaveGroup(unix.NFNLGRP_NFTABLES); err != nil {
		t.Fatal(err)
	}
	changes := make(chan Change, 10)
	defer startReading(t, w, func(c Change) { changes <- c })()
	if c := <-changes; !c.First || len(c.State.Backends) != 3 {
		t.Errorf("at first %+v", c)
	}
	began := clock.MonoNs()
	f.shrink(t, n)
	c := <-changes
	if len(c.State.Backends) != 1 || c.ByComm != "" || c.ByPID != 0 || c.MonoNs < began || c.NotBeforeNs > c.MonoNs {
		t.Errorf("after %d: %+v", began, c)
	}
	if got := w.Counts(); got.Lost == 0 || got.Commits != 0 {
		t.Errorf("%+v", got)
	}
}

// More commits than the socket has room for come before they are listened to.
func TestCountsOverruns(t *testing.T) {
	n := newNamespace(t)
	f := forms()[1]
	f.load(t, n)
	three := front(tcp, "172.30.0.41:80")
	w, _, err := Open(Options{NetNS: n.path, Fronts: []Front{three}, Poll: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.commits.SetReadBuffer(1); err != nil { // the kernel gives its least
		t.Fatal(err)
	}
	n.run(t, strings.Repeat("add table ip other\ndelete table ip other\n", 100), "nft", "-i")
	changes := make(chan Change, 10)
	defer startReading(t, w, func(c Change) { changes <- c })()
	if c := <-changes; !c.First || len(c.State.Backends) != 3 {
		t.Errorf("at first %+v", c)
	}
	f.shrink(t, n)
	if c := <-changes; len(c.State.Backends) != 1 || c.MonoNs < c.NotBeforeNs {
		t.Errorf("then %+v", c)
	}
	if got := w.Counts(); got.Lost == 0 {
		t.Errorf("%+v", got)
	}
}
