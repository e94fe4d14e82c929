package explain

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/record"
)

// proxyComm is the name of kube-proxy's process.
const proxyComm = "kube-proxy"

// rehomedByDataplane follows a flow of datagrams from the entry that led it to its first Pod to the one that led it to the next.
func rehomedByDataplane(v *view, l loss) finding {
	if !l.rehomed() || !l.udp {
		return finding{}
	}
	if l.to.life == nil || l.to.entry == nil {
		return finding{missing: because("its conntrack entry", v.unseen(conntrack, "", began(l.Failure), l.TNs))}
	}
	node, pod := l.to.chooser, l.to.life
	var deleted, next *record.Event
	var to entry
	astray, went := false, "its next datagram was sent to "
	for _, e := range v.entriesOf(l) {
		if e.event.Node != node || e.event.ID <= l.to.entry.ID || l.known().before(timeOf(e.event).soonest()) {
			continue
		}
		switch {
		case e.event.Kind == record.ConntrackDeleted && next == nil && e.replySource == l.to.pod:
			deleted = moreOf(deleted, e.event)
		case e.event.Kind == record.ConntrackNew && e.replySource == l.to.pod:
			deleted = nil // it came back to the same Pod first
		case e.event.Kind == record.ConntrackNew && e.replySource == l.remote:
			astray = true // by rules that named nobody
		case e.event.Kind == record.ConntrackNew && next == nil:
			next, to = e.event, e
		}
	}
	events := []*record.Event{l.to.entry, deleted, next}
	open := finding{evidence: told(events...)}
	switch {
	case next == nil:
		open.missing = because("the conntrack entry that led it to another Pod", v.unseen(conntrack, node, l.underway().lo, l.TNs))
		return open
	case deleted == nil:
		open.missing = because("the end of the conntrack entry that led it to "+pod.name, v.unseen(conntrack, node, l.underway().lo, l.TNs))
		return open
	}
	other, why := v.owner(to.replySource.Addr(), next.TNs)
	if other == nil {
		open.missing = why
		return open
	}
	if l.flow.LastInstance != nil && other.name != *l.flow.LastInstance {
		open.against = "its conntrack entry leads to " + other.name + ", and " + *l.flow.LastInstance + " answered"
		return open
	}
	by := deleter(deleted)
	comm, _ := deleted.Detail["by_comm"].(string)
	switch {
	case by == "":
		open.missing = because("who deleted its conntrack entry", v.unseen(deleters, node, deleted.TNs, deleted.TNs))
		return open
	case by != "process":
		open.against = "its conntrack entry was not deleted by a process: " + by
		return open
	case comm == "":
		open.missing = because("which process deleted its conntrack entry", v.unseen(deleters, node, deleted.TNs, deleted.TNs))
		return open
	case comm != proxyComm:
		open.against = "its conntrack entry was deleted by " + comm + ", which is not kube-proxy"
		return open
	}
	if astray {
		went = "its next datagram that was sent to a Pod went to "
	}
	return proved(fmt.Sprintf("%s: kube-proxy on node %s deleted its conntrack entry to %s at %s, and %s%s", l.what(), node, pod.name, clockTime(deleted.TNs), went, other.name), events...)
}

// moreOf prefers of two words of one deletion that which names its deleter.
func moreOf(a, b *record.Event) *record.Event {
	if a == nil || deleter(a) == "" {
		return b
	}
	return a
}

// deleter is what kind of thing deleted an entry; empty where that was not told.
func deleter(e *record.Event) string {
	by, _ := e.Detail["by"].(string)
	return by
}

