package testview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// verdictOf gives the verdict as a word and a sentence, also where a record has none.
func verdictOf(r record.Record) (result record.VerdictResult, word, reason string) {
	if r.Verdict == nil {
		return record.Inconclusive, "NOT JUDGED", "the record holds no verdict"
	}
	return r.Verdict.Result, strings.ToUpper(string(r.Verdict.Result)), r.Verdict.Reason
}

func paintOf(v record.VerdictResult) func(page.Ink, string) string {
	switch v {
	case record.Pass:
		return page.Ink.Green
	case record.Fail:
		return page.Ink.Red
	}
	return page.Ink.Yellow
}

// conditions tells what was tested, by what, and where: a list of parts each.
func conditions(r record.Record) [][]string {
	return slices.DeleteFunc([][]string{workloadParts(r), trafficParts(r), placeParts(r)}, func(parts []string) bool { return len(parts) == 0 })
}

func workloadParts(r record.Record) []string {
	w := r.Workload
	if w == nil {
		return nil
	}
	parts := []string{triggerText(r) + " " + w.Kind + " " + w.Namespace + "/" + w.Name, figure.Plural(w.Replicas, "replica")}
	if w.Strategy != "" {
		parts = append(parts, page.Strategy(*w))
	}
	parts = append(parts, "grace "+figure.Setting(w.GraceNs))
	if w.PreStop == "" {
		parts = append(parts, "no preStop hook")
	} else {
		parts = append(parts, "preStop "+w.PreStop)
	}
	if !w.ReadinessProbe {
		parts = append(parts, "no readiness probe")
	}
	for _, b := range w.Budgets {
		parts = append(parts, "budget "+b)
	}
	return parts
}

func triggerText(r record.Record) string {
	switch t := r.Config.Trigger; t {
	case "":
		return "test of"
	case "none":
		return "nothing was done to"
	default:
		if c := r.Config.Traffic; c != nil && c.TriggerCount > 1 {
			return fmt.Sprintf("%s of %d Pods of", t, c.TriggerCount)
		}
		return t + " of"
	}
}

func trafficParts(r record.Record) []string {
	t := r.Config.Traffic
	if t == nil {
		return nil
	}
	parts := []string{
		strings.TrimSpace(t.Mode + " " + t.Method + " " + t.URL), figure.Trimmed(t.Rate) + " a second", figure.Plural(t.Users, "user"),
	}
	if t.Workers > 1 {
		parts = append(parts, figure.Plural(t.Workers, "worker"))
	}
	if w := r.Workload; w != nil && w.Service != "" {
		parts = append(parts, "Service "+w.Service+":"+strconv.Itoa(w.Port))
	}
	if t.Expect != "" {
		parts = append(parts, "expecting "+t.Expect)
	}
	if t.InsecureTLS {
		parts = append(parts, "certificates not checked")
	}
	return parts
}

func placeParts(r record.Record) []string {
	e := r.Environment
	mode := "proxy mode " + page.NotMeasured
	if e.ProxyMode != nil {
		mode = *e.ProxyMode
	}
	parts := []string{"Kubernetes " + e.Kubernetes, mode, figure.Plural(len(e.Nodes), "node")}
	switch {
	case e.Cluster != "":
		parts = append(parts, "cluster "+e.Cluster)
	case e.Context != "":
		parts = append(parts, "context "+e.Context)
	}
	return append(parts, r.Tool.Name+" "+r.Tool.Version, r.ID)
}

// maxRows is how many rows a table has on one screen; the rest is summed up in one.
const maxRows = 7

// requests is the table of how all requests ended, with what else is to be said of them.
func requests(r record.Record, all bool) page.Table {
	t := page.Table{Title: "Requests", Head: []string{"outcome", "requests", "users", "connection", "due"}, Paint: paintOutcome}
	if r.Requests == nil {
		t.Note = "None were sent."
		return t
	}
	t.Note = requestsNote(r)
	lost := page.LostBy(r.Failures)
	outcomes := page.Outcomes(r.Requests.Outcomes)
	rest, restOutcomes := int64(0), 0
	for i, o := range outcomes {
		n := r.Requests.Outcomes[o]
		if !all && len(outcomes) > maxRows && i >= maxRows-1 {
			rest, restOutcomes = rest+n, restOutcomes+1
			continue
		}
		row := []string{string(o), figure.Count(n), "", "", ""}
		if l, ok := lost[o]; ok {
			copy(row[2:], l.Cells())
		}
		t.Rows = append(t.Rows, row)
	}
	if restOutcomes > 0 {
		t.Rows = append(t.Rows, []string{figure.Plural(restOutcomes, "other outcome"), figure.Count(rest), "", "", ""})
	}
	return t
}

func paintOutcome(k page.Ink, head, cell, s string) string {
	if head != "outcome" {
		return k.Plain(s)
	}
	switch o := record.RequestOutcome(cell); {
	case o == record.OK:
		return k.Green(s)
	case o == record.ClientLimited:
		return k.Yellow(s)
	}
	return k.Red(s)
}

