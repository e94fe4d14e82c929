package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/record"
)

// notMeasured stands for every null.
const notMeasured = "not measured"

// unit of a printed time: its name, nanoseconds and decimals.
type unit struct {
	name     string
	ns       float64
	decimals int
}

// unitFor picks the unit in which v has two to four digits that matter.
func unitFor(v int64) unit {
	abs := math.Abs(float64(v))
	for _, u := range []struct {
		below float64
		unit
	}{
		{999.5, unit{"ns", 1, 0}},
		{999.5e3, unit{"µs", 1e3, 0}},
		{9.95e6, unit{"ms", 1e6, 1}},
		{999.5e6, unit{"ms", 1e6, 0}},
		{99.995e9, unit{"s", 1e9, 2}},
	} {
		if abs < u.below {
			return u.unit
		}
	}
	return unit{"s", 1e9, 1}
}

func (u unit) number(v int64) string {
	s := fmt.Sprintf("%.*f", u.decimals, float64(v)/u.ns)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

// Nanoseconds prints a time such as 45 ms, 25.04 s or 221 µs.
func Nanoseconds(v int64) string {
	if v == 0 {
		return "0 s"
	}
	u := unitFor(v)
	return u.number(v) + " " + u.name
}

// setting prints a duration that somebody chose, without decimals that nobody wrote: 30 s, 1.5 s, 500 ms.
func setting(ns int64) string {
	if ns != 0 && ns%1e9 != 0 && ns > -1e9 && ns < 1e9 {
		return trimmed(float64(ns)/1e6) + " ms"
	}
	return trimmed(float64(ns)/1e9) + " s"
}

func trimmed(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// interval prints two times in one unit, such as 30–98 ms.
func interval(from, to int64) string {
	u := unitFor(max(from, -from, to, -to))
	a, b := u.number(from), u.number(to)
	if a == b {
		return a + " " + u.name
	}
	return a + dash(from, to) + b + " " + u.name
}

// dash keeps a range apart from a minus sign.
func dash(values ...int64) string {
	for _, v := range values {
		if v < 0 {
			return " to "
		}
	}
	return "–"
}

// precise prints one or two times finely enough to keep events apart: 36.1 ms, 25.041 s.
func precise(from, to int64) string {
	u := unit{"ms", 1e6, 1}
	if max(from, -from, to, -to) >= 1e9 {
		u = unit{"s", 1e9, 3}
	}
	a, b := u.number(from), u.number(to)
	switch {
	case from == 0 && to == 0:
		return "0 s"
	case a == b:
		return a + " " + u.name
	}
	return a + dash(from, to) + b + " " + u.name
}

// sign of a bound before a number: at most, at least, or neither known.
func sign(b record.Bound) string {
	switch b {
	case record.Upper:
		return "≤ "
	case record.Lower:
		return "≥ "
	case record.Either:
		return "~ "
	default:
		return ""
	}
}

// uncertainty prints a clock's bound: nothing on one kernel, ±? where it is not known.
func uncertainty(u *int64) string {
	switch {
	case u == nil:
		return " ±?"
	case *u == 0:
		return ""
	}
	return " ±" + Nanoseconds(*u)
}
