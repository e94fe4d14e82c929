package audit

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// IgnoreAnnotation names rules to live with, each with its reason:
//
//	drainproof.dev/ignore: "DP501: one replica is enough at night; DP451: see the runbook"
//
// It counts on the object of a finding, on its workload and on its Pod template.
const IgnoreAnnotation = "drainproof.dev/ignore"

// marks are the annotations of one model.
type marks struct {
	// reasons by object, then by rule.
	reasons map[finding.Object]map[string]string
	bad     []string
}

var ignoreEntry = regexp.MustCompile(`^(DP\d{3})\s*:\s*(\S.*)$`)

func newMarks(m *model.Model) *marks {
	k := &marks{reasons: map[finding.Object]map[string]string{}}
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
	key := objectOf(o)
	for _, part := range strings.Split(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		m := ignoreEntry.FindStringSubmatch(part)
		if m == nil {
			k.bad = append(k.bad, fmt.Sprintf("%s: annotation %s: %q is not understood and suppresses nothing; write \"DP103: the reason\"", describe(key), IgnoreAnnotation, part))
			continue
		}
		if k.reasons[key] == nil {
			k.reasons[key] = map[string]string{}
		}
		k.reasons[key][m[1]] = m[2]
	}
}

func (k *marks) suppress(f finding.Finding) (by, reason string) {
	if r, ok := k.reasons[f.Object][f.Rule]; ok {
		return "annotation", r
	}
	if f.Workload != nil {
		if r, ok := k.reasons[*f.Workload][f.Rule]; ok {
			return "annotation", r
		}
	}
	return "", ""
}

func (k *marks) notes() []string { return k.bad }
