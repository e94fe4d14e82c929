// Package evidence gathers what the agents of all nodes tell while a trial runs: it opens a session with each, says what is under test,
// names what they saw, and puts it into the trial's journal.
//
// It must not know how an agent sees, what a fact means for a request, or whether a trial has flows or requests.
package evidence

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/vantage"
)

const (
	// askTimeout bounds one question to one agent.
	askTimeout = 15 * time.Second
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

// Nodes are the agents of one trial. Its methods are for one goroutine, but for See.
type Nodes struct {
	journal *journal.Journal
	names   *names
	nodes   []*node
	queue   chan seen
	done    sync.WaitGroup
}

type node struct {
	name    string
	session *agent.Session // nil where there is none
	version string
	offset  clock.Offset
	remote  clock.Reading
	record  record.Agent
	// forgot: that it had to forget has been told.
	forgot bool

	mu sync.Mutex
	// facts wait for their names, which the API may tell later.
	facts []agent.Fact
}

type seen struct{ node, uid string }

// Open opens a session with every agent, side by side. One that cannot be reached is in Agents with the reason, and no error: evidence
// is an addition, and what it would have shown is then said to be missing.
func Open(ctx context.Context, places []Place, j *journal.Journal, version string) *Nodes {
	n := &Nodes{journal: j, names: newNames(), queue: make(chan seen, 1024)}
	var wait sync.WaitGroup
	for _, p := range places {
		at := &node{name: p.Node, version: version, record: record.Agent{Node: p.Node, Version: version, Sights: []record.Sight{}, Lost: map[string]uint64{}}}
		n.nodes = append(n.nodes, at)
		if p.Dial == nil {
			at.record.Ended = p.Missing
			continue
		}
		wait.Go(func() {
			dial, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			s, err := p.Dial(dial, agent.Heard{Facts: at.hear, Gap: func(g agent.Gap) { n.gap(at, g) }})
			if err != nil {
				at.record.Ended = "never began: " + err.Error()
				return
			}
			at.session = s
			at.offset, at.remote = s.Clock()
		})
	}
	wait.Wait()
	slices.SortFunc(n.nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	return n
}

func (at *node) hear(facts []agent.Fact) {
	at.mu.Lock()
	at.facts = append(at.facts, facts...)
	at.mu.Unlock()
}

func (n *Nodes) gap(at *node, g agent.Gap) {
	n.journal.Down(g.Source, journal.Gap{FromMonoNs: g.FromMonoNs - at.offset.AheadNs, ToMonoNs: g.ToMonoNs - at.offset.AheadNs, What: "node " + at.name, Why: g.Why})
}

// Watch says what is under test, on every node. From its return on nothing is missed that is not told.
func (n *Nodes) Watch(ctx context.Context, w agent.Watch) {
	n.each(ctx, func(ctx context.Context, at *node) error { return at.session.Watch(ctx, w) })
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
	n.done.Go(func() { n.follow(context.WithoutCancel(ctx)) })
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
		if at.session == nil {
			continue
		}
		wait.Go(func() {
			limited, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			if err := ask(limited, at); err != nil {
				n.lose(at, err)
			}
		})
	}
	wait.Wait()
}

func (n *Nodes) lose(at *node, err error) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.record.Ended == "" {
		at.record.Ended = err.Error()
	}
}

// See takes an event of the API: it tells names, and which Pods have come. It never blocks for long; safe for concurrent use.
func (n *Nodes) See(e record.Event) {
	if n.names.learn(e) && e.Node != "" {
		select {
		case n.queue <- seen{e.Node, e.PodUID}:
		default: // a thousand Pods in a moment: the agent would be late for them anyhow, and says what it did not see
		}
	}
}

// follow tells agents of Pods as they come.
func (n *Nodes) follow(ctx context.Context) {
	for s := range n.queue {
		for _, at := range n.nodes {
			if at.name != s.node || at.session == nil {
				continue
			}
			limited, cancel := context.WithTimeout(ctx, askTimeout)
			if err := at.session.Add(limited, []string{s.uid}); err != nil {
				n.lose(at, err)
			}
			cancel()
		}
	}
}

// Find asks all nodes for those connections, and then for what the answers tell of their other sides: the client knows the Service's
// address, the entry of its node the Pod's, and the Pod's node what its kernel did. What is found goes to the journal with the rest.
func (n *Nodes) Find(ctx context.Context, pairs []agent.Pair) {
	asked := map[agent.Pair]bool{}
	for range rounds {
		pairs = slices.DeleteFunc(slices.Clone(pairs), func(p agent.Pair) bool { return asked[p] })
		if len(pairs) == 0 {
			return
		}
		for _, p := range pairs {
			asked[p] = true
		}
		var mu sync.Mutex
		var next []agent.Pair
		n.each(ctx, func(ctx context.Context, at *node) error {
			facts, forgotten, err := at.session.Find(ctx, pairs)
			if forgotten != 0 && !at.forgot {
				at.forgot = true
				n.gap(at, agent.Gap{Source: record.FromConntrack, FromMonoNs: at.remote.MonoNs, ToMonoNs: forgotten, Why: "more connections than the agent remembers; the oldest were forgotten"})
			}
			at.hear(facts)
			mu.Lock()
			defer mu.Unlock()
			for _, f := range facts {
				next = append(next, otherSide(f)...)
			}
			return err
		})
		pairs = next
	}
}

// otherSide gives the pairs that an entry translates between.
func otherSide(f agent.Fact) []agent.Pair {
	if f.Event.Source != record.FromConntrack {
		return nil
	}
	protocol := uint8(6)
	if f.Event.Detail["protocol"] == "udp" {
		protocol = 17
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
	close(n.queue)
	n.done.Wait()
	n.each(ctx, func(ctx context.Context, at *node) error {
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
			for _, s := range sourcesOf(at.record.Sights) {
				n.journal.Lost(s, fmt.Sprintf("the agent of node %s: %s", at.name, at.record.Ended))
			}
		}
	}
	return agents, clocks
}

// add turns a fact into an event on the harness's clock.
func (n *Nodes) add(at *node, f agent.Fact, zeroMonoNs int64) {
	e := f.Event
	e.Node = at.name
	e.UncertaintyNs = new(at.offset.UncertaintyNs)
	n.names.subject(&e, f.Container)
	if f.NotBeforeMonoNs != 0 {
		e.Detail["not_before_t_ns"] = f.NotBeforeMonoNs - at.offset.AheadNs - zeroMonoNs
	}
	n.journal.Add(f.MonoNs-at.offset.AheadNs, e)
}
