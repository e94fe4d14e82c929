package model

import "slices"

// Matches says whether the selector picks what carries these labels. An expression whose
// operator does not exist matches nothing.
func (s Selector) Matches(labels map[string]string) bool {
	if !s.Set {
		return false
	}
	for key, want := range s.Labels {
		if have, ok := labels[key]; !ok || have != want {
			return false
		}
	}
	for _, e := range s.Expressions {
		if !e.matches(labels) {
			return false
		}
	}
	return true
}

func (r Requirement) matches(labels map[string]string) bool {
	have, ok := labels[r.Key]
	switch r.Operator {
	case "In":
		return ok && slices.Contains(r.Values, have)
	case "NotIn":
		return !ok || !slices.Contains(r.Values, have)
	case "Exists":
		return ok
	case "DoesNotExist":
		return !ok
	}
	return false
}
