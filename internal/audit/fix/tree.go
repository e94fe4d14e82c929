package fix

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// tree is a value apart from any text: what a manifest holds, or shall hold.
type tree struct {
	kind  manifest.Kind
	text  string   // of a scalar
	keys  []string // of a Map, beside items
	items []tree
}

// field is one entry of a Map.
type field struct {
	key   string
	value tree
}

func whole(n int64) tree   { return tree{kind: manifest.Number, text: strconv.FormatInt(n, 10)} }
func word(s string) tree   { return tree{kind: manifest.String, text: s} }
func nothing() tree        { return tree{kind: manifest.Null, text: "null"} }
func list(of ...tree) tree { return tree{kind: manifest.List, items: of} }

func words(ss ...string) tree {
	t := list()
	for _, s := range ss {
		t.items = append(t.items, word(s))
	}
	return t
}

func mapping(fields ...field) tree {
	t := tree{kind: manifest.Map}
	for _, f := range fields {
		t.keys, t.items = append(t.keys, f.key), append(t.items, f.value)
	}
	return t
}

// nested puts a value under keys, one below the other.
func nested(value tree, keys ...string) tree {
	for i := len(keys) - 1; i >= 0; i-- {
		value = mapping(field{keys[i], value})
	}
	return value
}

func treeOf(v manifest.Value) tree {
	t := tree{kind: v.Kind(), text: v.Text()}
	for key, item := range v.Fields() {
		t.keys, t.items = append(t.keys, key), append(t.items, treeOf(item))
	}
	for _, item := range v.Items() {
		t.items = append(t.items, treeOf(item))
	}
	return t
}

// at gives a field of a Map, nil where it is not there.
func (t *tree) at(key string) *tree {
	for i, k := range t.keys {
		if k == key {
			return &t.items[i]
		}
	}
	return nil
}

// put sets a field of a Map, at the end if it is new.
func (t *tree) put(key string, value tree) *tree {
	if have := t.at(key); have != nil {
		*have = value
		return have
	}
	t.kind, t.text = manifest.Map, "" // where it was written and empty
	t.keys, t.items = append(t.keys, key), append(t.items, value)
	return &t.items[len(t.items)-1]
}

// drop takes a field of a Map out.
func (t *tree) drop(key string) {
	for i, k := range t.keys {
		if k == key {
			t.keys = append(t.keys[:i:i], t.keys[i+1:]...)
			t.items = append(t.items[:i:i], t.items[i+1:]...)
			return
		}
	}
}

// set does an edit to a whole object.
func (t *tree) set(e edit) error {
	way, err := stepsOf(e.path)
	if err != nil {
		return err
	}
	for i, s := range way {
		last := i == len(way)-1
		switch {
		case s.key == "" && s.index < len(t.items) && t.kind == manifest.List:
			t = &t.items[s.index]
		case s.key == "" || (t.kind != manifest.Map && t.kind != manifest.Null):
			return fmt.Errorf("%s: nothing is there to hold it", e.path)
		case last && e.rename != "":
			t.drop(s.key)
			t = t.put(e.rename, e.value)
		default:
			next := t.at(s.key)
			if next == nil {
				next = t.put(s.key, mapping())
			}
			t = next
		}
		if last {
			*t = e.value
		}
	}
	return nil
}

// differs names the first place where two trees are not the same. The order of
// a Map's fields means nothing.
func (t tree) differs(other tree, path string) (string, bool) {
	if t.kind != other.kind || len(t.items) != len(other.items) || (t.kind != manifest.Null && t.text != other.text) {
		return path, true
	}
	for i := range t.items {
		if t.kind == manifest.List {
			if where, ok := t.items[i].differs(other.items[i], fmt.Sprintf("%s[%d]", path, i)); ok {
				return where, true
			}
			continue
		}
		below := strings.TrimPrefix(path+"."+t.keys[i], ".")
		beside := other.at(t.keys[i])
		if beside == nil {
			return below, true
		}
		if where, ok := t.items[i].differs(*beside, below); ok {
			return where, true
		}
	}
	return "", false
}

