// Package verdict judges records: against a budget, and one set against another. Pure.
//
// It must not know how a record came about, nor draw anything.
package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
)

// Default is the budget where none is given: no request may fail.
const Default = "failed=0"

// Budget is what a user tolerates.
type Budget struct {
	// Text is as it was given.
	Text   string
	Limits []Limit
}

// Limit is one line of a budget: Name at most Max.
type Limit struct {
	Name string
	// Max is a count, a share from 0 to 1, or nanoseconds, as the name says.
	Max float64
	// Text is Max as it was given.
	Text string
}

// kind of value that a name is limited by.
type kind int

const (
	count kind = iota
	share
	latency
)

// named is one word of a budget.
type named struct {
	name string
	kind kind
	// seen measures it; null where r does not hold it.
	seen func(r record.Record) *float64
	// clause says in words what was seen.
	clause func(r record.Record, seen float64) string
}

// Names lists the words of a budget, in the order in which they are documented.
func Names() []string {
	var list []string
	for _, n := range names() {
		list = append(list, n.name)
	}
	return list
}

// Parse reads failed=0,users=0,p99=500ms. Names: failed, failed-share (0.1%), users, users-share, p50, p90, p99, p99.9,
// max (latencies from the trigger on), and each outcome's own name. An empty text is Default. Errors are wrong use and list the names.
func Parse(s string) (Budget, error) {
	b := Budget{Text: cmp.Or(strings.TrimSpace(s), Default)}
	for part := range strings.SplitSeq(b.Text, ",") {
		name, value, found := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found {
			return Budget{}, fault.Usagef("write it as "+Default+" or failed=0,users=0,p99=500ms", "the budget %q has a part without a limit: %q", b.Text, strings.TrimSpace(part))
		}
		n, known := lookUp(name)
		if !known {
			return Budget{}, fault.Usagef("choose from "+strings.Join(Names(), ", "), "the budget %q limits %q, which is not known", b.Text, name)
		}
		if slices.ContainsFunc(b.Limits, func(l Limit) bool { return l.Name == name }) {
			return Budget{}, fault.Usagef("name each limit once", "the budget %q limits %s twice", b.Text, name)
		}
		most, err := n.kind.parse(value)
		if err != nil {
			return Budget{}, fault.Usagef(fmt.Sprintf("write it as %s=%s", name, n.kind.example()), "the budget %q limits %s by %q: %v", b.Text, name, value, err)
		}
		b.Limits = append(b.Limits, Limit{Name: name, Max: most, Text: value})
	}
	return b, nil
}

func lookUp(name string) (named, bool) {
	all := names()
	i := slices.IndexFunc(all, func(n named) bool { return n.name == name })
	if i < 0 {
		return named{}, false
	}
	return all[i], true
}

func (k kind) example() string { return [...]string{count: "0", share: "0.1%", latency: "500ms"}[k] }

func (k kind) parse(s string) (float64, error) {
	switch k {
	case count:
		n, err := strconv.ParseUint(s, 10, 53)
		if err != nil {
			return 0, errors.New("it is no count")
		}
		return float64(n), nil
	case share:
		text, percent := strings.CutSuffix(s, "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if percent {
			v /= 100
		}
		if err != nil || math.IsNaN(v) || v < 0 || v > 1 {
			return 0, errors.New("it is no share from 0% to 100%")
		}
		return v, nil
	default:
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return 0, errors.New("it is no duration above zero")
		}
		return float64(d), nil
	}
}
