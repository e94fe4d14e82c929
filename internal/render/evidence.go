package render

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
	"github.com/drainproof/drainproof/internal/stats"
)

// EvidenceTables are the tables of what nodes' agents told, over arms: the causes, the order in which Pods ended, the nodes that were late, and who
// deleted conntrack entries. Without agents there are none, and one that would be empty is left out.
func EvidenceTables(arms []GroupArm) []page.Table {
	if !slices.ContainsFunc(arms, func(a GroupArm) bool { return anyAgents(a.Trials) }) {
		return nil
	}
	tables := []page.Table{causesTable(arms), orderTable(arms), lateTable(arms), entriesTable(arms)}
	return slices.DeleteFunc(tables, func(t page.Table) bool { return len(t.Rows) == 0 })
}

func anyAgents(trials []record.Record) bool {
	return slices.ContainsFunc(trials, func(r record.Record) bool { return len(r.Agents) > 0 })
}

// causeCounts counts what trials lost by its cause, and all of it.
func causeCounts(trials []record.Record) (n map[string]int, all int) {
	n = map[string]int{}
	for _, r := range trials {
		for _, c := range causesOf(r) {
			n[c.Kind]++
			all++
		}
	}
	return n, all
}

// causesTable counts what was lost by its cause.
func causesTable(arms []GroupArm) page.Table {
	t := page.Table{
		Title: "Causes", Note: "Why requests and flows were lost, counted over all trials of an arm; attributed: those whose cause the recorded events prove.",
		Head: []string{"arm", "lost", "attributed", "causes"},
	}
	for _, a := range arms {
		n, all := causeCounts(a.Trials)
		if all == 0 {
			continue
		}
		t.Rows = append(t.Rows, []string{a.Arm, figure.Count(int64(all)), figure.Share(float64(all-n["unattributed"]) / float64(all)), figure.Counts(n)})
	}
	return t
}

// causesOf lists the causes of all that a trial lost from the trigger on.
func causesOf(r record.Record) (causes []record.Cause) {
	for _, f := range r.FailuresFrom() {
		if f.Cause != nil {
			causes = append(causes, *f.Cause)
		}
	}
	for _, f := range r.Flows {
		if f.Cause != nil {
			causes = append(causes, *f.Cause)
		}
	}
	return causes
}

