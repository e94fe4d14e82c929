package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// Group is all losses of one cause at one Pod and node.
type Group struct {
	Kind string
	// Pod and Node are what its evidence is about; empty where it is about none, or about several.
	Pod, Node string
	// Requests and Flows were lost so.
	Requests, Flows int
	// FromTNs and ToTNs are the first and the last of them.
	FromTNs, ToTNs int64
	// Evidence are the ids of all events that show it.
	Evidence []int
	// Sentence tells all of it.
	Sentence string
}

// member is one loss of a group.
type member struct {
	loss
	cause *record.Cause
}

// Groups gives the causes of all losses from the trigger on, those with most losses first. It takes the causes that the record holds, and finds those that
// it does not. Failures that do not count against the workload are told, too, as their causes are.
func Groups(r record.Record) []Group {
	v := newView(&r)
	groups := map[string][]member{}
	var order []string
	add := func(m member) {
		if m.TNs < 0 {
			return
		}
		pod, node := v.about(m.cause)
		key := m.cause.Kind + "\n" + pod + "\n" + node
		if m.cause.Kind == unattributed {
			key += "\n" + openIn(m.cause.Sentence)
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], m)
	}
	for _, f := range r.Failures {
		m := member{v.lossOf(f), f.Cause}
		if m.cause == nil {
			m.cause = v.cause(m.loss)
		}
		add(m)
	}
	for i := range r.Flows {
		if l, ok := v.flowLost(&r.Flows[i]); ok {
			m := member{l, r.Flows[i].Cause}
			if m.cause == nil {
				m.cause = v.cause(l)
			}
			add(m)
		}
	}
	var list []Group
	for _, key := range order {
		list = append(list, v.groupOf(groups[key]))
	}
	slices.SortStableFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Requests+b.Flows, a.Requests+a.Flows), cmp.Compare(a.FromTNs, b.FromTNs))
	})
	return list
}

// openIn is what a sentence says of contradictions and missing evidence: what losses that are unattributed have in common.
func openIn(sentence string) string {
	if _, open, found := strings.Cut(sentence, isMissing); found {
		return "missing: " + open
	}
	return "the events contradict each other"
}

func (v *view) event(id int) *record.Event {
	if id < 1 || id > len(v.r.Events) {
		return nil
	}
	return &v.r.Events[id-1]
}

// about gives the Pod that a cause's evidence is about, and the node whose rules or entries it is about.
func (v *view) about(c *record.Cause) (pod, node string) {
	switch c.Kind {
	case unattributed, "client-limit", "proxy-error":
		return "", ""
	}
	for _, id := range c.Evidence {
		e := v.event(id)
		switch {
		case e == nil:
		case c.Kind == "rehomed-by-dataplane" && pod == "":
			// Its entries alone tell the Pods: the first leads to the one that it was taken from.
			if l, _ := v.owner(endpointOf(e.Detail["reply_source"]).Addr(), e.TNs); l != nil {
				pod, node = l.name, e.Node
			}
		case e.Source == record.FromConntrack || e.Source == record.FromDataplane:
			node = cmp.Or(node, e.Node)
		case c.Kind == "no-endpoints" && e.Source == record.FromKernel:
			node = cmp.Or(node, e.Node)
		case c.Kind == "no-endpoints" || e.Source == record.FromHarness:
		case isEndpointNews(e) && c.Kind == "stale-conntrack": // the other Pod's
		default:
			pod = cmp.Or(pod, record.PodOf(e.Subject))
		}
	}
	return pod, node
}

func isEndpointNews(e *record.Event) bool {
	_, is := upAfter(*e)
	return is
}

// groupOf takes losses of one cause, Pod and node.
func (v *view) groupOf(members []member) Group {
	first := members[0]
	g := Group{Kind: first.cause.Kind, FromTNs: first.TNs, ToTNs: first.TNs}
	g.Pod, g.Node = v.about(first.cause)
	var ids []int
	for _, m := range members {
		if m.flow != nil {
			g.Flows++
		} else {
			g.Requests++
		}
		g.FromTNs, g.ToTNs = min(g.FromTNs, m.TNs), max(g.ToTNs, m.TNs)
		ids = append(ids, m.cause.Evidence...)
	}
	g.Evidence = ordered(ids)
	var events []*record.Event
	for _, id := range g.Evidence {
		if e := v.event(id); e != nil {
			events = append(events, e)
		}
	}
	g.Sentence = subject(members, g) + ": " + cmp.Or(v.tell(g, events), openIn(first.cause.Sentence))
	return g
}

// subject says how many were lost in which way, and when.
func subject(members []member, g Group) string {
	var ways []string
	counts := map[string]int{}
	nouns := map[string]bool{}
	for _, m := range members {
		way := m.what()
		switch m.Outcome {
		case record.DNSFailure, record.TLSFailure, record.ClientLimited:
			way = "lost (" + string(m.Outcome) + ")"
		}
		if counts[way] == 0 {
			ways = append(ways, way)
		}
		counts[way]++
		nouns[m.noun()] = true
	}
	noun := "request"
	switch {
	case len(nouns) == 1:
		noun = members[0].noun()
	case g.Flows > 0:
		noun = "request or flow"
	}
	text := figure.Plural(len(members), noun)
	were := " were "
	if len(members) == 1 {
		were = " was "
	}
	if len(ways) == 1 {
		text += were + ways[0]
	} else {
		var each []string
		for _, w := range ways {
			each = append(each, figure.Count(int64(counts[w]))+" "+w)
		}
		text += were + "lost (" + strings.Join(each, ", ") + ")"
	}
	from, to := clockTime(g.FromTNs), clockTime(g.ToTNs)
	if from == to {
		return text + " at " + from
	}
	return text + " between " + from + " and " + to
}

