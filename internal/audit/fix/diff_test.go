package fix

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/testkit"
)

func TestDiff(t *testing.T) {
	numbered := func(n int, change func(ls []string) []string) []byte {
		var ls []string
		for i := 1; i <= n; i++ {
			ls = append(ls, fmt.Sprintf("line %d\n", i))
		}
		if change != nil {
			ls = change(ls)
		}
		return []byte(strings.Join(ls, ""))
	}
	for _, c := range []struct {
		name          string
		before, after []byte
		want          string
	}{
		{"nothing", []byte("a\n"), []byte("a\n"), ""},
		{"both empty", []byte{}, []byte{}, ""},
		{
			"insertion in the middle", numbered(9, nil),
			numbered(9, func(ls []string) []string { return slices.Insert(ls, 5, "new\n") }),
			"--- a/x.yaml\n+++ b/x.yaml\n@@ -3,6 +3,7 @@\n line 3\n line 4\n line 5\n+new\n line 6\n line 7\n line 8\n",
		},
		{
			"first line", numbered(5, nil),
			numbered(5, func(ls []string) []string { ls[0] = "new\n"; return ls }),
			"--- a/x.yaml\n+++ b/x.yaml\n@@ -1,4 +1,4 @@\n-line 1\n+new\n line 2\n line 3\n line 4\n",
		},
		{
			"six unchanged lines between: one hunk", numbered(10, nil),
			numbered(10, func(ls []string) []string { ls[1], ls[8] = "b\n", "i\n"; return ls }),
			"--- a/x.yaml\n+++ b/x.yaml\n@@ -1,10 +1,10 @@\n line 1\n-line 2\n+b\n line 3\n line 4\n line 5\n line 6\n line 7\n line 8\n-line 9\n+i\n line 10\n",
		},
		{
			"seven unchanged lines between: two hunks", numbered(11, nil),
			numbered(11, func(ls []string) []string { ls[1], ls[9] = "b\n", "j\n"; return ls }),
			"--- a/x.yaml\n+++ b/x.yaml\n@@ -1,5 +1,5 @@\n line 1\n-line 2\n+b\n line 3\n line 4\n line 5\n" +
				"@@ -7,5 +7,5 @@\n line 7\n line 8\n line 9\n-line 10\n+j\n line 11\n",
		},
		{
			"no newline at the end, appended", []byte("a\nb"), []byte("a\nb\nc"),
			"--- a/x.yaml\n+++ b/x.yaml\n@@ -1,2 +1,3 @@\n a\n-b\n\\ No newline at end of file\n+b\n+c\n\\ No newline at end of file\n",
		},
		{
			"no newline at the end, changed above", []byte("a\nb"), []byte("x\nb"),
			"--- a/x.yaml\n+++ b/x.yaml\n@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n",
		},
		{
			"the newline alone", []byte("a"), []byte("a\n"),
			"--- a/x.yaml\n+++ b/x.yaml\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n",
		},
		{"new file", nil, []byte("a\nb\n"), "--- /dev/null\n+++ b/x.yaml\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"emptied", []byte("a\n"), []byte{}, "--- a/x.yaml\n+++ b/x.yaml\n@@ -1 +0,0 @@\n-a\n"},
		{"carriage returns stay", []byte("a\r\nb\r\n"), []byte("a\r\nc\r\n"), "--- a/x.yaml\n+++ b/x.yaml\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(Diff("x.yaml", c.before, c.after)); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

func TestDiffOfAnAbsolutePath(t *testing.T) {
	got := string(Diff("/srv/x.yaml", []byte("a\n"), []byte("b\n")))
	if !strings.HasPrefix(got, "--- /srv/x.yaml\n+++ /srv/x.yaml\n") {
		t.Errorf("got %q", got)
	}
}

// text draws few different lines, so that they repeat and move, with or without a newline at the end.
func text(t *rapid.T, name string) []byte {
	ls := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c", "- a", "+b", "\\ c", "d\r"}), 0, 30).Draw(t, name)
	s := strings.Join(ls, "\n")
	if len(ls) > 0 && rapid.Bool().Draw(t, name+" ends with a newline") {
		s += "\n"
	}
	return []byte(s)
}

// TestDiffGivesAfter: the diff's own lines rebuild both texts, and no unchanged line stands in it without need.
func TestDiffGivesAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := text(t, "before"), text(t, "after")
		got, err := patched(before, Diff("x", before, after))
		if err != nil || !bytes.Equal(got, after) {
			t.Fatalf("%v: got %q, want %q, diff:\n%s", err, got, after, Diff("x", before, after))
		}
	})
}

// TestDiffWithPatch holds the format to the program that people feed it to.
func TestDiffWithPatch(t *testing.T) {
	testkit.Require(t, testkit.Program("patch"))
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > 25 {
			return // each case starts a program
		}
		before, after := text(rt, "before"), text(rt, "after")
		diff := Diff("x", before, after)
		if diff == nil || len(after) == 0 {
			return // patch removes files that become empty
		}
		file := filepath.Join(dir, "x")
		if err := os.WriteFile(file, before, 0o644); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), "patch", "--binary", "-s", "-F0", "-p1")
		c.Dir, c.Stdin = dir, bytes.NewReader(diff)
		if out, err := c.CombinedOutput(); err != nil {
			rt.Fatalf("%v: %s\n%s", err, out, diff)
		}
		if got, _ := os.ReadFile(file); !bytes.Equal(got, after) {
			rt.Fatalf("patch made %q, want %q, from\n%s", got, after, diff)
		}
	})
}

