package source

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// mostNotes of a kind are written out: a repository may hold hundreds of other files.
const mostNotes = 10

// skip is a file or folder that was left out.
type skip struct {
	what, next string
	// other says that the file holds something else than manifests.
	other bool
}

func notesOf(skipped []skip) []string {
	var notes []string
	others := 0
	for _, s := range skipped {
		if s.other {
			if others++; others > mostNotes {
				continue
			}
		}
		note := s.what + ": skipped"
		if s.next != "" && !s.other {
			note += "; " + s.next
		}
		notes = append(notes, note)
	}
	if more := others - mostNotes; more > 0 {
		notes = append(notes, fmt.Sprintf("%d more files that hold no Kubernetes object: skipped", more))
	}
	return notes
}

// twice notes objects that are given more than once. All of them are judged.
func twice(objects []*manifest.Object) []string {
	type identity struct{ apiVersion, kind, namespace, name string }
	first := make(map[identity]*manifest.Object, len(objects))
	var notes []string
	n := 0
	for _, o := range objects {
		if o.Name == "" {
			continue // its name is generated
		}
		id := identity{o.APIVersion, o.Kind, o.Namespace, o.Name}
		have, ok := first[id]
		if !ok {
			first[id] = o
			continue
		}
		if n++; n <= mostNotes {
			name := o.Name
			if o.Namespace != "" {
				name = o.Namespace + "/" + name
			}
			notes = append(notes, fmt.Sprintf("%s %s is given twice, at %s and %s: both are judged", o.Kind, name, place(have), place(o)))
		}
	}
	if more := n - mostNotes; more > 0 {
		notes = append(notes, fmt.Sprintf("%d more objects are given twice: all are judged", more))
	}
	return notes
}

func place(o *manifest.Object) string { return fmt.Sprintf("%s:%d", o.File, o.Line("")) }
