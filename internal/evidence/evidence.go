// Package evidence gathers what the agents of all nodes tell while a trial runs: it opens a session with each, says what is under test,
// names what they saw, and puts it into the trial's journal.
//
// It must not know how an agent sees, what a fact means for a request, or whether a trial has flows or requests.
package evidence

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/vantage"
)

const (
	// dialTimeout bounds the beginning of a session.
	dialTimeout = 15 * time.Second
	// maxPairs bounds what is asked for, and with it the record: each connection found is some events.
	maxPairs = 20_000
	// podsAtOnce bounds the Pods that wait for an agent to be told of them.
	podsAtOnce = 1024
	// heldBack is how long an agent may know something before it tells it: it gathers for a tenth of a second.
	heldBack = 200 * time.Millisecond
	// rounds of Find: what the client knows of its connection, then what the entry found tells of its other side, and once more behind a second translation.
	rounds = 3
)

// Place is a node and how to open a session with the agent on it.
type Place struct {
	Node string
	Dial func(context.Context, agent.Heard) (*agent.Session, error)
	// Missing says why there is no agent; Dial is then nil.
	Missing string
}

// Pod is one of the workload's, where it runs.
type Pod struct {
	Name, UID, Node string
	IP              netip.Addr
}

// Nodes are the agents of one trial. Its methods are for one goroutine, but for See.
type Nodes struct {
	journal *journal.Journal
	names   *names
	nodes   []*node
	done    sync.WaitGroup
	quit    chan struct{} // ends what done waits for; nil before Watch
}

type node struct {
	name    string
	session *agent.Session // nil where there is none
	offset  clock.Offset
	remote  clock.Reading
	record  record.Agent
	// found are the facts that Find has had; for one goroutine at a time.
	found map[identity]bool
	// forgot: that it had to forget has been told.
	forgot bool
	// pods are UIDs that its agent is to be told of.
	pods chan string

	mu sync.Mutex
	// facts wait for their names, which the API may tell later.
	facts []agent.Fact
	// heardMonoNs is when the agent last told something, on the harness's clock.
	heardMonoNs int64
}

// Lister finds the places of a cluster's agents: empty where none are installed.
type Lister func(context.Context) ([]Place, error)