func (m member) noun() string {
	switch {
	case m.flow != nil:
		return string(m.flow.Protocol) + " flow"
	case notTaken(m.loss) && !m.udp:
		return "new connection"
	default:
		return "request"
	}
}

// tell says what the events of a group's cause show; empty where they do not.
func (v *view) tell(g Group, events []*record.Event) string {
	first := func(kinds ...record.EventKind) *record.Event {
		for _, k := range kinds {
			if i := slices.IndexFunc(events, func(e *record.Event) bool { return e.Kind == k }); i >= 0 {
				return events[i]
			}
		}
		return nil
	}
	exit := first(record.ProcessExited, record.ProbeExiting, record.ContainerExited)
	were, them := "they were", "them"
	if g.Requests+g.Flows == 1 {
		were, them = "it was", "it"
	}
	switch g.Kind {
	case "dead-endpoint":
		return v.tellDead(g, first(record.ListenerClosed, record.ProbeListenClosed), exit, first(record.PodRemoved), events)
	case "listener-closed-early":
		closed := first(record.ListenerClosed, record.ProbeListenClosed)
		if closed == nil {
			return ""
		}
		return fmt.Sprintf("%s's process had closed its listener at %s, while the API advertised it", g.Pod, clockTime(closed.TNs))
	case "cut-by-exit":
		if exit == nil {
			return ""
		}
		return fmt.Sprintf("%s exited at %s while %s under way", g.Pod, clockTime(exit.TNs), were)
	case "cut-by-sigkill":
		if i := slices.IndexFunc(events, func(e *record.Event) bool { return e.Kind == record.SignalSent && isKill(e) }); i >= 0 {
			return fmt.Sprintf("the runtime sent SIGKILL to %s at %s, its grace period used up", g.Pod, clockTime(events[i].TNs))
		}
	case "keepalive-race":
		if fin := first(record.SocketClosed); fin != nil {
			return fmt.Sprintf("%s was closing its kept connections, from %s on, before that reached it", g.Pod, clockTime(fin.TNs))
		}
	case "rehomed-by-dataplane":
		if deleted := first(record.ConntrackDeleted); deleted != nil {
			return fmt.Sprintf("kube-proxy on node %s deleted the conntrack entries that led to %s, from %s on", g.Node, g.Pod, clockTime(deleted.TNs))
		}
	case "no-endpoints":
		if rejects := first(record.RuleRejects); rejects != nil {
			return fmt.Sprintf("the rules of node %s knew no endpoint of the Service since %s", g.Node, clockTime(rejects.TNs))
		}
		if len(events) > 0 {
			return "the Service had no endpoint that was ready or serving since " + clockTime(events[len(events)-1].TNs) + ", as the API told"
		}
	case "stale-conntrack":
		if exit != nil {
			return fmt.Sprintf("node %s still sent %s to %s by conntrack entries from before, and its process had exited at %s", g.Node, them, g.Pod, clockTime(exit.TNs))
		}
	case "not-ready-yet":
		if opened := first(record.ListenerOpened); opened != nil {
			return fmt.Sprintf("node %s sent %s to %s, which began to listen at %s", g.Node, them, g.Pod, clockTime(opened.TNs))
		}
		if ready := first(record.PodReady); ready != nil {
			return fmt.Sprintf("the API called %s ready only at %s", g.Pod, clockTime(ready.TNs))
		}
	case "proxy-error":
		return "a proxy before the workload answered"
	case "client-limit":
		return "the client itself could not go on"
	}
	return ""
}

// tellDead says when a Pod had ceased to listen, and until when the node's rules named it.
func (v *view) tellDead(g Group, closed, exit, gone *record.Event, events []*record.Event) string {
	var text string
	switch {
	case closed != nil && (exit == nil || closed.TNs < exit.TNs):
		text = g.Pod + "'s process had closed its socket at " + clockTime(closed.TNs)
	case exit != nil && exit.Source != record.FromKube:
		text = g.Pod + "'s process had exited at " + clockTime(exit.TNs)
	case exit != nil:
		text = g.Pod + "'s container had exited by " + clockTime(exit.TNs)
	case gone != nil:
		text = g.Pod + " was gone by " + clockTime(gone.TNs)
	default:
		return ""
	}
	if g.Node == "" {
		return text + ", and its clients went to its own address"
	}
	until := "to the end"
	share := "new connections"
	for _, e := range events {
		if e.Kind == record.RuleRemoved {
			until = "until " + clockTime(e.TNs)
			if n := v.among(e); n > 0 {
				share = fmt.Sprintf("1 in %d new connections", n)
			}
		}
	}
	return text + "; node " + g.Node + " still sent " + share + " to it " + until
}

// among counts the endpoints that a node's rules named for a front just before one was removed; 0 where its rules of before are not known.
func (v *view) among(removed *record.Event) int {
	named := map[string]bool{}
	key := func(e *record.Event) string {
		backend, _ := e.Detail["backend"].(string)
		return cmp.Or(backend, e.Subject)
	}
	for _, e := range v.rules[removed.Node] {
		if e == removed {
			break
		}
		if e.Detail["front"] != removed.Detail["front"] {
			continue
		}
		switch e.Kind {
		case record.RuleAdded:
			named[key(e)] = true
		case record.RuleRemoved:
			delete(named, key(e))
		}
	}
	if !named[key(removed)] {
		return 0
	}
	return len(named)
}