// TestDiffOfMuch: beyond the effort of the search the diff is still right, and still says no more than it must.
func TestDiffOfMuch(t *testing.T) {
	var a, b, c []string
	for i := range 3 * effort {
		a, b = append(a, fmt.Sprintln("a", i)), append(b, fmt.Sprintln("b", i))
		c = append(c, fmt.Sprintln("a", i), "new\n")
	}
	before, other, longer := []byte(strings.Join(a, "")), []byte(strings.Join(b, "")), []byte(strings.Join(c, ""))
	if got, err := patched(before, Diff("x", before, other)); err != nil || !bytes.Equal(got, other) {
		t.Errorf("two texts without a line in common: %v", err)
	}
	diff := Diff("x", before, longer)
	if got, err := patched(before, diff); err != nil || !bytes.Equal(got, longer) {
		t.Errorf("many insertions: %v", err)
	}
	if n := bytes.Count(diff, []byte("\n-")); n > 0 {
		t.Errorf("many insertions: %d lines are taken out, none went", n)
	}
}

// patched applies a diff strictly: each line must stand where the hunk's head says.
func patched(before, diff []byte) ([]byte, error) {
	if diff == nil {
		return before, nil
	}
	var out strings.Builder
	ls := linesOf(diff)
	if len(ls) < 3 || !strings.HasPrefix(ls[0], "--- ") || !strings.HasPrefix(ls[1], "+++ ") {
		return nil, errors.New("no head")
	}
	old, at, to := linesOf(before), 0, 0
	for i := 2; i < len(ls); {
		var from, len1, start, len2 int
		if err := head(ls[i], &from, &len1, &start, &len2); err != nil {
			return nil, err
		}
		i++
		if len1 > 0 {
			from--
		}
		if len2 > 0 {
			start--
		}
		for at < from {
			out.WriteString(old[at])
			at, to = at+1, to+1
		}
		if at != from || to != start {
			return nil, fmt.Errorf("hunk starts at %d, %d; the texts are at %d, %d", from, start, at, to)
		}
		for len1 > 0 || len2 > 0 {
			kind, l := ls[i][0], ls[i][1:]
			i++
			if i < len(ls) && strings.HasPrefix(ls[i], "\\ ") {
				l = strings.TrimSuffix(l, "\n")
				i++
			}
			if kind != '+' {
				if old[at] != l {
					return nil, fmt.Errorf("line %d is %q, the diff says %q", at, old[at], l)
				}
				at, len1 = at+1, len1-1
			}
			if kind != '-' {
				out.WriteString(l)
				to, len2 = to+1, len2-1
			}
		}
	}
	return []byte(out.String() + strings.Join(old[at:], "")), nil
}

func head(l string, numbers ...*int) error {
	l = strings.TrimSuffix(strings.TrimPrefix(l, "@@ -"), " @@\n")
	before, after, ok := strings.Cut(l, " +")
	if !ok {
		return fmt.Errorf("not a hunk's head: %q", l)
	}
	for i, s := range []string{before, after} {
		*numbers[2*i+1] = 1
		if _, err := fmt.Sscanf(s, "%d,%d", numbers[2*i], numbers[2*i+1]); err != nil {
			if _, err := fmt.Sscanf(s, "%d", numbers[2*i]); err != nil {
				return err
			}
		}
	}
	return nil
}
