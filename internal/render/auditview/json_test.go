package auditview

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/schema"
)

func auditSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.AuditV1))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("audit-v1.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("audit-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rendered(t *testing.T, r *finding.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func instance(t *testing.T, data []byte) any {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// bare is a report in which everything is left out that may be.
func bare() *finding.Report {
	o := finding.Object{APIVersion: "v1", Kind: "Pod", Name: "p"}
	f := finding.Finding{Rule: "DP101", Topic: finding.Grace, Severity: finding.Error, Object: o, Message: "m", Remedy: "r"}
	return &finding.Report{
		Workloads: []finding.Workload{{Object: o, Verdict: "v"}}, Findings: []finding.Finding{f},
		Suppressed: []finding.Suppressed{{Finding: f, By: "baseline"}},
	}
}

func TestJSONFollowsItsSchema(t *testing.T) {
	s := auditSchema(t)
	dated := sample()
	dated.At = time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)
	for name, r := range map[string]*finding.Report{
		"empty": {}, "full": sample(), "dated": dated, "bare": bare(), "pictures": allPictures(), "200 workloads": crowd(200),
	} {
		if err := s.Validate(instance(t, rendered(t, r))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJSONGolden(t *testing.T) {
	testkit.Golden(t, "audit.json", rendered(t, sample()))
	testkit.Golden(t, "audit-empty.json", rendered(t, &finding.Report{}))
}

// What is read back is what was written, whatever its strings hold.
func TestJSONKeepsEveryString(t *testing.T) {
	for _, r := range []*finding.Report{sample(), poisoned(t, sample())} {
		var got finding.Report
		if err := json.Unmarshal(rendered(t, r), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, &got); diff != "" {
			t.Errorf("the report changes on its way (-want +got):\n%s", diff)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := auditSchema(t)
	first := func(d map[string]any, list string) map[string]any { return d[list].([]any)[0].(map[string]any) }
	budget := func(d map[string]any) map[string]any { return first(d, "workloads")["budget"].(map[string]any) }
	for name, edit := range map[string]func(map[string]any){
		"another version":               func(d map[string]any) { d["schema"] = "drainproof.dev/audit/v2" },
		"an unknown field":              func(d map[string]any) { d["extra"] = 1 },
		"an unknown severity":           func(d map[string]any) { first(d, "findings")["severity"] = "fatal" },
		"an unknown topic":              func(d map[string]any) { first(d, "findings")["topic"] = "misc" },
		"an unknown field of a finding": func(d map[string]any) { first(d, "findings")["by"] = "config" },
		"a finding without a remedy":    func(d map[string]any) { delete(first(d, "findings"), "remedy") },
		"line 0":                        func(d map[string]any) { first(d, "findings")["line"] = 0 },
		"a rule ID that is none":        func(d map[string]any) { first(d, "findings")["rule"] = "DP7" },
		"null in place of a list":       func(d map[string]any) { d["notes"] = nil },
		"facts that are null":           func(d map[string]any) { first(d, "findings")["facts"] = nil },
		"suppressed by nobody":          func(d map[string]any) { first(d, "suppressed")["by"] = "mood" },
		"a left-out drain":              func(d map[string]any) { delete(budget(d), "drain_ns") },
		"a grace period that is null":   func(d map[string]any) { budget(d)["grace_ns"] = nil },
		"a negative hook":               func(d map[string]any) { budget(d)["hook_ns"] = json.Number("-1") },
		"time in fractions":             func(d map[string]any) { budget(d)["hook_ns"] = json.Number("1.5") },
		"a time that is no date":        func(d map[string]any) { d["at"] = "yesterday" },
	} {
		doc := instance(t, rendered(t, sample())).(map[string]any)
		edit(doc)
		if err := s.Validate(doc); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
