package htmlview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// table is one table as plain HTML.
type table struct {
	// ID names it among the tables of its trial, such as failures; the script gives some of them all their rows.
	ID, Title, Note string
	Head            []column
	Rows            [][]string
	// More says how many rows are left out; empty for none.
	More string
	// Folded tables are shown on demand.
	Folded bool
}

// column is one heading; numbers stand to the right, sentences need room.
type column struct {
	Name string
	// Class is n for numbers, wide for sentences.
	Class string
}

func columns(names ...string) []column {
	list := make([]column, len(names))
	for i, n := range names {
		list[i] = column{Name: strings.TrimLeft(n, "#*")}
		switch {
		case strings.HasPrefix(n, "#"):
			list[i].Class = "n"
		case strings.HasPrefix(n, "*"):
			list[i].Class = "wide"
		}
	}
	return list
}

// maxPlainRows is how many rows a long table has without a script. The script reads the data and has them all.
const maxPlainRows = 100

func tablesOf(r record.Record) []table {
	list := []table{outcomesTable(r), causesTable(r), latencyTable(r), answersTable(r), failuresTable(r), flowsTable(r), endingsTable(r), windowsTable(r), eventsTable(r)}
	return slices.DeleteFunc(list, func(t table) bool { return len(t.Rows) == 0 })
}

func outcomesTable(r record.Record) table {
	t := table{ID: "outcomes", Title: "How requests ended", Head: columns("outcome", "#requests", "#users", "connection", "#due")}
	if r.Requests == nil {
		return t
	}
	lost := page.LostBy(r.Failures)
	for _, o := range page.Outcomes(r.Requests.Outcomes) {
		row := []string{string(o), figure.Count(r.Requests.Outcomes[o]), "", "", ""}
		if l, ok := lost[o]; ok {
			copy(row[2:], l.Cells())
		}
		t.Rows = append(t.Rows, row)
	}
	if n := r.Requests.Reconnects; n > 0 {
		t.Note = figure.Plural(int(n), "kept connection") + " ended between two requests and opened again; no request failed by that."
	}
	return t
}

// maxCauses is how many causes are told apart in their table.
const maxCauses = 12

// causesTable counts causes by kind and by what their sentences say apart from their numbers.
func causesTable(r record.Record) table {
	t := table{ID: "causes", Title: "Why", Head: columns("#count", "cause", "*what happened", "events")}
	type reason struct{ kind, form string }
	counts, first := map[reason]int{}, map[reason]*record.Cause{}
	var order []reason
	add := func(c *record.Cause) {
		if c == nil {
			return
		}
		form, _ := split(c.Sentence)
		k := reason{c.Kind, form}
		if counts[k]++; counts[k] == 1 {
			order, first[k] = append(order, k), c
		}
	}
	for i := range r.Failures {
		add(r.Failures[i].Cause)
	}
	for i := range r.Flows {
		add(r.Flows[i].Cause)
	}
	slices.SortStableFunc(order, func(a, b reason) int { return cmp.Compare(counts[b], counts[a]) })
	kinds := map[string]int{}
	for _, k := range order {
		kinds[k.kind] += counts[k]
	}
	for i, k := range order {
		if i == maxCauses {
			t.More = figure.Plural(len(order)-maxCauses, "rarer sentence") + " left out here; each failure has its own in the table of failures."
			break
		}
		c := first[k]
		var ids []string
		for _, id := range c.Evidence {
			ids = append(ids, "#"+strconv.Itoa(id))
		}
		sentence := upperFirst(c.Sentence)
		if counts[k] > 1 {
			sentence = "The first of them: " + c.Sentence
		}
		t.Rows = append(t.Rows, []string{figure.Count(int64(counts[k])), k.kind, sentence, strings.Join(ids, " ")})
	}
	if len(kinds) > 1 || len(order) > len(kinds) {
		names := slices.Sorted(maps.Keys(kinds))
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(kinds[b], kinds[a]) })
		for i, n := range names {
			names[i] = figure.Count(int64(kinds[n])) + " " + n
		}
		t.Note = "In all: " + strings.Join(names, ", ") + "."
	}
	return t
}