// staleConntrack finds an old entry that went on leading to a Pod whose process had exited.
func staleConntrack(v *view, l loss) finding {
	var old *record.Event
	var pod *life
	var exit *record.Event
	switch {
	case l.rehomed():
		return finding{}
	case l.flow != nil && l.udp && l.to.entry != nil && l.to.life != nil:
		old, pod = l.to.entry, l.to.life
		exit = v.exitBefore(l)
	case l.isNew() && l.to.entry != nil: // it has an entry of its own
	case l.flow == nil && (notTaken(l) || l.udp && (l.Outcome == record.Refused || l.Outcome == record.Unreachable || l.Outcome == record.ResponseTimeout)):
		old, pod, exit = v.oldEntry(l)
	}
	if old == nil || exit == nil {
		return finding{}
	}
	if _, by := v.turnedAway(l); by != nil {
		return finding{} // no entry led it on: the node's rules turned it away
	}
	open := finding{evidence: told(old, exit)}
	for _, e := range v.entriesOf(l) {
		if e.event.Node != old.Node || e.event.ID <= old.ID || e.event.Kind == record.ConntrackUpdated {
			continue
		}
		if l.decided().before(timeOf(e.event).soonest()) {
			break // and so were all that came later
		}
		if l.flow != nil {
			open.evidence = told(old, exit, e.event)
			open.against = "the conntrack entry that led it to " + pod.name + " was not left as it was (" + string(e.event.Kind) + " at " + clockTime(e.event.TNs) + ")"
			return open
		}
		return finding{}
	}
	until := l.decided().hi
	if why := v.unseen(conntrack, old.Node, exit.TNs, until); why != "" {
		open.missing = "whether its conntrack entry was deleted or made again (" + why + ")"
		return open
	}
	other := v.otherServed(pod, until-settled, until)
	if other == nil {
		if l.flow == nil {
			open.missing = "another endpoint that it could have been sent to: the API told of none"
			return open
		}
		return finding{} // cutByExit's
	}
	return proved(fmt.Sprintf("%s: node %s still sent it to %s, whose process had exited %s before, by a conntrack entry from before; %s was there to take it",
		l.what(), old.Node, pod.name, length(until-exit.TNs), record.PodOf(other.Subject)), old, exit, other)
}

// oldEntry gives the entry of a request's ends that is older than the request and leads to a Pod whose process had exited before it.
func (v *view) oldEntry(l loss) (old *record.Event, pod *life, exit *record.Event) {
	sent, ok := l.sent()
	if !ok {
		return nil, nil, nil
	}
	for _, e := range v.entriesOf(l) {
		if e.event.Kind == record.ConntrackNew && timeOf(e.event).before(sent) {
			old = e.event
			pod, _ = v.owner(e.replySource.Addr(), e.event.TNs)
		}
	}
	if pod == nil || !v.oneContainer() {
		return nil, nil, nil
	}
	for _, x := range pod.exits {
		if isFirst(x) && timeOf(x).before(sent) && !startedSince(pod, x, sent) {
			exit = x
		}
	}
	return old, pod, exit
}

// deletedThenRejected is noEndpoints for a flow of datagrams: without its conntrack entry its next datagram asked the node's rules anew.
func (v *view) deletedThenRejected(l loss) finding {
	if l.rehomed() || !l.Outcome.Failed() || l.to.entry == nil || l.to.life == nil || l.to.chooser == "" {
		return finding{}
	}
	var deleted *record.Event
	for _, e := range v.entriesOf(l) {
		switch {
		case e.event.Node != l.to.chooser || e.event.ID <= l.to.entry.ID || l.known().before(timeOf(e.event).soonest()):
		case e.event.Kind == record.ConntrackDeleted:
			deleted = moreOf(deleted, e.event)
		case e.event.Kind == record.ConntrackNew:
			deleted = nil
		}
	}
	if deleted == nil {
		return finding{}
	}
	for _, x := range l.to.life.exits {
		if isFirst(x) && !timeOf(deleted).before(timeOf(x)) && !l.known().before(timeOf(x)) {
			return finding{} // its Pod had not outlived it: cutByExit's
		}
	}
	if why := v.unseen(exits, l.to.life.node, l.underway().lo, deleted.TNs); why != "" {
		return finding{missing: "whether " + l.to.life.name + "'s process lived when its conntrack entry was deleted at " + clockTime(deleted.TNs) + " (" + why + ")", evidence: told(l.to.entry, deleted)}
	}
	r := v.routeOf(l, deleted.Node, instant{lo: deleted.TNs, hi: l.TNs, clock: deleted.Node, doubt: deleted.UncertaintyNs})
	if r.rejects == nil || r.unsure != nil {
		return finding{
			missing:  because("whether node "+deleted.Node+"'s rules rejected its next datagram, after its conntrack entry was deleted at "+clockTime(deleted.TNs), r.missing),
			evidence: told(l.to.entry, deleted, r.unsure),
		}
	}
	_, turned := v.turnedAway(l)
	how := "and no error told its client"
	if turned != nil {
		how = "by an ICMP error of its own"
	}
	return proved(fmt.Sprintf("%s: %s deleted its conntrack entry to %s at %s, and node %s's rules, which knew no endpoint of the Service since %s, rejected its next datagram %s",
		l.what(), deleterWords(deleted), l.to.life.name, clockTime(deleted.TNs), deleted.Node, clockTime(r.rejects.TNs), how), l.to.entry, deleted, r.rejects, turned)
}

// deleterWords names who deleted a conntrack entry.
func deleterWords(e *record.Event) string {
	if comm, _ := e.Detail["by_comm"].(string); comm != "" {
		return comm + " on node " + e.Node
	}
	return "something on node " + e.Node
}
