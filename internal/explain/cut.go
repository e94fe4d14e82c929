package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

const (
	sigkill = 9
	// withExit is how long before its exit what a process does to its connections is a part of it: it ends them, and then itself.
	withExit = 100_000_000
	// wholeSeconds is how inexact a grace period is: the kubelet takes what has passed off it in whole seconds.
	wholeSeconds = int64(time.Second)
)

// runtimes are the first letters of the names of processes that end containers for the kubelet.
var runtimes = []string{"containerd", "runc", "crun", "crio", "conmon", "dockerd", "kubelet"}

// byRuntime reports whether the runtime sent a signal.
func byRuntime(e *record.Event) bool {
	comm, _ := e.Detail["sender_comm"].(string)
	kernel, _ := e.Detail["from_kernel"].(bool)
	return !kernel && slices.ContainsFunc(runtimes, func(r string) bool { return strings.HasPrefix(comm, r) })
}

// isKill reports whether a signal, or what ended a process, was SIGKILL.
func isKill(e *record.Event) bool {
	n, ok := record.Integer(e.Detail["signal"])
	return ok && n == sigkill
}

// cutting is how a Pod's process ended a connection with itself.
type cutting struct {
	// end is the connection's end at the Pod, exit the process's. Datagrams have no end.
	end, exit *record.Event
	// stop is the signal on which the application ended it, before its process exited; nil where the exit did.
	stop *record.Event
	// how says what the exit did to it.
	how string
	// kill is the SIGKILL that ended the process; nil where none did, or it was not seen: killed.
	kill   *record.Event
	killed bool
	// byTest: the test itself killed it.
	byTest           *record.Event
	missing, against string
}

// cut reports whether a request or flow was ended on its connection.
func cut(l loss) bool {
	switch l.Outcome {
	case record.ResetBeforeResponse, record.ResetMidResponse, record.EOFBeforeResponse, record.Truncated:
		return !l.udp
	}
	return false
}

// cuttingOf finds how l's connection ended at its Pod, and whether that was the end of a process. An empty one: l has nothing to do with it.
func (v *view) cuttingOf(l loss) cutting {
	if l.flow != nil && l.udp {
		return v.datagramsCut(l)
	}
	sent, ok := l.sent()
	if !cut(l) || !ok {
		return cutting{}
	}
	pod := l.to.life
	if pod == nil {
		return cutting{missing: l.to.missing}
	}
	if _, queued := v.shut(l); queued != nil || v.raceOf(l).sentence != "" {
		return cutting{}
	}
	ends := v.endsOf(l)
	if len(ends) == 0 {
		why := cmp.Or(v.unseen(sockets, pod.node, began(l.Failure), l.TNs), v.unfound(pod))
		return cutting{missing: because("how its connection ended at "+pod.name+": no socket-closed or reset-sent of it was seen", why)}
	}
	c := cutting{end: ends[0], how: "and its connection ended with it"}
	end := timeOf(c.end)
	if end.before(sent) {
		c.against = fmt.Sprintf("its connection had ended at %s (%s) at %s, before it was sent", pod.name, c.end.Kind, clockTime(c.end.TNs))
		return c
	}
	for _, e := range pod.exits {
		if isFirst(e) && v.endedBy(end, timeOf(e)) {
			c.exit = e
			break
		}
	}
	if c.exit == nil {
		v.onItsWayOut(pod, &c)
	}
	switch {
	case c.exit == nil && v.unseen(exits, pod.node, c.end.TNs-nearby, c.end.TNs+withExit) != "":
		c.missing = "whether " + pod.name + "'s process exited then (" + v.unseen(exits, pod.node, c.end.TNs-nearby, c.end.TNs+withExit) + ")"
	case c.exit == nil:
		c.against = pod.name + "'s process lived on when it ended this connection at " + clockTime(c.end.TNs)
	case !sent.before(end):
		c.missing = "whether it was under way when " + pod.name + " ended its connection at " + clockTime(c.end.TNs) + ": the order lies within the bounds of the clocks"
	default:
		v.killOf(l, &c)
	}
	return c
}

// onItsWayOut finds a process that had been asked to end, ended the connection, and exited right after it had done so everywhere. Of several
// containers it is not known which of them held it.
func (v *view) onItsWayOut(pod *life, c *cutting) {
	end := timeOf(c.end)
	if !v.oneContainer() {
		return
	}
	for _, x := range pod.exits {
		if !isFirst(x) || isKill(x) || !end.before(timeOf(x)) || end.later(nearby).before(timeOf(x)) {
			continue
		}
		for _, s := range pod.signals {
			if s.Subject != x.Subject || !asksToEnd(s) || !timeOf(s).before(end) {
				continue
			}
			name, _ := s.Detail["signal_name"].(string)
			c.exit, c.stop = x, s
			c.how = fmt.Sprintf("and had ended its connection %s before, %s after %s", length(x.TNs-c.end.TNs), length(c.end.TNs-s.TNs), cmp.Or(name, "it was asked to end"))
			return
		}
	}
}

