package htmlview

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// drawing is a picture as SVG, in units of a pixel. It is what is printed, and what is seen where no script runs.
type drawing struct {
	// Alt says what is seen; Caption stands above, empty for none.
	Alt, Caption  string
	Class         string
	Width, Height int
	Rects         []rect
	Paths         []path
	Texts         []label
}

type rect struct{ X, Y, W, H, Class string }

type path struct{ D, Class string }

type label struct {
	X, Y, Class, Text string
}

const (
	// drawingWidth is little more than what a printed page has, so that small text stays readable.
	drawingWidth  = 860
	drawingGutter = 216
	axisHeight    = 22
)

func px(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", v), "0"), ".")
}

// scale maps times to a drawing's width.
type scale struct {
	span
	left, right float64
}

// x of a time, kept inside of the drawing.
func (s scale) x(t int64) float64 {
	t = min(max(t, s.from), s.to)
	return s.left + float64(t-s.from)/float64(s.to-s.from)*(s.right-s.left)
}

// ticks are round times, about one every hundred pixels.
func (s scale) ticks() []int64 {
	ideal := float64(s.to-s.from) / math.Max(1, (s.right-s.left)/100)
	power := math.Pow(10, math.Floor(math.Log10(ideal)))
	step := int64(10 * power)
	for _, m := range []float64{1, 2, 5} {
		if m*power >= ideal {
			step = int64(m * power)
			break
		}
	}
	step = max(1, step)
	var list []int64
	for t := s.from / step * step; t <= s.to; t += step {
		if t >= s.from {
			list = append(list, t)
		}
	}
	return list
}

// axis draws the times above, their lines through all of the height, and the trigger.
func (d *drawing) axis(s scale) {
	for _, t := range s.ticks() {
		x := px(s.x(t))
		class := "grid"
		if t == 0 {
			class = "zero"
		}
		d.Paths = append(d.Paths, path{fmt.Sprintf("M%s %dV%d", x, axisHeight-4, d.Height), class})
		d.Texts = append(d.Texts, label{px(min(s.x(t), s.right-10)), "12", "tick", figure.Setting(t)})
	}
	if s.from > 0 || s.to < 0 {
		return
	}
	d.Paths = append(d.Paths, path{fmt.Sprintf("M%s %dV%d", px(s.x(0)), axisHeight-4, d.Height), "zero"})
}

// height of a lane in a drawing.
func (l lane) height() int {
	switch l.Kind {
	case rows:
		return min(max(14, l.Rows*4), 60)
	case failures:
		return min(max(18, l.Rows), 40)
	case counts:
		return 26
	}
	return 14
}

// drawing of the lanes, or nil without any.
func (m *model) drawing() *drawing {
	if len(m.lanes) == 0 {
		return nil
	}
	d := &drawing{Class: "lanes", Width: drawingWidth, Alt: fmt.Sprintf("Timeline with %s; zero is the trigger.", figure.Plural(len(m.lanes), "lane"))}
	y, group := axisHeight, ""
	tops := make([]int, len(m.lanes))
	for i, l := range m.lanes {
		if l.Group != group {
			group = l.Group
			d.Texts = append(d.Texts, label{"0", fmt.Sprint(y + 14), "group", l.Group})
			y += 20
		}
		tops[i] = y
		y += l.height() + 6
	}
	d.Height = y
	s := scale{m.view, drawingGutter, drawingWidth - 6}
	d.axis(s)
	for i, l := range m.lanes {
		mid := fmt.Sprint(tops[i] + l.height()/2 + 4)
		d.Texts = append(d.Texts, label{"0", mid, "name", page.Cut(page.Clean(l.Label), 22)}, label{fmt.Sprint(drawingGutter - 10), mid, "sub", page.Cut(page.Clean(l.Sub), 14)})
		m.draw(d, l, s, float64(tops[i]), float64(l.height()))
	}
	return d
}

