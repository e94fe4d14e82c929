package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/record"
)

// real runs the agent itself at the other end of two pipes; what it sees depends on the machine.
func real(t *testing.T) func(context.Context, agent.Heard) (*agent.Session, error) {
	return func(ctx context.Context, heard agent.Heard) (*agent.Session, error) {
		ordersOut, ordersIn := io.Pipe()
		wordsOut, wordsIn := io.Pipe()
		go func() {
			err := agent.Serve(context.Background(), ordersOut, wordsIn, agent.Options{Version: "v1"})
			wordsIn.CloseWithError(errors.Join(err, io.EOF))
			ordersOut.Close()
		}()
		return agent.Dial(ctx, wordsOut, ordersIn, ordersIn.Close, "v1", heard)
	}
}

func TestNodesSayWhichHaveNoAgent(t *testing.T) {
	j := journal.New()
	list := func(context.Context) ([]Place, error) {
		return []Place{
			{Node: "b", Missing: "no agent runs on it"},
			{Node: "c", Dial: func(context.Context, agent.Heard) (*agent.Session, error) { return nil, errors.New("refused") }},
			{Node: "a", Dial: real(t)},
		}, nil
	}
	n, err := Open(t.Context(), list, j, "v1")
	if err != nil {
		t.Fatal(err)
	}
	n.Watch(t.Context(), nil, []agent.Port{{Protocol: agent.TCP, Port: 1}}, []Pod{{Name: "web-1", UID: "u1", Node: "a"}})
	n.See(record.Event{Subject: "pod/web-2", PodUID: "u2", Node: "a"})
	if left := n.Find(t.Context(), []agent.Pair{{Protocol: agent.TCP}}); left != 0 {
		t.Errorf("%d are not asked for", left)
	}
	agents, clocks := n.End(t.Context(), 0)
	if len(agents) != 3 || agents[0].Node != "a" || agents[1].Ended != "no agent runs on it" || !strings.Contains(agents[2].Ended, "refused") {
		t.Fatalf("agents %+v", agents)
	}
	if a := agents[0]; a.Ended != "" || a.CPUNs == nil || len(a.Sights) == 0 {
		t.Errorf("the one that is there: %+v", a)
	}
	if len(clocks) != 1 || clocks[0].Name != "agent a" || *clocks[0].UncertaintyNs != 0 {
		t.Errorf("clocks %+v", clocks)
	}
}

func TestNoAgentsAreNoTrouble(t *testing.T) {
	for name, list := range map[string]Lister{"nobody asks": nil, "none installed": func(context.Context) ([]Place, error) { return nil, nil }} {
		n, err := Open(t.Context(), list, journal.New(), "v1")
		if n != nil || err != nil {
			t.Errorf("%s: %v, %v", name, n, err)
		}
		n.Watch(t.Context(), nil, nil, nil)
		n.See(record.Event{})
		n.Find(t.Context(), nil)
		if agents, clocks := n.End(t.Context(), 0); agents != nil || clocks != nil {
			t.Errorf("%s: %v %v", name, agents, clocks)
		}
	}
	if _, err := Open(t.Context(), func(context.Context) ([]Place, error) { return nil, errors.New("gone") }, journal.New(), "v1"); err == nil {
		t.Error("a cluster that does not answer is no error")
	}
}

// An entry is found by what its client knows and again by what its server knows; it is one event.
func TestAFactIsFoundOnce(t *testing.T) {
	at := &node{found: map[identity]bool{}}
	entry := func(monoNs int64, client string) agent.Fact {
		return agent.Fact{MonoNs: monoNs, Event: record.Event{Source: record.FromConntrack, Kind: record.ConntrackNew, Detail: map[string]any{
			"protocol": "tcp", "original_source": client, "original_destination": "10.96.0.1:80", "reply_source": "10.0.0.5:8080", "reply_destination": client,
		}}}
	}
	first := at.unknown([]agent.Fact{entry(1, "10.0.0.1:1000"), entry(1, "10.0.0.1:1001")})
	again := at.unknown([]agent.Fact{entry(1, "10.0.0.1:1000"), entry(2, "10.0.0.1:1000")})
	if len(first) != 2 || len(again) != 1 || again[0].MonoNs != 2 {
		t.Errorf("first %v, then %v", first, again)
	}
	pairs := otherSide(first[0])
	want := agent.Pair{Protocol: agent.TCP, A: netip.MustParseAddrPort("10.0.0.5:8080"), B: netip.MustParseAddrPort("10.0.0.1:1000")}
	if !slices.Contains(pairs, want) {
		t.Errorf("the server's side of an entry: %v", pairs)
	}
}

func TestEventsGetTheirNames(t *testing.T) {
	n := newNames()
	n.tell(Pod{Name: "web-1", UID: "u1", Node: "a", IP: netip.MustParseAddr("10.0.0.5")})
	n.learn(record.Event{Subject: "container/web-1/app", PodUID: "u1", Node: "a", Detail: map[string]any{"container_id": "containerd://c1"}})
	if !n.learn(record.Event{Subject: "pod/web-2", PodUID: "u2", Node: "b"}) || n.learn(record.Event{Subject: "pod/web-2", PodUID: "u2", Node: "b"}) {
		t.Error("a Pod is new once")
	}
	n.learn(record.Event{Subject: "endpoint/web-2", PodUID: "u2", Node: "b", Detail: map[string]any{"addresses": "10.0.1.6,fd00::6"}})
	for _, c := range []struct {
		event     record.Event
		container string
		subject   string
	}{
		{record.Event{Kind: record.SignalSent, PodUID: "u1"}, "c1", "container/web-1/app"},
		{record.Event{Kind: record.ProcessExited, PodUID: "u1"}, "sandbox", "pod/web-1"},
		{record.Event{Kind: record.ListenerClosed, PodUID: "u1"}, "", "pod/web-1"},
		{record.Event{Kind: record.ConntrackNew, Node: "a"}, "", "node/a"},
		{record.Event{Kind: record.RuleRemoved, Node: "a", Detail: map[string]any{"backend": "10.0.1.6:8080"}}, "", "endpoint/web-2"},
		{record.Event{Kind: record.RuleAdded, Node: "a", Detail: map[string]any{"backend": "[fd00::6]:8080"}}, "", "endpoint/web-2"},
		{record.Event{Kind: record.RuleAdded, Node: "a", Detail: map[string]any{"backend": "10.9.9.9:8080"}}, "", "node/a"},
		{record.Event{Kind: record.RuleRejects, Node: "a", Detail: map[string]any{}}, "", "node/a"},
	} {
		e := c.event
		if e.Detail == nil {
			e.Detail = map[string]any{}
		}
		n.subject(&e, c.container, clock.MonoNs())
		if e.Subject != c.subject {
			t.Errorf("%s of %s: %q, want %q", e.Kind, fmt.Sprint(e.PodUID, c.container, e.Detail), e.Subject, c.subject)
		}
	}
}
