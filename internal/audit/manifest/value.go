// Package manifest reads Kubernetes objects from YAML and JSON text and keeps
// where each field stands, so that a finding can name file, line and path.
//
// It knows no kind, no rule and no file system: text in, objects out. What a
// field means is the business of package model.
package manifest

import (
	"iter"
	"strconv"
)

// Kind is the shape of a Value.
type Kind uint8

// The shapes. Absent is a field that is not there; Null is one that is written and empty.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	List
	Map
)

// node is one place in a document. Nodes are many: keep them small.
type node struct {
	kind Kind
	// line and column start at 1; 0 means that the place is not known (an object from a cluster).
	line, column int32
	// text is the scalar as it was written, unquoted.
	text string
	// keys are a Map's field names, beside items; empty for a List.
	keys  []string
	items []*node
}

// Value is one field of an object with everything below it. The zero Value is
// absent, and asking an absent Value for more gives absent Values.
type Value struct{ n *node }

// Kind gives the value's shape.
func (v Value) Kind() Kind {
	if v.n == nil {
		return Absent
	}
	return v.n.kind
}

// Exists says whether the field is written and not null.
func (v Value) Exists() bool { return v.Kind() > Null }

// At goes down through the named fields of nested maps.
func (v Value) At(keys ...string) Value {
	for _, k := range keys {
		if v.Kind() != Map {
			return Value{}
		}
		next := Value{}
		for i, have := range v.n.keys {
			if have == k {
				next = Value{v.n.items[i]}
				break
			}
		}
		v = next
	}
	return v
}

// Len is the number of a list's elements or of a map's fields.
func (v Value) Len() int {
	if v.n == nil {
		return 0
	}
	return len(v.n.items)
}

// Items yields a list's elements in order; nothing for other shapes.
func (v Value) Items() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Kind() != List {
			return
		}
		for i, n := range v.n.items {
			if !yield(i, Value{n}) {
				return
			}
		}
	}
}

// Fields yields a map's fields in the order they are written; nothing for other shapes.
func (v Value) Fields() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Kind() != Map {
			return
		}
		for i, n := range v.n.items {
			if !yield(v.n.keys[i], Value{n}) {
				return
			}
		}
	}
}

// Text gives a scalar as it was written, and "" for anything else.
func (v Value) Text() string {
	if k := v.Kind(); k == Absent || k == Null || k == List || k == Map {
		return ""
	}
	return v.n.text
}

// Int gives a whole number. A number in quotes counts: an API server refuses
// it, but its meaning is plain, and annotations hold numbers no other way.
func (v Value) Int() (int64, bool) {
	n, err := strconv.ParseInt(v.Text(), 10, 64)
	return n, err == nil
}

// Bool gives a truth value.
func (v Value) Bool() (value, ok bool) {
	if v.Kind() != Bool {
		return false, false
	}
	return v.n.text == "true", true
}

// Position gives line and column, both from 1; 0, 0 where they are not known.
func (v Value) Position() (line, column int) {
	if v.n == nil {
		return 0, 0
	}
	return int(v.n.line), int(v.n.column)
}

// Object is one Kubernetes object of a file, a stream or a cluster.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	// File names the text it came from; "" for a cluster's objects.
	File string
	Root Value
}

// Group is the API group of the object's version; "" for the core group.
func (o *Object) Group() string {
	for i := range len(o.APIVersion) {
		if o.APIVersion[i] == '/' {
			return o.APIVersion[:i]
		}
	}
	return ""
}
