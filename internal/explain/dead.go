package explain

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/record"
)

// notTaken reports whether a new connection was lost because nobody took it, as far as its client could see.
func notTaken(l loss) bool {
	if !l.isNew() {
		return false
	}
	switch l.Outcome {
	case record.Refused, record.Unreachable, record.ConnectTimeout:
		return true
	case record.ResponseTimeout:
		return l.udp
	}
	return false
}

// shut finds how a new connection was reset with the queue of its listener, which was closed before it had been accepted: the kernel resets those in the
// same call. The reset is nil where that is not so.
func (v *view) shut(l loss) (closing, *record.Event) {
	sent, ok := l.sent()
	if !ok || !l.isNew() || l.udp || l.Outcome != record.ResetBeforeResponse || l.to.life == nil {
		return closing{}, nil
	}
	for _, e := range v.endsOf(l) {
		for _, c := range l.to.life.listens {
			if e.Kind != record.ResetSent || c.Kind != record.ListenerClosed || !listensOn(c, l.to.pod) || !sent.before(timeOf(c)) {
				continue
			}
			reset, shut := timeOf(e), timeOf(c)
			if reset.before(shut) || shut.later(atOnce).before(reset) {
				continue
			}
			if x := v.closedBy(l.to.life, c); x.own {
				return x, e
			}
		}
	}
	return closing{}, nil
}

// closed is what deadEndpoint and closedEarly share: how the Pod that a connection was sent to had ceased to listen.
type closed struct {
	closing
	// reset is the Pod's kernel's answer, where it was seen.
	reset *record.Event
	// want is what the API said of the Pod then, and sign that it was being terminated by then; nil for none.
	want wanted
	sign *record.Event
	// relied: it closed its listener itself, the API still advertised it, and there was no reason not to: it was not being terminated, or no other
	// endpoint was there to send connections to.
	relied bool
}

// closedBefore finds it; where it does not hold, or is not known, the finding may say why.
func (v *view) closedBefore(l loss) (closed, finding, bool) {
	var c closed
	c.closing, c.reset = v.shut(l)
	if c.reset == nil {
		if !notTaken(l) {
			return c, finding{}, false
		}
		if l.to.life == nil {
			return c, finding{missing: l.to.missing, evidence: told(l.to.entry)}, false
		}
		if l.to.by == byInstance {
			return c, finding{}, false // nothing had answered on a new connection
		}
		var at instant
		at, c.reset = v.arrival(l)
		c.closing = v.closingOf(l, at)
	}
	if c.event == nil {
		return c, finding{missing: c.missing, against: c.against, evidence: told(l.to.entry, c.opened)}, false
	}
	c.want = v.wantedOf(l.to.life, timeOf(c.event))
	c.sign = v.terminating(l.to.life, timeOf(c.event))
	if c.own && c.want == advertised {
		c.relied = c.sign == nil || v.otherServed(l.to.life, c.event.TNs, c.event.TNs) == nil
	}
	return c, finding{}, true
}

// early reports whether the process gave its listener up by its own choice while it was relied on.
func (c closed) early() bool { return c.relied && c.perhaps == nil }

func deadEndpoint(v *view, l loss) finding {
	c, x, ok := v.closedBefore(l)
	switch {
	case !ok:
		return x
	case c.early():
		return finding{}
	case c.relied:
		return finding{
			missing:  "whether " + l.to.life.name + "'s listener was closed by choice or by the end of the process that exited at " + clockTime(c.perhaps.TNs),
			evidence: told(l.to.entry, c.event, c.perhaps),
		}
	case c.own && c.want == unsure && c.sign == nil:
		return finding{
			missing: "whether the API still advertised " + l.to.life.name + " when it closed its listener at " + clockTime(c.event.TNs) +
				": the news came within the time by which it may be late, or not at all",
			evidence: told(l.to.entry, c.event),
		}
	}
	pod := l.to.life
	events := []*record.Event{l.to.entry, c.reset, c.event, c.exit, c.sign}
	if l.to.chooser == "" {
		return proved(fmt.Sprintf("%s: its client went to the address of %s, which %s", l.what(), pod.name, closedWords(c.closing, l.TNs)), events...)
	}
	removed, missing, against := v.ruleUntil(l)
	if missing != "" || against != "" {
		return finding{missing: missing, against: against, evidence: told(append(events, removed)...)}
	}
	until := "that node's rules named it to the end"
	if removed != nil {
		until = "that node's rules named it until " + clockTime(removed.TNs)
	}
	return proved(fmt.Sprintf("%s: node %s sent it to %s, which %s; %s", l.what(), l.to.chooser, pod.name, closedWords(c.closing, l.TNs), until), append(events, removed)...)
}

// ruleUntil finds when the rules of the node that chose l's Pod ceased to name it; no event where they never did. That they named it when the connection
// came is what the connection's entry tells; that they did not any more contradicts it.
func (v *view) ruleUntil(l loss) (removed *record.Event, missing, against string) {
	node, pod := l.to.chooser, l.to.life
	from := l.underway()
	var last *record.Event
	for _, e := range v.rules[node] {
		if e.Kind != record.RuleAdded && e.Kind != record.RuleRemoved || !v.isOf(pod, e) || !fronts(e, l) {
			continue
		}
		if !timeOf(e).before(from) {
			if e.Kind == record.RuleRemoved {
				return e, "", ""
			}
			continue
		}
		last = e
	}
	if last != nil && last.Kind == record.RuleRemoved {
		return last, "", "node " + node + "'s rules had ceased to name " + pod.name + " at " + clockTime(last.TNs) + ", before the connection"
	}
	if why := v.unseen(ruleSight, node, from.lo, v.over()); why != "" {
		return nil, "when the rules of node " + node + " ceased to name " + pod.name + " (" + why + ")", ""
	}
	return nil, "", ""
}

// fronts reports whether a rule is for the address that l's client asked. A NodePort's has no address.
func fronts(e *record.Event, l loss) bool {
	front := endpointOf(e.Detail["front"])
	return !front.IsValid() || front == l.remote || front.Addr().IsUnspecified() && front.Port() == l.remote.Port()
}

func closedEarly(v *view, l loss) finding {
	c, _, ok := v.closedBefore(l)
	if !ok || !c.early() {
		return finding{} // what is missing or speaks against it is deadEndpoint's to tell
	}
	pod := l.to.life
	late := v.withdrawal(pod, c.event.TNs)
	until := "to the end"
	if late != nil {
		until = "until " + clockTime(late.TNs) + " at most"
	}
	return proved(fmt.Sprintf("%s: %s %s by its own choice, while the API advertised it (%s)", l.what(), pod.name, closedWords(c.closing, l.TNs), until),
		l.to.entry, c.reset, c.event, late)
}

// withdrawal gives the first event after t by which the API ceased to advertise a Pod.
func (v *view) withdrawal(pod *life, t int64) *record.Event {
	for _, e := range v.endpoints {
		if e.TNs > t && v.isOf(pod, e) && v.wantedOf(pod, timeOf(e)) == withdrawn {
			return e
		}
	}
	return nil
}