// draw puts what a lane shows into a drawing.
func (m *model) draw(d *drawing, l lane, s scale, top, height float64) {
	switch l.Kind {
	case failures:
		m.drawFailures(d, l, s, top, height)
		return
	case counts:
		q := m.r.Requests.Series
		d.steps(s, *q, q.Sent, float64(max(1, slices.Max(q.Sent))), "sent", top, height)
		return
	}
	each := height
	if l.Kind == rows {
		each = height / float64(max(1, l.Rows))
	}
	for _, b := range l.Bars {
		if b.to < s.from || b.from > s.to {
			continue
		}
		x, w := s.x(b.from), s.x(b.to)-s.x(b.from)
		h := each
		if l.Kind == rows && each > 2 {
			h = each - 1
		}
		d.Rects = append(d.Rects, rect{px(x), px(top + float64(b.row)*each), px(math.Max(w, 1)), px(math.Max(h, 0.4)), "s-" + stateClass(b.state)})
		if end := flowEnd(b); end != "" {
			d.Rects = append(d.Rects, rect{px(x - 1), px(top + float64(b.row)*each), "3", px(math.Max(h, 0.4)), "e-" + end})
		}
	}
	if l.Kind == rows {
		return
	}
	var marks strings.Builder
	last := -1.0
	for _, i := range l.Marks {
		e := m.r.Events[i]
		if e.TNs < s.from || e.TNs > s.to || wordOf(e) == "" && math.Abs(s.x(e.TNs)-last) < 1 {
			continue
		}
		last = s.x(e.TNs)
		fmt.Fprintf(&marks, "M%s %sv%s", px(last), px(top), px(height))
	}
	if marks.Len() > 0 {
		d.Paths = append(d.Paths, path{marks.String(), "mark"})
	}
	m.words(d, l, s, top+10.5)
}

// flowEnd is the outcome that a bar stands for, where it is a flow's after its end.
func flowEnd(b bar) string {
	if b.flow < 0 || b.state == "alive" || b.state == "unknown" {
		return ""
	}
	return stateClass(b.state)
}

// words of the kinds of events that are written beside their marks.
var words = map[record.EventKind]string{
	record.TriggerSent: "trigger", record.TriggerAccepted: "accepted", record.TriggerFailed: "trigger failed", record.ObserveEnded: "end", record.Interrupted: "interrupted",
	record.ProbeSigterm: "SIGTERM", record.SignalSent: "signal", record.ProcessKilled: "SIGKILL", record.ContainerExited: "exited", record.ProcessExited: "exited",
	record.PodRemoved: "gone", record.EndpointRemoved: "removed", record.ListenerClosed: "listener closed", record.ProbeListenClosed: "listener closed", record.RuleRejects: "rejects",
}

// wordOf is what is written beside an event's mark; empty for those that are only marked. A container's other processes, such as those of
// probes that run a command, come and go all the time.
func wordOf(e record.Event) string {
	if first, told := e.Detail["first_process"].(bool); told && !first {
		return ""
	}
	text := words[e.Kind]
	switch e.Kind {
	case record.ContainerExited, record.ProcessExited:
		if code, ok := record.Integer(e.Detail[record.DetailExitCode]); ok {
			text = fmt.Sprintf("exit %d", code)
		}
	case record.SignalSent:
		if name, ok := e.Detail["signal_name"].(string); ok {
			text = name
		}
	}
	return text
}

// words writes what belongs to the marks of a lane, then the states of its bars, as far as they have room.
func (m *model) words(d *drawing, l lane, s scale, y float64) {
	room := &writing{d: d, s: s, y: y}
	var marks []word
	for _, i := range l.Marks {
		e := m.r.Events[i]
		if e.TNs < s.from || e.TNs > s.to {
			continue
		}
		x := s.x(e.TNs)
		room.taken = append(room.taken, [2]float64{x, x + 1})
		if text := wordOf(e); text != "" {
			marks = append(marks, word{x, text})
		}
	}
	room.besides(marks)
	for _, b := range l.Bars {
		room.within(max(s.x(b.from), s.left)+4, s.x(b.to)-3, stateWords[b.state])
	}
}

// writing is one line of small words that do not touch each other.
type writing struct {
	d     *drawing
	s     scale
	y     float64
	taken [][2]float64
}

func (w *writing) free(from, to float64) bool {
	return from >= w.s.left && to <= w.s.right && !slices.ContainsFunc(w.taken, func(t [2]float64) bool { return from < t[1]+3 && to > t[0]-3 })
}

func (w *writing) put(from, to float64, text string) {
	w.taken = append(w.taken, [2]float64{from, to})
	w.d.Texts = append(w.d.Texts, label{px(from), px(w.y), "word", text})
}

// word is what is written at a mark.
type word struct {
	x    float64
	text string
}

// besides writes words to the right of their marks, or else to the left, or not at all. Marks that leave no room between them have their words together.
func (w *writing) besides(marks []word) {
	for i := 0; i < len(marks); i++ {
		first, texts := marks[i].x, []string{marks[i].text}
		for i+1 < len(marks) && marks[i+1].x-marks[i].x <= wordWidth(marks[i].text)+8 {
			i++
			if !slices.Contains(texts, marks[i].text) {
				texts = append(texts, marks[i].text)
			}
		}
		w.beside(first, marks[i].x, strings.Join(texts, ", "))
	}
}

