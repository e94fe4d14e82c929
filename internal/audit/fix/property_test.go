package fix

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// writer writes a tree as a person might: each choice of style is drawn.
type writer struct {
	*rapid.T
	b       strings.Builder
	step    int
	newline string
}

func (w *writer) chance(name string, outOf int) bool {
	return rapid.IntRange(1, outOf).Draw(w.T, name) == 1
}

// noise puts comments and empty lines between lines.
func (w *writer) noise(indent int) {
	for w.chance("noise", 6) {
		w.b.WriteString(rapid.SampledFrom([]string{"", "# a comment", "  # deeper: {", "#- item"}).Draw(w.T, "line"))
		s := w.b.String()
		last := s[strings.LastIndexByte(s, '\n')+1:]
		w.b.Reset()
		w.b.WriteString(s[:len(s)-len(last)])
		if last != "" {
			last = strings.Repeat(" ", rapid.SampledFrom([]int{indent, indent, 0, indent + 1}).Draw(w.T, "indent")) + last
		}
		w.b.WriteString(last + w.newline)
	}
}

func (w *writer) end() {
	if w.chance("comment behind", 8) {
		w.b.WriteString("  # why")
	}
	w.b.WriteString(w.newline)
}

// fields writes a Map in block style; lead is what stands on the first line already.
func (w *writer) fields(t tree, indent int, inItem bool) {
	for i, key := range t.keys {
		if i > 0 || !inItem {
			w.noise(indent)
			w.b.WriteString(strings.Repeat(" ", indent))
		}
		if w.chance("quoted key", 10) {
			key = quote(key)
		}
		w.b.WriteString(key + ":")
		w.value(t.items[i], indent)
	}
}

func (w *writer) value(t tree, indent int) {
	switch {
	case len(t.items) > 0 && w.chance("flow", 12) || t.kind == manifest.Map && len(t.items) == 0:
		w.b.WriteString(" " + t.flow(w.chance("like JSON", 3)))
		w.end()
	case t.kind == manifest.Map:
		w.end()
		w.fields(t, indent+w.step, false)
	case t.kind == manifest.List:
		w.end()
		if w.chance("indented list", 2) {
			indent += w.step
		}
		for _, item := range t.items {
			w.noise(indent)
			dash := strings.Repeat(" ", indent) + "-"
			if item.kind != manifest.Map {
				w.b.WriteString(dash)
				w.value(item, indent)
				continue
			}
			spaces := rapid.IntRange(1, 3).Draw(w.T, "spaces behind the dash")
			w.b.WriteString(dash + strings.Repeat(" ", spaces))
			w.fields(item, indent+1+spaces, true)
		}
	case t.kind == manifest.String && w.chance("block scalar", 8):
		w.b.WriteString(" |-" + w.newline)
		for _, l := range strings.Split(t.text, "\n") {
			w.b.WriteString(strings.Repeat(" ", indent+w.step) + l + w.newline)
		}
	default:
		text := scalar(t)
		if t.kind == manifest.String {
			switch rapid.IntRange(0, 3).Draw(w.T, "quotes") {
			case 0:
				text = quote(t.text)
			case 1:
				text = "'" + strings.ReplaceAll(t.text, "'", "''") + "'"
			}
		}
		w.b.WriteString(" " + text)
		w.end()
	}
}

