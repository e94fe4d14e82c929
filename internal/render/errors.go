package render

import (
	"fmt"
	"slices"
	"strings"
)

// Hole is one repeat that a set lacks.
type Hole struct {
	Experiment, Arm string
	// Repeat counts from 1; 0 means every repeat of the arm.
	Repeat int
	// Path of the record that is there but incomplete; empty where there is none.
	Path string
	// Why it does not count.
	Why string
	// Single: a trial that belongs to no set.
	Single bool
}

func (h Hole) String() string {
	if h.Single {
		return fmt.Sprintf("the single trial %s %s", h.Path, h.Why)
	}
	s := fmt.Sprintf("repeat %d of arm %q", h.Repeat, h.Arm)
	if h.Repeat == 0 {
		s = fmt.Sprintf("arm %q", h.Arm)
	}
	if h.Path != "" {
		s += " (" + h.Path + ")"
	}
	return s + " " + h.Why
}

// HoleError: a set lacks repeats, so nothing is said about the rest.
type HoleError struct {
	Holes []Hole
}

func (e *HoleError) Error() string {
	lines := make([]string, len(e.Holes))
	for i, h := range e.Holes {
		lines[i] = h.String()
	}
	all := strings.Join(lines, "; ")
	if i := slices.IndexFunc(e.Holes, func(h Hole) bool { return !h.Single }); i >= 0 {
		return fmt.Sprintf("the set %q has a hole: %s", e.Holes[i].Experiment, all)
	}
	return all
}

// Kinds says whether there are single trials, and repeats of sets, among the holes.
func (e *HoleError) Kinds() (singles, repeats bool) {
	for _, h := range e.Holes {
		singles, repeats = singles || h.Single, repeats || !h.Single
	}
	return singles, repeats
}

// WholeArms says whether an arm has no trial at all, as where one arm's folder was given alone.
func (e *HoleError) WholeArms() bool {
	return slices.ContainsFunc(e.Holes, func(h Hole) bool { return h.Repeat == 0 && !h.Single })
}

// MixedError: records of one set were made under different conditions.
type MixedError struct {
	Experiment string
	// Arm is empty where the whole set is meant.
	Arm string
	// What differs, as a path in the record, such as tool.version.
	What string
	// Values and Paths are two of those that differ, and where.
	Values, Paths [2]string
}

func (e *MixedError) Error() string {
	where := fmt.Sprintf("the set %q", e.Experiment)
	if e.Arm != "" {
		where = fmt.Sprintf("arm %q of the set %q", e.Arm, e.Experiment)
	}
	return fmt.Sprintf("%s mixes %s: %s in %s, %s in %s", where, e.What, e.Values[0], e.Paths[0], e.Values[1], e.Paths[1])
}

// DuplicateError: two records claim to be the same repeat.
type DuplicateError struct {
	Experiment, Arm string
	Repeat          int
	Paths           [2]string
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("repeat %d of arm %q of the set %q is there twice: %s and %s", e.Repeat, e.Arm, e.Experiment, e.Paths[0], e.Paths[1])
}

// NoRecordsError: there was nothing to report on.
type NoRecordsError struct{}

func (e *NoRecordsError) Error() string { return "no records to report on" }
