package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// port is what a Pod listened on.
type port struct {
	protocol record.Protocol
	port     uint16
	// closed is when nothing listened there any more. again is when something did after that, where the Pod lived on; nil for never.
	closed point
	again  *record.Event
}

// protocolOf reads an event's protocol.
func protocolOf(e *record.Event) record.Protocol {
	if isUDP(e) {
		return record.UDP
	}
	return record.TCP
}

// listeners gives what the Pod listened on, in order of protocol and port: by its kernel's word, or by the bundled probe's where there is none.
func (e *terminated) listeners() []port {
	type key struct {
		protocol record.Protocol
		port     uint16
	}
	words := map[key][]*record.Event{}
	for _, list := range [][]*record.Event{e.listens, e.probeClosed} {
		for _, x := range list {
			if e.sandboxGone.event != nil && e.sandboxGone.event.Kind == record.ProcessExited && x.TNs > e.sandboxGone.event.TNs {
				continue // its network namespace was gone: the number that the kernel had for it is another's
			}
			if on := endpointOf(x.Detail["address"]); on.Port() != 0 {
				k := key{protocolOf(x), on.Port()}
				words[k] = append(words[k], x)
			}
		}
		if len(words) > 0 {
			break
		}
	}
	var list []port
	for k, all := range words {
		p := port{protocol: k.protocol, port: k.port}
		p.closed, p.again = e.closing(all)
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b port) int { return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.port, b.port)) })
	return list
}

// closing finds in the events of one port when it was closed: for good, or, where the Pod was not deleted, for the first time.
func (e *terminated) closing(events []*record.Event) (closed point, again *record.Event) {
	var last *record.Event
	for _, x := range events {
		switch {
		case x.TNs < 0:
		case x.Kind == record.ListenerOpened && last != nil:
			if e.deletion.event == nil {
				return seen(last), x
			}
			last = nil // it listens again
		case x.Kind != record.ListenerOpened:
			last = x
		}
	}
	switch {
	case last == nil:
		return point{why: because("it was not seen to be closed", e.unseen(listeners, e.v.over()))}, nil
	case last.Kind == record.ProbeListenClosed:
		return atLatest(last), nil // it writes so afterwards
	}
	return seen(last), nil
}

// deafOn gives when nothing listened on an address of the Pod any more. Without a listener's event it is the exit of the last container, which closed what it held.
func (e *terminated) deafOn(protocol record.Protocol, backend netip.AddrPort, ports []port) (closed point, again *record.Event) {
	i := slices.IndexFunc(ports, func(p port) bool { return p.protocol == protocol && p.port == backend.Port() })
	if i >= 0 && ports[i].closed.event != nil {
		return ports[i].closed, ports[i].again
	}
	return e.out, nil
}

// death is where a request of cause dead-endpoint was sent: by which node, by which front, to which Pod.
type death struct {
	pod   *life
	node  string
	front netip.AddrPort
}

// deaths counts the losses of cause dead-endpoint. A node's own port has any address.
func (v *view) deaths() map[death]int {
	counts := map[death]int{}
	add := func(c *record.Cause, remote string) {
		if c == nil || c.Kind != "dead-endpoint" {
			return
		}
		d := death{front: endpointOf(remote)}
		for _, id := range c.Evidence {
			switch e := v.event(id); {
			case e == nil:
			case e.Source == record.FromConntrack || e.Source == record.FromDataplane:
				d.node = cmp.Or(d.node, e.Node)
			case d.pod == nil && record.PodOf(e.Subject) != "":
				d.pod = v.podOf(e)
			}
		}
		if d.pod != nil && d.node != "" {
			counts[d]++
		}
	}
	for _, f := range v.r.Failures {
		add(f.Cause, f.Remote)
	}
	for _, f := range v.r.Flows {
		add(f.Cause, f.Remote)
	}
	return counts
}

// way is how a node's rules name a Pod.
type way struct {
	node, front, backend string
	protocol             record.Protocol
}

// paths tells of each node and front when it ceased to send new connections to the Pod.
func (e *terminated) paths(ports []port, deaths map[death]int) []record.PathEnd {
	words := map[way][]*record.Event{}
	for node, rules := range e.v.rules {
		for _, x := range rules {
			if x.Kind != record.RuleAdded && x.Kind != record.RuleRemoved || !e.v.isOf(e.life, x) {
				continue
			}
			front, _ := x.Detail["front"].(string)
			backend, _ := x.Detail["backend"].(string)
			if front != "" {
				r := way{node, front, backend, protocolOf(x)}
				words[r] = append(words[r], x)
			}
		}
	}
	list := []record.PathEnd{}
	for r, events := range words {
		if p, ok := e.path(r, events, ports); ok {
			for d, n := range deaths {
				if d.pod == e.life && d.node == r.node && isFront(r.front, d.front) {
					p.Failed += n
				}
			}
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b record.PathEnd) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Front, b.Front), strings.Compare(a.Backend, b.Backend), cmp.Compare(a.Protocol, b.Protocol))
	})
	return list
}

// isFront reports whether a rule's front is the address that a client asked. A node's port has no address.
func isFront(rule string, asked netip.AddrPort) bool {
	front := endpointOf(rule)
	return front == asked || front.Addr().IsUnspecified() && front.Port() == asked.Port()
}

