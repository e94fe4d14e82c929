package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
)

// Ending tells how one Pod ended.
type Ending struct {
	// Head names the Pod and its node.
	Head string
	// Lines are its steps, its grace period, and each node that was late.
	Lines []string
	// failed counts the requests that were lost to it as a dead endpoint.
	failed int
}

const (
	// maxEndings is how many Pods are told of on one screen, and maxNodes how many nodes of each.
	maxEndings = 2
	maxNodes   = 3
	// maxPorts is how many ports of a Pod are named that no rule leads to.
	maxPorts = 3
)

// Endings tells of each Pod that was ended, those to which most requests were lost first. Unless all are asked for, there are no more than fit on a screen,
// more says how many are left out, and there is nothing of Pods of which only the API told: that is in the timeline.
func Endings(r record.Record, all bool) (list []Ending, more int) {
	for _, t := range r.Terminations {
		if all || isSeen(t) {
			list = append(list, endingOf(r, t, all))
		}
	}
	slices.SortStableFunc(list, func(a, b Ending) int { return cmp.Compare(b.failed, a.failed) })
	if !all && len(list) > maxEndings {
		list, more = list[:maxEndings], len(list)-maxEndings
	}
	return list, more
}

// Terminal writes it, its head in bold.
func (e Ending) Terminal(b *strings.Builder, k Ink, width int) {
	b.WriteString("  " + k.Bold(Cut(Clean(e.Head), width-2)) + "\n")
	for _, line := range e.Lines {
		Bullet(b, Clean(line), width)
	}
}

// MoreEndings says how many Pods were left out.
func MoreEndings(more int) string {
	return fmt.Sprintf("and %s more, in the record (report -v tells of each)", figure.Plural(more, "Pod"))
}

// isSeen reports whether anything but the API told of a Pod's end.
func isSeen(t record.Termination) bool {
	return len(t.Paths) > 0 || len(t.Listeners) > 0 || slices.ContainsFunc(t.Containers, func(c record.ContainerEnd) bool { return c.Term.TNs != nil || c.Kill.TNs != nil })
}

func endingOf(r record.Record, t record.Termination, all bool) Ending {
	e := Ending{Head: t.Pod}
	if t.Node != "" {
		e.Head += " on " + t.Node
	}
	add := func(lines ...string) {
		e.Lines = append(e.Lines, slices.DeleteFunc(lines, func(l string) bool { return l == "" })...)
	}
	add(steps(t), grace(t))
	for _, p := range t.Paths {
		e.failed += p.Failed
	}
	add(nodes(t, all)...)
	for _, c := range t.Conntrack {
		if c.Protocol == record.UDP || all {
			add(entries(c))
		}
	}
	switch {
	case all && len(t.Unseen) > 0:
		add("not seen: " + strings.Join(t.Unseen, "; "))
	case len(r.Agents) > 0 && len(t.Unseen) > 0:
		var sights []string
		for _, why := range t.Unseen {
			sight, _, _ := strings.Cut(why, ":")
			sights = append(sights, sight)
		}
		add("not all seen: " + strings.Join(sights, ", ") + " (report -v says why)")
	}
	return e
}

// step is one thing that happened to a Pod.
type step struct {
	tNs  int64
	text string
}

// steps tells the sequence, in order of time.
func steps(t record.Termination) string {
	var list []step
	add := func(i record.Instant, what string) {
		if i.TNs != nil {
			list = append(list, step{*i.TNs, what + " " + Sign(i.Bound) + figure.Precise(*i.TNs, *i.TNs) + Uncertainty(i.UncertaintyNs)})
		}
	}
	add(t.Deleted, "deleted")
	for _, c := range t.Containers {
		of := ""
		if len(t.Containers) > 1 {
			of = c.Name + ": "
		}
		for _, s := range []record.StopSignal{c.Term, c.Kill} {
			what := of + s.Signal
			if s.Sender != "" {
				what += " from " + s.Sender
			}
			if s.Result == "ignored" {
				what += ", which it ignores,"
			}
			add(s.Instant, what)
		}
		switch {
		case c.Exit.Signal != "":
			add(c.Exit.Instant, of+"ended by "+c.Exit.Signal)
		case c.Exit.Code != nil:
			add(c.Exit.Instant, fmt.Sprintf("%sexit %d", of, *c.Exit.Code))
		default:
			add(c.Exit.Instant, of+"exit")
		}
	}
	for _, l := range portsOf(t) {
		add(l.Closed, fmt.Sprintf("%s port %d closed", l.Protocol, l.Port))
	}
	if t.SandboxGone.Event != t.Removed.Event {
		add(t.SandboxGone, "sandbox gone")
	}
	add(t.Removed, "removed")
	slices.SortStableFunc(list, func(a, b step) int { return cmp.Compare(a.tNs, b.tNs) })
	var texts []string
	for _, s := range list {
		texts = append(texts, s.text)
	}
	return strings.Join(texts, ", ")
}

