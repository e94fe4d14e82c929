package auditview

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/testkit"
)

func TestPictures(t *testing.T) {
	for _, c := range []struct {
		golden string
		width  int
		g      glyphs
	}{{"pictures.txt", 96, blocks}, {"pictures-narrow.txt", 72, blocks}, {"pictures-ascii.txt", 96, ascii}} {
		var b bytes.Buffer
		for _, x := range budgets {
			fmt.Fprintf(&b, "%s\n", x.name)
			used := map[rune]bool{}
			for _, line := range pictureLines(x.Budget, c.width, c.g, ink{}, used) {
				b.WriteString(strings.TrimRight(line, " ") + "\n")
			}
			fmt.Fprintf(&b, "  %s\n\n", strings.Join(c.g.legend(used), "  "))
		}
		testkit.Golden(t, c.golden, b.Bytes())
	}
}

// anyBudget draws a budget in which everything may be unknown, nothing or far too long.
func anyBudget(t *rapid.T) finding.Budget {
	some := func(name string) *int64 {
		if rapid.Bool().Draw(t, name+" known") {
			return new(rapid.Int64Range(0, 4000).Draw(t, name) * 1e8)
		}
		return nil
	}
	return finding.Budget{GraceNs: rapid.Int64Range(0, 1000).Draw(t, "grace") * 1e9, HookNs: some("hook"), PropagationNs: some("propagation"), DrainNs: some("drain")}
}

// What the picture promises, whatever the numbers are.
func TestPictureKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBudget(t)
		p := pictureOf(b, rapid.IntRange(20, 60).Draw(t, "columns"), blocks)
		rows := p.rows()
		drawn := func(r row, runes string) (inside, outside int) {
			for i, c := range r.cells {
				switch {
				case !strings.ContainsRune(runes, c.r):
				case i < p.wall:
					inside++
				case i > p.wall:
					outside++
				}
			}
			return inside, outside
		}
		for _, r := range rows {
			if len(r.cells) != p.columns {
				t.Fatalf("%s has %d columns, not %d", r.label, len(r.cells), p.columns)
			}
			if w := r.cells[p.wall].r; w != '│' && w != '┤' {
				t.Fatalf("%s hides the end of the grace period behind %q", r.label, w)
			}
		}
		for i, v := range []*int64{b.HookNs, b.PropagationNs, b.DrainNs} {
			r := rows[i+1]
			if v == nil {
				in, out := drawn(r, "?")
				spent, gone := drawn(r, "█▒▏╳→")
				if r.value != "?" || (in+out == 0 && p.wall > 0) || spent+gone > 0 {
					t.Fatalf("unknown %s is drawn as %v with value %s", r.label, r.cells, r.value)
				}
				continue
			}
			from := int64(0)
			if r.label == "drain" && p.term != nil {
				from = *p.term
			}
			in, _ := drawn(r, "█▒╳?")
			_, out := drawn(r, "╳→")
			if r.value == "?" || (*v > 0 && from < p.grace && in == 0) {
				t.Fatalf("%s of %d ns is not to be seen: %v", r.label, *v, r.cells)
			}
			if sticks := from+*v > p.grace && *v > 0; sticks != (out > 0) {
				t.Fatalf("%s to %d ns of a grace period of %d ns has %d marks beyond it", r.label, from+*v, p.grace, out)
			}
		}
	})
}

// A drain that may begin less than half a column before the SIGKILL is not hidden by it.
func TestUnknownDrainJustBeforeTheEnd(t *testing.T) {
	p := pictureOf(finding.Budget{GraceNs: 41e9, HookNs: ns(40e9)}, 20, blocks)
	if drain := p.rows()[3]; drain.cells[p.wall-1].r != '?' {
		t.Errorf("the drain is drawn as %v", drain.cells)
	}
}

func TestHookWithoutAnEnd(t *testing.T) {
	b := budgetOf("hook is cut off")
	b.HookNs = ns(10000 * time.Hour)
	out := strings.Join(pictureLines(b, DefaultWidth, blocks, ink{}, map[rune]bool{}), "\n")
	if !strings.Contains(out, "no end") || strings.Contains(out, "36000000") {
		t.Errorf("the length of a hook that never ends is a number:\n%s", out)
	}
}

// One axis: a stretch twice as long is drawn twice as long, and stretches that follow one another meet.
func TestPictureIsToScale(t *testing.T) {
	p := pictureOf(finding.Budget{GraceNs: 30e9, HookNs: ns(10e9), PropagationNs: ns(5e9), DrainNs: ns(30e9)}, 41, blocks)
	length := func(r row) (first, n int) {
		first = -1
		for i, c := range r.cells {
			if strings.ContainsRune("█▒╳", c.r) {
				if first < 0 {
					first = i
				}
				n++
			}
		}
		return first, n
	}
	rows := p.rows()
	_, hook := length(rows[1])
	_, propagation := length(rows[2])
	start, drain := length(rows[3])
	if p.wall != 30 || hook != 10 || propagation != 5 || start != 10 || drain != 30 {
		t.Errorf("wall at %d, hook %d, propagation %d, drain %d from %d", p.wall, hook, propagation, drain, start)
	}
}
