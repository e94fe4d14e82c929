package schema_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
	"github.com/drainproof/drainproof/schema"
)

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.RecordV1))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("record-v1.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("record-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance turns a record into what the validator takes, changed by edit.
func instance(t *testing.T, r record.Record, edit func(map[string]any)) any {
	t.Helper()
	data, err := record.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(doc.(map[string]any))
	}
	return doc
}

func TestSamplesValidate(t *testing.T) {
	s := compile(t)
	for _, sample := range records.Named() {
		if err := s.Validate(instance(t, sample.Record, nil)); err != nil {
			t.Errorf("%s: %v", sample.Name, err)
		}
	}
	for _, r := range records.Matrix("nftables", 1) {
		if err := s.Validate(instance(t, r, nil)); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
	// What a trial leaves that failed at once.
	bare := record.Record{Schema: record.Schema, ID: "x", StartedAt: time.Unix(0, 0).UTC(), Tool: record.Tool{Name: "drainproof", Version: "v0"}, Completeness: record.Incomplete, Missing: []string{"everything"}}
	if err := s.Validate(instance(t, bare, nil)); err != nil {
		t.Error(err)
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := compile(t)
	flow := func(doc map[string]any, i int) map[string]any {
		return doc["flows"].([]any)[i].(map[string]any)
	}
	for name, edit := range map[string]func(map[string]any){
		"another version":               func(d map[string]any) { d["schema"] = "drainproof.dev/record/v2" },
		"an unknown field":              func(d map[string]any) { d["extra"] = 1 },
		"an unknown outcome":            func(d map[string]any) { flow(d, 0)["outcome"] = "fine" },
		"an ended flow that survived":   func(d map[string]any) { flow(d, 0)["outcome"] = "survived" },
		"a cut flow without an end":     func(d map[string]any) { flow(d, 0)["ended_t_ns"] = nil },
		"a rehomed flow without a life": func(d map[string]any) { flow(d, 10)["after_rehome"] = nil },
		"null in place of a list":       func(d map[string]any) { d["notes"] = nil },
		"complete without a trigger":    func(d map[string]any) { d["trigger"] = nil },
		"complete, yet missing":         func(d map[string]any) { d["missing"] = []any{"x"} },
		"a missing field":               func(d map[string]any) { delete(d, "clocks") },
		"a window without a reason":     func(d map[string]any) { d["windows"].([]any)[0].(map[string]any)["ns"] = nil },
		"time in fractions":             func(d map[string]any) { flow(d, 0)["ended_t_ns"] = json.Number("1.5") },
	} {
		if err := s.Validate(instance(t, records.Exit(), edit)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// node is as much of a schema as the comparison with the Go types reads.
type node struct {
	Description string           `json:"description"`
	Type        any              `json:"type"`
	Ref         string           `json:"$ref"`
	Enum        []string         `json:"enum"`
	Properties  map[string]*node `json:"properties"`
	Required    []string         `json:"required"`
	Items       *node            `json:"items"`
	OneOf       []*node          `json:"oneOf"`
	Additional  any              `json:"additionalProperties"`
	Defs        map[string]*node `json:"$defs"`
}

// TestSchemaMatchesTypes walks the Go types and the schemas side by side: same fields,
// same nullability, every field required unless Go may leave it out, and described.
func TestSchemaMatchesTypes(t *testing.T) {
	for _, c := range []struct {
		name   string
		schema []byte
		typ    reflect.Type
	}{
		{"record", schema.RecordV1, reflect.TypeFor[record.Record]()},
		{"audit", schema.AuditV1, reflect.TypeFor[finding.Report]()},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &walk{t: t, used: map[string]bool{}}
			if err := json.Unmarshal(c.schema, &w.root); err != nil {
				t.Fatal(err)
			}
			w.compare(c.name, c.typ, &w.root)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(w.root.Defs)), slices.Sorted(maps.Keys(w.used))); diff != "" {
				t.Errorf("definitions that no field uses (-schema +used):\n%s", diff)
			}
		})
	}
}

// walk is one comparison of types with a schema.
type walk struct {
	t    *testing.T
	root node
	used map[string]bool
}

func (w *walk) compare(path string, typ reflect.Type, n *node) {
	nullable := typ.Kind() == reflect.Pointer
	if nullable {
		typ = typ.Elem()
	}
	if len(n.OneOf) == 2 {
		if !nullable || n.OneOf[1].Type != "null" {
			w.t.Errorf("%s: the schema allows null, Go does not", path)
		}
		n = n.OneOf[0]
	} else if list, ok := n.Type.([]any); ok {
		if !nullable || !slices.Contains(list, "null") {
			w.t.Errorf("%s: the schema allows %v", path, list)
		}
	} else if nullable {
		w.t.Errorf("%s: Go allows null, the schema does not", path)
	}
	if n.Ref != "" {
		name := strings.TrimPrefix(n.Ref, "#/$defs/")
		w.used[name] = true
		n = w.root.Defs[name]
	}
	switch {
	case typ == reflect.TypeFor[time.Time]():
	case typ.Kind() == reflect.Slice:
		w.compare(path+"[]", typ.Elem(), n.Items)
	case typ.Kind() == reflect.Struct:
		if n.Additional != false {
			w.t.Errorf("%s: additionalProperties is not false", path)
		}
		seen := map[string]bool{}
		w.fields(path, typ, n, seen)
		for name := range n.Properties {
			if !seen[name] {
				w.t.Errorf("%s.%s is in the schema only", path, name)
			}
		}
	}
}

func (w *walk) fields(path string, typ reflect.Type, n *node, seen map[string]bool) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous {
			w.fields(path, f.Type, n, seen)
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		seen[name] = true
		p := n.Properties[name]
		if p == nil {
			w.t.Errorf("%s.%s is not in the schema", path, name)
			continue
		}
		if p.Description == "" {
			w.t.Errorf("%s.%s has no description", path, name)
		}
		optional := opts == "omitempty" || opts == "omitzero"
		if slices.Contains(n.Required, name) == optional {
			w.t.Errorf("%s.%s: required is %v in the schema, and Go's tag says %q", path, name, optional, opts)
		}
		inner := f.Type
		if optional && inner.Kind() == reflect.Pointer {
			// Left out rather than null.
			inner = inner.Elem()
		}
		w.compare(path+"."+name, inner, p)
	}
}

