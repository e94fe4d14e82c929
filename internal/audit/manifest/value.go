// Package manifest reads Kubernetes objects from YAML and JSON text and keeps
// where each field stands, so that a finding can name file, line and path.
//
// It knows no rule and no file system: text in, objects out. What a field means
// is the business of package model. Of kinds it knows only which are worth
// their memory: an object whose kind is in keptKinds, or that holds a Pod
// template at spec.template, is kept whole, less its status (only a Service
// keeps that) and the API server's bookkeeping. Of every other object, such
// as a CustomResourceDefinition, a ConfigMap or a Secret, apiVersion, kind and
// metadata stay, once its whole text was found to be well-formed.
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

// node is one place in a document. Nodes are many: keep them at 64 bytes.
type node struct {
	// text is the scalar as it was written, unquoted.
	text string
	// key is the field's name where the node is in a Map.
	key   string
	items []node
	// line and column of the value, from 1; 0 means that the place is not known
	// (an object from a cluster). Columns count bytes; one beyond 65,535 is not known.
	line   int32
	column uint16
	// above is how many lines above the value its key stands, at most 255.
	above uint8
	kind  Kind
}

// place sets where a value starts.
func (n *node) place(line int32, column int) {
	n.line = line
	if n.column = uint16(column); column > 0xffff {
		n.column = 0
	}
}

// under names the field that a value belongs to, and the line of its name.
func (n *node) under(key string, line int32) {
	n.key = key
	n.above = uint8(min(max(n.line-line, 0), 255))
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
		for i := range v.n.items {
			if n := &v.n.items[i]; n.key == k {
				next = Value{n}
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
		for i := range v.n.items {
			if !yield(i, Value{&v.n.items[i]}) {
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
		for i := range v.n.items {
			if n := &v.n.items[i]; !yield(n.key, Value{n}) {
				return
			}
		}
	}
}

// Text gives a scalar as it was written, without its quotes, and "" for anything
// else. A whole number is decimal, however it is written. A truth value stays as it is written, for where
// a text is wanted: who names an object n does not call it false.
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
	return isTrue(v.n.text), true
}

// Position gives where the value itself starts: line, and column in bytes, both
// from 1; 0, 0 where they are not known. Object.Line gives the line of a field's name.
func (v Value) Position() (line, column int) {
	if v.n == nil {
		return 0, 0
	}
	if v.n.column == 0 {
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
