package htmlview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
	"github.com/drainproof/drainproof/internal/render/page"
	"github.com/drainproof/drainproof/internal/verdict"
)

// setView sums up several trials: a row each, and a small picture each, all over one axis.
type setView struct {
	Title string
	// Doubt says why nothing is averaged over the set; empty where it is whole.
	Doubt string
	Head  []column
	// Judged: at least one trial has a verdict.
	Judged bool
	Arms   []armView
	// Axis says what the small pictures share.
	Axis string
	// Tables are those over arms of what agents told; empty where nothing may be averaged.
	Tables []table
}

type armView struct {
	Name string
	Rows []setRow
}

type setRow struct {
	Anchor, Repeat, Class, Sign, Word string
	Cells                             []string
	Picture                           *drawing
}

func setOf(inputs []render.Input, trials []trialView) *setView {
	v := &setView{Title: setTitle(inputs)}
	groups, err := render.Groups(inputs)
	if err != nil {
		v.Doubt = err.Error()
	}
	for _, g := range groups {
		for _, t := range render.EvidenceTables(g.Arms) {
			v.Tables = append(v.Tables, overArms(t, g.Title, len(groups) > 1))
		}
	}
	tests := slices.ContainsFunc(inputs, func(in render.Input) bool { return in.Record.IsTest() })
	if tests {
		v.Head = columns("#requests since the trigger", "#failed", "#users hurt", "#p99 before", "#p99 during", "#p99 after", "#disruption")
	} else {
		v.Head = columns("TCP flows", "UDP flows", "#last TCP end", "#endpoint removed", "#dead endpoint", "#exit code")
	}
	shared := sharedSpan(inputs)
	most := int64(1)
	for _, in := range inputs {
		if q := in.Record.Requests; q != nil && sound(q.Series) {
			most = max(most, slices.Max(lostPer(*q.Series, shared)))
		}
	}
	v.Axis = "All pictures span " + figure.Setting(roundSecond(shared.from)) + " to " + figure.Setting(roundSecond(shared.to)) + " from the trigger (the line)."
	if tests {
		v.Axis += fmt.Sprintf(" The highest bar is %s in %s.", figure.Plural(int(most), "failure"), figure.Nanoseconds((shared.to-shared.from)/(miniWidth/miniStep)))
	}
	one := sameExperiment(inputs)
	for i, in := range inputs {
		place := placeOf(in.Record)
		name := place.Arm
		if place.Experiment != "" && !one {
			name = place.Experiment + ": " + place.Arm
		}
		if n := len(v.Arms); n == 0 || v.Arms[n-1].Name != name {
			v.Arms = append(v.Arms, armView{Name: name})
		}
		arm := &v.Arms[len(v.Arms)-1]
		cells := flowCells(in.Record)
		if tests {
			cells = testCells(in.Record)
		}
		row := setRow{
			Anchor: trials[i].Anchor, Repeat: figure.Count(int64(cmp.Or(place.Repeat, len(arm.Rows)+1))),
			Class: trials[i].Verdict.Class, Sign: trials[i].Verdict.Sign, Word: trials[i].Verdict.Word, Cells: cells, Picture: miniature(in.Record, shared, most),
		}
		v.Judged = v.Judged || in.Record.Verdict != nil
		if in.Record.Completeness != record.Complete {
			row.Word += ", incomplete"
			v.Judged = true
		}
		arm.Rows = append(arm.Rows, row)
	}
	return v
}

// overArms is a table over arms, which names its group where there are several.
func overArms(t page.Table, group string, several bool) table {
	names := slices.Clone(t.Head)
	for i, name := range names {
		switch name {
		case "arm", "node", "by":
		case "causes":
			names[i] = "*" + name
		default:
			names[i] = "#" + name
		}
	}
	title := t.Title
	if several {
		title += ", " + group
	}
	return table{Title: title, Note: t.Note, Head: columns(names...), Rows: t.Rows}
}

func roundSecond(ns int64) int64 { return (ns + 5e7) / 1e8 * 1e8 }

// sameExperiment reports whether all trials are of one experiment, or of none.
func sameExperiment(inputs []render.Input) bool {
	first := placeOf(inputs[0].Record).Experiment
	return !slices.ContainsFunc(inputs, func(in render.Input) bool { return placeOf(in.Record).Experiment != first })
}

