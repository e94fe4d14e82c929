package model

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/cmdline"
)

// ours begins the annotations by which a user tells the audit what no manifest shows.
const ours = "drainproof.dev/"

// checkNotes notes our own annotations that tell nothing as they are written: a spelling mistake must not
// pass for an answer. What ignore holds is read elsewhere.
func (r reader) checkNotes(annotations map[string]string, at string) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		called, is := strings.CutPrefix(key, ours)
		if !is {
			continue
		}
		value, want := annotations[key], ""
		switch called {
		case "ignore":
		case "drain":
			if _, ok := cmdline.Duration(value, 0); !ok {
				want = "a duration such as 25s"
			}
		case "startup":
			if d, err := time.ParseDuration(value); err != nil || d <= 0 {
				want = "a duration such as 40s"
			}
		case "readiness-on-term":
			if value != "fail" && value != "keep" {
				want = "fail or keep"
			}
		default:
			r.note("annotation %s is not known: drain, startup, readiness-on-term and ignore are", key)
		}
		if want != "" {
			where := ""
			if at != "metadata" {
				where = " of the Pod template"
			}
			r.note("annotation %s%s: %s is not %s; it is left out", key, where, quote(value), want)
		}
	}
}
