package model

import (
	"strings"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// A folder may hold several variants of one application: an overlay for each
// environment, a file for each cloud. They name and select each other's objects, since all
// have the same names and labels; a cluster gets one of them. So of several
// objects with one kind and name the nearest counts: in the same file, else in the same folder.

// nearness ranks how near two objects are written.
func nearness(a, b *manifest.Object) int {
	switch {
	case a.File == b.File:
		return 2
	case folder(a.File) == folder(b.File):
		return 1
	}
	return 0
}

func folder(file string) string { return file[:strings.LastIndexByte(file, '/')+1] }

// nearest picks one among things of one name; nil where there is none.
func nearest[T any](from *manifest.Object, all []*T, object func(*T) *manifest.Object) *T {
	var best *T
	rank := -1
	for _, t := range all {
		if n := nearness(from, object(t)); n > rank {
			best, rank = t, n
		}
	}
	return best
}

func (w *Workload) object() *manifest.Object { return w.Object }
func (s *Service) object() *manifest.Object  { return s.Object }

// variant leaves out, among selected workloads, those of which another variant is nearer.
// Workloads that are as near as each other all stay.
func variant(from *manifest.Object, selected []*Workload) []*Workload {
	if len(selected) < 2 {
		return selected
	}
	named := func(w *Workload) name { return name{w.Object.Kind, space(w.Object.Namespace), w.Object.Name} }
	best := make(map[name]int, len(selected))
	for _, w := range selected {
		n := named(w)
		best[n] = max(best[n], nearness(from, w.Object))
	}
	if len(best) == len(selected) {
		return selected
	}
	var kept []*Workload
	for _, w := range selected {
		if nearness(from, w.Object) == best[named(w)] {
			kept = append(kept, w)
		}
	}
	return kept
}
