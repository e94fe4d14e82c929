package auditview

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/drainproof/drainproof/internal/audit/finding"
)

// attack is what a name or a message must not bring to a terminal, a page or a comment.
const attack = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\r\n```\n| # <script>alert(1)</script> <img src=x> &amp; `x` *y* [click](https://evil.example/) ${x} {0} @org/team kubernetes/kubernetes#1 ]]>\U000e0001"

// poisoned puts the attack into every string of a report.
func poisoned(t *testing.T, r *finding.Report) *finding.Report {
	t.Helper()
	poison(reflect.ValueOf(r).Elem())
	return r
}

func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + attack)
	case reflect.Pointer:
		if !v.IsNil() {
			// What several findings point to is poisoned once for each.
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			v.Set(c)
			poison(v.Elem())
		}
	case reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		v.Set(c)
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			poison(v.Field(i))
		}
	}
}

var (
	codeInMarkdown = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]+`")
	ruleTarget     = regexp.MustCompile(`\]\(` + regexp.QuoteMeta(rulesPage) + `#[^\s()<>]*\)`)
	escaped        = regexp.MustCompile(`\\[[:punct:]]`)
)

func TestHostileReportsStayText(t *testing.T) {
	var badDocs []finding.RuleDoc
	for _, d := range docs() {
		poison(reflect.ValueOf(&d).Elem())
		badDocs = append(badDocs, d)
	}
	views := map[string]func(io.Writer, *finding.Report) error{
		"table":        func(w io.Writer, r *finding.Report) error { return Table(w, r, Options{}) },
		"narrow table": func(w io.Writer, r *finding.Report) error { return Table(w, r, Options{Width: 72, ASCII: true}) },
		"json":         JSON,
		"sarif":        func(w io.Writer, r *finding.Report) error { return SARIF(w, r, badDocs) },
		"junit":        JUnit,
		"markdown":     Markdown,
		"explain":      func(w io.Writer, _ *finding.Report) error { return Explain(w, badDocs[0], 0) },
		"list":         func(w io.Writer, _ *finding.Report) error { return RuleList(w, badDocs) },
		"rules":        func(w io.Writer, _ *finding.Report) error { return RulesMarkdown(w, badDocs) },
	}
	for name, view := range views {
		for _, r := range []*finding.Report{poisoned(t, sample()), poisoned(t, crowd(30)), poisoned(t, &finding.Report{Notes: []string{""}})} {
			var b bytes.Buffer
			if err := view(&b, r); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out := b.String()
			for _, c := range out {
				if c != '\n' && !unicode.IsPrint(c) {
					t.Fatalf("%s lets %q through:\n%.3000s", name, c, out)
				}
			}
			switch name {
			case "table", "narrow table", "explain", "list":
				// A terminal reads no HTML.
			default:
				if name == "markdown" || name == "rules" {
					// What stands in code is not read as markup.
					out = codeInMarkdown.ReplaceAllString(out, "")
				}
				for _, tag := range []string{"<script", "<img"} {
					if strings.Contains(out, tag) {
						t.Errorf("%s lets %s through", name, tag)
					}
				}
			}
		}
	}
}

// Outside of code blocks, which render nothing, a comment has no link, mention or reference of a name's making.
func TestMarkdownTakesAttacksApart(t *testing.T) {
	var b bytes.Buffer
	if err := Markdown(&b, poisoned(t, sample())); err != nil {
		t.Fatal(err)
	}
	block := false
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "```") {
			block = !block
			continue
		}
		if block {
			if !strings.HasPrefix(line, "  ") && line != "\n" {
				t.Errorf("a line of a picture could end it: %q", line)
			}
			continue
		}
		// A link to a rule's own page is ours.
		line = escaped.ReplaceAllString(ruleTarget.ReplaceAllString(line, ""), "")
		for _, bad := range []string{"](", "@org", "https://evil", "kubernetes#1", " `x`", " *y*", "${"} {
			if strings.Contains(line, bad) {
				t.Fatalf("%q reaches the comment in %.1500q", bad, line)
			}
		}
	}
	if block {
		t.Error("a code block is left open")
	}
}

// The JSON formats stay JSON, the XML stays XML, with as many parts as ever.
func TestHostileFormatsParse(t *testing.T) {
	var sarif, junit bytes.Buffer
	if err := SARIF(&sarif, poisoned(t, sample()), docs()); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(sarif.Bytes()) {
		t.Error("the SARIF log is no JSON")
	}
	if err := JUnit(&junit, poisoned(t, sample())); err != nil {
		t.Fatal(err)
	}
	var got, want junitRead
	if err := xml.Unmarshal(junit.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	junit.Reset()
	if err := JUnit(&junit, sample()); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(junit.Bytes(), &want); err != nil {
		t.Fatal(err)
	}
	if len(got.Suites) != len(want.Suites) {
		t.Errorf("%d suites, not %d", len(got.Suites), len(want.Suites))
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"web-7d9": "web-7d9", " a\t b\r\nc ": "a b c", "a\x1b[31mb": `a\u001b[31mb`, "\xff": `\xff`, "\u202eevil": `\u202eevil`,
		"\U000e0001": `\U000e0001`, "zero\u200bwidth": `zero\u200bwidth`, "名": "名", "�": "�", "": "",
	} {
		if got := clean(in); got != want || clean(got) != got {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}

// A view changes nothing of the report that it is given.
func TestViewsLeaveTheReportAlone(t *testing.T) {
	r := poisoned(t, sample())
	before, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, view := range []func(io.Writer, *finding.Report) error{
		func(w io.Writer, r *finding.Report) error { return Table(w, r, Options{}) }, JSON, JUnit, Markdown,
		func(w io.Writer, r *finding.Report) error { return SARIF(w, r, docs()) },
	} {
		if err := view(io.Discard, r); err != nil {
			t.Fatal(err)
		}
	}
	after, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("a view changed the report")
	}
}
