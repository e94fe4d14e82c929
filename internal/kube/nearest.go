package kube

import (
	"slices"
	"strings"
)

// nearest gives at most n of the names, those first that take the fewest edits to become name.
func nearest(name string, names []string, n int) []string {
	sorted := slices.Clone(names)
	slices.SortFunc(sorted, func(a, b string) int {
		if d := edits(name, a) - edits(name, b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return sorted[:min(n, len(sorted))]
}

// edits is the Levenshtein distance in bytes: how many must be put in, left out or exchanged.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0] // of the row above, one to the left
		row[0] = i + 1
		for j := range len(b) {
			exchange := left
			if a[i] != b[j] {
				exchange++
			}
			left = row[j+1]
			row[j+1] = min(exchange, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