// portsOf gives the ports that rules lead to, else the first of all.
func portsOf(t record.Termination) []record.ListenerEnd {
	led := slices.DeleteFunc(slices.Clone(t.Listeners), func(l record.ListenerEnd) bool {
		return !slices.ContainsFunc(t.Paths, func(p record.PathEnd) bool {
			return p.Protocol == l.Protocol && strings.HasSuffix(p.Backend, fmt.Sprintf(":%d", l.Port))
		})
	})
	if len(led) > 0 {
		return led
	}
	return t.Listeners[:min(len(t.Listeners), maxPorts)]
}

// length prints a span as far as it is known.
func length(s record.Span) string {
	switch {
	case s.AtLeastNs != nil && s.AtMostNs != nil:
		return figure.Interval(*s.AtLeastNs, *s.AtMostNs)
	case s.AtLeastNs != nil:
		return Sign(record.Lower) + figure.Nanoseconds(*s.AtLeastNs)
	case s.AtMostNs != nil:
		return Sign(record.Upper) + figure.Nanoseconds(*s.AtMostNs)
	}
	return Sign(record.Either) + figure.Nanoseconds(*s.Ns)
}

// grace tells the arithmetic of the grace period, by the container that ended last.
func grace(t record.Termination) string {
	if t.Grace.GraceNs == nil || len(t.Containers) == 0 {
		return ""
	}
	last := t.Containers[0]
	for _, c := range t.Containers {
		if c.Exit.TNs != nil && (last.Exit.TNs == nil || *c.Exit.TNs > *last.Exit.TNs) {
			last = c
		}
	}
	hook := ""
	if t.Hook.Described != "" {
		hook = " (preStop " + t.Hook.Described + ")"
	}
	var parts []string
	if s := last.BeforeTerm; s.Ns != nil && *s.Ns > 0 {
		parts = append(parts, length(s)+" to "+last.Term.Signal+hook)
	} else if hook != "" {
		parts = append(parts, "preStop "+t.Hook.Described)
	}
	if last.TermToExit.Ns != nil {
		parts = append(parts, length(last.TermToExit)+" from "+last.Term.Signal+" to the exit")
	}
	if u := t.Grace.Used; t.Grace.LeftNs != nil {
		// What is left is known on the side on which what was used is not.
		left := record.Span{Ns: t.Grace.LeftNs}
		over := record.Span{Ns: new(-*left.Ns)}
		if u.AtLeastNs != nil {
			left.AtMostNs, over.AtLeastNs = new(*t.Grace.GraceNs-*u.AtLeastNs), new(*u.AtLeastNs-*t.Grace.GraceNs)
		}
		if u.AtMostNs != nil {
			left.AtLeastNs, over.AtMostNs = new(*t.Grace.GraceNs-*u.AtMostNs), new(*u.AtMostNs-*t.Grace.GraceNs)
		}
		if *left.Ns >= 0 {
			parts = append(parts, length(left)+" left")
		} else {
			parts = append(parts, "overrun by "+length(over))
		}
	}
	switch k := last.Killed; {
	case k == nil:
	case *k:
		parts = append(parts, "killed")
	default:
		parts = append(parts, "not killed")
	}
	if len(parts) == 0 {
		return ""
	}
	return "grace " + figure.Setting(*t.Grace.GraceNs) + ": " + strings.Join(parts, ", ")
}

