package page

import (
	"math"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
)

// Axis maps times to the columns of a picture.
type Axis struct {
	// From and To are what the picture spans, in nanoseconds from the trigger.
	From, To int64
	Columns  int
}

// Column of a time; ok is false outside of the picture.
func (a Axis) Column(t int64) (c int, ok bool) {
	if t < a.From || t > a.To {
		return 0, false
	}
	c = int(float64(t-a.From) / float64(a.To-a.From) * float64(a.Columns))
	return min(c, a.Columns-1), true
}

// step between ticks: 1, 2 or 5 times a power of ten, so that there are about one every ten columns.
func (a Axis) step() int64 {
	ideal := float64(a.To-a.From) / math.Max(1, float64(a.Columns)/10)
	power := math.Pow(10, math.Floor(math.Log10(ideal)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= ideal {
			return max(1, int64(m*power))
		}
	}
	return max(1, int64(10*power))
}

// Ruler draws the labels and the line of the axis.
func (a Axis) Ruler() (labels, line string) {
	l, r := blank(a.Columns+8), []rune(strings.Repeat("─", a.Columns))
	step := a.step()
	for t := int64(0); t <= a.To; t += step {
		c, ok := a.Column(t)
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
		return figure.Setting(t)
	case step >= 1e5:
		return figure.Trimmed(float64(t)/1e6) + " ms"
	default:
		return figure.Trimmed(float64(t)/1e3) + " µs"
	}
}

func blank(n int) []rune { return []rune(strings.Repeat(" ", n)) }
