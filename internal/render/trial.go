package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/record"
)

// Trial writes one trial for a terminal: what was done, a picture of endpoint,
// container and flows over time, the timeline, the flows, the windows, and what a reader
// must know to trust it. The error is that of w.
func Trial(w io.Writer, r record.Record, o Opts) error {
	v := &trialPage{r: r, o: o, k: ink{o.Color}, width: o.width()}
	v.header()
	v.picture()
	v.timeline()
	v.flowTable()
	v.windows()
	v.trust()
	_, err := io.WriteString(w, v.b.String())
	return err
}

// trialPage is one trial being written.
type trialPage struct {
	r     record.Record
	o     Opts
	k     ink
	width int
	b     strings.Builder
}

func (v *trialPage) line(s string) { v.b.WriteString(strings.TrimRight(s, " ") + "\n") }

func (v *trialPage) heading(title, note string) {
	v.line("")
	v.line(v.k.bold(title) + "  " + v.k.dim(cut(note, v.width-2-len(title))))
}

func (v *trialPage) header() {
	c, e := v.r.Config, v.r.Environment
	title := clean(fmt.Sprintf("%s, %s, grace %s", c.Arm, c.Trigger, setting(c.GraceNs)))
	if s := v.r.Set; s != nil {
		title += clean(fmt.Sprintf(" (%s: %s, repeat %d of %d)", s.Experiment, s.Arm, s.Repeat, s.Repeats))
	}
	id := clean(v.r.ID)
	gap := max(2, v.width-utf8.RuneCountInString(title)-utf8.RuneCountInString(id))
	v.line(v.k.bold(title) + strings.Repeat(" ", gap) + v.k.dim(id))

	mode := "proxy mode " + notMeasured
	if e.ProxyMode != nil {
		mode = *e.ProxyMode
	}
	facts := []string{
		"Kubernetes " + e.Kubernetes, mode, plural(len(e.Nodes), "node"), "path " + c.Path, "clients at " + c.Vantage,
		fmt.Sprintf("%d TCP and %d UDP flows", c.TCP, c.UDP), "a heartbeat every " + setting(c.HeartbeatNs),
	}
	if pod, _ := v.r.ProbePod(); pod != "" {
		facts = append(facts, "Pod "+pod)
	}
	if c.Arm == "drain" && c.DrainWindowNs > 0 {
		facts = append(facts, "drain window "+setting(c.DrainWindowNs))
	}
	if c.PreStopSleepNs > 0 {
		facts = append(facts, "preStop sleep "+setting(c.PreStopSleepNs))
	}
	if c.ReadinessOnTerm != "" {
		facts = append(facts, "readiness on SIGTERM: "+c.ReadinessOnTerm)
	}
	facts = append(facts, v.r.Tool.Name+" "+v.r.Tool.Version)
	for i, f := range facts {
		facts[i] = clean(f)
	}
	for _, line := range wrapParts(facts, ", ", v.width) {
		v.line(v.k.dim(line))
	}
	if v.r.Completeness != record.Complete {
		v.line("")
		for i, m := range v.r.Missing {
			head := "INCOMPLETE  "
			if i > 0 {
				head = "            "
			}
			v.line(v.k.red(head) + v.k.plain(m))
		}
		if len(v.r.Missing) == 0 {
			v.line(v.k.red("INCOMPLETE"))
		}
	}
}

const (
	labelWidth = 11
	noteWidth  = 36
)

func (v *trialPage) picture() {
	c := canvas{axisFor(v.r, v.width-2-labelWidth-2-noteWidth)}
	labels, ruler := c.ruler()
	margin := strings.Repeat(" ", 2+labelWidth)
	v.line("")
	v.line("  " + v.k.dim(pad("trigger at", labelWidth)+labels))
	v.line(margin + v.k.dim(ruler))
	lanes := c.lanes(v.r)
	used := map[rune]bool{}
	for _, l := range lanes {
		var bar strings.Builder
		for i := 0; i < len(l.bar); {
			// Strokes alike are coloured together.
			j := i
			for j < len(l.bar) && l.bar[j].r == l.bar[i].r {
				j++
			}
			text := strings.Repeat(string(l.bar[i].r), j-i)
			if l.bar[i].paint != nil {
				text = l.bar[i].paint(v.k, text)
			}
			used[l.bar[i].r] = true
			bar.WriteString(text)
			i = j
		}
		v.line("  " + v.k.bold(pad(cut(clean(l.label), labelWidth-1), labelWidth)) + bar.String() + "  " + v.k.plain(cut(clean(l.note), noteWidth)))
	}
	v.key(used)
}

