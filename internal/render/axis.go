package render

import (
	"math"
	"strings"

	"github.com/drainproof/drainproof/internal/record"
)

// axis maps times to the columns of a picture.
type axis struct {
	// from and to are what the picture spans, in nanoseconds from the trigger.
	from, to int64
	columns  int
}

// column of a time; ok is false outside of the picture.
func (a axis) column(t int64) (c int, ok bool) {
	if t < a.from || t > a.to {
		return 0, false
	}
	c = int(float64(t-a.from) / float64(a.to-a.from) * float64(a.columns))
	return min(c, a.columns-1), true
}

// axisFor spans all that changes in r, with a little room on both sides: the
// trigger stands near the left edge, and what outlives the trial runs off the right one.
func axisFor(r record.Record, columns int) axis {
	last := int64(0)
	for _, e := range r.Events {
		switch e.Kind {
		case record.FlowEnded, record.FlowRehomed, record.ContainerExited, record.EndpointRemoved,
			record.EndpointReady, record.EndpointNotReady, record.ProbeSigterm, record.PodReady:
			last = max(last, e.TNs)
		}
	}
	for _, f := range r.Flows {
		// A trial in which flows lived on is interesting up to its end.
		if f.Outcome == record.Survived || f.Outcome == record.NotMeasured || last == 0 {
			for _, e := range r.Events {
				last = max(last, e.TNs)
			}
			break
		}
	}
	if last == 0 {
		last = 1e9
	}
	return axis{from: -last / 25, to: last + last/12, columns: columns}
}

// step between ticks: 1, 2 or 5 times a power of ten, so that there are about one every ten columns.
func (a axis) step() int64 {
	ideal := float64(a.to-a.from) / math.Max(1, float64(a.columns)/10)
	power := math.Pow(10, math.Floor(math.Log10(ideal)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= ideal {
			return max(1, int64(m*power))
		}
	}
	return max(1, int64(10*power))
}

// ruler draws the labels and the line of the axis.
func (a axis) ruler() (labels, line string) {
	l, r := blank(a.columns+8), []rune(strings.Repeat("─", a.columns))
	step := a.step()
	for t := int64(0); t <= a.to; t += step {
		c, ok := a.column(t)
		if !ok {
			break
		}
		r[c] = '┴'
		if t == 0 {
			r[c] = '┼'
		}
		text := []rune(tick(t, step))
		if c+len(text) <= len(l) {
			copy(l[c:], text)
		}
	}
	return strings.TrimRight(string(l), " "), string(r)
}

// tick prints a round time in the unit of its step.
func tick(t, step int64) string {
	switch {
	case t == 0:
		return "0"
	case step >= 1e8:
		return setting(t)
	case step >= 1e5:
		return trimmed(float64(t)/1e6) + " ms"
	default:
		return trimmed(float64(t)/1e3) + " µs"
	}
}

func blank(n int) []rune { return []rune(strings.Repeat(" ", n)) }