// nodes tells when each node stopped sending new connections: those that were late in a line each, those to which most was lost first; the others together.
func nodes(t record.Termination, all bool) (lines []string) {
	perNode := map[string]int{}
	for _, p := range t.Paths {
		perNode[p.Node]++
	}
	name := func(p record.PathEnd) string {
		if perNode[p.Node] > 1 {
			return p.Node + ", for " + string(p.Protocol) + " " + p.Front + ","
		}
		return p.Node
	}
	paths := slices.Clone(t.Paths)
	slices.SortStableFunc(paths, func(a, b record.PathEnd) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(deref(b.DeadEndpoint.Ns), deref(a.DeadEndpoint.Ns)))
	})
	var late, early, unsure, unknown []record.PathEnd
	for _, p := range paths {
		switch s := p.DeadEndpoint; {
		case s.Ns == nil:
			unknown = append(unknown, p)
		case s.Surely():
			late = append(late, p)
		case s.SurelyNone():
			early = append(early, p)
		default:
			unsure = append(unsure, p)
		}
	}
	for i, p := range late {
		if !all && i == maxNodes && len(late) > maxNodes+1 {
			rest := late[i:]
			least, most := extent(rest)
			lines = append(lines, fmt.Sprintf("and on %s more it was so, for %s%s", figure.Plural(len(rest), "path"), figure.Interval(least, most), lost(rest...)))
			break
		}
		lines = append(lines, name(p)+" "+lateBy(p)+lost(p))
	}
	lines = append(lines, inTime(early, len(perNode) < len(t.Paths), all)...)
	for _, p := range unsure {
		lines = append(lines, "whether "+name(p)+" stopped sending to it before it closed or after is not sure ("+length(p.DeadEndpoint)+")"+lost(p))
	}
	for _, p := range unknown {
		if all || p.Failed > 0 {
			lines = append(lines, name(p)+" stopped sending to it at a time that is not known: "+p.DeadEndpoint.Why+lost(p))
		}
	}
	return lines
}

// inTime tells of the nodes that had stopped before, together; for each front where nodes have several.
func inTime(early []record.PathEnd, several, all bool) (lines []string) {
	byFront := map[string][]record.PathEnd{}
	for _, p := range early {
		front := ""
		if several {
			front = ", for " + string(p.Protocol) + " " + p.Front + ","
		}
		byFront[front] = append(byFront[front], p)
	}
	for _, front := range slices.Sorted(maps.Keys(byFront)) {
		var names []string
		for _, p := range byFront[front] {
			names = append(names, p.Node)
		}
		least, most := extent(byFront[front])
		slices.Sort(names)
		names = slices.Compact(names)
		who := strings.Join(names, ", ")
		if !all && len(names) > maxNodes {
			who = figure.Plural(len(names), "node")
		}
		lines = append(lines, who+front+" had stopped sending to it "+figure.Interval(-most, -least)+" before it closed")
	}
	return lines
}

// extent is the shortest and the longest of spans that were measured.
func extent(paths []record.PathEnd) (least, most int64) {
	least, most = *paths[0].DeadEndpoint.Ns, *paths[0].DeadEndpoint.Ns
	for _, p := range paths {
		least, most = min(least, *p.DeadEndpoint.Ns), max(most, *p.DeadEndpoint.Ns)
	}
	return least, most
}

// lateBy says how long a node went on sending to a Pod where nothing listened.
func lateBy(p record.PathEnd) string {
	switch {
	case p.RuleRemoved.TNs == nil && p.DeadEndpoint.AtMostNs == nil:
		return "never stopped sending to it, " + length(p.DeadEndpoint) + " from when it had closed to the end"
	case p.DeadEndpoint.ToEvent != p.RuleRemoved.Event:
		return "went on sending to it while nothing listened, for " + length(p.DeadEndpoint)
	}
	return "stopped sending to it " + length(p.DeadEndpoint) + " after it had closed"
}

// lost says how many requests paths lost.
func lost(paths ...record.PathEnd) string {
	n := 0
	for _, p := range paths {
		n += p.Failed
	}
	if n == 0 {
		return ""
	}
	return ": " + figure.Plural(n, "request") + " lost"
}

// entries tells of conntrack entries that outlived the Pod.
func entries(c record.ConntrackEnd) string {
	text := fmt.Sprintf("%s's connection tracking still led %s of %s to it after its exit", c.Node, strings.Replace(figure.Plural(c.Entries, "entry"), "entrys", "entries", 1), c.Protocol)
	switch {
	case c.Left == c.Entries:
		return text + ", all there at the end"
	case c.Left > 0:
		return text + fmt.Sprintf(", %s of them there at the end", figure.Count(int64(c.Left)))
	case c.DeadConntrack.Ns != nil:
		return text + ", the last until " + length(c.DeadConntrack) + " after"
	}
	return text
}

func deref(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
