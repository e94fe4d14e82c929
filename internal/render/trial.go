package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// Trial writes one trial for a terminal: what was done, a picture of endpoint,
// container and flows over time, the timeline, the flows, the windows, why flows were lost, how Pods ended, and what a reader
// must know to trust it. The error is that of w.
func Trial(w io.Writer, r record.Record, o Opts) error {
	v := &trialPage{r: r, o: o, k: page.Ink{On: o.Color}, width: o.width()}
	v.header()
	v.picture()
	v.timeline()
	v.flowTable()
	v.windows()
	v.causes()
	v.endings()
	v.trust()
	_, err := io.WriteString(w, v.b.String())
	return err
}

// trialPage is one trial being written.
type trialPage struct {
	r     record.Record
	o     Opts
	k     page.Ink
	width int
	b     strings.Builder
}

func (v *trialPage) line(s string) { v.b.WriteString(strings.TrimRight(s, " ") + "\n") }

func (v *trialPage) heading(title, note string) {
	v.line("")
	v.line(v.k.Bold(title) + "  " + v.k.Dim(page.Cut(note, v.width-2-len(title))))
}

func (v *trialPage) header() {
	c, e := v.r.Config, v.r.Environment
	title := page.Clean(fmt.Sprintf("%s, %s, grace %s", c.Arm, c.Trigger, figure.Setting(c.GraceNs)))
	if s := v.r.Set; s != nil {
		title += page.Clean(fmt.Sprintf(" (%s: %s, repeat %d of %d)", s.Experiment, s.Arm, s.Repeat, s.Repeats))
	}
	id := page.Clean(v.r.ID)
	if gap := v.width - utf8.RuneCountInString(title) - utf8.RuneCountInString(id); gap >= 2 {
		v.line(v.k.Bold(title) + strings.Repeat(" ", gap) + v.k.Dim(id))
	} else {
		for _, line := range page.Wrap(title, v.width) {
			v.line(v.k.Bold(line))
		}
		v.line(v.k.Dim(id))
	}

	mode := "proxy mode " + page.NotMeasured
	if e.ProxyMode != nil {
		mode = *e.ProxyMode
	}
	facts := []string{
		"Kubernetes " + e.Kubernetes, mode, figure.Plural(len(e.Nodes), "node"), "path " + c.Path, "clients at " + c.Vantage,
		fmt.Sprintf("%d TCP and %d UDP flows", c.TCP, c.UDP), "a heartbeat every " + figure.Setting(c.HeartbeatNs),
	}
	if pod, _ := v.r.ProbePod(); pod != "" {
		facts = append(facts, "Pod "+pod)
	}
	if c.Arm == "drain" && c.DrainWindowNs > 0 {
		facts = append(facts, "drain window "+figure.Setting(c.DrainWindowNs))
	}
	if c.PreStopSleepNs > 0 {
		facts = append(facts, "preStop sleep "+figure.Setting(c.PreStopSleepNs))
	}
	if c.ReadinessOnTerm != "" {
		facts = append(facts, "readiness on SIGTERM: "+c.ReadinessOnTerm)
	}
	facts = append(facts, v.r.Tool.Name+" "+v.r.Tool.Version)
	for i, f := range facts {
		facts[i] = page.Clean(f)
	}
	for _, line := range page.WrapParts(facts, ", ", v.width) {
		v.line(v.k.Dim(line))
	}
	if v.r.Completeness != record.Complete {
		v.line("")
		for i, m := range v.r.Missing {
			head := "INCOMPLETE  "
			if i > 0 {
				head = "            "
			}
			v.line(v.k.Red(head) + v.k.Plain(m))
		}
		if len(v.r.Missing) == 0 {
			v.line(v.k.Red("INCOMPLETE"))
		}
	}
}

const (
	labelWidth = 11
	noteWidth  = 36
)

func (v *trialPage) picture() {
	c := canvas{axisFor(v.r, v.width-2-labelWidth-2-noteWidth)}
	labels, ruler := c.Ruler()
	margin := strings.Repeat(" ", 2+labelWidth)
	v.line("")
	v.line("  " + v.k.Dim(page.Pad("trigger at", labelWidth)+labels))
	v.line(margin + v.k.Dim(ruler))
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
		v.line("  " + v.k.Bold(page.Pad(page.Cut(page.Clean(l.label), labelWidth-1), labelWidth)) + bar.String() + "  " + v.k.Plain(page.Cut(page.Clean(l.note), noteWidth)))
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
	for _, line := range page.WrapParts(parts, "  ", v.width-2-labelWidth) {
		v.line(strings.Repeat(" ", 2+labelWidth) + v.k.Dim(line))
	}
}

