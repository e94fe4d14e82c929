package dataplane

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/fault"
)

const defaultPoll = 50 * time.Millisecond

// Watcher reads the rules of one network namespace. It holds sockets only.
type Watcher struct {
	fronts  []Front
	only    func([]byte) bool
	poll    time.Duration
	planes  []plane
	nft     *nftables     // nil where no plane needs it
	commits *netlink.Conn // likewise

	reads, repeated, told, lost atomic.Uint64
}

// plane is the data plane of one family of addresses.
type plane struct {
	name   string
	bits   int
	legacy *legacy // for IPTablesLegacy
}

// Open finds the data planes that answer for the fronts in a network namespace, one per family of addresses, and says of each that it found
// whether it can be read. The Watcher is nil where none can. Where two are live at once, as after a change of kube-proxy's mode that
// cleaned nothing up, neither is read: which of them a connection meets first, their rules do not say.
//
// It needs CAP_NET_ADMIN, CAP_NET_RAW for legacy tables, and CAP_SYS_ADMIN for another namespace than its own.
func Open(o Options) (*Watcher, []Sight, error) {
	w := &Watcher{poll: o.Poll}
	if w.poll <= 0 {
		w.poll = defaultPoll
	}
	for _, f := range o.Fronts {
		if !f.Addr.IsValid() || f.Addr.Port() == 0 || f.Protocol == 0 {
			return nil, nil, fault.Usagef("name each by protocol, address and port; a NodePort's address is 0.0.0.0 or ::", "front %s of protocol %d is none", f.Addr, f.Protocol)
		}
		w.fronts = append(w.fronts, Front{f.Protocol, netip.AddrPortFrom(f.Addr.Addr().Unmap().WithZone(""), f.Addr.Port())})
	}
	if len(w.fronts) == 0 {
		return nil, nil, fault.Usagef("name at least one", "no fronts to watch")
	}
	w.only = naming(w.fronts)

	var sights []Sight
	err := inNamespace(o.NetNS, func(netns int) (err error) {
		sights, err = w.open(netns)
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	if len(w.planes) == 0 {
		return nil, sights, w.Close()
	}
	return w, sights, nil
}

// inNamespace runs f on a thread in a network namespace, with a descriptor of it, 0 for the caller's own.
func inNamespace(path string, f func(netns int) error) error {
	if path == "" {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		return f(0)
	}
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	defer ns.Close()
	done := make(chan error)
	go func() {
		done <- func() error {
			runtime.LockOSThread()
			own, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				return fmt.Errorf("open this thread's network namespace: %w", err)
			}
			defer own.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter network namespace %s: %w", path, err)
			}
			err = f(int(ns.Fd()))
			if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
				// The thread stays locked and ends with this goroutine.
				return errors.Join(err, fmt.Errorf("leave network namespace %s: %w", path, back))
			}
			runtime.UnlockOSThread()
			return err
		}()
	}()
	return <-done
}

// open does the work of Open on a thread in the namespace.
func (w *Watcher) open(netns int) ([]Sight, error) {
	nft, err := dialNFTables(netns)
	if err != nil {
		return nil, err
	}
	w.nft = nft
	noNFTables := ""
	if _, err := nft.generation(); errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("%w (it needs CAP_NET_ADMIN in the node's network namespace)", err)
	} else if err != nil {
		noNFTables = fmt.Sprintf("; this kernel has no nf_tables (%v)", err)
	} else if w.commits, err = subscribe(netns); err != nil {
		// Before any rule is read: what is committed from here on is told.
		return nil, err
	}

	links, err := linkNames()
	if err != nil {
		return nil, err
	}
	var sights []Sight
	for _, bits := range []int{32, 128} {
		if !slices.ContainsFunc(w.fronts, func(f Front) bool { return f.Addr.Addr().BitLen() == bits }) {
			continue
		}
		live, err := w.live(bits, noNFTables == "", slices.Contains(links, "kube-ipvs0"))
		if err != nil {
			return nil, err
		}
		sights = append(sights, w.choose(bits, live, noNFTables)...)
	}
	if slices.ContainsFunc(links, func(name string) bool { return strings.HasPrefix(name, "cilium_") }) || ciliumMaps() {
		sights = append(sights, Sight{Name: Cilium, How: "interfaces and pinned maps named cilium_*",
			Why: "Cilium keeps the backends of Services in eBPF maps of its own, which are not read; where it answers for a Service, it does so before any of kube-proxy's rules"})
	}
	if !slices.ContainsFunc(w.planes, func(p plane) bool { return p.legacy == nil }) {
		return sights, w.closeNetlink()
	}
	return sights, nil
}

