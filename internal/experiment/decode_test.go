package experiment

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/fault"
)

// Each mistake is wrong use, and is told with its place, in words of the file and not of the program.
func TestMistakesInAFile(t *testing.T) {
	const head = "apiVersion: drainproof.dev/v1\nkind: Experiment\nname: x\nrepeats: 1\n"
	for _, c := range []struct{ text, want string }{
		{"", "it is empty"},
		{"# nothing\n", "it is empty"},
		{"- a\n", "a mapping of fields is needed, not a list"},
		{"a: [\n", "it is no YAML: line 1"},
		{head + "repeats: 2\n", `line 5: key "repeats" is there twice`},
		{head + "arms: [{name: a, grace: .nan}]\n", "a number that is none"},
		{head + "arms: [{name: a, [1]: 2}]\n", "a key that is no text"},
		{head + "---\nname: y\n", "more than one YAML document"},
		{head + "...\nname: y\n", "more than one YAML document"},
		{head + "--- {name: y}\n", "more than one YAML document"},
		{head + "arms: {}\n", "arms: a list is needed, not a mapping"},
		{head + "arms: [a]\n", `arms[0]: a mapping of fields is needed, not "a"`},
		{head + "arms: [{name: [a]}]\n", "arms[0].name: a text is needed, not a list"},
		{head + "arms: [{name: true}]\n", "arms[0].name: a text is needed, not true"},
		{head + "arms: [{name: a, tcp: 1.5}]\n", "arms[0].tcp: a whole number is needed, not 1.5"},
		{head + "arms: [{name: a, tcp: many}]\n", `arms[0].tcp: a whole number is needed, not "many"`},
		{head + "arms: [{name: a, forceRST: 1}]\n", "arms[0].forceRST: true or false is needed, not 1"},
		{head + "arms: [{name: a}, {name: b}, {name: c, requests: {rate: fast}}]\n", `arms[2].requests.rate: a number is needed, not "fast"`},
		{head + "arms: [{name: a, requests: 5}]\n", "arms[0].requests: a mapping of fields is needed, not 5"},
		{head + "arms: [{name: a, forceRst: true}]\n", "there is no field arms[0].forceRst; it is written forceRST"},
		{head + "defaults: {probe: {pods: 3}}\n", "there is no field defaults.probe.pods; here are announce, budgetMinAvailable,"},
		{head + "arms: [{name: a, settings: {}}]\n", "there is no field arms[0].settings"},
		{head + "arms: [{name: a, grace: 30}]\n", `arm a: grace "30" is not a duration`},
		{head + "arms: [{name: a, grace: -3s}]\n", `arm a: grace "-3s" is not a duration`},
		{head + "arms: [{name: a, grace: " + strings.Repeat("é", 100) + "}]\n", `arm a: grace "` + strings.Repeat("é", 30) + `..."`},
		{head + "arms: [{name: a, requests: {before: soon}}]\n", `arm a: requests: before "soon" is not a duration`},
		{head + "arms: [{name: a, requests: {}, probe: {drainHook: 2}}]\n", `arm a: probe: drainHook "2" is not a duration`},
		{head + "arms: [{name: a, requests: {rate: 0}}]\n", "arm a: rate 0 is out of range"},
		{head + "arms: [{name: a, requests: {path: slow}}]\n", `arm a: path of requests "slow" is none`},
		{head + "defaults: {tcp: 4}\narms: [{name: a, requests: {}}]\n", "arm a: tcp 4 and udp 0"},
		{head + "arms: [{name: a, probe: {replicas: 2}}]\n", "arm a: probe: it describes the workload of requests"},
		{head + "arms: [{name: a, arm: finish}]\n", `arm a: --arm "finish" is not known`},
	} {
		_, err := Parse([]byte(c.text))
		if fault.CodeOf(err) != fault.Usage || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n  %v\n  want %s", c.text, err, c.want)
			continue
		}
		for _, goish := range []string{"experiment.", "json", "struct", "int64", "unmarshal", "interface"} {
			if strings.Contains(err.Error(), goish) {
				t.Errorf("%q: %q is a word of the program: %v", c.text, goish, err)
			}
		}
	}
}

func TestOneDocument(t *testing.T) {
	for text, want := range map[string]bool{
		"a: 1\n":                       false,
		"---\na: 1\n":                  false,
		"# first\n---\n# then\na: 1\n": false,
		"%YAML 1.2\n---\na: 1\n":       false,
		"--- {a: 1}":                   false,
		"a: 1\n---\n":                  false, // an empty document is none
		"a: 1\n...\n# over\n":          false,
		"a: |\n  ---\n  b\n":           false, // indented: a part of the text
		"a: 1\n---b: 2\n":              false, // no mark, but part of a line
		"a: 1\n---\nb: 2\n":            true,
		"a: 1\r\n---\r\nb: 2\r\n":      true,
		"a: 1\n--- # c\nb: 2\n":        true,
		"--- {a: 1}\n--- {b: 2}":       true,
		"a: 1\n...\nb: 2":              true,
	} {
		if got := several([]byte(text)); got != want {
			t.Errorf("%q holds several: %t", text, got)
		}
	}
}

// TestDocsNameEveryField: what a file may hold stands in docs/experiments.md.
func TestDocsNameEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{settings{}, requestSettings{}, probeSettings{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if name := f.Tag.Get("yaml"); !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/experiments.md does not name %s", name)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(two))
	f.Add([]byte("apiVersion: drainproof.dev/v1\nkind: Experiment\nname: x\nrepeats: 1\narms: [{name: a, requests: {rate: 1e3, expect: 200}, probe: {maxSurge: 1}}]\n"))
	f.Add([]byte("a: &a [*a]\n---\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := Parse(text)
		if err != nil {
			if fault.CodeOf(err) != fault.Usage {
				t.Errorf("a mistake in the file ends with %d: %v", fault.CodeOf(err), err)
			}
			return
		}
		if len(e.Arms) == 0 || e.Name == "" || e.Repeats < 1 {
			t.Errorf("accepted without arms, name or repeats: %+v", e)
		}
	})
}
