package fix

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

const (
	// context is the number of unchanged lines around a change, as diff -u has it.
	context = 3
	// effort bounds the search for the shortest script, by the number of changed lines: its
	// memory grows with the square of that. Longer changes are first cut at lines that are
	// unique in both texts, such as an object's name.
	effort = 500
)

// line is one line of a comparison: ' ' in both, '-' only before, '+' only after.
type line struct {
	kind byte
	text string
}

// Diff writes what changed in one file as a unified diff that patch and git apply
// understand; nil where nothing did. A before of nil is a new file.
func Diff(name string, before, after []byte) []byte {
	if before != nil && bytes.Equal(before, after) {
		return nil
	}
	old, fresh := "a/"+name, "b/"+name
	if strings.HasPrefix(name, "/") {
		old, fresh = name, name
	}
	if before == nil {
		old = "/dev/null"
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", old, fresh)
	all := compare(linesOf(before), linesOf(after))
	for from := 0; ; {
		first := from + slices.IndexFunc(all[from:], changed)
		if first < from {
			return out.Bytes()
		}
		// The hunk grows as long as the next change is so near that their contexts touch.
		last := first
		for i := first; i < len(all) && i <= last+2*context+1; i++ {
			if changed(all[i]) {
				last = i
			}
		}
		start, end := max(first-context, from), min(last+context+1, len(all))
		hunk(&out, all, start, end)
		from = end
	}
}

func changed(l line) bool { return l.kind != ' ' }

func hunk(out *bytes.Buffer, all []line, start, end int) {
	oldStart, newStart := count(all[:start])
	oldLen, newLen := count(all[start:end])
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(oldStart, oldLen), span(newStart, newLen))
	for _, l := range all[start:end] {
		out.WriteByte(l.kind)
		out.WriteString(l.text)
		if !strings.HasSuffix(l.text, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// span is a range of a hunk's head. An empty range names the line before it.
func span(before, length int) string {
	switch length {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprint(before + 1)
	}
	return fmt.Sprintf("%d,%d", before+1, length)
}

func count(ls []line) (before, after int) {
	for _, l := range ls {
		if l.kind != '+' {
			before++
		}
		if l.kind != '-' {
			after++
		}
	}
	return before, after
}

// linesOf cuts after each newline; the last line may lack it, and then differs
// from one that has it.
func linesOf(text []byte) []string {
	ls := strings.SplitAfter(string(text), "\n")
	if n := len(ls) - 1; ls[n] == "" {
		ls = ls[:n]
	}
	return ls
}

// compare gives both texts as one list of lines.
func compare(a, b []string) []line {
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	all := mark(make([]line, 0, len(a)+len(b)), ' ', a[:head])
	middle := script(a[head:len(a)-tail], b[head:len(b)-tail])
	for i := 0; i < len(middle); {
		if !changed(middle[i]) {
			all = append(all, middle[i])
			i++
			continue
		}
		// What went stands before what came, as everyone expects it.
		end := i
		for end < len(middle) && changed(middle[end]) {
			end++
		}
		for _, kind := range []byte("-+") {
			for _, l := range middle[i:end] {
				if l.kind == kind {
					all = append(all, l)
				}
			}
		}
		i = end
	}
	return mark(all, ' ', a[len(a)-tail:])
}

func mark(to []line, kind byte, text []string) []line {
	for _, t := range text {
		to = append(to, line{kind, t})
	}
	return to
}

// script gives a way from a to b: a shortest one, or where that is too far a short one
// between the unique lines that both have in the same order.
func script(a, b []string) []line {
	if all, ok := shortest(a, b); ok {
		return all
	}
	var all []line
	i, j := 0, 0
	for _, at := range anchors(a, b) {
		all = append(all, compare(a[i:at[0]], b[j:at[1]])...)
		all = append(all, line{' ', a[at[0]]})
		i, j = at[0]+1, at[1]+1
	}
	if i == 0 {
		return mark(mark(nil, '-', a), '+', b)
	}
	return append(all, compare(a[i:], b[j:])...)
}

// anchors gives the places of lines that occur once in a and once in b: the longest
// sequence of them that has the same order in both.
func anchors(a, b []string) [][2]int {
	once := func(ls []string) map[string]int {
		at := make(map[string]int, len(ls))
		for i, l := range ls {
			if _, twice := at[l]; twice {
				i = -1
			}
			at[l] = i
		}
		return at
	}
	inA, inB := once(a), once(b)
	type link struct {
		at     [2]int
		before int
	}
	var links []link
	var ends []int // of the best sequence of each length, the index of its last link
	for i, l := range a {
		j, both := inB[l]
		if inA[l] < 0 || !both || j < 0 {
			continue
		}
		k, _ := slices.BinarySearchFunc(ends, j, func(e, j int) int { return links[e].at[1] - j })
		before := -1
		if k > 0 {
			before = ends[k-1]
		}
		links = append(links, link{[2]int{i, j}, before})
		if k == len(ends) {
			ends = append(ends, 0)
		}
		ends[k] = len(links) - 1
	}
	if len(ends) == 0 {
		return nil
	}
	var all [][2]int
	for e := ends[len(ends)-1]; e >= 0; e = links[e].before {
		all = append(all, links[e].at)
	}
	slices.Reverse(all)
	return all
}

// shortest finds a shortest way from a to b with Myers' greedy algorithm (An O(ND)
// Difference Algorithm and Its Variations, 1986): after d changes, reach[k] is how far
// in a one gets on the diagonal k = x - y.
func shortest(a, b []string) (all []line, ok bool) {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return mark(mark(nil, '-', a), '+', b), true
	}
	limit := min(n+m, effort)
	reach := make([]int, 2*limit+3)
	mid := limit + 1
	var rounds [][]int // reach[-d..d] after round d
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			x := 0
			switch {
			case d == 0:
			case down(reach, mid, k, d):
				x = reach[mid+k+1]
			default:
				x = reach[mid+k-1] + 1
			}
			for y := x - k; x < n && y < m && a[x] == b[y]; y++ {
				x++
			}
			reach[mid+k] = x
			if x >= n && x-k >= m {
				return back(a, b, rounds, d), true
			}
		}
		rounds = append(rounds, slices.Clone(reach[mid-d:mid+d+1]))
	}
	return nil, false
}

// down says whether the best way to diagonal k in round d is an insertion, coming from k+1.
func down(reach []int, mid, k, d int) bool {
	return k == -d || (k != d && reach[mid+k-1] < reach[mid+k+1])
}

// back walks from the end to the start through what each round reached.
func back(a, b []string, rounds [][]int, d int) []line {
	x, y := len(a), len(b)
	var reversed []line
	for ; d > 0; d-- {
		reach, mid, k := rounds[d-1], d-1, x-y
		inserted := down(reach, mid, k, d)
		start := 0
		if inserted {
			start = reach[mid+k+1]
		} else {
			start = reach[mid+k-1] + 1
		}
		for x > start {
			x, y = x-1, y-1
			reversed = append(reversed, line{' ', a[x]})
		}
		if inserted {
			y--
			reversed = append(reversed, line{'+', b[y]})
		} else {
			x--
			reversed = append(reversed, line{'-', a[x]})
		}
	}
	for x > 0 {
		x--
		reversed = append(reversed, line{' ', a[x]})
	}
	slices.Reverse(reversed)
	return reversed
}