// path takes the events of one way in order. ok is false where the rules had ceased to name the Pod before the trigger.
func (e *terminated) path(r way, events []*record.Event, ports []port) (record.PathEnd, bool) {
	closed, again := e.deafOn(r.protocol, endpointOf(r.backend), ports)
	removed := removal(events, closed)
	if removed != nil && removed.TNs < 0 {
		return record.PathEnd{}, false
	}
	p := record.PathEnd{Node: r.node, Front: r.front, Backend: r.backend, Protocol: r.protocol}
	p.Proxy, _ = events[0].Detail["proxy"].(string)
	gap := e.v.unseen(ruleSight, r.node, 0, e.v.over())
	until := point{why: "never in the trial: the node's rules named it to the end"}
	if gap != "" {
		until.why = "it was not seen (" + gap + ")"
	}
	if removed != nil {
		until = seen(removed)
	}
	p.RuleRemoved = until.recorded()
	switch {
	case again != nil && (removed == nil || timeOf(again).before(until.instant)):
		until = seen(again)
	case removed == nil && gap == "" && e.v.observed != nil:
		until = seen(e.v.observed)
		until.hi = never
	}
	p.DeadEndpoint = span(closed, until)
	return p, true
}

// removal finds when the rules ceased to name a Pod: for the last time before it ceased to listen, if they did not name it again before that, else for the first
// time after. Without knowing when that was it is for good. Nil: they did not.
func removal(events []*record.Event, closed point) (removed *record.Event) {
	for _, x := range events {
		earlier := closed.event == nil || x.TNs < 0 || timeOf(x).before(closed.instant)
		switch {
		case x.Kind == record.RuleAdded && earlier:
			removed = nil
		case x.Kind == record.RuleRemoved && (earlier || removed == nil):
			removed = x
		}
	}
	return removed
}

// blind says which nodes could not be seen doing something in the trial, and why the first of them; empty where all could.
func (v *view) blind(sight string) string {
	if len(v.r.Agents) == 0 {
		return "no agent on any node"
	}
	var first string
	more := 0
	for _, a := range v.r.Agents {
		switch why := v.unseen(sight, a.Node, 0, v.over()); {
		case why == "":
		case first == "":
			first = why
		default:
			more++
		}
	}
	if more > 0 {
		return fmt.Sprintf("%s; and %s likewise", first, figure.Plural(more, "other node"))
	}
	return first
}

// ledToPods sorts what connection tracking told by the address that it translated to. An entry that translates nothing leads where its client went.
func (v *view) ledToPods() map[netip.Addr][]entry {
	index := map[netip.Addr][]entry{}
	for p, entries := range v.entries {
		for _, e := range entries {
			if e.replySource.IsValid() && e.replySource != p.remote {
				index[e.replySource.Addr()] = append(index[e.replySource.Addr()], e)
			}
		}
	}
	return index
}

// tracked is what is known of one node's entries of one protocol.
type tracked struct {
	node     string
	protocol record.Protocol
}

// conntrack tells of the entries that led to the Pod after it had exited.
func (e *terminated) conntrack(all map[netip.Addr][]entry) []record.ConntrackEnd {
	list := []record.ConntrackEnd{}
	if e.out.event == nil {
		return list
	}
	words := map[tracked]map[pair][]*record.Event{}
	for _, a := range e.addresses {
		for _, x := range all[a] {
			if pod, _ := e.v.owner(a, x.event.TNs); pod != e.life {
				continue
			}
			t := tracked{x.event.Node, protocolOf(x.event)}
			if words[t] == nil {
				words[t] = map[pair][]*record.Event{}
			}
			p := pair{local: endpointOf(x.event.Detail["original_source"]), remote: endpointOf(x.event.Detail["original_destination"])}
			words[t][p] = append(words[t][p], x.event)
		}
	}
	for t, pairs := range words {
		if c, ok := e.conntrackOf(t, pairs); ok {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b record.ConntrackEnd) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), cmp.Compare(a.Protocol, b.Protocol))
	})
	return list
}

// conntrackOf counts the entries of one node and protocol. One whose deletion lies too near the exit to tell the order is not counted.
func (e *terminated) conntrackOf(t tracked, pairs map[pair][]*record.Event) (record.ConntrackEnd, bool) {
	c := record.ConntrackEnd{Node: t.node, Protocol: t.protocol}
	gap := e.v.unseen(conntrack, t.node, e.out.event.TNs, e.v.over())
	var last *record.Event
	for _, events := range pairs {
		open, deleted := false, false
		for _, x := range events {
			switch {
			case x.Kind == record.ConntrackDeleted && !deleted:
				if e.out.before(timeOf(x).soonest()) {
					c.Entries++
					if last == nil || x.ID > last.ID {
						last = x
					}
				}
				open, deleted = false, true
			case x.Kind == record.ConntrackNew:
				open, deleted = true, false
			}
		}
		if open && gap == "" {
			c.Entries++
			c.Left++
		}
	}
	deleted := point{why: "none was seen to be deleted"}
	if last != nil {
		deleted = seen(last)
	}
	c.LastDeleted = deleted.recorded()
	if c.Left > 0 {
		deleted = point{why: "some were still there at the end"}
		if e.v.observed != nil {
			deleted = seen(e.v.observed)
			deleted.hi = never
		}
	}
	c.DeadConntrack = span(e.out, deleted)
	return c, c.Entries > 0
}
