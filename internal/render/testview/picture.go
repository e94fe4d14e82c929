package testview

import (
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

const (
	labelWidth = 11
	noteWidth  = 24
)

// levels of a bar, from a little to the most.
var levels = []rune("▁▂▃▄▅▆▇█")

const (
	quiet  = '·' // requests, and nothing of what the lane shows
	absent = ' ' // no request
)

// picture draws failures, latency and the Pods' steps over time.
func (s *sheet) picture() {
	if s.r.Requests == nil || !sound(s.r.Requests.Series) {
		return
	}
	a := axisFor(s.r, *s.r.Requests.Series, s.width-2-labelWidth-2-noteWidth)
	labels, ruler := a.Ruler()
	s.line("")
	s.line("  " + s.k.Dim(page.Pad("trigger at", labelWidth)+labels))
	s.line(strings.Repeat(" ", 2+labelWidth) + s.k.Dim(ruler))
	for _, l := range lanesOf(s.r, a) {
		s.line("  " + s.k.Bold(page.Pad(l.label, labelWidth)) + l.paint(s.k, l.bar) + "  " + s.k.Plain(page.Cut(page.Clean(l.note), noteWidth)))
	}
}

// sound reports whether every list of a series has one length and its buckets have a width.
func sound(s *record.Series) bool {
	return s != nil && s.BucketNs > 0 && len(s.Sent) > 0 && len(s.Failed) == len(s.Sent) && len(s.P99Ns) == len(s.Sent)
}

// axisFor spans from a little before the trigger to the last thing that happened, or the last request.
func axisFor(r record.Record, s record.Series, columns int) page.Axis {
	end := s.FromTNs + int64(len(s.Sent))*s.BucketNs
	last := int64(0)
	for i, n := range s.Failed {
		if n > 0 {
			last = max(last, s.FromTNs+int64(i+1)*s.BucketNs)
		}
	}
	for _, m := range marks {
		for _, e := range m.events(r) {
			last = max(last, e.TNs)
		}
	}
	to := end
	if last > 0 {
		to = min(end, last+last/8)
	}
	to = max(to, s.BucketNs)
	return page.Axis{From: max(s.FromTNs, -to/6), To: to, Columns: columns}
}

// lane is one line of the picture.
type lane struct {
	label, bar, note string
	paint            func(page.Ink, string) string
}

func lanesOf(r record.Record, a page.Axis) []lane {
	s := *r.Requests.Series
	failed := make([]*int64, len(s.Failed))
	for i := range s.Failed {
		if s.Sent[i] > 0 {
			failed[i] = &s.Failed[i]
		}
	}
	width := figure.Setting(s.BucketNs)
	bar, most := spark(a, s, failed)
	note := "none"
	if most > 0 {
		note = "at most " + figure.Count(most) + " in " + width
	}
	list := []lane{{"failed", bar, note, page.Ink.Red}}
	if bar, most = spark(a, s, s.P99Ns); most > 0 {
		list = append(list, lane{"p99", bar, "at most " + figure.Nanoseconds(most), page.Ink.Cyan})
	}
	for _, m := range marks {
		if l, some := m.lane(r, a); some {
			list = append(list, l)
		}
	}
	return list
}

// spark draws the largest value of the buckets in each column, against the largest of all; a bucket without a value draws nothing.
func spark(a page.Axis, s record.Series, values []*int64) (bar string, most int64) {
	cells := make([]*int64, a.Columns)
	for i, v := range values {
		from := s.FromTNs + int64(i)*s.BucketNs
		to := from + s.BucketNs - 1
		if v == nil || to < a.From || from > a.To {
			continue
		}
		most = max(most, *v)
		first, _ := a.Column(max(from, a.From))
		last, _ := a.Column(min(to, a.To))
		for c := first; c <= last; c++ {
			if cells[c] == nil || *cells[c] < *v {
				cells[c] = v
			}
		}
	}
	out := make([]rune, a.Columns)
	for c, v := range cells {
		switch {
		case v == nil:
			out[c] = absent
		case *v <= 0:
			out[c] = quiet
		default:
			out[c] = levels[min(int(float64(*v)/float64(most)*float64(len(levels))), len(levels)-1)]
		}
	}
	return string(out), most
}

// mark is a kind of event that has a lane.
type mark struct {
	label string
	kind  record.EventKind
	sign  rune
	paint func(page.Ink, string) string
}

var marks = []mark{
	{"killed", record.ProcessKilled, '✗', page.Ink.Red},
	{"deleted", record.PodTerminating, '▼', page.Ink.Bold},
	{"not ready", record.EndpointNotReady, '▽', page.Ink.Yellow},
	{"exited", record.ContainerExited, '✗', page.Ink.Bold},
	{"new ready", record.PodReady, '▲', page.Ink.Green},
}

// events gives those of the lane, from the trigger on only: it tells what that set in motion.
func (m mark) events(r record.Record) (list []record.Event) {
	all := r.Events
	if m.kind == record.ContainerExited {
		all = r.Exits()
	}
	for _, e := range all {
		if e.TNs >= 0 && (e.Kind == m.kind || m.kind == record.ContainerExited) {
			list = append(list, e)
		}
	}
	return list
}

// lane marks each event; more than one in a column are counted.
func (m mark) lane(r record.Record, a page.Axis) (l lane, some bool) {
	counts := make([]int, a.Columns)
	n := 0
	var first, last int64
	upper := ""
	for _, e := range m.events(r) {
		if e.Bound == record.Upper {
			upper = "≤ "
		}
		if n++; n == 1 {
			first = e.TNs
		}
		last = e.TNs
		if c, ok := a.Column(e.TNs); ok {
			counts[c]++
		}
	}
	bar := make([]rune, a.Columns)
	for c, k := range counts {
		switch {
		case k == 0:
			bar[c] = ' '
		case k == 1:
			bar[c] = m.sign
		case k < 10:
			bar[c] = rune(strconv.Itoa(k)[0])
		default:
			bar[c] = '+'
		}
	}
	return lane{m.label, string(bar), figure.Count(int64(n)) + " at " + upper + figure.Interval(first, last), m.paint}, n > 0
}
