package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// lane is one line of the picture.
type lane struct {
	label string
	bar   []stroke
	note  string
}

// stroke is one character of a lane and how to colour it; paint is nil for none.
type stroke struct {
	r     rune
	paint func(page.Ink, string) string
}

// canvas draws lanes over an axis.
type canvas struct{ page.Axis }

func (c canvas) empty() []stroke {
	bar := make([]stroke, c.Columns)
	for i := range bar {
		bar[i].r = ' '
	}
	return bar
}

// fill draws r from one time to another, the end's own column left free.
func (c canvas) fill(bar []stroke, from, to int64, r rune, paint func(page.Ink, string) string) {
	first, _ := c.Column(max(from, c.From))
	end, ok := c.Column(to)
	if !ok {
		end = c.Columns
	}
	for i := first; i < end; i++ {
		bar[i] = stroke{r, paint}
	}
}

// mark puts r at a time, over whatever is there.
func (c canvas) mark(bar []stroke, t int64, r rune, paint func(page.Ink, string) string) {
	if i, ok := c.Column(t); ok {
		bar[i] = stroke{r, paint}
	}
}

// beyond is later than every picture.
const beyond = 1<<63 - 1

// event finds the first event of a kind from the trigger on whose subject is of pod.
func event(r record.Record, kind record.EventKind, pod string) (record.Event, bool) {
	i := slices.IndexFunc(r.Events, func(e record.Event) bool {
		return e.Kind == kind && e.TNs >= 0 && record.PodOf(e.Subject) == pod
	})
	if i < 0 {
		return record.Event{}, false
	}
	return r.Events[i], true
}

// at prints an event's time with its bound and uncertainty.
func at(e record.Event) string {
	return page.Sign(e.Bound) + figure.Nanoseconds(e.TNs) + page.Uncertainty(e.UncertaintyNs)
}

func (c canvas) lanes(r record.Record) []lane {
	pod, _ := r.ProbePod()
	list := []lane{c.endpoint(r, pod), c.container(r, pod)}
	for _, g := range flowGroups(r) {
		list = append(list, c.flows(g))
	}
	return append(list, c.replacements(r, pod)...)
}

func (c canvas) endpoint(r record.Record, pod string) lane {
	return c.life(r, pod, life{
		label: "endpoint", turn: record.EndpointNotReady, turnMark: '▒', turnText: "not ready",
		gone:     func(r record.Record, pod string) (record.Event, bool) { return event(r, record.EndpointRemoved, pod) },
		goneText: func(record.Event) string { return "removed" }, namedDead: true,
	})
}

// life is one thing that changes once and then goes.
type life struct {
	label    string
	turn     record.EventKind
	gone     func(r record.Record, pod string) (record.Event, bool)
	turnMark rune
	turnText string
	goneText func(record.Event) string
	// namedDead marks the time in which it is still there and its TCP flows are not.
	namedDead bool
}

func (c canvas) life(r record.Record, pod string, s life) lane {
	l := lane{label: s.label, bar: c.empty()}
	var notes []string
	gone, isGone := s.gone(r, pod)
	end := int64(beyond)
	if isGone {
		end = gone.TNs
	}
	c.fill(l.bar, c.From, end, '█', page.Ink.Green)
	if e, ok := event(r, s.turn, pod); ok {
		c.fill(l.bar, e.TNs, end, s.turnMark, page.Ink.Yellow)
		notes = append(notes, s.turnText+" "+at(e))
	}
	if dead, ok := lastEnd(r, record.TCP); s.namedDead && ok && dead < end && isGone {
		c.fill(l.bar, dead, end, '░', page.Ink.Red)
	}
	if isGone {
		c.mark(l.bar, end, '╳', page.Ink.Bold)
		notes = append(notes, s.goneText(gone)+" "+at(gone))
	}
	if len(notes) == 0 {
		notes = append(notes, "no change seen")
	}
	l.note = strings.Join(notes, ", ")
	return l
}

// lastEnd is when the last flow of a protocol had ended; ok is false while one lived.
func lastEnd(r record.Record, p record.Protocol) (t int64, ok bool) {
	for _, f := range r.Flows {
		switch {
		case f.Protocol != p:
		case f.EndedTNs == nil:
			return 0, false
		default:
			t, ok = max(t, *f.EndedTNs), true
		}
	}
	return t, ok
}

func (c canvas) container(r record.Record, pod string) lane {
	return c.life(r, pod, life{
		label: "container", turn: record.ProbeSigterm, turnMark: '▓', turnText: "SIGTERM", gone: exitOf, goneText: exitText,
	})
}

// exitOf gives the exit of a Pod's last container.
func exitOf(r record.Record, pod string) (last record.Event, ok bool) {
	for _, e := range r.Exits() {
		if e.TNs >= 0 && record.PodOf(e.Subject) == pod {
			last, ok = e, true
		}
	}
	return last, ok
}

func exitText(e record.Event) string {
	if code, ok := record.Integer(e.Detail[record.DetailExitCode]); ok {
		return fmt.Sprintf("exit %d", code)
	}
	return "exit"
}

// flows draws a group: whole until its first end, thin until its last.
func (c canvas) flows(g flowGroup) lane {
	l := lane{label: fmt.Sprintf("%s ×%d", g.protocol, len(g.flows)), bar: c.empty(), note: string(g.outcome)}
	paint := outcomePaint(g.outcome)
	if !g.ended {
		c.fill(l.bar, c.From, beyond, '━', page.Ink.Green)
		mark := '→'
		if g.outcome != record.Survived {
			c.fill(l.bar, 0, beyond, '·', paint)
			mark = '?'
		}
		l.bar[c.Columns-1] = stroke{mark, paint}
		return l
	}
	c.fill(l.bar, c.From, g.first, '━', page.Ink.Green)
	c.fill(l.bar, g.first, g.last, '╍', paint)
	mark := '✗'
	switch g.outcome {
	case record.Drained, record.Closed:
		mark = '●'
	case record.Rehomed:
		mark = '▶'
		c.fill(l.bar, g.last, beyond, '┄', paint)
	}
	c.mark(l.bar, g.last, mark, paint)
	l.note = string(g.outcome) + " " + figure.Interval(g.first, g.last)
	if m := g.mechanismText(); m != "" {
		l.note += ", " + m
	}
	return l
}

func outcomePaint(o record.Outcome) func(page.Ink, string) string {
	switch o {
	case record.Drained, record.Closed, record.Survived:
		return page.Ink.Green
	case record.Severed, record.ReadTimeout:
		return page.Ink.Red
	default:
		return page.Ink.Yellow
	}
}

// replacements draws a lane for each Pod that came after the trigger, at most two.
func (c canvas) replacements(r record.Record, pod string) []lane {
	var list []lane
	var seen []string
	for _, e := range r.Events {
		name := record.PodOf(e.Subject)
		if e.Kind != record.PodAdded || e.TNs < 0 || name == pod || slices.Contains(seen, name) || len(seen) == 2 {
			continue
		}
		seen = append(seen, name)
		l := lane{label: "new Pod", bar: c.empty(), note: "added " + at(e)}
		c.fill(l.bar, e.TNs, beyond, '·', page.Ink.Dim)
		if ready, ok := event(r, record.PodReady, name); ok {
			c.fill(l.bar, ready.TNs, beyond, '█', page.Ink.Cyan)
			l.note = "ready " + at(ready)
		}
		list = append(list, l)
	}
	return list
}