func (w *writing) beside(first, last float64, text string) {
	wide := wordWidth(text)
	for _, from := range []float64{last + 4, first - 4 - wide} {
		if w.free(from, from+wide) {
			w.put(from, from+wide, text)
			return
		}
	}
}

// within writes at the first room between two places.
func (w *writing) within(from, to float64, text string) {
	wide := wordWidth(text)
	if text == "" {
		return
	}
	for ; from+wide <= to; from += 4 {
		if w.free(from, from+wide) {
			w.put(from, from+wide, text)
			return
		}
	}
}

func wordWidth(text string) float64 { return float64(len(text)) * 5.8 }

// stateWords are what is written in a bar; those of flows are too thin for words.
var stateWords = map[string]string{
	"present": "there", "pending": "pending", "ready": "ready", "notready": "not ready", "terminating": "terminating", "exited": "exited", "serving": "serving", "gap": "no news", "disruption": "disruption",
}

// states are all that a bar can be; a class is one of them, so that no word of a record names one.
var states = []string{
	"present", "pending", "ready", "notready", "terminating", "exited", "serving", "named", "gap", "disruption", "alive", "unknown",
	string(record.Drained), string(record.Closed), string(record.Severed), string(record.Rehomed), string(record.ReadTimeout), string(record.Survived),
}

func stateClass(state string) string {
	if slices.Contains(states, state) {
		return state
	}
	return "unknown"
}

// spotSize is the width of a failure's mark in a drawing.
const spotSize = 2

// drawFailures marks each failure in its user's row. Those that lie upon each other, or touch, are one mark: of many there are no more than the drawing has room for.
func (m *model) drawFailures(d *drawing, l lane, s scale, top, height float64) {
	d.Rects = append(d.Rects, rect{px(s.left), px(top), px(s.right - s.left), px(height), "bed"})
	rows := max(1, l.Rows)
	size := int(math.Ceil(max(2.5, height/float64(rows))))
	columns := make([][]bool, int((s.right-s.left)/spotSize)+1)
	for i := range m.r.Failures {
		f := &m.r.Failures[i]
		if string(f.Outcome) != l.Outcome || f.TNs < s.from || f.TNs > s.to {
			continue
		}
		column := &columns[int((s.x(f.TNs)-s.left)/spotSize)]
		if *column == nil {
			*column = make([]bool, int(height)+size)
		}
		y := int(float64(f.User%rows) / float64(rows) * (height - 2))
		for k := range size {
			(*column)[y+k] = true
		}
	}
	var dots strings.Builder
	for c, column := range columns {
		for y := 0; y < len(column); y++ {
			begin := y
			for y < len(column) && column[y] {
				y++
			}
			if y > begin {
				fmt.Fprintf(&dots, "M%s %sv%d", px(s.left+float64(c)*spotSize+spotSize/2), px(top+float64(begin)), y-begin)
			}
		}
	}
	if dots.Len() > 0 {
		d.Paths = append(d.Paths, path{dots.String(), "lost"})
	}
}

// steps draws counts per bucket as an area; buckets narrower than half a pixel share one.
func (d *drawing) steps(s scale, q record.Series, values []int64, most float64, class string, top, height float64) {
	var p strings.Builder
	base := px(top + height)
	fmt.Fprintf(&p, "M%s %s", px(s.x(q.FromTNs)), base)
	for i, v := range values {
		from := q.FromTNs + int64(i)*q.BucketNs
		if from+q.BucketNs < s.from || from > s.to {
			continue
		}
		fmt.Fprintf(&p, "H%sV%sH%s", px(s.x(from)), px(top+height-float64(v)/most*height), px(s.x(from+q.BucketNs)))
	}
	p.WriteString("V" + base + "Z")
	d.Paths = append(d.Paths, path{p.String(), class})
}

