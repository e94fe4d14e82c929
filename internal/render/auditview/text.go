package auditview

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/figure"
)

// each gives a new list, never nil.
func each[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// describe names an object: Deployment shop/web.
func describe(o finding.Object) string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return strings.TrimSpace(o.Kind + " " + name)
}

// where gives a finding's file and line, or its field where no file is known.
func where(f finding.Finding) string {
	if f.File == "" {
		return f.Path
	}
	return fileLine(f.File, f.Line)
}

func fileLine(file string, line int) string {
	if line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// factText gives a fact in one line: grace period 30 s (default).
func factText(x finding.Fact) string {
	s := strings.TrimSpace(x.Name + " " + x.Value)
	if x.From != "" {
		s += " (" + x.From + ")"
	}
	return s
}

// seconds prints a duration without decimals that nobody wrote: 30 s, 1.5 s, 500 ms; three of them at most.
func seconds(ns int64) string {
	if ns%1e9 != 0 && ns > -1e9 && ns < 1e9 {
		return strconv.FormatFloat(float64(time.Duration(ns).Round(time.Microsecond))/1e6, 'f', -1, 64) + " ms"
	}
	return strconv.FormatFloat(float64(time.Duration(ns).Round(time.Millisecond))/1e9, 'f', -1, 64) + " s"
}

// width of s on a terminal, taking every character for one column.
func width(s string) int { return utf8.RuneCountInString(s) }

func pad(s string, to int) string { return s + strings.Repeat(" ", max(0, to-width(s))) }

// wrap breaks text into lines of at most limit columns; longer words stay whole, and a
// number stays with its unit.
func wrap(s string, limit int) []string {
	var lines []string
	for _, word := range figure.Words(s) {
		if n := len(lines); n > 0 && width(lines[n-1])+1+width(word) <= limit {
			lines[n-1] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}