// Open opens a session with every agent that list finds, side by side. It is nil where there are none, or list is nil; a nil
// *Nodes does nothing and tells nothing. An agent that cannot be reached is in what End gives, with the reason: evidence
// is an addition, and what it would have shown is then said to be missing.
func Open(ctx context.Context, list Lister, j *journal.Journal, version string) (*Nodes, error) {
	if list == nil {
		return nil, nil
	}
	places, err := list(ctx)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	n := &Nodes{journal: j, names: newNames()}
	var wait sync.WaitGroup
	for _, p := range places {
		at := &node{name: p.Node, found: map[identity]bool{}, pods: make(chan string, podsAtOnce), record: record.Agent{Node: p.Node, Sights: []record.Sight{}, Lost: map[string]uint64{}}}
		n.nodes = append(n.nodes, at)
		if p.Dial == nil {
			at.record.Ended = p.Missing
			continue
		}
		wait.Go(func() {
			dial, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			s, err := p.Dial(dial, agent.Heard{Facts: at.hear, Gap: func(g agent.Gap) { n.gap(at, g) }})
			if err != nil {
				at.record.Ended = "never began: " + err.Error()
				return
			}
			at.session = s
			at.record.Version = version // Dial takes no other
			at.offset, at.remote = s.Clock()
			at.heardMonoNs = clock.MonoNs()
		})
	}
	wait.Wait()
	slices.SortFunc(n.nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	return n, nil
}

func (at *node) hear(facts []agent.Fact) {
	at.mu.Lock()
	at.facts = append(at.facts, facts...)
	at.heardMonoNs = clock.MonoNs()
	at.mu.Unlock()
}

func (n *Nodes) gap(at *node, g agent.Gap) {
	own := journal.Gap{FromMonoNs: g.FromMonoNs - at.offset.AheadNs, What: "node " + at.name, Why: g.Why}
	if g.ToMonoNs != 0 {
		own.ToMonoNs = g.ToMonoNs - at.offset.AheadNs
	}
	n.journal.Down(g.Source, own)
}

// Watch says what is under test: fronts and ports on every node, and each node's own Pods, by UID. From its return on nothing is
// missed that is not told. Nodes may share one kernel and one process table, so that an agent could see its neighbour's.
func (n *Nodes) Watch(ctx context.Context, fronts []agent.Front, ports []agent.Port, pods []Pod) {
	if n == nil {
		return
	}
	for _, p := range pods {
		n.names.tell(p)
	}
	n.each(ctx, func(ctx context.Context, at *node) error {
		w := agent.Watch{Fronts: fronts, Ports: ports, Pods: []string{}}
		for _, p := range pods {
			if p.Node == at.name {
				w.Pods = append(w.Pods, p.UID)
			}
		}
		return at.session.Watch(ctx, w)
	})
	for _, at := range n.nodes {
		if at.session == nil {
			continue
		}
		for _, s := range at.session.Sights() {
			at.record.Sights = append(at.record.Sights, record.Sight{Name: s.Name, Seen: s.Seen, How: s.How, Why: s.Why})
		}
		for _, source := range sourcesOf(at.record.Sights) {
			n.journal.Alive(source)
		}
	}
	n.quit = make(chan struct{})
	for _, at := range n.nodes {
		if at.there() {
			n.done.Go(func() { n.follow(context.WithoutCancel(ctx), at) })
		}
	}
}

// sourcesOf lists the sources that those sights make.
func sourcesOf(sights []record.Sight) []record.EventFrom {
	of := map[string]record.EventFrom{
		agent.SightSignals: record.FromKernel, agent.SightExits: record.FromKernel, agent.SightListeners: record.FromKernel, agent.SightSockets: record.FromKernel,
		agent.SightResets: record.FromKernel, agent.SightICMP: record.FromKernel, agent.SightConntrack: record.FromConntrack, agent.SightRules: record.FromDataplane,
	}
	found := map[record.EventFrom]bool{}
	for _, s := range sights {
		if source := of[s.Name]; s.Seen && source != "" {
			found[source] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// each asks every agent that is there, side by side. One that fails is out: what it tells later would have holes that nobody knows.
func (n *Nodes) each(ctx context.Context, ask func(context.Context, *node) error) {
	var wait sync.WaitGroup
	for _, at := range n.nodes {
		if at.there() {
			wait.Go(func() {
				if err := ask(ctx, at); err != nil {
					n.lose(at, err)
				}
			})
		}
	}
	wait.Wait()
}

// there reports whether the agent can be asked.
func (at *node) there() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.session != nil && at.record.Ended == ""
}

// Demand is the error of a trial that must have the evidence of every node; nil where each has its session.
func (n *Nodes) Demand() error {
	why := ""
	if n == nil {
		why = "no agents are installed"
	} else if i := slices.IndexFunc(n.nodes, func(at *node) bool { return !at.there() }); i >= 0 {
		why = "node " + n.nodes[i].name + ": " + n.nodes[i].record.Ended
	}
	if why == "" {
		return nil
	}
	return fault.Unmet("agent", "every node must have its agent", why, "drainproof agent install, or leave --agent out")
}

// lose says once that an agent's session is over. What it had seen and not told is lost with it: its gap begins with its last word, less the time for
// which it may hold one back.
func (n *Nodes) lose(at *node, err error) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.record.Ended != "" {
		return
	}
	at.record.Ended = "its session ended early: " + err.Error()
	for _, source := range sourcesOf(at.record.Sights) {
		n.journal.Down(source, journal.Gap{FromMonoNs: at.heardMonoNs - int64(heldBack), What: "node " + at.name, Why: at.record.Ended})
	}
}

// See takes an event of the API: it tells names, and which Pods have come. It never blocks for long; safe for concurrent use.
func (n *Nodes) See(e record.Event) {
	if n == nil || !n.names.learn(e) {
		return
	}
	i := slices.IndexFunc(n.nodes, func(at *node) bool { return at.name == e.Node })
	if i < 0 || !n.nodes[i].there() {
		return
	}
	select {
	case n.nodes[i].pods <- e.PodUID:
	default:
		n.journal.Down(record.FromKernel, journal.Gap{FromMonoNs: clock.MonoNs(), What: "node " + e.Node, Why: "more Pods came than its agent could be told of"})
	}
}

// follow tells a node's agent of Pods as they come and that the harness is still there, and notices its end.
func (n *Nodes) follow(ctx context.Context, at *node) {
	alive := time.NewTicker(agent.PingEvery)
	defer alive.Stop()
	for at.there() {
		var err error
		select {
		case <-n.quit:
			return
		case <-at.session.Ended():
			err = at.session.Err()
		case uid := <-at.pods:
			uids := []string{uid}
			for len(at.pods) > 0 { // one look at the node's processes does for all
				uids = append(uids, <-at.pods)
			}
			err = at.session.Add(ctx, uids)
		case <-alive.C:
			err = at.session.Ping(ctx)
		}
		if err != nil {
			n.lose(at, err)
		}
	}
}

// AnyAddress is how a front names a port that every node has on all its addresses, in the family of a.
func AnyAddress(a netip.Addr) netip.Addr {
	if a.Is4() || a.Is4In6() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// Connection is the pair of a connection's two ends, as its client knows them; ok is false where it does not know both.
func Connection(protocol uint8, local, remote string) (p agent.Pair, ok bool) {
	a, errA := netip.ParseAddrPort(local)
	b, errB := netip.ParseAddrPort(remote)
	return agent.Pair{Protocol: protocol, A: a, B: b}, errA == nil && errB == nil
}

// Find asks all nodes for those connections, and then for what the answers tell of their other sides: the client knows the Service's
// address, the entry of its node the Pod's, and the Pod's node what its kernel did. What is found goes to the journal with the rest. Of more than
// maxPairs connections the first are asked for; left is how many are not.
func (n *Nodes) Find(ctx context.Context, pairs []agent.Pair) (left int) {
	if n == nil {
		return 0
	}
	// Requests on one connection fail together.
	once := map[agent.Pair]bool{}
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(p agent.Pair) bool {
		known := once[p]
		once[p] = true
		return known
	})
	if left = len(pairs) - maxPairs; left > 0 {
		pairs = pairs[:maxPairs]
	}
	asked := map[agent.Pair]bool{}
	for range rounds {
		pairs = slices.DeleteFunc(slices.Clone(pairs), func(p agent.Pair) bool { return asked[p] })
		if len(pairs) == 0 {
			break
		}
		for _, p := range pairs {
			asked[p] = true
		}
		var mu sync.Mutex
		next := map[agent.Pair]bool{}
		n.each(ctx, func(ctx context.Context, at *node) error {
			facts, forgotten, err := at.session.Find(ctx, pairs)
			if forgotten != 0 && !at.forgot {
				at.forgot = true
				for _, source := range []record.EventFrom{record.FromConntrack, record.FromKernel} {
					n.gap(at, agent.Gap{Source: source, FromMonoNs: at.remote.MonoNs, ToMonoNs: forgotten, Why: "more connections than the agent remembers; the oldest were forgotten"})
				}
			}
			facts = at.unknown(facts)
			at.hear(facts)
			mu.Lock()
			defer mu.Unlock()
			for _, f := range facts {
				for _, p := range otherSide(f) {
					next[p] = true
				}
			}
			return err
		})
		pairs = slices.Collect(maps.Keys(next))
	}
	return max(left, 0)
}

// identity tells facts of one agent apart: an entry is found by both of its directions.
type identity struct {
	monoNs int64
	kind   record.EventKind
	ends   string
}

// unknown gives those facts that were not found before.
func (at *node) unknown(facts []agent.Fact) []agent.Fact {
	return slices.DeleteFunc(facts, func(f agent.Fact) bool {
		d := f.Event.Detail
		id := identity{f.MonoNs, f.Event.Kind, fmt.Sprint(d["original_source"], d["original_destination"], d["local"], d["remote"], d["source"], d["destination"])}
		known := at.found[id]
		at.found[id] = true
		return known
	})
}

// otherSide gives the pairs that an entry translates between.
func otherSide(f agent.Fact) []agent.Pair {
	if f.Event.Source != record.FromConntrack {
		return nil
	}
	protocol := agent.TCP
	if f.Event.Detail["protocol"] == "udp" {
		protocol = agent.UDP
	}
	var pairs []agent.Pair
	for _, side := range []string{"original", "reply"} {
		a, errA := parse(f.Event.Detail[side+"_source"])
		b, errB := parse(f.Event.Detail[side+"_destination"])
		if errA == nil && errB == nil {
			pairs = append(pairs, agent.Pair{Protocol: protocol, A: a, B: b})
		}
	}
	return pairs
}

// End ends every session, names what was told, and puts it into the journal. It gives the agents and their clocks for the record.
// zeroMonoNs is the trial's zero on the harness's clock.
func (n *Nodes) End(ctx context.Context, zeroMonoNs int64) ([]record.Agent, []record.Clock) {
	if n == nil {
		return nil, nil
	}
	if n.quit != nil {
		close(n.quit)
	}
	n.done.Wait()
	n.each(ctx, func(ctx context.Context, at *node) error {
		again, err := at.session.Measure(ctx)
		if err != nil {
			return err
		}
		at.drifted(again)
		lost, cost, err := at.session.End(ctx)
		if err != nil {
			return err
		}
		for kind, count := range lost {
			if count > 0 {
				at.record.Lost[kind] = count
			}
		}
		at.record.CPUNs, at.record.RSSBytes = &cost.CPUNs, &cost.RSSBytes
		n.miss(at)
		return nil
	})
	var agents []record.Agent
	var clocks []record.Clock
	for _, at := range n.nodes {
		at.mu.Lock()
		for _, f := range at.facts {
			n.add(at, f, zeroMonoNs)
		}
		at.mu.Unlock()
		agents = append(agents, at.record)
		if at.session == nil {
			continue
		}
		clocks = append(clocks, vantage.ClockOf("agent "+at.name, at.offset, at.remote))
		if at.record.Ended != "" {
			at.session.Abandon()
		}
	}
	return agents, clocks
}

// miss tells of the Pods that have run on a node and that its agent never found. Its words on other Pods have no gap for that.
func (n *Nodes) miss(at *node) {
	for _, uid := range at.session.Unfound() {
		if pod, since, ran := n.names.missed(uid); ran {
			n.journal.Down(record.FromKernel, journal.Gap{
				FromMonoNs: since, ToMonoNs: clock.MonoNs(), What: "pod " + pod,
				Why: "the agent of node " + at.name + " found no process of it, or none that it can tell from the node's own",
			})
		}
	}
}

// drifted widens the bound of a node's clock by what it moved against ours since the session began: two clocks of two machines do.
func (at *node) drifted(again clock.Offset) {
	moved := again.AheadNs - at.offset.AheadNs
	at.offset.UncertaintyNs = max(at.offset.UncertaintyNs, again.UncertaintyNs) + max(moved, -moved)
}

// add turns a fact into an event on the harness's clock.
func (n *Nodes) add(at *node, f agent.Fact, zeroMonoNs int64) {
	e := f.Event
	e.Node = at.name
	e.UncertaintyNs = new(at.offset.UncertaintyNs)
	n.names.subject(&e, f.Container, f.MonoNs-at.offset.AheadNs)
	if f.NotBeforeMonoNs != 0 {
		e.Detail["not_before_t_ns"] = f.NotBeforeMonoNs - at.offset.AheadNs - zeroMonoNs
	}
	n.journal.Add(f.MonoNs-at.offset.AheadNs, e)
}
