package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/record"
)

// scripted is an agent that says what it must, until it is to fall silent or is killed.
type scripted struct {
	// mute is the order from which on it answers nothing.
	mute string
	// unfound are the Pods that it says it never found.
	unfound []string

	mu    sync.Mutex
	pods  []string
	words *io.PipeWriter
}

// kill ends it as SIGKILL ends an exec.
func (s *scripted) kill() {
	s.words.CloseWithError(errors.New("command terminated with exit code 137"))
}

// told lists the Pods that it was told of while it ran.
func (s *scripted) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pods)
}

func (s *scripted) dial(ctx context.Context, heard agent.Heard) (*agent.Session, error) {
	ordersOut, ordersIn := io.Pipe()
	wordsOut, wordsIn := io.Pipe()
	s.words = wordsIn
	go s.run(ordersOut, wordsIn)
	return agent.Dial(ctx, wordsOut, ordersIn, func() error {
		ordersIn.Close()
		return wordsIn.Close()
	}, "v1", heard)
}

func (s *scripted) run(in io.Reader, out io.Writer) {
	say := json.NewEncoder(out)
	_ = say.Encode(map[string]any{"say": "hello", "protocol": 1, "version": "v1", "clock": clock.Read()})
	mute := false
	for orders := json.NewDecoder(in); ; {
		var o struct {
			Do   string   `json:"do"`
			ID   int      `json:"id"`
			Pods []string `json:"pods"`
		}
		if orders.Decode(&o) != nil {
			return
		}
		s.mu.Lock()
		s.pods = append(s.pods, o.Pods...)
		s.mu.Unlock()
		answer := map[string]any{"id": o.ID}
		switch o.Do {
		case "clock":
			answer["say"], answer["clock"] = "clock", clock.Read()
		case "watch":
			answer["say"], answer["sights"] = "watching", []agent.Sight{{Name: agent.SightExits, Seen: true, How: "test"}, {Name: agent.SightConntrack, Seen: true, How: "test"}}
		case "pods":
			answer["say"] = "watching"
		case "find":
			answer["say"] = "found"
		case "end":
			answer["say"], answer["unfound"], answer["cost"] = "ended", s.unfound, agent.Cost{CPUNs: 1}
		}
		if mute = mute || o.Do == s.mute; !mute {
			_ = say.Encode(answer)
		}
	}
}

// places are nodes a, b, ... with these agents.
func places(agents ...*scripted) Lister {
	return func(context.Context) (list []Place, err error) {
		for i, s := range agents {
			list = append(list, Place{Node: string(rune('a' + i)), Dial: s.dial})
		}
		return list, nil
	}
}

func comes(pod, uid, node string) record.Event {
	return record.Event{Source: record.FromKube, Kind: record.PodAdded, Subject: "pod/" + pod, PodUID: uid, Node: node}
}

// An agent that is killed is noticed at once, the record says so and from when on nothing was heard of its node, and the others go on.
func TestAnAgentThatIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		killed, other := &scripted{}, &scripted{}
		j := journal.New()
		n, err := Open(t.Context(), places(killed, other), j, "v1")
		if err != nil {
			t.Fatal(err)
		}
		n.Watch(t.Context(), nil, nil, nil)
		killed.kill()
		synctest.Wait()
		if n.nodes[0].there() || !n.nodes[1].there() {
			t.Errorf("there: a %t, b %t", n.nodes[0].there(), n.nodes[1].there())
		}
		n.See(comes("web-1", "u1", "a")) // nobody is there to be told
		n.See(comes("web-2", "u2", "b"))
		synctest.Wait()
		if told := other.told(); !slices.Equal(told, []string{"u2"}) {
			t.Errorf("the agent of b was told of %v", told)
		}
		if left := n.Find(t.Context(), []agent.Pair{{Protocol: agent.TCP, A: netip.MustParseAddrPort("192.0.2.1:1"), B: netip.MustParseAddrPort("192.0.2.2:2")}}); left != 0 {
			t.Errorf("%d connections are not asked for", left)
		}
		agents, _ := n.End(t.Context(), 0)
		if a := agents[0]; a.Ended != "its session ended early: command terminated with exit code 137" || a.CPUNs != nil || len(a.Sights) != 2 {
			t.Errorf("the one that was killed: %+v", a)
		}
		if b := agents[1]; b.Ended != "" || b.CPUNs == nil {
			t.Errorf("the other one: %+v", b)
		}
		sources := j.Sources(0)
		for _, name := range []record.EventFrom{record.FromKernel, record.FromConntrack} {
			i := slices.IndexFunc(sources, func(s record.Source) bool { return s.Name == string(name) })
			if i < 0 || len(sources[i].Gaps) != 1 || sources[i].Gaps[0].Why != "node a: "+agents[0].Ended || sources[i].Gaps[0].ToTNs != nil || sources[i].Ended != "" {
				t.Errorf("source %s: %+v", name, sources)
			}
		}
		missing, notes := record.Troubles(sources)
		if len(missing) != 0 || len(notes) != 2 {
			t.Errorf("missing %v, notes %v: an agent only adds to a trial", missing, notes)
		}
	})
}

// A node that falls silent, as one without power does, holds up neither the others nor the end for long.
func TestANodeThatFallsSilent(t *testing.T) {
	for _, mute := range []string{"pods", "find", "end"} {
		t.Run(mute, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent, other := &scripted{mute: mute}, &scripted{}
				n, err := Open(t.Context(), places(silent, other), journal.New(), "v1")
				if err != nil {
					t.Fatal(err)
				}
				n.Watch(t.Context(), nil, nil, nil)
				n.See(comes("web-1", "u1", "a"))
				n.See(comes("web-2", "u2", "b"))
				synctest.Wait() // no time passes
				if told := other.told(); !slices.Equal(told, []string{"u2"}) {
					t.Errorf("the agent of b was told of %v while that of a is silent", told)
				}
				time.Sleep(30 * time.Second) // the trial goes on
				began := time.Now()
				n.Find(t.Context(), []agent.Pair{{Protocol: agent.TCP}})
				agents, _ := n.End(t.Context(), 0)
				if took := time.Since(began); took > time.Minute {
					t.Errorf("the end took %v", took)
				}
				if !strings.Contains(agents[0].Ended, "no answer to \""+mute+"\" within 15s") || agents[1].Ended != "" || agents[1].CPUNs == nil {
					t.Errorf("agents %+v", agents)
				}
			})
		})
	}
}

// Of a Pod that ran and that its agent never found the record says so; one that never ran is nobody's loss.
func TestPodsThatWereNeverFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.New()
		n, err := Open(t.Context(), places(&scripted{unfound: []string{"u1", "u2"}}), j, "v1")
		if err != nil {
			t.Fatal(err)
		}
		n.Watch(t.Context(), nil, nil, nil)
		n.See(comes("brief", "u1", "a"))
		n.See(record.Event{Source: record.FromKube, Kind: record.ContainerExited, Subject: "container/brief/web", PodUID: "u1", Node: "a", Detail: map[string]any{}})
		n.See(comes("waiting", "u2", "a"))
		n.End(t.Context(), 0)
		for _, s := range j.Sources(0) {
			if s.Name != string(record.FromKernel) {
				continue
			}
			if len(s.Gaps) != 1 || !strings.HasPrefix(s.Gaps[0].Why, "pod brief: the agent of node a found no process of it") || s.Gaps[0].ToTNs == nil || *s.Gaps[0].ToTNs < s.Gaps[0].FromTNs {
				t.Errorf("gaps %+v", s.Gaps)
			}
			return
		}
		t.Error("the kernel is no source")
	})
}
