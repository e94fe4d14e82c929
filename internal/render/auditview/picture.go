package auditview

import (
	"math"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
)

// glyphs are the characters of the picture.
type glyphs struct {
	// begin, line, term and end draw the grace period; wall repeats its end in the rows below.
	begin, line, term, end, wall rune
	// spent is time that passes as planned, after is new traffic after SIGTERM, past is
	// what comes after the exit or the end of the grace period.
	spent, after, past rune
	// none is a stretch without a length, dots where one may reach, more what runs off the picture.
	none, dots, more rune
}

var (
	blocks = glyphs{'├', '─', '┬', '┤', '│', '█', '▒', '╳', '▏', '·', '→'}
	ascii  = glyphs{'|', '-', '+', '|', '|', '=', '!', 'X', ':', '.', '>'}
)

// legend explains those characters that were used.
func (g glyphs) legend(used map[rune]bool) []string {
	var parts []string
	for _, x := range []struct {
		r    rune
		what string
	}{
		{g.spent, "in time"}, {g.after, "new traffic after SIGTERM"}, {g.past, "after the exit or the end of the grace period"},
		{'?', "not known"}, {g.more, "longer than drawn"},
	} {
		if used[x.r] {
			parts = append(parts, string(x.r)+" "+x.what)
		}
	}
	return parts
}

// moments of a termination, in nanoseconds from the delete.
type moments struct {
	// grace is its end: the SIGKILL.
	grace int64
	// term is the SIGTERM: the hook has ended, or the grace period has. Nil where the hook's length is not known.
	term *int64
	// gone is when nobody is there any more: the exit where it is known, the end of the grace period at the latest.
	gone int64
	// last is the end of the longest stretch.
	last int64
}

func momentsOf(b finding.Budget) moments {
	t := moments{grace: max(0, b.GraceNs)}
	t.gone, t.last = t.grace, t.grace
	if b.PropagationNs != nil {
		t.last = max(t.last, *b.PropagationNs)
	}
	start := int64(0)
	if b.HookNs != nil {
		start = min(*b.HookNs, t.grace)
		t.term = &start
		t.last = max(t.last, *b.HookNs)
	}
	switch {
	case b.DrainNs != nil:
		t.last = max(t.last, start+*b.DrainNs)
		if t.term != nil {
			t.gone = min(t.grace, start+*b.DrainNs)
		}
	case t.term != nil && start == t.grace:
		// An unknown drain that begins at the end needs room beyond it.
		t.last = max(t.last, t.grace+t.grace/16+1)
	}
	return t
}

// endless is a hook that nobody waits for: its length stands for having no end.
const endless = int64(10000 * time.Hour)

// leastGrace is how many columns the grace period keeps beside something much longer.
const leastGrace = 8

// cell is one character of the picture.
type cell struct {
	r     rune
	color string
}

// row is one line of the picture.
type row struct {
	label string
	cells []cell
	// value is the row's number or ?, note what follows from it.
	value, note string
}

// picture is one budget over one axis of time. The end of the grace period has a
// column to itself, the wall; what does not fit stands to its right.
type picture struct {
	moments
	b             finding.Budget
	g             glyphs
	columns, wall int
	perColumn     float64
}

func pictureOf(b finding.Budget, columns int, g glyphs) picture {
	p := picture{moments: momentsOf(b), b: b, g: g, columns: columns, wall: columns - 1}
	if p.grace == 0 {
		p.wall, p.perColumn = 0, float64(max(1, p.last))/float64(columns-1)
		return p
	}
	if p.last > p.grace {
		// Rounded down, so that all of the longest stretch finds room.
		p.wall = int(float64(columns-1) * float64(p.grace) / float64(p.last))
		p.wall = min(max(p.wall, leastGrace), columns-2)
	}
	p.perColumn = float64(p.grace) / float64(p.wall)
	return p
}

// column of a time within the grace period; its end is the wall.
func (p picture) column(t int64) int {
	return min(p.wall, int(math.Round(float64(t)/p.perColumn)))
}

func (p picture) rows() []row {
	return []row{p.graceRow(), p.hookRow(), p.propagationRow(), p.drainRow()}
}