// latencyTable has what the record names and, from its histogram, two quantiles between.
func latencyTable(r record.Record) table {
	t := table{
		ID: "latency", Title: "Latency of answered requests, from when each was due",
		Head: columns("", "#answers", "#min", "#p50", "#p75", "#p90", "#p95", "#p99", "#p99.9", "#max"),
		Note: "p75 and p95 are read off the recorded histogram, to three digits.",
	}
	if r.Latency == nil {
		return t
	}
	row := func(name string, q *record.Quantiles) {
		cells := []string{name}
		if q == nil {
			for range t.Head[1:] {
				cells = append(cells, page.NotMeasured)
			}
			t.Rows = append(t.Rows, cells)
			return
		}
		p75, p95 := between(q.Histogram)
		cells = append(cells, figure.Count(q.Count))
		for _, ns := range []*int64{&q.MinNs, &q.P50Ns, p75, &q.P90Ns, p95, &q.P99Ns, &q.P999Ns, &q.MaxNs} {
			cells = append(cells, latencyText(ns))
		}
		t.Rows = append(t.Rows, cells)
	}
	row("before", r.Latency.Before)
	during := "during"
	if end := r.Latency.DuringToTNs; end != nil {
		during += ", to " + figure.Precise(*end, *end)
	}
	row(during, r.Latency.During)
	row("after", r.Latency.After)
	for i, q := range r.Latency.Instances {
		if i == maxPlainRows {
			t.More = figure.Plural(len(r.Latency.Instances)-i, "more instance") + " in the record."
			break
		}
		row(q.Instance, q.Quantiles)
	}
	return t
}

// between reads p75 and p95 off an encoded histogram; nil where it cannot be read.
func between(encoded string) (p75, p95 *int64) {
	if encoded == "" {
		return nil, nil
	}
	h, err := decoded(encoded)
	if err != nil || h == nil || h.TotalCount() == 0 {
		return nil, nil
	}
	return new(h.ValueAtQuantile(75)), new(h.ValueAtQuantile(95))
}

// decoded reads a histogram. The library trusts what it reads, and a record may hold anything.
func decoded(text string) (h *hdrhistogram.Histogram, err error) {
	defer func() {
		if p := recover(); p != nil {
			h, err = nil, fmt.Errorf("reading a histogram: %v", p)
		}
	}()
	return hdrhistogram.Decode([]byte(text))
}

func latencyText(ns *int64) string {
	if ns == nil {
		return page.NotMeasured
	}
	return figure.Nanoseconds(*ns)
}

func answersTable(r record.Record) table {
	t := table{ID: "answers", Title: "Who answered", Head: columns("instance", "#requests", "#failed", "#answered from", "#to")}
	if r.Requests == nil {
		return t
	}
	type answer struct {
		record.InstanceCount
		from, to int64
		known    bool
	}
	var list []answer
	for _, c := range r.Requests.Instances {
		a := answer{InstanceCount: c}
		a.from, a.to, a.known = page.Answered(r.Requests.Series, c.Instance)
		list = append(list, a)
	}
	slices.SortStableFunc(list, func(a, b answer) int {
		if a.known != b.known {
			return map[bool]int{true: -1, false: 1}[a.known]
		}
		return cmp.Compare(a.from, b.from)
	})
	for i, a := range list {
		if i == maxPlainRows {
			t.More = figure.Plural(len(list)-i, "more instance") + " in the record."
			break
		}
		from, to := "", ""
		if a.known {
			from, to = figure.Setting(a.from), figure.Setting(a.to)
		}
		t.Rows = append(t.Rows, []string{cmp.Or(a.Instance, "not known"), figure.Count(a.Total), figure.Count(a.Failed), from, to})
	}
	return t
}

func failuresTable(r record.Record) table {
	t := table{ID: "failures", Title: "Requests that failed", Head: columns("#ended", "#due", "outcome", "phase", "connection", "instance", "#user", "error", "*cause")}
	for i, f := range r.Failures {
		if i == maxPlainRows {
			t.More = fmt.Sprintf("%s of %s are shown here.", figure.Count(maxPlainRows), figure.Count(int64(len(r.Failures))))
			break
		}
		instance, cause := "not known", ""
		if f.Instance != nil {
			instance = *f.Instance
		}
		if f.Cause != nil {
			cause = f.Cause.Kind + ": " + f.Cause.Sentence
		}
		t.Rows = append(t.Rows, []string{
			figure.Precise(f.TNs, f.TNs), figure.Precise(f.PlannedTNs, f.PlannedTNs), string(f.Outcome), string(f.Phase), string(f.Connection), instance,
			strconv.Itoa(f.User), errorText(f), cause,
		})
	}
	return t
}

