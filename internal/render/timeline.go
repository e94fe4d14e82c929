package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// moment is one line of the timeline: an event, or all alike events of a group of flows.
type moment struct {
	when, source, kind, subject string
	// detail follows the subject and is never cut.
	detail string
	paint  func(page.Ink, string) string
}

// timeline tells the events from the trigger on, in their order; all of them if asked to.
func timeline(r record.Record, all bool) (list []moment, before int) {
	told := map[[3]string]int{}
	groups := flowGroups(r)
	byFlow := map[string]flowGroup{}
	for _, g := range groups {
		for _, f := range g.flows {
			byFlow["flow/"+f.ID] = g
		}
	}
	folds := map[[3]string]*fold{}
	for _, e := range r.Events {
		if e.TNs < 0 && !all {
			before++
			continue
		}
		g, isFlow := byFlow[e.Subject]
		switch {
		case all || isFlow: // flows have lines of their own, together
		case ofMany(e.Kind):
			key := [3]string{string(e.Kind), e.Subject, detail(e)}
			if f := folds[key]; f != nil {
				f.add(e, &list[f.at])
				continue
			}
			folds[key] = &fold{at: len(list), first: e.TNs, n: 1}
		default:
			clear(folds)
		}
		m := moment{
			when:   page.Sign(e.Bound) + figure.Precise(e.TNs, e.TNs) + page.Uncertainty(e.UncertaintyNs),
			source: string(e.Source), kind: string(e.Kind), subject: e.Subject, detail: detail(e), paint: kindPaint(e.Kind),
		}
		if !isFlow || all {
			list = append(list, m)
			continue
		}
		// The flows of one group share a line, at the time of the first.
		key := [3]string{string(e.Kind), string(g.protocol), string(g.outcome) + string(g.mechanism)}
		if told[key]++; told[key] > 1 {
			continue
		}
		first, last, n := spanOf(r, e.Kind, g)
		m.when = page.Sign(e.Bound) + figure.Precise(first, last) + page.Uncertainty(e.UncertaintyNs)
		m.subject = fmt.Sprintf("%d %s, %s", n, g.protocol, g.outcome)
		if text := g.mechanismText(); text != "" {
			m.subject += " (" + text + ")"
		}
		list = append(list, m)
	}
	return list, before
}

// fold is a line of alike events that nothing of another kind came between.
type fold struct {
	at, n int
	first int64
}

func (f *fold) add(e record.Event, m *moment) {
	f.n++
	m.when = page.Sign(e.Bound) + figure.Precise(f.first, e.TNs) + page.Uncertainty(e.UncertaintyNs)
	m.detail = strings.TrimSpace(fmt.Sprintf("×%d  %s", f.n, detail(e)))
}

// ofMany reports whether there is such an event for each of many connections, or for each of a Service's ports.
func ofMany(k record.EventKind) bool {
	switch k {
	case record.RuleAdded, record.RuleRemoved, record.RuleRejects, record.RuleRejectRemoved, record.ConntrackNew, record.ConntrackUpdated, record.ConntrackDeleted, record.ICMPSent, record.SocketClosed, record.ResetSent, record.ResetReceived:
		return true
	}
	return false
}

// spanOf gives the first and last time of a kind of event in a group of flows.
func spanOf(r record.Record, kind record.EventKind, g flowGroup) (first, last int64, n int) {
	mine := map[string]bool{}
	for _, f := range g.flows {
		mine["flow/"+f.ID] = true
	}
	for _, e := range r.Events {
		if e.Kind != kind || !mine[e.Subject] || e.TNs < 0 {
			continue
		}
		if n == 0 {
			first = e.TNs
		}
		last = e.TNs
		n++
	}
	return first, last, n
}

// detail picks from an event's detail what a reader of the timeline wants.
func detail(e record.Event) string {
	text := func(key string) string { s, _ := e.Detail[key].(string); return s }
	after := func(before, s string) string {
		if s == "" {
			return ""
		}
		return before + s
	}
	switch e.Kind {
	case record.ContainerExited:
		return exitText(e) + after(", ", text(record.DetailReason))
	case record.SignalSent:
		what := text("signal_name") + after(" from ", text("sender_comm"))
		if result := text("result"); result != "delivered" {
			what += after(", ", result)
		}
		return what
	case record.ProcessExited:
		if name := text("signal_name"); name != "" {
			return "by " + name
		}
		if e.Detail["first_process"] != true {
			return exitText(e) + after(", ", text("comm"))
		}
		return exitText(e)
	case record.ListenerOpened, record.ListenerClosed:
		return text("address")
	case record.RuleAdded, record.RuleRemoved:
		return after("on ", e.Node)
	case record.ConntrackDeleted:
		return after("by ", cmp.Or(text("by_comm"), text("by")))
	}
	return ""
}

