package audit

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
	"github.com/drainproof/drainproof/internal/audit/rules"
)

// IgnoreAnnotation names rules to live with, each with its reason:
//
//	drainproof.dev/ignore: "DP501: one replica is enough at night; DP451: see the runbook"
//
// It counts on the object of a finding, on its workload and on its Pod template.
const IgnoreAnnotation = "drainproof.dev/ignore"

// marks are the annotations of one model.
type marks struct {
	// reasons by entry.
	reasons map[mark]string
	// order is that in which entries were read, used those whose rule found something.
	order []mark
	used  map[mark]bool
	known map[string]bool
	bad   []string
}

// mark is one entry of an annotation: a rule on an object.
type mark struct {
	on   finding.Object
	rule string
}

var (
	ignoreEntry = regexp.MustCompile(`^(DP\d{3})\s*:\s*(\S.*)$`)
	// ruleWord finds what is meant for a rule's ID in an entry that is not understood.
	ruleWord = regexp.MustCompile(`(?i)^DP[_-]?\d+\b`)
)

func newMarks(m *model.Model) *marks {
	k := &marks{reasons: map[mark]string{}, used: map[mark]bool{}, known: knownRules()}
	for _, w := range m.Workloads {
		k.read(w.Object)
		k.add(w.Object, w.Annotations[IgnoreAnnotation])
	}
	for _, s := range m.Services {
		k.read(s.Object)
	}
	for _, f := range m.Fronts {
		k.read(f.Object)
	}
	for _, p := range m.PDBs {
		k.read(p.Object)
	}
	for _, h := range m.HPAs {
		k.read(h.Object)
	}
	return k
}

func (k *marks) read(o *manifest.Object) {
	k.add(o, o.Root.At("metadata", "annotations", IgnoreAnnotation).Text())
}

func (k *marks) add(o *manifest.Object, text string) {
	if text == "" {
		return
	}
	key := rules.ObjectOf(o)
	for _, part := range strings.Split(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		m := ignoreEntry.FindStringSubmatch(part)
		if m == nil || !k.known[m[1]] {
			k.bad = append(k.bad, fmt.Sprintf("%s: annotation %s: %q %s", describe(key), IgnoreAnnotation, part, k.trouble(part)))
			continue
		}
		e := mark{key, m[1]}
		if _, ok := k.reasons[e]; !ok {
			k.order = append(k.order, e)
		}
		k.reasons[e] = m[2]
	}
}

// trouble says why an entry suppresses nothing, and what to write instead.
func (k *marks) trouble(part string) string {
	id := ruleWord.FindString(part)
	if id == "" {
		return "is not understood and suppresses nothing; write the rule and why: \"DP501: one replica is enough at night\""
	}
	rest := strings.TrimSpace(part[len(id):])
	meant := strings.NewReplacer("-", "", "_", "").Replace(strings.ToUpper(id))
	switch {
	case !k.known[meant]:
		return "suppresses nothing: there is no rule " + id
	case strings.Trim(rest, ": ") == "":
		return fmt.Sprintf("gives no reason and suppresses nothing; write \"%s: the reason\"", meant)
	}
	return fmt.Sprintf("is not understood and suppresses nothing; write \"%s: the reason\"", meant)
}

// suppress says whether an annotation names the finding, and why. Every entry that does so counts as used.
func (k *marks) suppress(f finding.Finding) (yes bool, reason string) {
	on := []finding.Object{f.Object}
	if f.Workload != nil {
		on = append(on, *f.Workload)
	}
	for _, o := range on {
		e := mark{o, f.Rule}
		r, ok := k.reasons[e]
		if !ok {
			continue
		}
		k.used[e] = true
		if !yes {
			yes, reason = true, r
		}
	}
	return yes, reason
}

// notes name the entries that are wrong, and those that are not needed any more: they would hide the
// finding if it came back.
func (k *marks) notes() []string {
	notes := k.bad
	for _, e := range k.order {
		if !k.used[e] {
			notes = append(notes, fmt.Sprintf("annotation %s suppresses nothing: %s finds nothing on %s", IgnoreAnnotation, e.rule, describe(e.on)))
		}
	}
	return notes
}