// key explains those strokes that the picture uses.
func (v *trialPage) key(used map[rune]bool) {
	var parts []string
	for _, s := range []struct {
		r    rune
		what string
	}{
		{'█', "ready, running"}, {'▒', "not ready"}, {'▓', "after SIGTERM"}, {'░', "named, its flows dead"}, {'╳', "gone"}, {'·', "starting or unknown"},
		{'━', "alive"}, {'╍', "first to last end"}, {'●', "ended in order"}, {'✗', "cut"}, {'▶', "rehomed"}, {'┄', "at another Pod"},
		{'→', "survived"}, {'?', "not measured"},
	} {
		if used[s.r] {
			parts = append(parts, string(s.r)+" "+s.what)
		}
	}
	for _, line := range wrapParts(parts, "  ", v.width-2-labelWidth) {
		v.line(strings.Repeat(" ", 2+labelWidth) + v.k.dim(line))
	}
}

func (v *trialPage) flowTable() {
	v.heading("Flows", "how each ended, as its client saw it")
	groups := flowGroups(v.r)
	outcomeWidth, mechanismWidth, whenWidth := 0, 0, 0
	for _, g := range groups {
		outcomeWidth = max(outcomeWidth, utf8.RuneCountInString(clean(string(g.outcome))))
		mechanismWidth = max(mechanismWidth, utf8.RuneCountInString(clean(string(g.mechanism))))
		whenWidth = max(whenWidth, utf8.RuneCountInString(g.when()))
	}
	for _, g := range groups {
		head := fmt.Sprintf("%5d %s  ", len(g.flows), g.protocol)
		fate := pad(clean(string(g.outcome)), outcomeWidth) + "  " + pad(clean(string(g.mechanism)), mechanismWidth) + "  "
		room := v.width - 2 - utf8.RuneCountInString(head) - utf8.RuneCountInString(fate) - whenWidth - 2
		v.line("  " + v.k.plain(head) + outcomePaint(g.outcome)(v.k, fate) + padLeft(g.when(), whenWidth) + "  " + v.k.dim(cut(clean(g.story()), room)))
	}
	if len(v.r.Flows) == 0 {
		v.line("  " + v.k.dim("none recorded"))
	}
}

// when the group ended.
func (g flowGroup) when() string {
	if !g.ended {
		return "no end seen"
	}
	return interval(g.first, g.last)
}

// story says who answered, and what is known of the end beyond its mechanism.
func (g flowGroup) story() string {
	first, last := g.instances()
	if g.outcome == record.Rehomed {
		later := "still answered"
		for _, f := range g.flows {
			if f.AfterRehome != nil && f.AfterRehome.EndedTNs != nil {
				later = "some ended later"
			}
		}
		return "by " + strings.Join(last, ", ") + ", " + later
	}
	var from []string
	for _, f := range g.flows {
		if i := f.Detail.ICMP; i != nil && !slices.Contains(from, i.From) {
			from = append(from, i.From)
		}
	}
	if len(from) > 0 {
		slices.Sort(from)
		return "ICMP from " + strings.Join(from, ", ")
	}
	return strings.Join(first, ", ")
}

// trust tells what a reader must know of the instrument, and the record's notes.
func (v *trialPage) trust() {
	v.heading("Trust", "whether the instrument kept up, and what it caused itself")
	if h := v.r.Client; h != nil {
		text := fmt.Sprintf("The client sent %d heartbeats and got %d answers; at most %s late, %s at the 99.9th percentile.",
			h.HeartbeatsSent, h.HeartbeatsAnswered, Nanoseconds(h.LateMaxNs), Nanoseconds(h.LateP999Ns))
		if h.FellBehind {
			text += " It fell behind: no end may be blamed on the workload."
		}
		bullet(&v.b, text, v.width)
	}
	var sources, troubles []string
	for _, s := range v.r.Sources {
		sources = append(sources, fmt.Sprintf("%s %d", clean(s.Name), s.Events))
		if len(s.Gaps) > 0 {
			troubles = append(troubles, fmt.Sprintf("%s had %s", clean(s.Name), plural(len(s.Gaps), "gap")))
		}
		if s.Ended != "" {
			troubles = append(troubles, fmt.Sprintf("%s ended early (%s)", clean(s.Name), clean(s.Ended)))
		}
	}
	if len(troubles) == 0 {
		troubles = []string{"none had a gap"}
	}
	if len(sources) > 0 {
		bullet(&v.b, "Events by source: "+strings.Join(sources, ", ")+"; "+strings.Join(troubles, ", ")+".", v.width)
	}
	var clocks []string
	for _, c := range v.r.Clocks {
		bound := "offset " + notMeasured
		if c.UncertaintyNs != nil {
			bound = "exact"
			if *c.UncertaintyNs > 0 {
				bound = "±" + Nanoseconds(*c.UncertaintyNs)
			}
		}
		clocks = append(clocks, fmt.Sprintf("%s %s (%s)", clean(c.Name), bound, clean(c.Method)))
	}
	if len(clocks) > 0 {
		bullet(&v.b, "Clocks: "+strings.Join(clocks, ", ")+".", v.width)
	}
	for _, n := range v.r.Notes {
		bullet(&v.b, clean(n), v.width)
	}
}