// live finds the data planes of a family that connections really reach.
func (w *Watcher) live(bits int, nfTables, ipvs bool) ([]plane, error) {
	var out []plane
	if nfTables {
		for _, c := range []struct{ name, table, base, chain string }{{NFTables, proxyTable, natPrerouting, services}, {IPTablesNFT, "nat", prerouting, kubeServices}} {
			if ipvs && c.name == IPTablesNFT {
				continue // IPVS has chains of the same name, which only mark packets
			}
			v := newView(w.nft, bits, c.table, nil)
			hooked, err := w.nft.hooked(v.family, c.table, c.base)
			if err != nil {
				return nil, err
			}
			leads, err := leadsTo(v, c.base, c.chain)
			if err != nil {
				return nil, err
			}
			if hooked && leads {
				out = append(out, plane{name: c.name, bits: bits})
			}
		}
	}
	if ipvs {
		return append(out, plane{name: IPVS, bits: bits}), nil
	}
	there, err := legacyTables(bits)
	if err != nil || !there {
		return out, err
	}
	l, err := openLegacy(bits)
	if err != nil {
		return nil, err
	}
	nat, err := l.table("nat", nil)
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	leads, err := leadsTo(nat, prerouting, kubeServices)
	if err != nil || !leads {
		return out, errors.Join(err, l.close())
	}
	return append(out, plane{name: IPTablesLegacy, bits: bits, legacy: l}), nil
}

// leadsTo is whether a chain has a rule that jumps to another.
func leadsTo(rs ruleset, from, to string) (bool, error) {
	rules, err := rs.chain(from)
	return slices.ContainsFunc(rules, func(r rule) bool { return (r.do.kind == jumps || r.do.kind == goesTo) && r.do.chain == to }), err
}

// choose takes the only live data plane of a family, and says what it found.
func (w *Watcher) choose(bits int, live []plane, noNFTables string) []Sight {
	family := "IPv4"
	if bits == 128 {
		family = "IPv6"
	}
	how := map[string]string{
		NFTables:       "netlink, nf_tables: kube-proxy's own table, " + family,
		IPTablesNFT:    "netlink, nf_tables: the tables nat and filter of iptables-nft, " + family,
		IPTablesLegacy: fmt.Sprintf("getsockopt: the legacy tables nat and filter, %s, at most every %v", family, w.poll),
		IPVS:           "the interface kube-ipvs0",
	}
	switch {
	case len(live) == 0:
		return []Sight{{Name: None, How: "netlink and getsockopt, " + family,
			Why: "no hook leads to rules of kube-proxy for " + family + " in this network namespace: there is no kube-proxy, it has not written its rules yet, or something else answers for Services" + noNFTables}}
	case len(live) > 1:
		var names []string
		for _, p := range live {
			names = append(names, p.name)
			if p.legacy != nil {
				_ = p.legacy.close() // only read from
			}
		}
		var out []Sight
		for _, p := range live {
			out = append(out, Sight{Name: p.name, How: how[p.name], Why: "more than one data plane is hooked in for " + family + ": " + strings.Join(names, " and ") +
				"; remove what a former mode of kube-proxy left behind (kube-proxy --cleanup, or a restart of the node)"})
		}
		return out
	case live[0].name == IPVS:
		return []Sight{{Name: IPVS, How: how[IPVS], Why: "kube-proxy runs in its IPVS mode, whose virtual servers are not read"}}
	}
	w.planes = append(w.planes, live[0])
	return []Sight{{Name: live[0].name, Seen: true, How: how[live[0].name]}}
}

// linkNames lists the interfaces of the calling thread's network namespace.
func linkNames() ([]string, error) {
	b, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	var names []string
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if name, _, found := strings.Cut(lines.Text(), ":"); found {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names, nil
}

// ciliumMaps is whether maps of Cilium's are pinned where it pins them.
func ciliumMaps() bool {
	maps, err := filepath.Glob("/sys/fs/bpf/tc/globals/cilium_lb*")
	return err == nil && len(maps) > 0
}

// legacyTables is whether the calling thread's network namespace has legacy tables nat and filter. It must be known before they are asked for: the question would make them.
func legacyTables(bits int) (bool, error) {
	path := "/proc/thread-self/net/ip_tables_names"
	if bits == 128 {
		path = "/proc/thread-self/net/ip6_tables_names"
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list the legacy tables: %w", err)
	}
	names := strings.Fields(string(b))
	return slices.Contains(names, "nat") && slices.Contains(names, "filter"), nil
}

// Counts says what was done so far. It may be called at any time.
func (w *Watcher) Counts() Counts {
	return Counts{Reads: w.reads.Load(), Repeated: w.repeated.Load(), Commits: w.told.Load(), Lost: w.lost.Load()}
}

// Close gives the sockets back. Read must have ended.
func (w *Watcher) Close() error {
	var errs []error
	for _, p := range w.planes {
		if p.legacy != nil {
			errs = append(errs, p.legacy.close())
		}
	}
	w.planes = nil
	return errors.Join(append(errs, w.closeNetlink())...)
}

func (w *Watcher) closeNetlink() error {
	var errs []error
	if w.nft != nil {
		errs = append(errs, w.nft.conn.Close())
	}
	if w.commits != nil {
		errs = append(errs, w.commits.Close())
	}
	w.nft, w.commits = nil, nil
	return errors.Join(errs...)
}
