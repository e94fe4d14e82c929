package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// reader takes fields out of one object. A field of the wrong shape is noted and
// then as good as absent: an audit goes on where an API server would refuse.
type reader struct {
	o *manifest.Object
	m *Model
}

func (r reader) note(format string, args ...any) {
	name := r.o.Name
	if r.o.Namespace != "" {
		name = r.o.Namespace + "/" + name
	}
	r.m.Notes = append(r.m.Notes, r.o.Kind+" "+name+": "+fmt.Sprintf(format, args...))
}

// checkName notes a name that an API server refuses, although it can be told what is meant: n and no are
// truth values in YAML.
func (r reader) checkName() {
	for _, key := range []string{"name", "namespace"} {
		v := r.o.Root.At("metadata", key)
		if k := v.Kind(); k == manifest.Bool || k == manifest.Number {
			r.note("metadata.%s is %s, not a text, as it is written; write it in quotes: %q", key, shapes[k], v.Text())
		}
	}
}

var shapes = map[manifest.Kind]string{
	manifest.Null: "nothing", manifest.Bool: "a truth value", manifest.Number: "a number", manifest.String: "a text",
	manifest.List: "a list", manifest.Map: "a map",
}

// wrong notes a field that cannot be used.
func (r reader) wrong(v manifest.Value, at, key, want string) {
	line, _ := v.Position()
	place := ""
	switch {
	case r.o.File != "" && line > 0:
		place = fmt.Sprintf(" (%s:%d)", r.o.File, line)
	case r.o.File != "":
		place = " (" + r.o.File + ")"
	}
	is := shapes[v.Kind()]
	if text := v.Text(); text != "" && len(text) <= 40 {
		is += " " + strconv.Quote(text)
	}
	r.note("%s%s is %s, not %s; it is left out", join(at, key), place, is, want)
}

func join(at, key string) string {
	if at == "" || strings.HasPrefix(key, "[") {
		return at + key
	}
	return at + "." + key
}

// child gives a field that is a map, or a list; absent where it is not.
func (r reader) child(v manifest.Value, at, key string, want manifest.Kind) manifest.Value {
	c := v.At(key)
	if !c.Exists() {
		return manifest.Value{}
	}
	if c.Kind() != want {
		r.wrong(c, at, key, shapes[want])
		return manifest.Value{}
	}
	return c
}

// maps yields the elements of a list that are maps, each with its path.
func (r reader) maps(v manifest.Value, at, key string) func(func(string, manifest.Value) bool) {
	return func(yield func(string, manifest.Value) bool) {
		for i, e := range r.child(v, at, key, manifest.List).Items() {
			index := key + "[" + strconv.Itoa(i) + "]"
			if e.Kind() != manifest.Map {
				r.wrong(e, at, index, "a map")
				continue
			}
			if !yield(join(at, index), e) {
				return
			}
		}
	}
}

func (r reader) text(v manifest.Value, at, key string) string {
	c := v.At(key)
	if k := c.Kind(); k == manifest.List || k == manifest.Map {
		r.wrong(c, at, key, "a text")
	}
	return c.Text()
}

func (r reader) textOr(v manifest.Value, at, key, byDefault string) string {
	if t := r.text(v, at, key); t != "" {
		return t
	}
	return byDefault
}

// texts gives a list of texts.
func (r reader) texts(v manifest.Value, at, key string) []string {
	list := r.child(v, at, key, manifest.List)
	if list.Len() == 0 {
		return nil
	}
	texts := make([]string, 0, list.Len())
	for i, e := range list.Items() {
		if k := e.Kind(); k == manifest.List || k == manifest.Map {
			r.wrong(e, at, key+"["+strconv.Itoa(i)+"]", "a text")
			continue
		}
		texts = append(texts, e.Text())
	}
	return texts
}

// labels gives a map of texts: labels, annotations, a Service's selector.
func (r reader) labels(v manifest.Value, at, key string) map[string]string {
	fields := r.child(v, at, key, manifest.Map)
	if fields.Len() == 0 {
		return nil
	}
	labels := make(map[string]string, fields.Len())
	for k, e := range fields.Fields() {
		if kind := e.Kind(); kind == manifest.List || kind == manifest.Map {
			r.wrong(e, join(at, key), `["`+k+`"]`, "a text")
			continue
		}
		labels[k] = e.Text()
	}
	return labels
}

func (r reader) flag(v manifest.Value, at, key string) bool {
	c := v.At(key)
	b, ok := c.Bool()
	if !ok && c.Exists() {
		r.wrong(c, at, key, "a truth value")
	}
	return b
}

// number gives a whole number, or the API's default. It stays within 32 bits, as
// nearly all of the API's numbers do, so that nobody's sum of seconds overflows.
func (r reader) number(v manifest.Value, at, key string, byDefault int64) Int {
	c := v.At(key)
	if !c.Exists() {
		return Int{N: byDefault}
	}
	n, ok := c.Int()
	if !ok || n > math.MaxInt32 || n < math.MinInt32 {
		r.wrong(c, at, key, "a whole number of at most 32 bits")
		return Int{N: byDefault}
	}
	return Int{N: n, Set: true}
}

// span gives a number of seconds that has 64 bits in the API. What is longer than 32 bits hold is
// cut to that: nobody waits for it to end, and it is written all the same.
func (r reader) span(v manifest.Value, at, key string, byDefault int64) Int {
	c := v.At(key)
	n, ok := c.Int()
	if !ok || n <= math.MaxInt32 && n >= math.MinInt32 {
		return r.number(v, at, key, byDefault)
	}
	cut := min(max(n, math.MinInt32), math.MaxInt32)
	if n > 0 {
		r.note("%s is %d, and is counted as %d", join(at, key), n, cut)
	}
	return Int{N: cut, Set: true}
}

// count is number for what cannot be negative.
func (r reader) count(v manifest.Value, at, key string, byDefault int64) Int {
	n := r.number(v, at, key, byDefault)
	if n.N < 0 {
		r.wrong(v.At(key), at, key, "a count of at least 0")
		return Int{N: byDefault}
	}
	return n
}

// positive is number for the fields in which the API takes 0 for unset.
func (r reader) positive(v manifest.Value, at, key string, byDefault int64) Int {
	n := r.number(v, at, key, byDefault)
	if n.N == 0 {
		return Int{N: byDefault}
	}
	return n
}

// share gives a number or a percentage, or the API's default.
func (r reader) share(v manifest.Value, at, key string, byDefault IntOrPercent) IntOrPercent {
	c := v.At(key)
	if !c.Exists() {
		return byDefault
	}
	text, percent := strings.CutSuffix(c.Text(), "%")
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		r.wrong(c, at, key, "a whole number or percentage")
		return byDefault
	}
	return IntOrPercent{N: n, Percent: percent, Set: true}
}

// selector gives a label selector with its expressions.
func (r reader) selector(v manifest.Value, at, key string) Selector {
	written := r.child(v, at, key, manifest.Map)
	if !written.Exists() {
		return Selector{}
	}
	at = join(at, key)
	s := Selector{Set: true, Labels: r.labels(written, at, "matchLabels")}
	for at, e := range r.maps(written, at, "matchExpressions") {
		q := Requirement{Key: r.text(e, at, "key"), Operator: r.text(e, at, "operator"), Values: r.texts(e, at, "values")}
		switch q.Operator {
		case "In", "NotIn", "Exists", "DoesNotExist":
		default:
			r.note("%s.operator is %q, which is no operator: the selector matches nothing", at, q.Operator)
		}
		s.Expressions = append(s.Expressions, q)
	}
	return s
}
