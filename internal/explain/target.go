package explain

import (
	"net/netip"
	"slices"

	"github.com/drainproof/drainproof/internal/record"
)

// Target is where a connection led, as far as that is known.
type Target struct {
	// Pod, PodUID and Node say which Pod it was and where that runs; empty where that is not known.
	Pod, PodUID, Node string
	// Chooser is the node whose rules chose the Pod; empty where the client went to the Pod's own address, or that is not known.
	Chooser string
	// By is what tells: conntrack (the entry of the connection), rule (the node's rules named this Pod alone), address (the client went to
	// the Pod's own), or instance (what answered on it).
	By string
	// Evidence are the ids of the events that show it.
	Evidence []int
	// Missing says what would have told; empty where the Pod is known.
	Missing string
}

// Backend tells which Pod a failed request's connection led to, and by what evidence.
func Backend(r *record.Record, f record.Failure) Target {
	to := newView(r).lossOf(f).to
	t := Target{Chooser: to.chooser, By: to.by, Evidence: ordered(told(to.entry)), Missing: to.missing}
	if to.life != nil {
		t.Pod, t.PodUID, t.Node = to.life.name, to.life.uid, to.life.node
	}
	return t
}

// What tells where a connection led.
const (
	byConntrack = "conntrack"
	byAddress   = "address"
	byInstance  = "instance"
	byRule      = "rule"
)

// target is the same for the rules.
type target struct {
	// life is nil where the Pod is not known; missing says why then.
	life *life
	// pod and client are the connection's ends as the Pod's kernel has them; zero where they are not known.
	pod, client netip.AddrPort
	// entry is the conntrack entry or the rule that tells it, and chooser its node.
	entry   *record.Event
	chooser string
	by      string
	// bare: its conntrack entry tells that the node sent it on to the Service's own address.
	bare    bool
	missing string
}

// entry is one word of connection tracking.
type entry struct {
	event                  *record.Event
	replySource, replyDest netip.AddrPort
}

// pair is a connection as its client has it.
type pair struct {
	udp           bool
	local, remote netip.AddrPort
}

// indexEntries sorts what connection tracking told by the connection.
func indexEntries(events []record.Event) map[pair][]entry {
	index := map[pair][]entry{}
	for i := range events {
		e := &events[i]
		if e.Source != record.FromConntrack {
			continue
		}
		p := pair{udp: isUDP(e), local: endpointOf(e.Detail["original_source"]), remote: endpointOf(e.Detail["original_destination"])}
		if p.local.IsValid() && p.remote.IsValid() {
			index[p] = append(index[p], entry{e, endpointOf(e.Detail["reply_source"]), endpointOf(e.Detail["reply_destination"])})
		}
	}
	return index
}

// isUDP reads an event's protocol.
func isUDP(e *record.Event) bool {
	name, _ := e.Detail["protocol"].(string)
	return name == "udp"
}

// entriesOf gives what connection tracking told of l's connection, in order.
func (v *view) entriesOf(l loss) []entry {
	return v.entries[pair{udp: l.udp, local: l.local, remote: l.remote}]
}

// made gives the entries that were made for l's connection, without those that are too late for it and, for a new one, those that may be of
// another connection before it, from the same port. No port is taken again within the bounds of two clocks, nor a kept one's in the second before
// it was known to be open.
func (v *view) made(l loss) []entry {
	var list []entry
	sent, known := l.sent()
	for _, e := range v.entriesOf(l) {
		switch {
		case e.event.Kind != record.ConntrackNew || e.event.TNs > l.decided().hi+nearby:
		case l.isNew() && l.Outcome == record.ConnectTimeout && known && sent.later(passing).before(timeOf(e.event).soonest()):
			// of a SYN that was sent again, after the first was lost elsewhere
		case timeOf(e.event).before(l.opened().later(-settled)):
		case l.isNew() && (!known || e.event.UncertaintyNs == nil || l.UncertaintyNs == nil || timeOf(e.event).before(sent)):
		default:
			list = append(list, e)
		}
	}
	return list
}