// endedBy reports whether what ended at a time, a process held that exited at another. In a Pod of several containers it must be in the same moment, as
// it is not known which of them held it.
func (v *view) endedBy(end, exit instant) bool {
	if !v.oneContainer() {
		return !end.before(exit) && !exit.later(atOnce).before(end)
	}
	return !end.later(withExit).before(exit) && !exit.later(nearby).before(end)
}

// killOf finds the SIGKILL that ended a process.
func (v *view) killOf(l loss, c *cutting) {
	if !isKill(c.exit) {
		return
	}
	c.killed = true
	for _, s := range l.to.life.signals {
		// Of a process that is ending the kernel kills what is left of it, which does nothing any more.
		if isKill(s) && s.Subject == c.exit.Subject && !timeOf(c.exit).before(timeOf(s)) && (c.kill == nil || s.Detail["result"] == "delivered") {
			c.kill = s
		}
	}
	for _, e := range v.kills {
		if l.to.life.runs(strings.TrimPrefix(e.Subject, "container/")) && max(e.TNs-c.exit.TNs, c.exit.TNs-e.TNs) <= nearby {
			c.byTest = e
		}
	}
}

// byRuntimes reports whether it was the runtime's SIGKILL, whose rule is cutBySigkill.
func (c cutting) byRuntimes() bool {
	return c.killed && c.byTest == nil && (c.kill == nil || byRuntime(c.kill))
}

func (c cutting) finding(l loss) finding {
	return finding{missing: c.missing, against: c.against, evidence: told(l.to.entry, c.stop, c.end, c.exit, c.kill, c.byTest)}
}

func cutByExit(v *view, l loss) finding {
	if !v.asked {
		return v.exitTold(l)
	}
	c := v.cuttingOf(l)
	if c.byRuntimes() || v.raceOf(l).sentence != "" {
		return finding{}
	}
	if x := v.exitTold(l); x.sentence != "" {
		return x
	}
	switch {
	case c.missing != "" || c.against != "":
		return c.finding(l)
	case c.exit == nil:
		return finding{}
	}
	did := "exited"
	switch {
	case c.byTest != nil:
		did = "was killed by the test itself"
	case c.killed:
		did = "was killed"
		if kernel, _ := c.kill.Detail["from_kernel"].(bool); kernel {
			did = "was killed by the kernel"
		}
	}
	return proved(fmt.Sprintf("%s while it was under way: %s's process %s at %s, %s", l.what(), l.to.life.name, did, clockTime(c.exit.TNs), c.how),
		l.to.entry, c.stop, c.end, c.exit, c.kill, c.byTest)
}

// exitTold is cutByExit by the bundled probe's own word.
func (v *view) exitTold(l loss) finding {
	pod := v.instance(l)
	sent, ok := l.sent()
	if !cut(l) || pod == nil || pod.exiting == nil || pod.exited == nil || !ok {
		return finding{}
	}
	// A probe that resets its connections does so just before it writes that it exits, and as a part of it.
	first := pod.exiting
	if pod.forced != nil && pod.forced.TNs < first.TNs {
		first = pod.forced
	}
	if first.Bound != record.Exact || first.UncertaintyNs == nil || l.UncertaintyNs == nil {
		return finding{}
	}
	doubt := *first.UncertaintyNs + *l.UncertaintyNs
	if sent.lo > first.TNs+doubt || l.TNs < first.TNs-doubt || l.TNs > pod.exited.TNs+doubt {
		return finding{}
	}
	return proved(fmt.Sprintf("%s %s after %s wrote that it exits, while it was under way: the exit cut its connection (the news of the exit came %s after that line)",
		l.what(), length(max(0, l.TNs-first.TNs)), pod.name, length(pod.exited.TNs-first.TNs)), pod.forced, pod.exiting, pod.exited)
}

// datagramsCut is cuttingOf for a flow of datagrams: its Pod's process exited, and nothing else was there to take it over.
func (v *view) datagramsCut(l loss) cutting {
	pod := l.to.life
	if l.rehomed() || !l.Outcome.Failed() || pod == nil {
		return cutting{}
	}
	c := cutting{exit: v.exitBefore(l), how: "and no other endpoint was there to take it over"}
	switch {
	case c.exit == nil:
		return cutting{}
	case l.to.by == byAddress:
		c.how = "and its client went to that Pod's own address"
	case v.otherServed(pod, l.TNs-settled, l.TNs) != nil:
		return cutting{} // staleConntrack's
	case v.deaf(c.exit.TNs, l.TNs) || len(v.endpoints) == 0:
		c.missing = "whether another endpoint was there to take it over"
		return c
	}
	v.killOf(l, &c)
	return c
}