// curvesOf draws requests and failures a second, answers of each Pod a second, and latency.
func curvesOf(r record.Record, view span) []drawing {
	if r.Requests == nil || !sound(r.Requests.Series) {
		return nil
	}
	q := *r.Requests.Series
	s := scale{view, drawingGutter, drawingWidth - 6}
	rates := ratesOf(q)
	list := []drawing{newCurve("Requests a second", "all sent, and in front what failed")}
	list[0].axis(s)
	list[0].level(figure.Trimmed(math.Round(rates.most()*10) / 10))
	for _, l := range rates.Lines {
		list[0].rates(s, rates, l, max(1, rates.most()), l.Name, true)
	}
	if d, ok := answersCurve(s, q); ok {
		list = append(list, d)
	}
	if top := largest(q.P99Ns); top > 0 {
		d := newCurve("Latency", "p99 thin, p50 bold")
		d.axis(s)
		d.level(figure.Nanoseconds(top))
		d.line(s, q, q.P99Ns, top, "p99")
		d.line(s, q, q.P50Ns, top, "p50")
		list = append(list, d)
	}
	return list
}

const (
	curveTop    = axisHeight + 4
	curveHeight = 84.0
)

func newCurve(title, caption string) drawing {
	return drawing{
		Class: "curve", Width: drawingWidth, Height: curveTop + int(curveHeight) + 2, Alt: title + " over time: " + caption,
		Texts: []label{{"0", "40", "group", title}, {"0", "56", "name", caption}},
	}
}

// level writes what the top of a curve stands for.
func (d *drawing) level(text string) {
	x := fmt.Sprint(drawingGutter - 10)
	d.Texts = append(d.Texts, label{x, fmt.Sprint(curveTop + 8), "sub", text}, label{x, fmt.Sprint(curveTop + int(curveHeight)), "sub", "0"})
}

// rates draws one line of rates as steps, closed to an area where it is filled.
func (d *drawing) rates(s scale, c coarse, l linePer, most float64, class string, filled bool) {
	var p strings.Builder
	y := func(v float64) string { return px(curveTop + curveHeight - v/most*curveHeight) }
	for k, v := range l.Rates {
		switch {
		case k == 0 && filled:
			fmt.Fprintf(&p, "M%s %sV%s", px(s.x(c.Edges[0])), y(0), y(v))
		case k == 0:
			fmt.Fprintf(&p, "M%s %s", px(s.x(c.Edges[0])), y(v))
		default:
			fmt.Fprintf(&p, "V%s", y(v))
		}
		fmt.Fprintf(&p, "H%s", px(s.x(c.Edges[k+1])))
	}
	if filled {
		fmt.Fprintf(&p, "V%sZ", y(0))
	}
	d.Paths = append(d.Paths, path{p.String(), class})
}

// maxCurves is how many Pods have a line of their own in a drawing.
const maxCurves = 8

func answersCurve(s scale, q record.Series) (drawing, bool) {
	c := answersOf(q)
	if len(c.Lines) == 0 {
		return drawing{}, false
	}
	caption := "a line a Pod, in " + figure.Setting(c.Bucket)
	if n := len(c.Lines); n > maxCurves {
		caption = fmt.Sprintf("the first %d of %s Pods", maxCurves, figure.Count(int64(n)))
		c.Lines = c.Lines[:maxCurves]
	}
	d := newCurve("Answers a second, by Pod", caption)
	d.axis(s)
	d.level(figure.Trimmed(math.Round(c.most()*10) / 10))
	for k, l := range c.Lines {
		d.rates(s, c, l, max(1, c.most()), fmt.Sprintf("line p%d", k), false)
		d.Texts = append(d.Texts, label{"12", fmt.Sprint(68 + 11*k), "name", page.Cut(page.Clean(l.Name), 28)})
		d.Rects = append(d.Rects, rect{"0", fmt.Sprint(61 + 11*k), "7", "7", fmt.Sprintf("f%d", k)})
	}
	if need := 76 + 11*len(c.Lines); need > d.Height {
		d.Height = need
	}
	return d, true
}

func largest(values []*int64) (most int64) {
	for _, v := range values {
		if v != nil {
			most = max(most, *v)
		}
	}
	return most
}

// line draws values at the middles of their buckets; where there is none it is broken, and one between two such is a dot.
func (d *drawing) line(s scale, q record.Series, values []*int64, most int64, class string) {
	var p strings.Builder
	fresh := true
	for i, v := range values {
		t := q.FromTNs + int64(i)*q.BucketNs + q.BucketNs/2
		if v == nil || t < s.from || t > s.to {
			fresh = true
			continue
		}
		x, y := px(s.x(t)), px(curveTop+curveHeight-float64(*v)/float64(most)*curveHeight)
		if fresh {
			fmt.Fprintf(&p, "M%s %sh1", x, y)
		} else {
			fmt.Fprintf(&p, "L%s %s", x, y)
		}
		fresh = false
	}
	d.Paths = append(d.Paths, path{p.String(), "line " + class})
}
