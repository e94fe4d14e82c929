package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drainproof/drainproof/internal/record"
)

// rule is one cause that recorded events can prove. What no rule fits is unattributed.
type rule struct {
	kind string
	// when says in words what must have been seen.
	when string
	// needs says which sources must have told it.
	needs string
	// agents: it is not tried on a record without any.
	agents bool
	fits   func(*view, loss) finding
}

// rules is the table of what is claimed, and on what evidence. Two rules never fit one loss where their words exclude each other; where they both
// do, the events contradict, and neither is claimed.
var rules = []rule{
	{
		kind: "dead-endpoint",
		when: "a new connection was not taken (refused, unreachable, not connected in time; or reset while it waited to be accepted), the Pod that it was sent to " +
			"had surely ceased to listen before, and it was the node that was late: the rules of the node that chose the Pod ceased to name it only after the connection was sent, or never. " +
			"The Pod's process had exited (at most 100 ms after its listener was closed, as that is a part of it); or it had closed its listener while it was being terminated or after the API had withdrawn it. " +
			"A client that goes to the Pod's own address asks no rules, and then the first two suffice",
		needs:  "conntrack and rules of the node that chose (none for a Pod's own address); kernel of the Pod's node: listeners, exits, signals; or, for less, the bundled probe's log, the API's word of the only container's exit or of the Pod's removal",
		agents: true,
		fits:   deadEndpoint,
	},
	{
		kind: "listener-closed-early",
		when: "the same, but it was the application that was early: its process closed its listener, lived on for 100 ms at least, and the API advertised the Pod at that time and for 1 s after " +
			"(ready; or serving, while no endpoint of the Service was ready), so that no node could have known; and the Pod was not being terminated, or no other endpoint was there. A process that exits chooses nothing: that is dead-endpoint",
		needs:  "conntrack of the node that chose (none for a Pod's own address); kernel of the Pod's node: listeners, exits; or the bundled probe's log; the API's watch without a gap",
		agents: true,
		fits:   closedEarly,
	},
	{
		kind: "cut-by-exit",
		when: "a request or flow was under way and was reset or closed: (1) on a connection to a Pod that is known, between the line in which that Pod wrote that it exits and the news of the container's exit, both clocks tied to the harness's; " +
			"or (2) that very connection ended at the Pod from 100 ms before to 1 s after a container's first process exited (of several containers: at most 10 ms after; of one, up to 1 s before, too, once its process had surely been asked to end), after the request had surely left, and the process was not killed by the runtime; " +
			"or (3) a flow of datagrams ended after its Pod's only container's first process exited, likewise, and no other endpoint was there to take it over",
		needs: "(1) the bundled probe's log and the API; (2) kernel of the Pod's node: sockets or resets, exits, signals; (3) kernel of the Pod's node: exits, and the API's watch without a gap",
		fits:  cutByExit,
	},
	{
		kind: "cut-by-sigkill",
		when: "as cut-by-exit (2) or (3), but the process was killed: the container runtime sent SIGKILL to its first process, not the test itself and not the kernel, when the grace period was used up: counted from " +
			"the news that the Pod is deleted, or else, where the length of the hook is known, from the first signal and less that length; to 1 s, as the kubelet counts whole seconds",
		needs:  "kernel of the Pod's node: signals, exits, sockets or resets; the API's word of the deletion",
		agents: true,
		fits:   cutBySigkill,
	},
	{
		kind: "keepalive-race",
		when: "a request on a kept connection got no byte of a response, and the Pod had sent its FIN before the request came: surely before it left, " +
			"or, on a connection with one request at a time (and at most 1,000 bytes of body), the Pod's kernel answered what came after the FIN with a reset",
		needs:  "kernel of the Pod's node: sockets, resets; and what tells the Pod: conntrack of the node that chose, the address, or who had answered",
		agents: true,
		fits:   keepaliveRace,
	},
	{
		kind:   "rehomed-by-dataplane",
		when:   "another instance answered a flow of datagrams, after kube-proxy had deleted the flow's conntrack entry to the first Pod and the next datagram had made one to the other",
		needs:  "conntrack of the node that chose, and conntrack-deleters",
		agents: true,
		fits:   rehomedByDataplane,
	},
	{
		kind: "no-endpoints",
		when: "a connection through a Service was not made: (1) from 1 s before the request until the refusal the API named no endpoint that was ready or serving, its watch without a gap, and no node was seen to send it to a Pod; " +
			"or (2) a node whose rules surely rejected that address all the time turned it away by an ICMP error or a reset of its own; or dropped it, where the address is that node's; " +
			"or (3) it was not connected in time, the rules of its client's node surely rejected that address when its first packet came, and named no Pod when it was repeated; " +
			"or (4) its conntrack entry on that node leads to the Service's own address: the rules neither named a Pod nor rejected it; " +
			"or (5) a flow of datagrams ended after its conntrack entry had been deleted, which its Pod had outlived, and from then on the node's rules surely rejected that address",
		needs: "(1) the API; (2) rules of the node, and kernel of the node: icmp or resets; (3) rules of the node, and which node it was: kernel: icmp, or conntrack of other connections of that client; (4) conntrack of the node that chose; (5) conntrack and rules of the node that chose, and kernel of the Pod's node: exits",
		fits:  noEndpoints,
	},
	{
		kind: "stale-conntrack",
		when: "a datagram or a new connection was sent to a Pod whose first process had surely exited before, by a conntrack entry from before that was neither deleted nor made again (for a request of one datagram: until it was sent), " +
			"while an endpoint of another Pod had been ready or serving for 1 s",
		needs:  "conntrack of the node that chose; kernel of the Pod's node: exits; the API",
		agents: true,
		fits:   staleConntrack,
	},
	{
		kind: "not-ready-yet",
		when: "(1) the Pod that answered, or took a new connection, is known, and the API called it and its endpoint ready only later, by more than 1 s, for the first time; " +
			"or (2) a new connection was not taken, and the Pod that it was sent to began to listen only later, for the first time",
		needs: "(1) the API, its watch without a gap; (2) conntrack of the node that chose, and kernel of the Pod's node: listeners",
		fits:  notReadyYet,
	},
	{
		kind: "proxy-error",
		when: "an answer of status 502 or 504, which only a gateway gives (RFC 9110, 15.6), on the way through a URL named no instance, and every good answer of the test did: who answered was not the workload; " +
			"or one of status 503, where the workload's own errors name their instance, too",
		needs: "answers that name their instance (--instance-header)",
		fits:  proxyError,
	},
	{
		kind:   "capacity",
		when:   "never claimed so far: that a Pod which was not ended did not take or answer a request in time is said, but nothing in a record tells a full queue from a slow application",
		needs:  "an event of the kernel that a listener's queue overflowed, which records do not have",
		agents: true,
		fits:   capacity,
	},
	{
		kind:  "client-limit",
		when:  "the outcome says so: the client had no descriptor, port or memory, or ended itself",
		needs: "the client",
		fits:  clientLimit,
	},
}

