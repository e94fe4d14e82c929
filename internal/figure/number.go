// Package figure writes numbers for people: times with their unit, counts with
// their noun, shares.
//
// One number reads the same in a verdict, a cause and every report. It must not know
// what it writes, nor any other package of the project.
package figure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Unit of a printed time: its name, nanoseconds and decimals.
type Unit struct {
	Name     string
	ns       float64
	decimals int
}

// UnitFor picks the unit in which v has two to four digits that matter.
func UnitFor(v int64) Unit {
	abs := math.Abs(float64(v))
	for _, u := range []struct {
		below float64
		Unit
	}{
		{999.5, Unit{"ns", 1, 0}},
		{999.5e3, Unit{"µs", 1e3, 0}},
		{9.95e6, Unit{"ms", 1e6, 1}},
		{999.5e6, Unit{"ms", 1e6, 0}},
		{99.995e9, Unit{"s", 1e9, 2}},
	} {
		if abs < u.below {
			return u.Unit
		}
	}
	return Unit{"s", 1e9, 1}
}

// Number prints v in the unit, without its name; never -0.
func (u Unit) Number(v int64) string {
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
	u := UnitFor(v)
	return u.Number(v) + " " + u.Name
}

// Setting prints a duration that somebody chose, without decimals that nobody wrote: 30 s, 1.5 s, 500 ms.
func Setting(ns int64) string {
	if ns != 0 && ns%1e9 != 0 && ns > -1e9 && ns < 1e9 {
		return Trimmed(float64(ns)/1e6) + " ms"
	}
	return Trimmed(float64(ns)/1e9) + " s"
}

// Trimmed prints v without zeros at the end.
func Trimmed(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Interval prints two times in one unit, such as 30–98 ms.
func Interval(from, to int64) string {
	u := UnitFor(max(from, -from, to, -to))
	a, b := u.Number(from), u.Number(to)
	if a == b {
		return a + " " + u.Name
	}
	return a + Dash(from, to) + b + " " + u.Name
}

// Dash keeps a range apart from a minus sign.
func Dash(values ...int64) string {
	for _, v := range values {
		if v < 0 {
			return " to "
		}
	}
	return "–"
}

// Precise prints one or two times finely enough to keep events apart: 36.1 ms, 25.041 s.
func Precise(from, to int64) string {
	u := Unit{"ms", 1e6, 1}
	if max(from, -from, to, -to) >= 1e9 {
		u = Unit{"s", 1e9, 3}
	}
	a, b := u.Number(from), u.Number(to)
	switch {
	case from == 0 && to == 0:
		return "0 s"
	case a == b:
		return a + " " + u.Name
	}
	return a + Dash(from, to) + b + " " + u.Name
}

// Plural prints a count with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(int64(n)) + " " + noun + "s"
}

// Count prints a count with its thousands apart: 1,200.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(s, "-")
	sign := s[:len(s)-len(digits)]
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Share prints a part of one as a percentage: 0.075 %, 12.3 %. What is not none or all is not rounded to it.
func Share(v float64) string {
	switch p := 100 * v; {
	case p > 0 && p < 0.001:
		return "<0.001 %"
	case p > 99.9 && p < 100:
		return ">99.9 %"
	case p > 0 && p < 1:
		return strconv.FormatFloat(p, 'g', 2, 64) + " %"
	default:
		return Trimmed(math.Round(p*10)/10) + " %"
	}
}

// Counts lists what was counted by name, the most first and equals by name, such as "8 refused, 2 truncated".
func Counts(of map[string]int) string {
	names := slices.Collect(maps.Keys(of))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), strings.Compare(a, b)) })
	for i, n := range names {
		names[i] = Count(int64(of[n])) + " " + n
	}
	return strings.Join(names, ", ")
}

// Words are the words of a sentence, a number with its bound and its unit as one, which belong on one line: "30 s", "≤ 41 ms", "3.4 %".
func Words(s string) []string {
	words := strings.FieldsFunc(Unbroken(s), func(r rune) bool { return r != unbroken && unicode.IsSpace(r) })
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, string(unbroken), " ")
	}
	return words
}

// unbroken is the space at which no line is broken.
const unbroken = '\u00a0'

var (
	unitAfter  = regexp.MustCompile(`(\d) ((?:ms|µs|ns|s)\b|%)`)
	boundAhead = regexp.MustCompile(`([≤≥~]) ([+-]?\d)`)
)

// Unbroken keeps numbers with their bounds and units, by spaces that do not break (U+00A0), for where somebody else breaks the lines.
func Unbroken(s string) string {
	return boundAhead.ReplaceAllString(unitAfter.ReplaceAllString(s, "$1\u00a0$2"), "$1\u00a0$2")
}

// Halves prints the median of counts, which may lie between two: 1,200 or 310.5.
func Halves(v float64) string {
	text := Count(int64(math.Floor(v)))
	if v != math.Floor(v) {
		text += strings.TrimPrefix(Trimmed(v-math.Floor(v)), "0")
	}
	return text
}