func setTitle(inputs []render.Input) string {
	name := "Trials"
	if e := placeOf(inputs[0].Record).Experiment; e != "" && sameExperiment(inputs) {
		name = upperFirst(e)
	}
	return fmt.Sprintf("%s, %s", name, figure.Plural(len(inputs), "trial"))
}

// sharedSpan is long enough for every trial.
func sharedSpan(inputs []render.Input) span {
	s := initial(inputs[0].Record)
	for _, in := range inputs[1:] {
		x := initial(in.Record)
		s = span{min(s.from, x.from), max(s.to, x.to)}
	}
	return s
}

func testCells(r record.Record) []string {
	cells := []string{page.NotMeasured, page.NotMeasured, page.NotMeasured, page.NotMeasured, page.NotMeasured, page.NotMeasured, page.NotMeasured}
	if q := r.Requests; q != nil {
		cells[0], cells[1] = figure.Count(verdict.Since(r)), figure.Count(q.Failed)
	}
	if u := r.Users; u != nil {
		cells[2] = fmt.Sprintf("%s of %s", figure.Count(int64(u.Hurt)), figure.Count(int64(u.Total)))
	}
	if l := r.Latency; l != nil {
		for i, q := range []*record.Quantiles{l.Before, l.During, l.After} {
			if q != nil {
				cells[3+i] = figure.Nanoseconds(q.P99Ns)
			}
		}
		cells[6] = latencyText(l.DuringToTNs)
	}
	return cells
}

func flowCells(r record.Record) []string {
	var cells []string
	for _, p := range record.Protocols() {
		list, _ := fatesOf(r, p)
		cells = append(cells, cmp.Or(fatesText(list), "none"))
	}
	for _, name := range []string{record.LastTCPEnd, record.DeleteToEndpointRemoved, record.DeadEndpoint} {
		text := page.NotMeasured
		if w, ok := r.Window(name); ok && w.Ns != nil {
			text = page.Sign(w.Bound) + figure.Nanoseconds(*w.Ns)
		}
		cells = append(cells, text)
	}
	exit := page.NotMeasured
	if c := r.Summary.ContainerExitCode; c != nil {
		exit = fmt.Sprint(*c)
	}
	return append(cells, exit)
}

const (
	miniWidth  = 260
	miniHeight = 46
	// miniStep is how wide a bar is.
	miniStep = 4
)

// lostPer counts failures for each bar of a miniature.
func lostPer(q record.Series, shared span) []int64 {
	bars := make([]int64, miniWidth/miniStep)
	for i, n := range q.Failed {
		t := q.FromTNs + int64(i)*q.BucketNs + q.BucketNs/2
		k := int(float64(t-shared.from) / float64(shared.to-shared.from) * float64(len(bars)))
		if k >= 0 && k < len(bars) {
			bars[k] += n
		}
	}
	return bars
}

// miniature shows one trial's losses over the axis that all share.
func miniature(r record.Record, shared span, most int64) *drawing {
	d := &drawing{Class: "mini", Width: miniWidth, Height: miniHeight, Alt: "Losses over time of " + headingOf(r)}
	s := scale{shared, 0, miniWidth}
	if shared.from <= 0 && shared.to >= 0 {
		d.Paths = append(d.Paths, path{fmt.Sprintf("M%s 0V%d", px(s.x(0)), miniHeight), "zero"})
	}
	d.Paths = append(d.Paths, path{fmt.Sprintf("M0 %dH%d", miniHeight-1, miniWidth), "grid"})
	if q := r.Requests; q != nil && sound(q.Series) {
		x := *q.Series
		d.Rects = append(d.Rects, rect{px(s.x(x.FromTNs)), px(miniHeight - 4), px(s.x(x.FromTNs+int64(len(x.Sent))*x.BucketNs) - s.x(x.FromTNs)), "3", "s-alive"})
		var p strings.Builder
		for k, n := range lostPer(x, shared) {
			if n > 0 {
				h := float64(n) / float64(most) * (miniHeight - 6)
				fmt.Fprintf(&p, "M%d %sv-%s", k*miniStep+miniStep/2, px(miniHeight-5), px(max(h, 1.5)))
			}
		}
		d.Paths = append(d.Paths, path{p.String(), "lost"})
		return d
	}
	m := &model{r: r, view: shared}
	for _, p := range record.Protocols() {
		m.flows(p)
	}
	for i, l := range m.lanes {
		each := float64(miniHeight-2) / float64(len(m.lanes))
		m.draw(d, l, s, float64(i)*each, each-3)
	}
	return d
}
