package bench

import (
	"cmp"
	"slices"
)

// median takes each figure's own middle value.
func median(us []usage) usage {
	at := func(less func(a, b usage) int) usage {
		s := slices.Clone(us)
		slices.SortFunc(s, less)
		return s[len(s)/2]
	}
	return usage{
		wall:   at(func(a, b usage) int { return cmp.Compare(a.wall, b.wall) }).wall,
		cpu:    at(func(a, b usage) int { return cmp.Compare(a.cpu, b.cpu) }).cpu,
		rssKiB: at(func(a, b usage) int { return cmp.Compare(a.rssKiB, b.rssKiB) }).rssKiB,
	}
}