// exitBefore gives the exit of the first process of l's Pod that came before l was known to be lost and after its last proof of life; nil without one. That
// proof may have been under way, and waited to be read, when the process exited.
func (v *view) exitBefore(l loss) *record.Event {
	alive := l.underway()
	if !v.oneContainer() {
		return nil
	}
	for _, e := range l.to.life.exits {
		if x := timeOf(e); isFirst(e) && x.before(l.known()) && !x.later(withExit).before(instant{lo: alive.lo, hi: alive.lo, doubt: alive.doubt}) {
			return e
		}
	}
	return nil
}

func cutBySigkill(v *view, l loss) finding {
	c := v.cuttingOf(l)
	if c.exit == nil || c.missing != "" || c.against != "" || !c.byRuntimes() {
		return finding{} // what is missing or speaks against a cut is cutByExit's to tell
	}
	pod := l.to.life
	if c.kill == nil {
		c.missing = because("who sent the SIGKILL that ended "+pod.name, v.unseen(signals, pod.node, c.exit.TNs-nearby, c.exit.TNs))
		return c.finding(l)
	}
	grace, ok := v.graceOf(pod)
	if !ok {
		c.missing = "the grace period of " + pod.name
		return c.finding(l)
	}
	from, given := pod.ending, grace
	if from == nil {
		// Without the API's word the runtime's first signal tells, which comes after the hook.
		for _, s := range pod.signals {
			if !isKill(s) && byRuntime(s) && pod.hookNs != nil {
				from, given = s, grace-*pod.hookNs
				break
			}
		}
	}
	if from == nil {
		c.missing = "when the end of " + pod.name + " began"
		return c.finding(l)
	}
	took := c.kill.TNs - from.TNs
	used := timeOf(from).later(given - wholeSeconds)
	if timeOf(c.kill).before(used.soonest()) {
		c.against = fmt.Sprintf("SIGKILL came %s after its end began, and its grace period of %s was not used up", length(took), figure.Setting(grace))
		return c.finding(l)
	}
	if !used.before(timeOf(c.kill)) {
		c.missing = "whether the grace period was used up: it lies within the bounds of the clocks"
		return c.finding(l)
	}
	return proved(fmt.Sprintf("%s while it was under way: the runtime sent SIGKILL to %s %s after its end began, its grace period of %s used up",
		l.what(), pod.name, length(took), figure.Setting(grace)), l.to.entry, from, c.kill, c.exit, c.end)
}

// graceOf is how long a Pod had: what the API wrote on it when it was deleted, else what was asked for.
func (v *view) graceOf(pod *life) (int64, bool) {
	if pod.ending != nil {
		if s, ok := record.Integer(pod.ending.Detail["grace_seconds"]); ok {
			return s * int64(time.Second), true
		}
	}
	if v.r.Workload != nil {
		return v.r.Workload.GraceNs, true
	}
	return v.r.Config.GraceNs, v.r.Config.GraceNs > 0
}

// raceOf is keepaliveRace.
func (v *view) raceOf(l loss) finding {
	sent, ok := l.sent()
	if l.flow != nil || l.held || l.udp || l.Connection != record.ReusedConnection || l.BytesReceived > 0 || !ok ||
		l.Outcome != record.ResetBeforeResponse && l.Outcome != record.EOFBeforeResponse || l.to.life == nil {
		return finding{}
	}
	var fin, reset *record.Event
	for _, e := range v.endsOf(l) {
		switch {
		case e.Kind == record.SocketClosed && e.Detail["how"] == "fin" && fin == nil:
			fin = e
		case e.Kind == record.ResetSent && fin != nil && timeOf(fin).before(timeOf(e)):
			reset = e
		}
	}
	if fin == nil {
		return finding{}
	}
	closed := timeOf(fin)
	switch {
	case closed.before(sent):
		return proved(fmt.Sprintf("%s: %s had closed this kept connection %s before the request was sent on it", l.what(), l.to.life.name, length(sent.lo-fin.TNs)), l.to.entry, fin, reset)
	case reset != nil && v.oneAtATime():
		return proved(fmt.Sprintf("%s: the request met the close of its kept connection: %s closed it at %s and answered what came after with a reset at %s",
			l.what(), l.to.life.name, clockTime(fin.TNs), clockTime(reset.TNs)), l.to.entry, fin, reset)
	}
	return finding{
		missing:  "whether the request had reached " + l.to.life.name + " when that closed its connection at " + clockTime(fin.TNs) + ": no reset of what came after was seen, and the order of times does not tell",
		evidence: told(l.to.entry, fin),
	}
}

// oneSegment is how much of a body surely travels in one segment with its request.
const oneSegment = 1000

// oneAtATime reports whether a connection carries one request at a time, and that in one segment: then what comes after a FIN is the whole of it.
func (v *view) oneAtATime() bool {
	t := v.r.Config.Traffic
	return t != nil && (t.Mode == "keep-alive" || t.Mode == "tcp") && t.BodyBytes <= oneSegment
}

func keepaliveRace(v *view, l loss) finding { return v.raceOf(l) }