// words names delete, SIGTERM and SIGKILL where they happen, as far as there is room.
func (p picture) words() string {
	const del, term, kill = "delete", "SIGTERM", "SIGKILL"
	// However long the hook took, the kubelet leaves 2 s between the two signals.
	const floor = term + ", " + kill + " 2 s later"
	line := []rune(strings.Repeat(" ", p.columns+len(floor)))
	put := func(at int, s string) { copy(line[at:], []rune(s)) }
	put(p.wall, kill)
	at := -1
	switch {
	case p.term == nil:
		if len(del) < p.wall {
			put(0, del)
		}
	case p.grace == 0:
		put(p.wall, term+", "+kill)
	case *p.term >= p.grace:
		put(p.wall, floor)
		if len(del) < p.wall {
			put(0, del)
		}
	case *p.term == 0 && len(del+", "+term) < p.wall:
		put(0, del+", "+term)
	default:
		at = min(p.column(*p.term), p.wall-len(term)-1)
	}
	if at >= 0 {
		put(at, term)
		if at > len(del) {
			put(0, del)
		}
	}
	return strings.TrimRight(string(line), " ")
}

// empty is a row with nothing but the wall.
func (p picture) empty() []cell {
	cells := make([]cell, p.columns)
	for i := range cells {
		cells[i].r = ' '
	}
	cells[p.wall] = cell{p.g.wall, bold}
	return cells
}

// stretch draws the time between two moments. What has a length gets at least one column.
func (p picture) stretch(cells []cell, from, to int64, r rune, color string) {
	if inside := min(to, p.grace); from < inside && p.wall > 0 {
		first, end := p.column(from), p.column(inside)
		if first == end {
			first, end = min(first, p.wall-1), min(first, p.wall-1)+1
		}
		for i := first; i < end; i++ {
			cells[i] = cell{r, color}
		}
	}
	if outside := max(from, p.grace); outside < to {
		first := p.wall + 1 + int(math.Round(float64(outside-p.grace)/p.perColumn))
		end := p.wall + 1 + int(math.Round(float64(to-p.grace)/p.perColumn))
		first = min(first, p.columns-1)
		for i := first; i < min(max(end, first+1), p.columns); i++ {
			cells[i] = cell{r, color}
		}
		if end > p.columns {
			cells[p.columns-1] = cell{p.g.more, color}
		}
	}
}

// unknown draws a question mark where a stretch begins, and dots as far as it may reach within the grace period.
func (p picture) unknown(cells []cell, from int64) {
	at := p.column(from)
	if from < p.grace && at == p.wall {
		at-- // what begins just before the end has its place before it
	}
	if at == p.wall {
		if at+1 < p.columns {
			cells[at+1] = cell{'?', red}
		}
		return
	}
	for i := at; i < p.wall; i++ {
		cells[i] = cell{p.g.dots, dim}
	}
	cells[at] = cell{'?', yellow}
}

// nothing marks the place of a stretch that takes no time.
func (p picture) nothing(cells []cell, at int64, color string) {
	if i := min(p.column(at), p.wall-1); i >= 0 {
		cells[i] = cell{p.g.none, color}
	}
}

func (p picture) graceRow() row {
	cells := p.empty()
	for i := range p.wall {
		cells[i] = cell{p.g.line, bold}
	}
	cells[p.wall] = cell{p.g.end, bold}
	if p.wall > 0 {
		cells[0] = cell{p.g.begin, bold}
		if p.term != nil && *p.term > 0 && *p.term < p.grace {
			cells[min(max(1, p.column(*p.term)), p.wall-1)] = cell{p.g.term, bold}
		}
	}
	note := ""
	if p.b.GraceFrom == "default" {
		note = "the default"
	}
	return row{"grace", cells, seconds(p.b.GraceNs), note}
}

func (p picture) hookRow() row {
	cells := p.empty()
	if p.b.HookNs == nil {
		p.unknown(cells, 0)
		return row{"hook", cells, "?", "its length is not known"}
	}
	hook, note := *p.b.HookNs, ""
	p.stretch(cells, 0, min(hook, p.grace), p.g.spent, cyan)
	p.stretch(cells, p.grace, hook, p.g.past, red)
	switch {
	case hook == 0:
		p.nothing(cells, 0, cyan)
		note = "SIGTERM comes at once"
	case hook == p.grace:
		note = "takes all of the grace period"
	case hook > p.grace:
		note = "cut off after " + seconds(p.grace)
	}
	value := seconds(hook)
	if hook >= endless {
		value = "no end"
	}
	return row{"hook", cells, value, note}
}

