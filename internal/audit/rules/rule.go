// Package rules is the list of what loses traffic, each rule with the physics it
// rests on. Rules are pure: a model in, findings out.
//
// A rule is silent where the manifest cannot tell. It must not read files, clusters or
// configuration; suppression and severities of the user's choice are applied by package audit.
package rules

import (
	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// Rule is one thing that can be wrong. Everything but the checks is documentation:
// docs/rules.md and "audit explain" are made from it.
type Rule struct {
	// ID is stable for ever: DP and three digits. An ID is never used again.
	ID    string
	Topic finding.Topic
	// Severity is the usual one; a finding may carry a lower one, never a higher.
	Severity finding.Severity
	// Title is what is wrong, in one line without a period.
	Title string
	// Physics says what happens and why, in a paragraph.
	Physics string
	// Sources are what the physics rests on: a KEP, a kernel or Kubernetes source file, an RFC, a
	// measured record, an issue. At least one.
	Sources []string
	// Remedy says in general what to do; a finding's own remedy has the numbers.
	Remedy string

	// Exactly one of these is set. Workload is called for each workload, Set once.
	Workload func(c *Context, w *model.Workload)
	Set      func(c *Context)
}

// Context is what a check may look at, and where it reports.
type Context struct {
	Model *model.Model
	// Server is the minor version of Kubernetes that the objects are for, e.g. 37 for 1.37.
	Server int
	Floors budget.Floors

	rule     *Rule
	workload *model.Workload
	sums     map[*model.Workload]budget.Sum
	found    []finding.Finding
}

// Sum gives a workload's budget, worked out once.
func (c *Context) Sum(w *model.Workload) budget.Sum {
	if s, ok := c.sums[w]; ok {
		return s
	}
	s := budget.Of(w, c.Floors)
	c.sums[w] = s
	return s
}

// Report adds a finding of the rule that is being checked. The rule's ID, topic and
// severity are filled in where the check leaves them empty, the place (file, line)
// from path, and the workload.
func (c *Context) Report(on *Place, f finding.Finding) { c.report(on, f) }

// All lists the rules in the order of their IDs.
func All() []Rule { return all() }

// Check runs every rule and gives the findings in the order of rules, then of the input.
func Check(m *model.Model, server int, floors budget.Floors) []finding.Finding {
	return check(m, server, floors)
}
