package record_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// TestDamageIsToldInTheFormatsWords: what is wrong, and where, without a word of the program's insides.
func TestDamageIsToldInTheFormatsWords(t *testing.T) {
	sound := []byte(encoded(t, records.RolloutLossy()))
	type object = map[string]any
	at := func(d object, list string, i int) object { return d[list].([]any)[i].(object) }
	for want, damage := range map[string]func(object){
		"events[3].t_ns is a string where a whole number belongs":                  func(d object) { at(d, "events", 3)["t_ns"] = "soon" },
		"events[0].id is the number 1.5 where a whole number belongs":              func(d object) { at(d, "events", 0)["id"] = 1.5 },
		"events[2] is a string where an object belongs":                            func(d object) { d["events"].([]any)[2] = "x" },
		"events is an object where an array belongs":                               func(d object) { d["events"] = object{"a": 1} },
		"schema is a number where a string belongs":                                func(d object) { d["schema"] = 1 },
		"tool is an array where an object belongs":                                 func(d object) { d["tool"] = []any{} },
		"config.force_rst is a string where true or false belongs":                 func(d object) { d["config"].(object)["force_rst"] = "yes" },
		"config.traffic.rate is true or false where a number belongs":              func(d object) { d["config"].(object)["traffic"].(object)["rate"] = true },
		"failures[8].cause.evidence[1] is a string where a whole number belongs":   func(d object) { at(d, "failures", 8)["cause"].(object)["evidence"].([]any)[1] = "2" },
		"requests.series.sent[2] is an array where a whole number belongs":         func(d object) { d["requests"].(object)["series"].(object)["sent"].([]any)[2] = []any{1} },
		"requests.outcomes.refused is a string where a whole number belongs":       func(d object) { d["requests"].(object)["outcomes"].(object)["refused"] = "7" },
		"client.heartbeats_sent is the number -4 where a whole number from 0 on":   func(d object) { d["client"].(object)["heartbeats_sent"] = -4 },
		"started_at is a string where a time such as 2026-11-29T16:00:00Z belongs": func(d object) { d["started_at"] = "yesterday" },
		"trigger.at is a number where a time such as 2026-11-29T16:00:00Z belongs": func(d object) { d["trigger"].(object)["at"] = 4 },
		"trigger is a string where an object belongs":                              func(d object) { d["trigger"] = "delete" },
	} {
		var doc object
		if err := json.Unmarshal(sound, &doc); err != nil {
			t.Fatal(err)
		}
		damage(doc)
		for _, indent := range []string{"", "  "} {
			data, err := json.MarshalIndent(doc, "", indent)
			if err != nil {
				t.Fatal(err)
			}
			text := refused(t, data)
			if !strings.Contains(text, "record.json is not a record: "+want) {
				t.Errorf("%s: the message is %s", want, text)
			}
		}
	}
	for data, want := range map[string]string{
		`[1]`: "it is an array where an object belongs",
		`7`:   "it is a number where an object belongs",
		`{"schema":"drainproof.dev/record/v1","id":` + strings.Repeat("7", 100) + `}`: "id is a number where a string belongs",
		`{"schema":"drainproof.dev/record/v1","events":[{"id":` + strings.Repeat("7", 100) + `}]}`: "events[0].id is the number " + strings.Repeat("7", 40) +
			" where a whole number belongs",
	} {
		if text := refused(t, []byte(data)); !strings.Contains(text, want) {
			t.Errorf("the message is %s, want %s", text, want)
		}
	}
}

// refused reads data as a record and gives the error's text.
func refused(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), record.FileName)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := record.Read(path)
	if err == nil {
		t.Fatalf("a damaged record was read: %.200s", data)
	}
	for _, word := range []string{"Go ", "json:", "struct", "record.", "int64", "RawMessage"} {
		if strings.Contains(strings.ReplaceAll(err.Error(), path, ""), word) {
			t.Errorf("the message holds %q: %v", word, err)
		}
	}
	return err.Error()
}

// FuzzRead: no file makes reading crash, and what is read can be judged and written again.
func FuzzRead(f *testing.F) {
	for _, r := range []record.Record{records.RolloutLossy(), records.Incomplete()} {
		r.Events, r.Flows = r.Events[:3], nil
		data, err := record.Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		var small bytes.Buffer
		if err := json.Compact(&small, data); err != nil {
			f.Fatal(err)
		}
		f.Add(small.Bytes())
	}
	f.Add([]byte(`{"schema":"drainproof.dev/record/v1","requests":{"series":{"bucket_ns":1,"sent":[1]}},"failures":[{}],"trigger":{"at":[]}}`))
	f.Add([]byte(`{"schema":"drainproof.dev/record/v1","started_at":{"`))
	path := filepath.Join(f.TempDir(), record.FileName)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := record.Read(path)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without a word")
			}
			return
		}
		record.Validate(r)
		if _, err := record.Encode(r); err != nil {
			t.Fatal(err)
		}
	})
}