func requestsNote(r record.Record) string {
	q := r.Requests
	parts := []string{figure.Plural(int(q.Total), "request") + " sent"}
	if q.FailedBefore > 0 {
		parts = append(parts, figure.Count(q.FailedBefore)+" failed before the trigger")
	}
	failed := figure.Count(q.Failed) + " failed after the trigger"
	if n := retryable(r); n > 0 {
		failed += ", " + figure.Count(int64(n)) + " of them retryable"
	}
	parts = append(parts, failed)
	if u := r.Users; u != nil {
		parts = append(parts, hurt(*u))
	}
	if q.Reconnects > 0 {
		parts = append(parts, figure.Plural(int(q.Reconnects), "kept connection")+" ended between two requests and opened again")
	}
	if c := causes(r); c != "" {
		if len(r.Agents) == 0 && strings.Contains(c, "unattributed") {
			c += ", as no node's agent was there"
		}
		parts = append(parts, "why: "+c)
	}
	return strings.Join(parts, "; ") + "."
}

func retryable(r record.Record) (n int) {
	for _, f := range r.FailuresFrom() {
		if f.Retryable {
			n++
		}
	}
	return n
}

// maxIDs is how many users are named.
const maxIDs = 10

func hurt(u record.Users) string {
	text := fmt.Sprintf("%s of %s users hurt", figure.Count(int64(u.Hurt)), figure.Count(int64(u.Total)))
	if len(u.HurtIDs) == 0 || len(u.HurtIDs) > maxIDs {
		return text
	}
	var ids []string
	for _, id := range u.HurtIDs {
		ids = append(ids, strconv.Itoa(id))
	}
	return text + " (" + strings.Join(ids, ", ") + ")"
}

// causes counts the failures since the trigger by the kind of their cause, the most frequent first.
func causes(r record.Record) string {
	counts := map[string]int{}
	for _, f := range r.FailuresFrom() {
		if f.Cause != nil {
			counts[f.Cause.Kind]++
		}
	}
	return figure.Counts(counts)
}

// latency is the table of latencies by phase.
func latency(r record.Record) page.Table {
	t := page.Table{Title: "Latency of answered requests, from when each was due", Head: []string{"phase", "n", "p50", "p99", "max"}}
	if r.Latency == nil {
		return t
	}
	during := "during"
	if end := r.Latency.DuringToTNs; end != nil {
		during = "during, to " + figure.Precise(*end, *end)
	}
	for _, p := range []struct {
		name string
		q    *record.Quantiles
	}{{"before", r.Latency.Before}, {during, r.Latency.During}, {"after", r.Latency.After}} {
		row := []string{p.name, "0", page.NotMeasured, page.NotMeasured, page.NotMeasured}
		if p.q != nil {
			row = []string{p.name, figure.Count(p.q.Count), figure.Nanoseconds(p.q.P50Ns), figure.Nanoseconds(p.q.P99Ns), figure.Nanoseconds(p.q.MaxNs)}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// answers is the table of who answered, and from when to when.
func answers(r record.Record, all bool) page.Table {
	t := page.Table{Title: "Answers", Head: []string{"instance", "requests", "failed", "answered from–to"}}
	if r.Requests == nil {
		return t
	}
	list := slices.Clone(r.Requests.Instances)
	// In order of their first answer: that is the order in which Pods took over from each other.
	first := func(c record.InstanceCount) int64 {
		if from, _, ok := page.Answered(r.Requests.Series, c.Instance); ok {
			return from
		}
		return 1<<63 - 1
	}
	slices.SortStableFunc(list, func(a, b record.InstanceCount) int { return cmp.Compare(first(a), first(b)) })
	var rest record.InstanceCount
	others := 0
	for i, c := range list {
		if !all && len(list) > maxRows && i >= maxRows-1 {
			others, rest.Total, rest.Failed = others+1, rest.Total+c.Total, rest.Failed+c.Failed
			continue
		}
		when := ""
		if from, to, ok := page.Answered(r.Requests.Series, c.Instance); ok {
			when = figure.Setting(from) + " to " + figure.Setting(to)
		}
		t.Rows = append(t.Rows, []string{cmp.Or(c.Instance, "not known"), figure.Count(c.Total), figure.Count(c.Failed), when})
	}
	if others > 0 {
		t.Rows = append(t.Rows, []string{figure.Plural(others, "other"), figure.Count(rest.Total), figure.Count(rest.Failed), ""})
	}
	return t
}

// doubts lists what is missing and what a reader must know to trust the rest.
func doubts(r record.Record) []string {
	var list []string
	for _, m := range r.Missing {
		list = append(list, "missing: "+m)
	}
	if h := r.Client; h != nil && h.FellBehind {
		list = append(list, fmt.Sprintf("the client fell behind: requests left up to %s late, %s at the 99.9th percentile", figure.Nanoseconds(h.LateMaxNs), figure.Nanoseconds(h.LateP999Ns)))
	}
	for _, s := range r.Sources {
		if len(s.Gaps) > 0 {
			list = append(list, fmt.Sprintf("%s had %s", s.Name, figure.Plural(len(s.Gaps), "gap")))
		}
		if s.Ended != "" {
			list = append(list, s.Name+" ended early: "+s.Ended)
		}
	}
	return append(list, r.Notes...)
}
