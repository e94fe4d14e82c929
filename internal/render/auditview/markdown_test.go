package auditview

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/testkit"
)

func comment(t *testing.T, r *finding.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Markdown(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMarkdownGoldens(t *testing.T) {
	testkit.Golden(t, "comment.md", []byte(comment(t, sample())))
	testkit.Golden(t, "comment-empty.md", []byte(comment(t, &finding.Report{Objects: 4})))
	testkit.Golden(t, "comment-clean.md", []byte(comment(t, fits())))
	testkit.Golden(t, "comment-settled.md", []byte(comment(t, settled())))
}

// GitHub refuses a comment of more than 65536 characters: a crowd is counted rather than cut off in the middle.
func TestMarkdownFitsAComment(t *testing.T) {
	out := comment(t, crowd(2000))
	if n := utf8.RuneCountInString(out); n > 65536 {
		t.Errorf("%d characters", n)
	}
	if !strings.Contains(out, " more with findings are left out") || !strings.Contains(out, "200 errors; 200 of 2,000 workloads affected") {
		t.Errorf("the comment does not say what it leaves out:\n%.500s", out)
	}
	if open, closed := strings.Count(out, "<details>"), strings.Count(out, "</details>"); open != closed {
		t.Errorf("%d folds are opened, %d closed", open, closed)
	}
}

func TestMarkdownEscapes(t *testing.T) {
	in := "a|b <b> *x* _y_ `z` [l](u) & ~~s~~ $m$ \\ @me x@y #1 https://e.example"
	want := "a\\|b &lt;b&gt; \\*x\\* \\_y\\_ \\`z\\` \\[l\\](u) &amp; \\~\\~s\\~\\~ \\$m\\$ \\\\ @<!-- -->me x@<!-- -->y #<!-- -->1 https:<!-- -->//e.example"
	if got := md(in); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for in, want := range map[string]string{"": "", "Deployment shop/web": "`Deployment shop/web`", "a`b|c": "<code>a\\`b\\|c</code>"} {
		if got := code(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}