// propagationRow shows how long new traffic goes on arriving: while the hook holds the
// container, after SIGTERM, and when nobody is there any more.
func (p picture) propagationRow() row {
	const label = "propagation"
	cells := p.empty()
	if p.b.PropagationNs == nil {
		p.unknown(cells, 0)
		return row{label, cells, "?", "not known"}
	}
	last := *p.b.PropagationNs
	served := p.gone
	if p.term != nil {
		served = *p.term
	}
	p.stretch(cells, 0, min(last, served), p.g.spent, green)
	p.stretch(cells, served, min(last, p.gone), p.g.after, yellow)
	p.stretch(cells, p.gone, last, p.g.past, red)
	if last == 0 {
		p.nothing(cells, 0, green)
	}
	var notes []string
	if p.b.PropagationPath != "" {
		notes = append(notes, p.b.PropagationPath)
	}
	if p.term != nil && last > served {
		if served == 0 {
			notes = append(notes, "all after SIGTERM")
		} else {
			notes = append(notes, seconds(last-served)+" after SIGTERM")
		}
	}
	if last > p.gone {
		end := "after the exit"
		if p.gone == p.grace {
			end = "past the grace period"
		}
		notes = append(notes, seconds(last-p.gone)+" "+end)
	}
	return row{label, cells, seconds(last), strings.Join(notes, ", ")}
}

func (p picture) drainRow() row {
	const label = "drain"
	cells := p.empty()
	start := int64(0)
	if p.term != nil {
		start = *p.term
	}
	if p.b.DrainNs == nil {
		p.unknown(cells, start)
		note := "not known"
		switch {
		case p.term == nil:
		case start == p.grace:
			note = "not known, and no grace is left for it"
		default:
			note = "not known, room for " + seconds(p.grace-start)
		}
		return row{label, cells, "?", note}
	}
	end := start + *p.b.DrainNs
	p.stretch(cells, start, min(end, p.grace), p.g.spent, green)
	p.stretch(cells, max(start, p.grace), end, p.g.past, red)
	if end == start {
		p.nothing(cells, start, green)
	}
	var note string
	switch {
	case p.term == nil:
		// Its length is known, its place is not.
		if p.wall > 0 {
			cells[0] = cell{'?', yellow}
		}
		note = "begins after a hook of unknown length"
	case end > p.grace:
		note = seconds(end-p.grace) + " past the grace period"
	default:
		note = "leaves " + seconds(p.grace-end)
	}
	return row{label, cells, seconds(*p.b.DrainNs), note}
}

// sources say where those numbers come from that nobody wrote into the Pod's fields.
func (p picture) sources() string {
	var parts []string
	if p.b.PropagationNs != nil && p.b.PropagationFrom != "" {
		parts = append(parts, "propagation: "+p.b.PropagationFrom)
	}
	if p.b.DrainNs != nil && p.b.DrainFrom != "" {
		parts = append(parts, "drain: "+p.b.DrainFrom)
	}
	return strings.Join(parts, "; ")
}

const (
	labelWidth = 13
	valueWidth = 7
	// barWidth keeps the bars of a very wide terminal comparable at a glance.
	barWidth = 56
)

// pictureLines draws a budget for a page of so many columns, and notes which characters it used.
func pictureLines(b finding.Budget, page int, g glyphs, k ink, used map[rune]bool) []string {
	const indent = "  "
	bar := min(barWidth, (page-len(indent)-labelWidth-valueWidth-4)/2+4)
	room := page - len(indent) - labelWidth - bar - 2 - valueWidth - 2
	p := pictureOf(b, bar, g)
	margin := indent + strings.Repeat(" ", labelWidth)
	out := []string{margin + k.in(dim, p.words())}
	for _, r := range p.rows() {
		for _, c := range r.cells {
			used[c.r] = true
		}
		notes := wrap(r.note, room)
		line := indent + pad(r.label, labelWidth) + paint(r.cells, k) + "  " + strings.Repeat(" ", max(0, valueWidth-width(r.value))) + r.value
		if len(notes) > 0 {
			line += "  " + k.in(dim, notes[0])
		}
		out = append(out, line)
		for i := 1; i < len(notes); i++ {
			out = append(out, margin+paint(p.empty(), k)+strings.Repeat(" ", 2+valueWidth+2)+k.in(dim, notes[i]))
		}
	}
	for _, line := range wrap(p.sources(), page-len(margin)) {
		out = append(out, margin+k.in(dim, line))
	}
	return out
}

// paint colours cells alike together.
func paint(cells []cell, k ink) string {
	var b strings.Builder
	for i := 0; i < len(cells); {
		j := i
		for j < len(cells) && cells[j].color == cells[i].color {
			j++
		}
		var run strings.Builder
		for _, c := range cells[i:j] {
			run.WriteRune(c.r)
		}
		b.WriteString(k.in(cells[i].color, run.String()))
		i = j
	}
	return b.String()
}
