package explain

import (
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
)

// What a node's kernel could not hand over spoils what it is evidence for, and nothing else.
func TestALossSpoilsItsOwnSights(t *testing.T) {
	all := []string{signals, exits, listeners, sockets, resets, icmp, conntrack, deleters, ruleSight}
	for _, c := range []struct {
		kind    string
		spoiled []string
	}{
		{"signals", []string{signals}},
		{"exits", []string{exits}},
		{"listeners", []string{listeners}},
		{"sockets", []string{sockets}},
		{"resets", []string{resets}},
		{"icmp", []string{icmp}},
		{"deletions", []string{conntrack, deleters}},
		{"conntrack", []string{conntrack, deleters}},
		{"memory", []string{sockets, resets, icmp, conntrack, deleters}},
		{"nested", nil},
		{"what a later agent counts", []string{signals, exits, listeners, sockets, resets, icmp, conntrack, deleters}},
	} {
		b := newWatched()
		b.r.Agents[0].Lost[c.kind] = 7
		r := b.fails()
		v := newView(&r)
		for _, sight := range all {
			want := ""
			for _, s := range c.spoiled {
				if s == sight {
					want = "node worker-1's kernel lost 7 events of " + sight
				}
			}
			if got := v.unseen(sight, podNode, 0, 1); got != want {
				t.Errorf("%s lost, %s: %q, want %q", c.kind, sight, got, want)
			}
			if got := v.unseen(sight, clientNode, 0, 1); got != "" {
				t.Errorf("%s lost on another node, %s: %q", c.kind, sight, got)
			}
		}
	}
}

// A node that has lost the ends of connections claims no cause by their absence, and what was not lost still counts.
func TestALossLeavesTheOtherCauses(t *testing.T) {
	for _, c := range []struct {
		name   string
		record *test
		loss   record.Failure
		lost   string
		kind   string
		words  string
	}{
		{"ends are lost, and it needs none", dead(), through(record.Refused, 41, 42), "sockets", "dead-endpoint", ""},
		{"exits are lost", dead(), through(record.Refused, 41, 42), "exits", unattributed, "node worker-1's kernel lost 7 events of exits"},
		{"its end is among the lost", cutOff().without(record.SocketClosed, ""), kept(record.ResetBeforeResponse, 90, 141), "sockets", unattributed, "node worker-1's kernel lost 7 events of sockets"},
		{"others' ends are among the lost", cutOff(), kept(record.ResetBeforeResponse, 90, 141), "sockets", "cut-by-exit", ""},
	} {
		c.record.r.Agents[0].Lost[c.lost] = 7
		if got := c.record.cause(c.loss); got.Kind != c.kind || !strings.Contains(got.Sentence, c.words) {
			t.Errorf("%s: %s, %q", c.name, got.Kind, got.Sentence)
		}
	}
}

// An agent that ended takes the causes with it that needed its node, whatever it had told by then, and no others.
func TestAnAgentThatEnded(t *testing.T) {
	const why = "its session ended early: command terminated with exit code 137"
	for _, c := range []struct {
		node  int
		kind  string
		words string
	}{
		{0, unattributed, "whether web-1 listened again after +38 ms (the agent of node worker-1: " + why + ")"},
		{2, "dead-endpoint", ""},
	} {
		b := dead()
		b.r.Agents = append(b.r.Agents, record.Agent{Node: "worker-3", Lost: map[string]uint64{}})
		b.r.Agents[c.node].Ended = why
		if got := b.cause(through(record.Refused, 41, 42)); got.Kind != c.kind || !strings.Contains(got.Sentence, c.words) {
			t.Errorf("the agent of %s: %s, %q", b.r.Agents[c.node].Node, got.Kind, got.Sentence)
		}
	}
}

// A Pod that listened when its node's agent was last heard may have ended since: that it lived on is not known, and what the API told of its end counts.
func TestAPodWhoseNodeIsSilent(t *testing.T) {
	const why = "(the agent of node worker-1: its session ended early: it was cut off without a last word)"
	silent := func() *test {
		b := newWatched().listener(-900, record.ListenerOpened, "web-1").entry(3000.3, record.ConntrackNew, "tcp", "web-1", nil)
		b.r.Agents[0].Ended = "its session ended early: it was cut off without a last word"
		return b
	}
	got := silent().cause(through(record.ConnectTimeout, 3000, 4000))
	for _, words := range []string{"whether web-1 still listened, as it had since -900 ms " + why, "whether web-1's process lived then " + why} {
		if got.Kind != unattributed || !strings.Contains(got.Sentence, words) {
			t.Errorf("%s, %q: want %q", got.Kind, got.Sentence, words)
		}
	}
	if strings.Contains(got.Sentence, "but web-1") || strings.Contains(got.Sentence, "it lives") {
		t.Errorf("it tells what nobody saw: %q", got.Sentence)
	}
	got = silent().kube(100, record.PodTerminating, "web-1").kube(2000, record.ContainerExited, "web-1").cause(through(record.ConnectTimeout, 3000, 4000))
	if got.Kind != "dead-endpoint" || !strings.Contains(got.Sentence, "had exited") {
		t.Errorf("the API told of its exit: %s, %q", got.Kind, got.Sentence)
	}
}

// A Pod that its agent never found is told of in what was lost on it; what is known of the node's other Pods stays.
func TestAPodThatWasNeverFound(t *testing.T) {
	const why = "the agent of node worker-1 found no process of it"
	unfound := func(b *test, pod string) *test {
		for i := range b.r.Sources {
			if b.r.Sources[i].Name == string(record.FromKernel) {
				b.r.Sources[i].Gaps = append(b.r.Sources[i].Gaps, record.Gap{FromTNs: -1000 * ms, ToTNs: new(int64(2000 * ms)), Why: "pod " + pod + ": " + why})
			}
		}
		return b
	}
	if got := unfound(dead(), "web-2").cause(through(record.Refused, 41, 42)); got.Kind != "dead-endpoint" {
		t.Errorf("another Pod was not found: %s, %q", got.Kind, got.Sentence)
	}
	b := unfound(dead().without(record.ListenerClosed, "web-1").without(record.ProcessExited, "web-1"), "web-1")
	if got := b.cause(through(record.Refused, 41, 42)); got.Kind != unattributed || !strings.Contains(got.Sentence, "("+why+")") {
		t.Errorf("the Pod itself was not found: %s, %q", got.Kind, got.Sentence)
	}
	b = unfound(cutOff().without(record.SocketClosed, ""), "web-1")
	if got := b.cause(kept(record.ResetBeforeResponse, 90, 141)); got.Kind != unattributed || !strings.Contains(got.Sentence, "("+why+")") {
		t.Errorf("its connection's end was not seen: %s, %q", got.Kind, got.Sentence)
	}
}