func TestSchemaEnums(t *testing.T) {
	var root node
	if err := json.Unmarshal(schema.RecordV1, &root); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		def, field string
		want       []string
	}{
		{"event", "kind", words(record.EventKinds())},
		{"event", "source", words(record.EventSources())},
		{"event", "bound", words(record.Bounds())},
		{"window", "bound", append(words(record.Bounds()), string(record.Either))},
		{"flow", "outcome", words(record.Outcomes())},
		{"flow", "mechanism", append([]string{""}, words(record.Mechanisms())...)},
		{"after_rehome", "mechanism", append([]string{""}, words(record.Mechanisms())...)},
		{"flow", "protocol", words(record.Protocols())},
		{"flow_detail", "end", record.RawEnds()},
	} {
		if diff := cmp.Diff(c.want, root.Defs[c.def].Properties[c.field].Enum); diff != "" {
			t.Errorf("%s.%s (-Go +schema):\n%s", c.def, c.field, diff)
		}
	}
	if diff := cmp.Diff(words(record.Completenesses()), root.Properties["completeness"].Enum); diff != "" {
		t.Errorf("completeness (-Go +schema):\n%s", diff)
	}
}

func TestAuditEnums(t *testing.T) {
	var root node
	if err := json.Unmarshal(schema.AuditV1, &root); err != nil {
		t.Fatal(err)
	}
	for _, def := range []string{"finding", "suppressed"} {
		p := root.Defs[def].Properties
		if diff := cmp.Diff(words(finding.Topics), p["topic"].Enum); diff != "" {
			t.Errorf("%s.topic (-Go +schema):\n%s", def, diff)
		}
		if diff := cmp.Diff(words([]finding.Severity{finding.Error, finding.Warning, finding.Info}), p["severity"].Enum); diff != "" {
			t.Errorf("%s.severity (-Go +schema):\n%s", def, diff)
		}
	}
}

func words[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}