// Definition is a cause as its rule states it.
type Definition struct {
	Kind string
	// When says what must have been seen, and Needs which sources must have told it.
	When, Needs string
}

// Table lists every kind of cause with its rule, in the order in which they are documented.
func Table() []Definition {
	var list []Definition
	for _, r := range rules {
		list = append(list, Definition{r.kind, r.when, r.needs})
	}
	return append(list, Definition{unattributed, "no rule is proved, or more than one; the sentence names what is missing, and what speaks against a cause", "nothing"})
}

// settled is for how long before a request no endpoint may have been there, so that nodes that follow the API late had heard as well; and how late the API's
// own word may reach us.
const settled = 1_000_000_000

func clientLimit(_ *view, l loss) finding {
	if l.Outcome != record.ClientLimited {
		return finding{}
	}
	why := cmp.Or(l.Errno, l.Message, "its own end")
	if l.flow != nil {
		return finding{evidence: []int{}, sentence: fmt.Sprintf("the client itself could not go on (%s): nothing that the workload did", why)}
	}
	return finding{evidence: []int{}, sentence: fmt.Sprintf("the client itself could not go on (%s, phase %s): nothing that the workload did", why, l.Phase)}
}

func noEndpoints(v *view, l loss) finding {
	if x := v.noneTold(l); x.sentence != "" || !v.asked {
		return x
	}
	if l.flow != nil && l.udp {
		return v.deletedThenRejected(l)
	}
	if l.to.bare && notTaken(l) {
		return proved(fmt.Sprintf("%s: node %s sent it on to the Service's own address, where nobody is: its rules named no Pod at %s, and a connection keeps its way",
			l.what(), l.to.entry.Node, clockTime(l.to.entry.TNs)), l.to.entry)
	}
	return v.rejected(l)
}