// orderTable tells when the Pods that were deleted passed each station.
func orderTable(arms []GroupArm) page.Table {
	t := page.Table{
		Title: "Order", Note: "When each Pod that was deleted passed each station, counted from the API's acceptance of its deletion, or the first news of it; Pods whose signal came before that are left out. A value is of one Pod. SIGTERM, listener closed and exit are the kernel's own times, " +
			"stamps what Kubernetes wrote (deletionTimestamp less the grace period, and the Killing event's own time, both in whole seconds), news when a watch of the API heard of it, and the rules' times those at which a node's agent saw them gone.",
		Head: append([]string{"arm", "Pods"}, stations...),
	}
	for _, a := range arms {
		pods, passed := passings(a.Trials)
		if pods == 0 {
			continue
		}
		row := []string{a.Arm, figure.Count(int64(pods))}
		for _, s := range passed {
			row = append(row, times(s))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// stations are what a Pod passes on its way to its end, as orderTable and stationsOf have them.
var stations = []string{"stamp: deletion", "stamp: Killing", "SIGTERM", "listener closed", "exit", "news: Killing", "news: not ready", "first node's rules", "last node's rules"}

// passings gives for each station when the Pods that were deleted passed it, counted from their deletion, and how many Pods there were.
func passings(trials []record.Record) (pods int, passed [][]int64) {
	passed = make([][]int64, len(stations))
	for _, r := range trials {
		for _, e := range r.Terminations {
			if e.Deleted.TNs == nil || !newsOfDeletion(r, e) {
				continue
			}
			pods++
			for i, at := range stationsOf(r, e) {
				if at != nil {
					passed[i] = append(passed[i], *at-*e.Deleted.TNs)
				}
			}
		}
	}
	return pods, passed
}

// newsOfDeletion reports whether the deletion's time is the API's word, and not that of the signal which followed it before any news came: nothing can be
// counted from that.
func newsOfDeletion(r record.Record, e record.Termination) bool {
	i := slices.IndexFunc(r.Events, func(x record.Event) bool { return x.ID == e.Deleted.Event })
	return i < 0 || r.Events[i].Source != record.FromKernel && r.Events[i].Source != record.FromProbe
}

// stationsOf gives the times of the stations; nil for what was not seen.
func stationsOf(r record.Record, e record.Termination) []*int64 {
	news := func(kind record.EventKind) *record.Event {
		for i := range r.Events {
			if x := &r.Events[i]; x.Kind == kind && x.PodUID == e.UID && x.TNs >= 0 {
				return x
			}
		}
		return nil
	}
	at := func(x *record.Event) *int64 {
		if x == nil {
			return nil
		}
		return &x.TNs
	}
	var term, exit, closed, firstRules, lastRules *int64
	for _, c := range e.Containers {
		term, exit = earliest(term, c.Term.TNs), latest(exit, c.Exit.TNs)
	}
	for _, l := range e.Listeners {
		closed = earliest(closed, l.Closed.TNs)
	}
	for _, p := range e.Paths {
		if asked(r, p) {
			firstRules, lastRules = earliest(firstRules, p.RuleRemoved.TNs), latest(lastRules, p.RuleRemoved.TNs)
		}
	}
	killing, deletion := news(record.KubeletKilling), (*int64)(nil)
	if x := news(record.PodTerminating); x != nil {
		if grace, ok := record.Integer(x.Detail["grace_seconds"]); ok {
			deletion = stamped(r, x, "deletion_timestamp", time.Duration(grace)*time.Second)
		}
	}
	return []*int64{
		deletion, stamped(r, killing, "at", 0), term, closed, exit, at(killing), at(news(record.EndpointNotReady)), firstRules, lastRules,
	}
}

// stamped gives a time that the API wrote into an object, less a duration, as one of the record's; nil where there is none.
func stamped(r record.Record, e *record.Event, field string, less time.Duration) *int64 {
	if e == nil || r.Trigger == nil {
		return nil
	}
	text, _ := e.Detail[field].(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil
	}
	ns := at.Add(-less).Sub(r.Trigger.At).Nanoseconds()
	return &ns
}

func earliest(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

func latest(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// lateTable tells of each node how long its rules named Pods that listened no more.
func lateTable(arms []GroupArm) page.Table {
	t := page.Table{
		Title: "Dead endpoints", Note: "How long each node's rules went on naming a Pod to new clients after nothing listened there any more (negative: they had ceased before), and the requests and flows that this cost. A value is of one Pod.",
		Head: []string{"arm", "node", "Pods", "window", "lost by it"},
	}
	for _, a := range arms {
		for _, n := range lateNodes(a.Trials) {
			t.Rows = append(t.Rows, []string{a.Arm, n.Node, figure.Count(int64(len(n.WindowsNs))), times(n.WindowsNs), figure.Count(int64(n.Failed))})
		}
	}
	return t
}

// lateNodes sums up, in order of their names, how late nodes were.
func lateNodes(trials []record.Record) []NodeReport {
	list := []NodeReport{}
	for _, r := range trials {
		for _, e := range r.Terminations {
			for _, p := range e.Paths {
				if p.DeadEndpoint.Ns == nil || !asked(r, p) {
					continue
				}
				i, there := slices.BinarySearchFunc(list, p.Node, func(n NodeReport, name string) int { return strings.Compare(n.Node, name) })
				if !there {
					list = slices.Insert(list, i, NodeReport{Node: p.Node})
				}
				list[i].WindowsNs = append(list[i].WindowsNs, *p.DeadEndpoint.Ns)
				list[i].Failed += p.Failed
			}
		}
	}
	return list
}

// asked reports whether a trial's clients went that way. Of requests nothing tells otherwise: they go one way, and only its rules are watched.
func asked(r record.Record, p record.PathEnd) bool {
	return len(r.Flows) == 0 || slices.ContainsFunc(r.Flows, func(f record.Flow) bool { return f.Protocol == p.Protocol && f.Remote == p.Front })
}

// entriesTable tells of flows of datagrams who deleted the conntrack entry that led them, and who sent ICMP errors about them.
func entriesTable(arms []GroupArm) page.Table {
	t := page.Table{
		Title: "Conntrack", Note: "Of the UDP flows' first conntrack entries on the node that chose the Pod: when and by whom they were deleted, counted from the trigger; and the ICMP errors about these flows, by sender.",
		Head: []string{"arm", "entries", "deleted", "at", "by", "ICMP from the Pod", "ICMP from nodes"},
	}
	for _, a := range arms {
		n := entriesOf(a.Trials)
		if n == nil {
			continue
		}
		t.Rows = append(t.Rows, []string{
			a.Arm, figure.Count(int64(n.Entries)), figure.Count(int64(len(n.DeletedNs))), times(n.DeletedNs), cmp.Or(figure.Counts(n.By), "nobody"),
			figure.Count(int64(n.ICMPFromPod)), figure.Count(int64(n.ICMPFromNodes)),
		})
	}
	return t
}

// entriesOf counts the entries of flows of datagrams; nil where there were no such flows.
func entriesOf(trials []record.Record) *EntriesReport {
	n := &EntriesReport{DeletedNs: []int64{}, By: map[string]int{}}
	for _, r := range trials {
		n.add(r)
	}
	if n.Entries == 0 {
		return nil
	}
	return n
}

// add counts a trial. Of each flow only the first deletion counts: later entries are those of another Pod.
func (n *EntriesReport) add(r record.Record) {
	flows, gone := map[string]bool{}, map[string]bool{}
	for _, f := range r.Flows {
		if f.Protocol == record.UDP && f.Local != "" {
			flows[f.Local] = true
		}
	}
	n.Entries += len(flows)
	said := func(e record.Event, what string) string {
		text, _ := e.Detail[what].(string)
		return text
	}
	for _, e := range r.Events {
		if e.TNs < 0 {
			continue
		}
		switch source := said(e, "original_source"); {
		case e.Kind == record.ConntrackDeleted && flows[source] && !gone[source] && isFront(r, said(e, "original_destination")):
			gone[source] = true
			n.DeletedNs = append(n.DeletedNs, e.TNs)
			n.By[page.Clean(cmp.Or(said(e, "by_comm"), said(e, "by"), "not told"))]++
		case e.Kind == record.ICMPSent && flows[said(e, "source")] && record.PodOf(e.Subject) != "":
			n.ICMPFromPod++
		case e.Kind == record.ICMPSent && flows[said(e, "source")]:
			n.ICMPFromNodes++
		}
	}
}

// isFront reports whether an address is what a trial's flows went to.
func isFront(r record.Record, address string) bool {
	return slices.ContainsFunc(r.Flows, func(f record.Flow) bool { return f.Remote == address })
}

// times prints a sample's median with its range.
func times(ns []int64) string {
	s, ok := stats.Summarize(ns)
	if !ok {
		return page.NotMeasured
	}
	text := figure.Nanoseconds(s.Median)
	if s.Min != s.Max {
		text += " (" + figure.Interval(s.Min, s.Max) + ")"
	}
	return text
}
