package testkit

import (
	"bytes"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drainproof/drainproof/schema"
)

// ValidateRecordFile holds a record file to the published JSON Schema.
func ValidateRecordFile(t testing.TB, path string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.RecordV1))
	if err != nil {
		t.Fatalf("the schema is no JSON: %v", err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("record-v1.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("record-v1.json")
	if err != nil {
		t.Fatalf("the schema does not compile: %v", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s is no JSON: %v", path, err)
	}
	if err := s.Validate(inst); err != nil {
		t.Errorf("%s does not follow the schema: %v", path, err)
	}
}
