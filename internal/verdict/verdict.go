// Package verdict judges records: against a budget, and one set against another. Pure.
//
// It must not know how a record came about, nor draw anything.
package verdict

import "github.com/drainproof/drainproof/internal/record"

// Budget is what a user tolerates.
type Budget struct {
	// Text is as it was given.
	Text   string
	Limits []Limit
}

// Limit is one line of a budget: Name at most Max.
type Limit struct {
	Name string
	Max  float64
}

// Parse reads failed=0,users=0,p99=500ms. Names: failed, failed-share (0.1%), users, users-share, p50, p90, p99, p99.9,
// max (latencies from the trigger on), and each outcome's own name. Errors are wrong use and list the names.
func Parse(s string) (Budget, error) { panic("not built yet") }

// Judge judges a trial. A trial that is incomplete, whose client fell behind, or that had failures before its trigger is
// inconclusive; no data never passes.
func Judge(b Budget, r record.Record) record.Verdict { panic("not built yet") }
