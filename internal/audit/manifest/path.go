package manifest

import (
	"strconv"
	"strings"
)

// Find gives the field at a path such as spec.template.spec.containers[0].image
// or metadata.annotations["example.com/key"]; "" is the whole object. A field that is not
// written, and a path that is not one, give an absent Value.
func (o *Object) Find(path string) Value {
	v, _, all := o.follow(path)
	if !all {
		return Value{}
	}
	return v
}

// Line gives the line on which the field at a path is named (a list's element: where it
// starts), or the line of its nearest parent that is written; 0 where lines are not known.
func (o *Object) Line(path string) int {
	_, line, _ := o.follow(path)
	return line
}

// follow goes down a path as far as it is written.
func (o *Object) follow(path string) (v Value, line int, all bool) {
	v = o.Root
	if v.n == nil {
		return v, 0, path == ""
	}
	line = int(v.n.line)
	for rest := path; rest != ""; {
		key, index, after, ok := step(rest)
		if !ok {
			return v, line, false
		}
		var next *node
		switch {
		case index < 0:
			next = v.n.child(key)
		case v.n.kind == List && index < len(v.n.items):
			next = &v.n.items[index]
		}
		if next == nil {
			return v, line, false
		}
		v = Value{next}
		line = int(next.line) - int(next.above)
		rest = after
	}
	return v, line, true
}

// step takes the first part off a path: a key (index is -1) or an index.
func step(path string) (key string, index int, rest string, ok bool) {
	if path[0] != '[' {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return path, -1, "", true
		}
		rest, ok := behind(path[end:])
		return path[:end], -1, rest, ok && end > 0
	}
	inner := path[1:]
	if quoted, err := strconv.QuotedPrefix(inner); err == nil {
		key, err := strconv.Unquote(quoted)
		after, closed := strings.CutPrefix(inner[len(quoted):], "]")
		rest, ok := behind(after)
		return key, -1, rest, err == nil && closed && ok
	}
	number, after, closed := strings.Cut(inner, "]")
	n, err := strconv.Atoi(number)
	rest, ok = behind(after)
	return "", n, rest, closed && ok && err == nil && n >= 0
}

// behind takes the dot off that separates a part of a path from the next.
func behind(rest string) (string, bool) {
	if rest == "" || rest[0] == '[' {
		return rest, true
	}
	after, dot := strings.CutPrefix(rest, ".")
	return after, dot && after != "" && after[0] != '['
}
