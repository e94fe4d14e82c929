package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

func FuzzParse(f *testing.F) {
	seeds := append([]string{
		web, benchText(11), "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n- 5\n", "{{ x }}", "a: {{ x }}\n",
		`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"\u00fc"}}]}`, `{"a":1,"a":2}`, `[{"a":`, "\ufeff---\r\nkind: Pod\r\n",
		"apiVersion: v1\nkind: Pod\nspec: &a {b: *a}\n", "apiVersion: v1\nkind: Pod\nspec:\n  a: &a {b: c}\n  d: {<<: *a}\n",
	}, odd...)
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte("apiVersion: v1\nkind: Pod\nspec:\n  " + strings.ReplaceAll(s, "\n", "\n  ")))
	}
	f.Fuzz(func(t *testing.T, text []byte) { check(t, text) })
}

// check holds Parse to what it promises about any text.
func check(t *testing.T, text []byte) {
	t.Helper()
	before := string(text)
	objects, err := Parse("f", text)
	if string(text) != before {
		t.Fatal("the text was changed")
	}
	// The whole parser takes a lone CR for the end of a line too.
	s := string(plainBytes(text))
	lines := strings.Count(s, "\n") + strings.Count(s, "\r") + 1
	if err != nil {
		var line int
		if _, scan := fmt.Sscanf(err.Error(), "f:%d: ", &line); scan != nil || line < 1 || line > lines {
			t.Fatalf("the error has no line of the text (1 to %d): %v", lines, err)
		}
		if fault.CodeOf(err) != fault.Usage {
			t.Fatalf("exit code %d", fault.CodeOf(err))
		}
	}
	for _, o := range objects {
		if o.Kind == "" || o.APIVersion == "" || o.File != "f" || o.Root.Kind() != Map {
			t.Fatalf("an object without kind, apiVersion, file or root: %+v", o)
		}
		within(t, o, "", o.Root, lines)
		if n := o.Line("spec.none[3].no"); n < 1 || n > lines {
			t.Fatalf("line %d of %d", n, lines)
		}
	}
}

// within checks every path below v.
func within(t *testing.T, o *Object, path string, v Value, lines int) {
	t.Helper()
	if got := o.Find(path); got != v {
		t.Fatalf("Find(%s) gives another value", path)
	}
	if n := o.Line(path); n < 1 || n > lines {
		t.Fatalf("Line(%s) = %d of %d", path, n, lines)
	}
	for i, c := range v.Items() {
		within(t, o, fmt.Sprintf("%s[%d]", path, i), c, lines)
	}
	for key, c := range v.Fields() {
		within(t, o, fmt.Sprintf("%s[%q]", path, key), c, lines)
	}
}
