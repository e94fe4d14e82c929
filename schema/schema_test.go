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
	"github.com/drainproof/drainproof/internal/explain"
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
	for _, sample := range records.Tests() {
		if err := s.Validate(instance(t, sample.Record, nil)); err != nil {
			t.Errorf("%s: %v", sample.Name, err)
		}
	}
	for _, r := range []record.Record{derived(records.RolloutWatched()), derived(records.ScaleWatched()), derived(records.RolloutLossy()), derived(records.Incomplete())} {
		if len(r.Terminations) == 0 {
			t.Errorf("%s has no terminations", r.ID)
		}
		if err := s.Validate(instance(t, r, nil)); err != nil {
			t.Errorf("%s: %v", r.ID, err)
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

// derived is a sample with how its Pods ended.
func derived(r record.Record) record.Record {
	explain.Attribute(&r)
	r.Terminations = explain.Terminations(&r)
	return r
}

// TestPublishedRecordsValidate: what was written before a field came is sound still.
func TestPublishedRecordsValidate(t *testing.T) {
	s := compile(t)
	paths, err := record.Find("../results")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		r, err := record.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(instance(t, r, nil)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestSchemaRefusesInTests(t *testing.T) {
	s := compile(t)
	sound := records.RolloutLossy()
	type object = map[string]any
	failure := func(d object) object { return d["failures"].([]any)[0].(object) }
	for name, edit := range map[string]func(object){
		"requests without users":        func(d object) { delete(d, "users") },
		"requests without failures":     func(d object) { delete(d, "failures") },
		"a latency without requests":    func(d object) { delete(d, "requests") },
		"an unknown outcome":            func(d object) { failure(d)["outcome"] = "mishap" },
		"a failure that is none":        func(d object) { failure(d)["outcome"] = "ok" },
		"an unknown cause":              func(d object) { failure(d)["cause"].(object)["kind"] = "bad luck" },
		"a count of an unknown outcome": func(d object) { d["requests"].(object)["outcomes"].(object)["mishap"] = 1 },
		"a count of what never was":     func(d object) { d["requests"].(object)["outcomes"].(object)["truncated"] = 0 },
		"a quantile of nothing":         func(d object) { d["latency"].(object)["before"].(object)["count"] = 0 },
		"an unknown verdict":            func(d object) { d["verdict"].(object)["result"] = "maybe" },
		"a verdict without a reason":    func(d object) { d["verdict"].(object)["reason"] = "" },
		"a workload of another kind":    func(d object) { d["workload"].(object)["kind"] = "CronJob" },
		"an unknown mode":               func(d object) { d["config"].(object)["traffic"].(object)["mode"] = "morse" },
		"an arm on an unknown path":     func(d object) { d["config"].(object)["arm"] = "exit" },
	} {
		if err := s.Validate(instance(t, sound, edit)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestSchemaRefusesInTerminations(t *testing.T) {
	s := compile(t)
	type object = map[string]any
	first := func(d object, path ...string) object {
		o := d["terminations"].([]any)[0].(object)
		for _, name := range path {
			if list, ok := o[name].([]any); ok {
				o = list[0].(object)
			} else {
				o = o[name].(object)
			}
		}
		return o
	}
	for name, edit := range map[string]func(object){
		"an instant without its event":         func(d object) { first(d, "deleted")["event"] = 0 },
		"an instant with a reason":             func(d object) { first(d, "deleted")["why"] = "it was not seen" },
		"an unknown bound":                     func(d object) { first(d, "deleted")["bound"] = "either" },
		"a missing instant without a reason":   func(d object) { first(d, "containers", "kill")["why"] = "" },
		"a missing instant with an event":      func(d object) { first(d, "containers", "kill")["event"] = 3 },
		"a signal without a name":              func(d object) { delete(first(d, "containers", "term"), "signal") },
		"a span without its end":               func(d object) { first(d, "paths", "dead_endpoint")["to_event"] = 0 },
		"a bound of a span that was not seen":  func(d object) { first(d, "paths", "dead_endpoint")["ns"] = nil },
		"a port that is none":                  func(d object) { first(d, "listeners")["port"] = 0 },
		"an unknown protocol":                  func(d object) { first(d, "paths")["protocol"] = "sctp" },
		"a count below zero":                   func(d object) { first(d, "paths")["failed"] = -1 },
		"connection tracking without an entry": func(d object) { first(d, "conntrack")["entries"] = 0 },
		"a reason of nothing":                  func(d object) { first(d)["unseen"] = []any{""} },
		"null in place of a list":              func(d object) { first(d)["paths"] = nil },
		"a Pod without a name":                 func(d object) { first(d)["pod"] = "" },
	} {
		if err := s.Validate(instance(t, derived(records.RolloutWatched()), edit)); err == nil {
			t.Errorf("%s is accepted", name)
		}
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
	Names       *node            `json:"propertyNames"`
	Else        *node            `json:"else"`
	OneOf       []*node          `json:"oneOf"`
	Additional  any              `json:"additionalProperties"`
	Defs        map[string]*node `json:"$defs"`
}

// TestSchemaMatchesTypes walks the Go types and the schemas side by side: same fields, same kinds of values,
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
	if words, given := n.types(); given && !slices.Contains(words, jsonType(typ)) {
		w.t.Errorf("%s: the schema says %v, and Go writes %s", path, words, jsonType(typ))
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

// types gives the kinds of values that n allows; given is false where it lists the values themselves, or says nothing.
func (n *node) types() (words []string, given bool) {
	switch t := n.Type.(type) {
	case string:
		return []string{t}, true
	case []any:
		for _, v := range t {
			words = append(words, v.(string))
		}
		return words, true
	}
	return nil, false
}

// jsonType is the kind of value that encoding/json writes for typ.
func jsonType(typ reflect.Type) string {
	if typ == reflect.TypeFor[time.Time]() {
		return "string"
	}
	switch typ.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.String:
		return "string"
	default:
		return "integer"
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
		{"instant", "bound", words(record.Bounds())},
		{"stop_signal", "bound", words(record.Bounds())},
		{"process_exit", "bound", words(record.Bounds())},
		{"listener_end", "protocol", words(record.Protocols())},
		{"path_end", "protocol", words(record.Protocols())},
		{"conntrack_end", "protocol", words(record.Protocols())},
		{"flow", "outcome", words(record.Outcomes())},
		{"flow", "mechanism", append([]string{""}, words(record.Mechanisms())...)},
		{"after_rehome", "mechanism", append([]string{""}, words(record.Mechanisms())...)},
		{"flow", "protocol", words(record.Protocols())},
		{"flow_detail", "end", record.RawEnds()},
		{"cause", "kind", record.CauseKinds()},
		{"trigger", "kind", record.TriggerKinds()},
		{"config", "arm", append([]string{""}, record.Arms()...)},
		{"config", "trigger", append([]string{""}, record.TriggerKinds()...)},
		{"traffic", "mode", record.Modes()},
		{"failure", "outcome", words(record.RequestOutcomes())[1:]},
		{"failure", "phase", words(record.RequestPhases())},
		{"failure", "connection", words(record.Connections())},
		{"verdict", "result", words(record.VerdictResults())},
		{"workload", "kind", record.WorkloadKinds()},
		{"workload", "strategy", record.Strategies()},
	} {
		if diff := cmp.Diff(c.want, root.Defs[c.def].Properties[c.field].Enum); diff != "" {
			t.Errorf("%s.%s (-Go +schema):\n%s", c.def, c.field, diff)
		}
	}
	for field, want := range map[string][]string{
		"path": record.Paths(), "vantage": record.Vantages(), "readiness_on_term": record.ReadinessOnTerms(), "trigger": record.TriggerKinds(),
	} {
		if diff := cmp.Diff(want, root.Defs["config"].Else.Properties[field].Enum); diff != "" {
			t.Errorf("config.%s where there is an arm (-Go +schema):\n%s", field, diff)
		}
	}
	if diff := cmp.Diff(words(record.RequestOutcomes()), root.Defs["requests"].Properties["outcomes"].Names.Enum); diff != "" {
		t.Errorf("requests.outcomes (-Go +schema):\n%s", diff)
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