// drawn is a text with some workloads, and the edits to make in each of them.
func drawn(t *rapid.T) (string, []edit) {
	w := &writer{T: t, step: rapid.SampledFrom([]int{2, 2, 4, 3}).Draw(t, "step"), newline: rapid.SampledFrom([]string{"\n", "\n", "\r\n"}).Draw(t, "newline")}
	shuffled := func(fields ...field) tree {
		return mapping(rapid.Permutation(fields).Draw(t, "order")...)
	}
	words := func(name string) tree {
		return word(rapid.SampledFrom([]string{"web", "it's", "a: b", "# no", "5", "nginx:1.29", "grün", "- x"}).Draw(t, name))
	}
	for n := range rapid.IntRange(1, 3).Draw(t, "documents") {
		container := []field{{"name", words("name")}, {"image", words("image")}}
		for _, f := range []field{
			{"env", list(shuffled(field{"name", word("A")}, field{"value", words("value")}))},
			{"ports", list(mapping(field{"containerPort", whole(80)}))},
			{"lifecycle", mapping()},
			{"lifecycle", nested(words("path"), "postStart", "httpGet", "path")},
			{"lifecycle", nested(whole(1), "preStop", "sleep", "seconds")},
		} {
			if f.key == "lifecycle" && len(container) > 0 && container[len(container)-1].key == "lifecycle" {
				continue
			}
			if w.chance(f.key, 2) {
				container = append(container, f)
			}
		}
		pod := []field{{"containers", list(shuffled(container...), mapping(field{"name", word("other")}))}}
		if w.chance("grace", 3) {
			pod = append(pod, field{"terminationGracePeriodSeconds", whole(30)})
		}
		if w.chance("volumes", 3) {
			pod = append(pod, field{"volumes", list(shuffled(field{"name", words("volume")}, field{"emptyDir", mapping()}))})
		}
		object := mapping(field{"apiVersion", word("apps/v1")}, field{"kind", word("Deployment")}, field{"metadata", mapping(field{"name", word(fmt.Sprint("web", n))})},
			field{"spec", shuffled(field{"replicas", whole(2)}, field{"template", nested(shuffled(pod...), "spec")})})
		if n > 0 {
			w.b.WriteString("---" + w.newline)
		}
		w.fields(object, 0, false)
	}
	text := w.b.String()
	if w.chance("no newline at the end", 4) {
		text = strings.TrimSuffix(text, w.newline)
	}
	return text, []edit{{path: sleepPath, value: whole(50)}, {path: gracePath, value: whole(80)}}
}

// TestApplyKeepsEverythingElse: whatever the style, the edits are made, what is new can be
// taken out again, and no carriage return or newline of another kind comes in.
func TestApplyKeepsEverythingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, edits := drawn(t)
		objects, err := manifest.Parse("web.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		var changes []Change
		for _, o := range objects {
			changes = append(changes, change(o, "", "a change", nil, edits...))
		}
		out, err := Apply(map[string][]byte{"web.yaml": []byte(text)}, changes)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		after := out["web.yaml"]
		if rest := without(after, []byte(text)); rest != "" {
			t.Fatalf("lost %q of\n%s\ngot\n%s", rest, text, after)
		}
		if strings.Contains(text, "\r\n") && bytes.Count(after, []byte("\n")) != bytes.Count(after, []byte("\r\n")) {
			t.Fatalf("mixed line endings:\n%q", after)
		}
		if strings.HasSuffix(text, "\n") != bytes.HasSuffix(after, []byte("\n")) {
			t.Fatalf("the end of the text changed:\n%q", after)
		}
		again, err := manifest.Parse("web.yaml", after)
		if err != nil || len(again) != len(objects) {
			t.Fatalf("%v\n%s", err, after)
		}
		for i, o := range again {
			for _, e := range edits {
				if got := o.Find(e.path).Text(); got != e.value.text {
					t.Fatalf("%s is %q, want %s:\n%s", e.path, got, e.value.text, after)
				}
			}
			want := treeOf(objects[i].Root)
			for _, e := range edits {
				if err := want.set(e); err != nil {
					t.Fatal(err)
				}
			}
			if where, bad := want.differs(treeOf(o.Root), ""); bad {
				t.Fatalf("%s differs:\n%s", where, after)
			}
		}
	})
}

// without takes the bytes of before out of after, in their order, the numbers that were
// replaced set aside; what is left of before is what got lost.
func without(after, before []byte) string {
	i := 0
	for _, b := range after {
		if i < len(before) && before[i] == b {
			i++
			continue
		}
		// A number that was replaced: 1 by 50, 30 by 80.
		for i < len(before) && before[i] >= '0' && before[i] <= '9' && b >= '0' && b <= '9' {
			i++
		}
		if i < len(before) && before[i] == b {
			i++
		}
	}
	return string(before[i:])
}