// noneTold is noEndpoints by the API's word.
func (v *view) noneTold(l loss) finding {
	if l.Outcome != record.Refused && l.Outcome != record.Unreachable || v.r.Workload == nil || v.r.Workload.Service == "" || !throughService(v.r.Config.Path) {
		return finding{}
	}
	from := began(l.Failure) - settled
	down, ok := v.downThroughout(from, l.TNs)
	if !ok || v.deaf(from, l.TNs) {
		return finding{}
	}
	if l.to.by == byConntrack {
		return finding{} // it was sent to a Pod, whatever the API told
	}
	return finding{
		evidence: slices.Clone(down.news),
		sentence: fmt.Sprintf("%s: the Service had had no endpoint that was ready or serving for %s, as the API told", l.what(), length(l.TNs-down.from)),
	}
}

// throughService reports whether requests on that path ask a Service's rules.
func throughService(path string) bool { return path == "clusterip" || path == "nodeport" }

// rejected is noEndpoints by a node's rules and the error that it sent.
func (v *view) rejected(l loss) finding {
	switch l.Outcome {
	case record.Refused, record.Unreachable, record.ConnectTimeout:
	default:
		return finding{}
	}
	if !l.remote.IsValid() || l.to.by == byConntrack || l.to.by == byAddress || l.flow != nil && v.cuttingOf(l).exit != nil {
		return finding{}
	}
	node, turned := v.turnedAway(l)
	if l.Outcome == record.ConnectTimeout && l.isNew() && !l.udp && (turned != nil || node == "") {
		return v.rejectedSilently(l, turned)
	}
	if node == "" {
		return finding{}
	}
	at := l.underway()
	var rejects *record.Event
	for _, e := range v.rules[node] {
		if e.Kind == record.RuleRemoved || !fronts(e, l) {
			continue
		}
		switch t := timeOf(e); {
		case at.before(t):
		case t.before(at) && e.Kind == record.RuleRejects:
			rejects = e
		case t.before(at):
			rejects = nil
		default:
			return finding{
				missing:  "whether node " + node + "'s rules rejected it all the time (" + string(e.Kind) + " at " + clockTime(e.TNs) + ")",
				evidence: told(turned, rejects, e),
			}
		}
	}
	if rejects == nil {
		return finding{missing: because("why node "+node+" turned it away: its rules were not seen to reject that address", v.unseen(ruleSight, node, at.lo, at.hi)), evidence: told(turned)}
	}
	verdict, _ := rejects.Detail["verdict"].(string)
	switch {
	case verdict == "drop" && len(v.entriesOf(l)) > 0:
		return finding{} // an entry of connection tracking led it past the rules
	case verdict == "drop" && turned != nil:
		return finding{against: "node " + node + "'s rules dropped it, yet it answered with an error", evidence: told(rejects, turned)}
	case verdict != "drop" && turned == nil:
		return finding{missing: because("the error by which node "+node+" rejected it", v.unseen(icmp, node, at.lo, at.hi)), evidence: told(rejects)}
	}
	did := "turned it away, as its rules rejected it"
	if verdict == "drop" {
		did = "dropped it, as its rules say"
	}
	return proved(fmt.Sprintf("%s: node %s %s: they knew no endpoint of the Service since %s", l.what(), node, did, clockTime(rejects.TNs)), rejects, turned)
}

// rejectedSilently is rejected for a connection whose client waited in vain. A node answers a SYN that its rules reject by an ICMP error, but no more than
// one a second to one address once six have been (net.ipv4.icmp_ratelimit), and one that comes back while its client
// is still in connect(2) is no more than noted (tcp_v4_err in the kernel's net/ipv4/tcp_ipv4.c).
func (v *view) rejectedSilently(l loss, turned *record.Event) finding {
	node := v.chooserOf(l)
	if turned != nil {
		node = turned.Node
	}
	if node == "" || l.to.life != nil || turned == nil && v.led(l, node) {
		return finding{}
	}
	rejects, open := v.rejectedUntil(l, node, turned)
	if rejects == nil || open.missing != "" {
		return open
	}
	did := "rejected it, and no error of that node was seen to answer it"
	switch {
	case turned != nil:
		did = "rejected it, and the error that the node sent did not end the client's waiting"
	case rejects.Detail["verdict"] == "drop":
		did = "dropped it"
	}
	return proved(fmt.Sprintf("%s: node %s's rules %s: they knew no endpoint of the Service since %s", l.what(), node, did, clockTime(rejects.TNs)), rejects, turned)
}