// block writes a Map's fields in YAML's block style, each on its own line.
func (t tree) block(indent, step int, newline string) string {
	var b strings.Builder
	for i, key := range t.keys {
		b.WriteString(strings.Repeat(" ", indent) + scalar(word(key)) + ":")
		switch v := t.items[i]; {
		case v.kind == manifest.Map && len(v.items) > 0:
			b.WriteString(newline + v.block(indent+step, step, newline))
		case v.kind == manifest.List && len(v.items) > 0 && v.items[0].kind == manifest.Map:
			b.WriteString(newline + v.dashed(indent, step, newline))
		default:
			b.WriteString(" " + v.flow(false) + newline)
		}
	}
	return b.String()
}

// dashed writes a list of Maps in block style.
func (t tree) dashed(indent, step int, newline string) string {
	var b strings.Builder
	for _, item := range t.items {
		s := item.block(indent+2, step, newline)
		b.WriteString(s[:indent] + "- " + s[indent+2:])
	}
	return b.String()
}

// flow writes a value on one line, in quotes wherever JSON wants them if asked to.
func (t tree) flow(quoted bool) string {
	var parts []string
	for i, item := range t.items {
		switch {
		case t.kind == manifest.Map && quoted:
			parts = append(parts, quote(t.keys[i])+": "+item.flow(true))
		case t.kind == manifest.Map:
			parts = append(parts, scalar(word(t.keys[i]))+": "+item.flow(false))
		case item.kind == manifest.String:
			// A list of words is a command: everyone writes it in quotes.
			parts = append(parts, quote(item.text))
		default:
			parts = append(parts, item.flow(quoted))
		}
	}
	switch t.kind {
	case manifest.Map:
		return "{" + strings.Join(parts, ", ") + "}"
	case manifest.List:
		return "[" + strings.Join(parts, ", ") + "]"
	case manifest.String:
		if quoted {
			return quote(t.text)
		}
	}
	return scalar(t)
}

var (
	// plain is what needs no quotes anywhere in YAML, with a wide margin.
	plain = regexp.MustCompile(`^[A-Za-z_/]([A-Za-z0-9_./ -]*[A-Za-z0-9_./-])?$`)
	// taken are the words that some YAML version reads as something else.
	taken = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null|nan|inf)$`)
)

func scalar(t tree) string {
	if t.kind == manifest.String && (!plain.MatchString(t.text) || taken.MatchString(t.text)) {
		return quote(t.text)
	}
	return t.text
}

// quote writes a string as JSON does, which YAML reads as well once the control
// characters are escaped that JSON leaves alone.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string cannot fail
	text := strings.TrimSuffix(b.String(), "\n")
	b.Reset()
	for _, r := range text {
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// step is one step of a path: a key, or an index where key is empty.
type step struct {
	key   string
	index int
}

// stepsOf takes a path apart: spec.containers[0].env, metadata.labels["a.b/c"].
func stepsOf(path string) ([]step, error) {
	var way []step
	for rest := path; rest != ""; {
		if rest[0] != '[' {
			rest = strings.TrimPrefix(rest, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, fmt.Errorf("%q is not a path", path)
			}
			way, rest = append(way, step{key: rest[:end]}), rest[end:]
			continue
		}
		if quoted, err := strconv.QuotedPrefix(rest[1:]); err == nil && strings.HasPrefix(rest[1+len(quoted):], "]") {
			key, _ := strconv.Unquote(quoted)
			way, rest = append(way, step{key: key}), rest[len(quoted)+2:]
			continue
		}
		end := strings.IndexByte(rest, ']')
		n, err := strconv.Atoi(rest[1:max(end, 1)])
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not a path", path)
		}
		way, rest = append(way, step{index: n}), rest[end+1:]
	}
	return way, nil
}

// in follows one step; the zero Value where it leads nowhere.
func (s step) in(v manifest.Value) manifest.Value {
	if s.key != "" {
		return v.At(s.key)
	}
	for i, item := range v.Items() {
		if i == s.index {
			return item
		}
	}
	return manifest.Value{}
}