func kindPaint(k record.EventKind) func(page.Ink, string) string {
	switch k {
	case record.TriggerSent, record.ProbeSigterm, record.ContainerExited, record.EndpointRemoved:
		return page.Ink.Bold
	case record.TriggerFailed, record.Interrupted, record.ProbeForcedRST:
		return page.Ink.Red
	default:
		return page.Ink.Plain
	}
}

func (v *trialPage) timeline() {
	list, before := timeline(v.r, v.o.Verbose)
	v.heading("Timeline", "from the trigger")
	if slices.ContainsFunc(list, func(m moment) bool { return strings.HasPrefix(m.when, page.Sign(record.Upper)) }) {
		for _, line := range page.Wrap(atTheLatest, v.width-2) {
			v.line("  " + v.k.Dim(line))
		}
	}
	if before > 0 {
		v.line("  " + v.k.Dim(fmt.Sprintf("%12s  %s", "", figure.Plural(before, "event")+" before it, of the set-up")))
	}
	whenWidth, kindWidth := 12, 0
	for _, m := range list {
		whenWidth = max(whenWidth, utf8.RuneCountInString(m.when))
		kindWidth = max(kindWidth, utf8.RuneCountInString(page.Clean(m.kind)))
	}
	kindWidth = min(kindWidth, 26)
	room := v.width - 2 - whenWidth - 2 - 10 - 2 - kindWidth - 2
	for _, m := range list {
		subject := page.Clean(m.subject)
		if m.detail != "" {
			tail := "  " + page.Clean(m.detail)
			subject = page.Cut(subject, max(0, room-utf8.RuneCountInString(tail))) + tail
		}
		v.line("  " + page.PadLeft(m.when, whenWidth) + "  " + v.k.Dim(page.Pad(page.Cut(page.Clean(m.source), 10), 10)) + "  " +
			m.paint(v.k, page.Pad(page.Cut(page.Clean(m.kind), kindWidth), kindWidth)) + "  " + v.k.Plain(page.Cut(subject, room)))
	}
}

// windows prints those that were measured in two columns where there is room, then names the others.
func (v *trialPage) windows() {
	v.heading("Windows", "intervals between two events of this trial; negative: the other order")
	var cells []string
	var missing []record.Window
	nameWidth := 0
	for _, w := range v.r.Windows {
		nameWidth = max(nameWidth, utf8.RuneCountInString(page.Clean(w.Name)))
	}
	for _, w := range v.r.Windows {
		if w.Ns == nil {
			missing = append(missing, w)
			continue
		}
		value := page.PadLeft(page.Sign(w.Bound)+figure.Nanoseconds(*w.Ns)+page.Uncertainty(w.UncertaintyNs), 11)
		cells = append(cells, page.Pad(page.Clean(w.Name), nameWidth)+"  "+value)
	}
	half := (len(cells) + 1) / 2
	column := (v.width - 2) / 2
	twoFit := true
	for _, c := range cells {
		twoFit = twoFit && utf8.RuneCountInString(c) <= column-2
	}
	switch {
	case twoFit:
		for i := range half {
			text := page.Pad(cells[i], column)
			if half+i < len(cells) {
				text += cells[half+i]
			}
			v.line("  " + text)
		}
	default:
		for _, c := range cells {
			v.line("  " + c)
		}
	}
	v.notMeasured(missing, nameWidth)
}

func (v *trialPage) notMeasured(missing []record.Window, nameWidth int) {
	if len(missing) == 0 {
		return
	}
	if v.o.Verbose {
		for _, w := range missing {
			v.line("  " + v.k.Dim(page.Pad(page.Clean(w.Name), nameWidth)+"  "+page.NotMeasured+": "+page.Clean(w.Why)))
		}
		return
	}
	var names []string
	for _, w := range missing {
		names = append(names, page.Clean(w.Name))
	}
	for _, line := range page.Wrap(page.NotMeasured+": "+strings.Join(names, ", "), v.width-2) {
		v.line("  " + v.k.Dim(line))
	}
}