// turnedAway gives the node that answered l's connection by an error of its own, or whose address it went to and was not answered. An error about a
// packet that is addressed to the front comes from a rule: one that was led on to a Pod bears that one's address by then.
func (v *view) turnedAway(l loss) (node string, by *record.Event) {
	at := l.underway()
	for _, e := range v.refusals {
		if timeOf(e).before(at) || at.before(timeOf(e)) {
			continue
		}
		source, destination := endpointOf(e.Detail["source"]), endpointOf(e.Detail["destination"])
		if e.Kind == record.ResetSent {
			source, destination = endpointOf(e.Detail["remote"]), endpointOf(e.Detail["local"])
		}
		if source == l.local && destination == l.remote {
			return e.Node, e
		}
	}
	if v.r.Workload != nil && l.Outcome == record.ConnectTimeout {
		for _, p := range v.r.Workload.Pods {
			if p.NodeIP != "" && p.NodeIP == l.remote.Addr().String() {
				return p.Node, nil
			}
		}
	}
	return "", nil
}

func notReadyYet(v *view, l loss) finding {
	if x := v.readyLater(l); x.sentence != "" || !v.asked {
		return x
	}
	if !notTaken(l) || l.to.life == nil || l.to.by == byInstance {
		return finding{}
	}
	at, reset := v.arrival(l)
	c := v.closingOf(l, at)
	pod := l.to.life
	if c.opened == nil {
		return finding{}
	}
	although := ""
	var called *record.Event
	for _, e := range []*record.Event{pod.ready, pod.endpointReady} {
		switch {
		case e == nil || !timeOf(e).before(at):
		case pod.added == nil || pod.added.TNs < 0:
			// It may have listened before anybody watched it.
			return finding{against: "the API had called " + pod.name + " ready before it listened", evidence: told(e)}
		default:
			called, although = e, ", although the API had called it ready"
		}
	}
	from := at.lo
	if pod.added != nil {
		from = min(from, pod.added.TNs)
	}
	if why := v.unseen(listeners, pod.node, from, c.opened.TNs); why != "" {
		return finding{missing: "whether " + pod.name + " had listened before (" + why + ")", evidence: told(c.opened)}
	}
	return proved(fmt.Sprintf("%s: it was sent to %s, which began to listen only %s later%s", l.what(), pod.name, length(c.opened.TNs-l.TNs), although), l.to.entry, reset, called, c.opened)
}

// readyLater is notReadyYet by the API's word.
func (v *view) readyLater(l loss) finding {
	if l.flow != nil || !l.Outcome.Failed() || !l.Outcome.Answered() && l.Connection != record.NewConnection {
		return finding{}
	}
	pod := v.instance(l)
	if pod == nil || pod.added == nil || pod.ready == nil || pod.added.TNs < 0 || pod.ready.TNs-l.TNs < settled {
		return finding{} // what was there before the watch may have been ready before; and the API's word reaches us later than the nodes
	}
	if pod.endpointReady != nil && pod.endpointReady.TNs <= l.TNs || v.deaf(pod.added.TNs, pod.ready.TNs) {
		return finding{}
	}
	return proved(fmt.Sprintf("%s by %s, which the API called ready for the first time %s later: it was sent there too early", l.what(), pod.name, length(pod.ready.TNs-l.TNs)), pod.added, pod.ready)
}

func proxyError(v *view, l loss) finding {
	if l.Outcome != record.HTTPError || l.Instance != nil || l.Status == nil || *l.Status < 502 || *l.Status > 504 || v.r.Config.Path != "url" || v.r.Requests == nil {
		return finding{}
	}
	// Who always names itself did not give the answer that names nobody.
	var unnamed, named int64
	for _, i := range v.r.Requests.Instances {
		if i.Instance == "" {
			unnamed = i.Total
		} else {
			named += i.Total
		}
	}
	for _, f := range v.r.Failures {
		if f.Instance == nil {
			unnamed--
		}
	}
	namesErrors := slices.ContainsFunc(v.r.Failures, func(f record.Failure) bool { return f.Outcome == record.HTTPError && f.Instance != nil })
	if named == 0 || unnamed > 0 || *l.Status == 503 && !namesErrors {
		return finding{}
	}
	return finding{evidence: []int{}, sentence: fmt.Sprintf("%s by a proxy before the workload: every answer of the workload names its instance, and this names none", l.what())}
}

// capacity only names what would prove it.
func capacity(v *view, l loss) finding {
	if l.flow != nil || l.udp || l.Outcome != record.ResponseTimeout && l.Outcome != record.ConnectTimeout || l.to.life == nil || l.to.life.end() != nil {
		return finding{}
	}
	if why := v.unseen(exits, l.to.life.node, began(l.Failure), l.TNs); why != "" {
		return finding{missing: "whether " + l.to.life.name + "'s process lived then (" + why + ")"}
	}
	return finding{missing: "whether the queue of " + l.to.life.name + "'s listener was full or its application slow: it lives, and no event tells"}
}