// errorText is the answer's status, the error's symbol and the library's word, as far as there are.
func errorText(f record.Failure) string {
	var parts []string
	if f.Status != nil {
		parts = append(parts, "status "+strconv.Itoa(*f.Status))
	}
	for _, s := range []string{f.Errno, f.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ")
}

func flowsTable(r record.Record) table {
	t := table{ID: "flows", Title: "Flows", Head: columns("flow", "outcome", "mechanism", "#ended", "#last sign of life", "first instance", "last instance", "*cause")}
	for i, f := range r.Flows {
		if i == maxPlainRows {
			t.More = fmt.Sprintf("%s of %s are shown here.", figure.Count(maxPlainRows), figure.Count(int64(len(r.Flows))))
			break
		}
		ended, after := page.NotMeasured, page.NotMeasured
		switch {
		case f.Outcome == record.Survived:
			ended = "alive at the end"
		case f.Outcome != record.NotMeasured && f.EndedTNs != nil: // of one that was not measured it is when nobody looked any more
			ended = figure.Precise(*f.EndedTNs, *f.EndedTNs) + page.Uncertainty(f.UncertaintyNs)
		}
		if f.EndedAfterTNs != nil {
			after = figure.Precise(*f.EndedAfterTNs, *f.EndedAfterTNs)
		}
		cause := ""
		if f.Cause != nil {
			cause = f.Cause.Kind + ": " + f.Cause.Sentence
		}
		t.Rows = append(t.Rows, []string{f.ID, string(f.Outcome), string(f.Mechanism), ended, after, named(f.FirstInstance), named(f.LastInstance), cause})
	}
	return t
}

func named(s *string) string {
	if s == nil {
		return "not known"
	}
	return *s
}

// endingsTable tells how each Pod that was ended came to its end, and what its grace period was used for.
func endingsTable(r record.Record) table {
	t := table{ID: "endings", Title: "How Pods ended", Head: columns("*Pod", "*what happened")}
	list, _ := page.Endings(r, true)
	for i, e := range list {
		if i == maxPlainRows {
			t.More = figure.Plural(len(list)-i, "more Pod") + " in the record."
			break
		}
		for k, line := range e.Lines {
			head := ""
			if k == 0 {
				head = e.Head
			}
			t.Rows = append(t.Rows, []string{head, line})
		}
	}
	return t
}

func windowsTable(r record.Record) table {
	t := table{ID: "windows", Title: "Windows", Note: "≤ at most, ≥ at least, ~ either way: an end is a receipt of news.", Head: columns("window", "#length", "from", "to", "*events, or why not"), Folded: r.IsTest()}
	defs := map[string]record.WindowDef{}
	for _, d := range record.WindowDefs() {
		defs[d.Name] = d
	}
	for _, w := range r.Windows {
		length, ids := page.NotMeasured, w.Why
		if w.Ns != nil {
			length = page.Sign(w.Bound) + figure.Nanoseconds(*w.Ns) + page.Uncertainty(w.UncertaintyNs)
			ids = fmt.Sprintf("#%d #%d", w.FromEvent, w.ToEvent)
		}
		d := defs[w.Name]
		t.Rows = append(t.Rows, []string{w.Name, length, d.From, d.To, ids})
	}
	return t
}

func eventsTable(r record.Record) table {
	t := table{ID: "events", Title: "Events", Head: columns("#id", "#time", "source", "kind", "subject", "node", "*detail"), Folded: true}
	for i, e := range r.Events {
		if i == maxPlainRows {
			t.More = fmt.Sprintf("%s of %s are shown here.", figure.Count(maxPlainRows), figure.Count(int64(len(r.Events))))
			break
		}
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(e.ID), page.Sign(e.Bound) + figure.Precise(e.TNs, e.TNs) + page.Uncertainty(e.UncertaintyNs), string(e.Source), string(e.Kind), e.Subject, e.Node, detailText(e.Detail),
		})
	}
	return t
}

// detailText writes the raw values of an event in order of their names.
func detailText(d map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(d)) {
		v := d[k]
		if v == nil {
			v = page.NotMeasured
		}
		parts = append(parts, fmt.Sprintf("%s %v", k, v))
	}
	return strings.Join(parts, ", ")
}
