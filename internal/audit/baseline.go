package audit

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/fault"
)

// BaselineSchema is the value of a baseline file's "schema".
const BaselineSchema = "drainproof.dev/audit-baseline/v1"

// Baseline is a list of old debts: findings that were there when a team began to
// look, and that do not fail a run until someone pays them.
type Baseline struct {
	Schema string `json:"schema"`
	Debts  []Debt `json:"debts"`

	index map[Debt]bool
}

// Debt names a finding without its line, which moves with every edit, and
// without its numbers.
type Debt struct {
	Rule      string `json:"rule"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Path      string `json:"path"`
}

func debtOf(f finding.Finding) Debt {
	return Debt{Rule: f.Rule, Kind: f.Object.Kind, Namespace: f.Object.Namespace, Name: f.Object.Name, Path: f.Path}
}

// NewBaseline takes what a report found, the debts of an older baseline included.
func NewBaseline(r finding.Report) *Baseline {
	b := &Baseline{Schema: BaselineSchema, Debts: []Debt{}, index: map[Debt]bool{}}
	add := func(f finding.Finding) {
		if d := debtOf(f); !b.index[d] {
			b.index[d] = true
			b.Debts = append(b.Debts, d)
		}
	}
	for _, f := range r.Findings {
		add(f)
	}
	for _, s := range r.Suppressed {
		if s.By == "baseline" {
			add(s.Finding)
		}
	}
	return b
}

// JSON gives the file's text.
func (b *Baseline) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the baseline: %w", err)
	}
	return append(text, '\n'), nil
}

// ParseBaseline reads a baseline file's text.
func ParseBaseline(file string, text []byte) (*Baseline, error) {
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	var b Baseline
	if err := dec.Decode(&b); err != nil {
		return nil, fault.Usagef("write it with drainproof audit --write-baseline FILE", "baseline %s cannot be read: %v", file, err)
	}
	if b.Schema != BaselineSchema {
		return nil, fault.Usagef("write it with drainproof audit --write-baseline FILE", "baseline %s has schema %q, not %q", file, b.Schema, BaselineSchema)
	}
	b.index = make(map[Debt]bool, len(b.Debts))
	for _, d := range b.Debts {
		b.index[d] = true
	}
	return &b, nil
}

func (b *Baseline) holds(f finding.Finding) bool { return b != nil && b.index[debtOf(f)] }

// notes says how many debts are paid, so that the file gets shorter over time.
func (b *Baseline) notes(found []finding.Finding) []string {
	if b == nil {
		return nil
	}
	open := make(map[Debt]bool, len(found))
	for _, f := range found {
		open[debtOf(f)] = true
	}
	paid := 0
	for d := range b.index {
		if !open[d] {
			paid++
		}
	}
	if paid == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of the baseline's %d entries no longer apply: write it again to keep them from coming back unseen", paid, len(b.index))}
}