func (v *trialPage) flowTable() {
	v.heading("Flows", "how each ended, as its client saw it")
	groups := flowGroups(v.r)
	outcomeWidth, mechanismWidth, whenWidth := 0, 0, 0
	for _, g := range groups {
		outcomeWidth = max(outcomeWidth, utf8.RuneCountInString(page.Clean(string(g.outcome))))
		mechanismWidth = max(mechanismWidth, utf8.RuneCountInString(page.Clean(string(g.mechanism))))
		whenWidth = max(whenWidth, utf8.RuneCountInString(g.when()))
	}
	for _, g := range groups {
		head := fmt.Sprintf("%5d %s  ", len(g.flows), g.protocol)
		fate := page.Pad(page.Clean(string(g.outcome)), outcomeWidth) + "  " + page.Pad(page.Clean(string(g.mechanism)), mechanismWidth) + "  "
		room := v.width - 2 - utf8.RuneCountInString(head) - utf8.RuneCountInString(fate) - whenWidth - 2
		v.line("  " + v.k.Plain(head) + outcomePaint(g.outcome)(v.k, fate) + page.PadLeft(g.when(), whenWidth) + "  " + v.k.Dim(page.Cut(page.Clean(g.story()), room)))
	}
	if len(v.r.Flows) == 0 {
		v.line("  " + v.k.Dim("none recorded"))
	}
}

// when the group ended.
func (g flowGroup) when() string {
	if !g.ended {
		return "no end seen"
	}
	return figure.Interval(g.first, g.last)
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

// endings tells how each Pod ended, where more is known of it than the timeline shows.
// causes tells why flows were lost or moved, as far as evidence goes.
func (v *trialPage) causes() {
	Causes(&v.b, "\n"+v.k.Bold("Causes")+"  "+v.k.Dim("why flows ended, or moved to another Pod")+"\n", v.r, v.o)
}

func (v *trialPage) endings() {
	list, more := page.Endings(v.r, v.o.Verbose)
	if len(list) == 0 {
		return
	}
	v.heading("Pods that were ended", "times from the trigger")
	for _, e := range list {
		e.Terminal(&v.b, v.k, v.width)
	}
	if more > 0 {
		page.Bullet(&v.b, page.MoreEndings(more), v.width)
	}
}

// trust tells what a reader must know of the instrument, and the record's notes.
func (v *trialPage) trust() {
	v.heading("Trust", "whether the instrument kept up, and what it caused itself")
	if h := v.r.Client; h != nil {
		text := fmt.Sprintf("The client sent %d heartbeats and got %d answers; at most %s late, %s at the 99.9th percentile.",
			h.HeartbeatsSent, h.HeartbeatsAnswered, figure.Nanoseconds(h.LateMaxNs), figure.Nanoseconds(h.LateP999Ns))
		if h.FellBehind {
			text += " It fell behind: no end may be blamed on the workload."
		}
		page.Bullet(&v.b, text, v.width)
	}
	var sources, troubles []string
	for _, s := range v.r.Sources {
		sources = append(sources, fmt.Sprintf("%s %d", page.Clean(s.Name), s.Events))
		if len(s.Gaps) > 0 {
			troubles = append(troubles, fmt.Sprintf("%s had %s", page.Clean(s.Name), figure.Plural(len(s.Gaps), "gap")))
		}
		if s.Ended != "" {
			troubles = append(troubles, fmt.Sprintf("%s ended early (%s)", page.Clean(s.Name), page.Clean(s.Ended)))
		}
	}
	if len(troubles) == 0 {
		troubles = []string{"none had a gap"}
	}
	if len(sources) > 0 {
		page.Bullet(&v.b, "Events by source: "+strings.Join(sources, ", ")+"; "+strings.Join(troubles, ", ")+".", v.width)
	}
	var clocks []string
	for _, c := range v.r.Clocks {
		bound := "offset " + page.NotMeasured
		if c.UncertaintyNs != nil {
			bound = "exact"
			if *c.UncertaintyNs > 0 {
				bound = "±" + figure.Nanoseconds(*c.UncertaintyNs)
			}
		}
		clocks = append(clocks, fmt.Sprintf("%s %s (%s)", page.Clean(c.Name), bound, page.Clean(c.Method)))
	}
	if len(clocks) > 0 {
		page.Bullet(&v.b, "Clocks: "+strings.Join(clocks, ", ")+".", v.width)
	}
	for _, n := range v.r.Notes {
		page.Bullet(&v.b, page.Clean(n), v.width)
	}
}