// targetOf finds where a connection led: by its conntrack entry, which is the node's own word, else by the address that the client
// asked, else by who had answered on it.
func (v *view) targetOf(l loss) target {
	named := v.instance(l)
	made := v.made(l)
	if l.isNew() {
		for _, e := range made {
			if e.replySource != made[0].replySource {
				return target{missing: "which of two Pods it was sent to: its connection has two conntrack entries"}
			}
		}
	}
	if len(made) > 0 {
		e := made[len(made)-1]
		if l.isNew() {
			e = made[0]
		}
		if l.rehomed() {
			e = made[0] // the Pod that it was opened to
		}
		to := target{entry: e.event, chooser: e.event.Node, pod: e.replySource, client: e.replyDest, by: byConntrack}
		if e.replySource == l.remote {
			to.chooser = "" // not translated: nobody chose
		}
		to.life, to.missing = v.owner(e.replySource.Addr(), e.event.TNs)
		to.bare = to.life == nil && e.replySource == l.remote && throughService(v.r.Config.Path)
		if to.life != nil && named != nil && named != to.life {
			to.missing = "whether it was " + to.life.name + ", as its conntrack entry tells, or " + named.name + ", as the answers on it did"
			to.life = nil
		}
		return to
	}
	pod, why := v.owner(l.remote.Addr(), l.underway().lo)
	if pod != nil {
		return target{life: pod, pod: l.remote, client: l.local, by: byAddress}
	}
	if to, ok := v.byRules(l); ok {
		return to
	}
	if named != nil {
		to := target{life: named, by: byInstance}
		if v.r.Config.Path == "pod" {
			to.pod, to.client, to.by = l.remote, l.local, byAddress
		}
		return to
	}
	if slices.ContainsFunc(v.lives, func(p *life) bool { return slices.Contains(p.addresses, l.remote.Addr()) }) {
		return target{missing: why}
	}
	return target{missing: because("which Pod the node sent it to: its connection's conntrack entry was not seen", v.unseen(conntrack, "", began(l.Failure), l.TNs))}
}

// owner gives the Pod that had an address at t, or says why it is not known. Addresses are given again.
func (v *view) owner(a netip.Addr, t int64) (*life, string) {
	var list []*life
	for _, l := range v.lives {
		if slices.Contains(l.addresses, a) && (l.added == nil || l.added.TNs <= t+nearby) {
			list = append(list, l)
		}
	}
	if len(list) > 1 {
		// One that was gone by then had it no more.
		list = slices.DeleteFunc(list, func(l *life) bool { return l.gone != nil && l.gone.TNs < t-nearby })
	}
	switch len(list) {
	case 1:
		return list[0], ""
	case 0:
		return nil, "which Pod had the address " + a.String() + " then (the API told of none)"
	}
	return nil, "which Pod had the address " + a.String() + " then: " + list[0].name + " and " + list[1].name + " both did"
}

// indexEnds sorts what kernels told of connections' ends by the client's end.
func indexEnds(events []record.Event) map[netip.AddrPort][]*record.Event {
	index := map[netip.AddrPort][]*record.Event{}
	for i := range events {
		e := &events[i]
		if e.Kind != record.SocketClosed && e.Kind != record.ResetSent {
			continue
		}
		if remote := endpointOf(e.Detail["remote"]); remote.IsValid() {
			index[remote] = append(index[remote], e)
		}
	}
	return index
}

// endsOf gives how l's connection ended at its Pod, in order of time.
func (v *view) endsOf(l loss) []*record.Event {
	client := l.to.client
	if !client.IsValid() {
		client = l.local
	}
	var list []*record.Event
	for _, e := range v.ends[client] {
		local := endpointOf(e.Detail["local"])
		if !v.isOf(l.to.life, e) || l.to.pod.IsValid() && local != l.to.pod {
			continue
		}
		if t := timeOf(e); t.before(l.opened()) || l.known().before(t) {
			continue
		}
		list = append(list, e)
	}
	return list
}

// isOf reports whether an event is about a Pod.
func (v *view) isOf(pod *life, e *record.Event) bool {
	if pod == nil || record.PodOf(e.Subject) != pod.name {
		return false
	}
	return e.PodUID == pod.uid || e.PodUID == "" || pod.uid == ""
}
