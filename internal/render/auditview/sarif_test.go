package auditview

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/testkit"
)

func sarif(t *testing.T, r *finding.Report, docs []finding.RuleDoc) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := SARIF(&b, r, docs); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// object is a part of a log as a reader meets it, with the checks that the standard asks for.
type object struct {
	t    *testing.T
	path string
	m    map[string]any
}

func (o object) text(key string) string {
	o.t.Helper()
	s, ok := o.m[key].(string)
	if !ok || s == "" {
		o.t.Errorf("%s.%s is %v, not a text", o.path, key, o.m[key])
	}
	return s
}

func (o object) at(key string) object {
	o.t.Helper()
	m, ok := o.m[key].(map[string]any)
	if !ok {
		o.t.Errorf("%s.%s is %v, not an object", o.path, key, o.m[key])
	}
	return object{o.t, o.path + "." + key, m}
}

func (o object) list(key string) []object {
	o.t.Helper()
	l, ok := o.m[key].([]any)
	if !ok {
		o.t.Errorf("%s.%s is %v, not a list", o.path, key, o.m[key])
	}
	var out []object
	for _, x := range l {
		m, _ := x.(map[string]any)
		out = append(out, object{o.t, o.path + "." + key + "[]", m})
	}
	return out
}

// only fails for a property that the standard does not name; property bags are free.
func (o object) only(keys ...string) {
	o.t.Helper()
	for k := range o.m {
		if !slices.Contains(keys, k) {
			o.t.Errorf("%s has a property %s, which SARIF does not know there", o.path, k)
		}
	}
}

func (o object) message(key string) string {
	o.t.Helper()
	m := o.at(key)
	m.only("text", "markdown", "id", "arguments")
	s := m.text("text")
	if strings.Count(strings.ReplaceAll(s, "{{", ""), "{") > 0 || strings.Count(strings.ReplaceAll(s, "}}", ""), "}") > 0 {
		o.t.Errorf("%s.%s has a single brace, which begins a placeholder: %s", o.path, key, s)
	}
	return s
}

var levels = []string{"none", "note", "warning", "error"}

// checkSARIF holds a log to what the 2.1.0 standard requires of the parts that we write.
func checkSARIF(t *testing.T, data []byte) object {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	root := object{t, "log", doc}
	root.only("$schema", "version", "runs")
	if root.text("version") != "2.1.0" || !strings.Contains(root.text("$schema"), "2.1.0") {
		t.Errorf("version %v, schema %v", doc["version"], doc["$schema"])
	}
	runs := root.list("runs")
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	run := runs[0]
	run.only("tool", "invocations", "results", "columnKind")
	driver := run.at("tool").at("driver")
	driver.only("name", "version", "informationUri", "rules")
	driver.text("name")
	absolute(t, driver.text("informationUri"))
	var ids []string
	for _, r := range driver.list("rules") {
		r.only("id", "name", "shortDescription", "fullDescription", "help", "helpUri", "defaultConfiguration", "properties")
		id := r.text("id")
		if slices.Contains(ids, id) {
			t.Errorf("rule %s is there twice", id)
		}
		ids = append(ids, id)
		for _, key := range []string{"shortDescription", "fullDescription", "help"} {
			r.message(key)
		}
		absolute(t, r.text("helpUri"))
		if level := r.at("defaultConfiguration").text("level"); !slices.Contains(levels, level) {
			t.Errorf("rule %s has level %s", id, level)
		}
	}
	for _, i := range run.list("invocations") {
		i.only("executionSuccessful", "toolExecutionNotifications")
		if _, ok := i.m["executionSuccessful"].(bool); !ok {
			t.Error("an invocation does not say how it ended")
		}
	}
	prints := map[string]bool{}
	for _, r := range run.list("results") {
		r.only("ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints", "suppressions", "properties")
		index, _ := r.m["ruleIndex"].(float64)
		if int(index) >= len(ids) || ids[int(index)] != r.text("ruleId") {
			t.Errorf("rule %s has index %v", r.text("ruleId"), r.m["ruleIndex"])
		}
		if level := r.text("level"); !slices.Contains(levels, level) {
			t.Errorf("level %s", level)
		}
		r.message("message")
		file := ""
		for _, l := range r.list("locations") {
			l.only("physicalLocation", "logicalLocations")
			for _, o := range l.list("logicalLocations") {
				o.only("name", "fullyQualifiedName", "kind")
				o.text("fullyQualifiedName")
			}
			if l.m["physicalLocation"] == nil {
				continue
			}
			p := l.at("physicalLocation")
			p.only("artifactLocation", "region")
			file = p.at("artifactLocation").text("uri")
			if u, err := url.Parse(file); err != nil || u.IsAbs() || strings.HasPrefix(file, "/") {
				t.Errorf("%q is no relative reference (%v)", file, err)
			}
			if p.m["region"] != nil {
				if line, _ := p.at("region").m["startLine"].(float64); line < 1 {
					t.Errorf("a region starts at line %v", line)
				}
			}
		}
		for name := range r.at("partialFingerprints").m {
			key := name + " " + r.text("ruleId") + " " + file + " " + r.at("partialFingerprints").text(name)
			if prints[key] {
				t.Errorf("two results share the fingerprint %s", key)
			}
			prints[key] = true
		}
		// Either every result has the list or none.
		for _, s := range r.list("suppressions") {
			s.only("kind", "status", "justification")
			if kind := s.text("kind"); kind != "inSource" && kind != "external" {
				t.Errorf("a suppression of kind %s", kind)
			}
			if s.text("status") != "accepted" {
				t.Error("a suppression that nobody accepted")
			}
		}
	}
	return run
}

func absolute(t *testing.T, s string) {
	t.Helper()
	if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" {
		t.Errorf("%q is no address (%v)", s, err)
	}
}

func TestSARIF(t *testing.T) {
	for name, r := range map[string]*finding.Report{"sample": sample(), "empty": {}, "bare": bare(), "200 workloads": crowd(200), "hostile": poisoned(t, sample())} {
		t.Run(name, func(t *testing.T) {
			checkSARIF(t, sarif(t, r, docs()))
			checkSARIF(t, sarif(t, r, nil))
		})
	}
	testkit.Golden(t, "audit.sarif", sarif(t, sample(), docs()))
}

func TestSARIFLevelsAndSuppressions(t *testing.T) {
	run := checkSARIF(t, sarif(t, sample(), docs()))
	var got []string
	for _, r := range run.list("results") {
		s := r.text("ruleId") + " " + r.text("level")
		for _, x := range r.list("suppressions") {
			s += " " + x.text("kind")
		}
		got = append(got, s)
	}
	want := []string{"DP301 note", "DP101 error", "DP401 warning", "DP301 note", "DP601 warning", "DP501 warning", "DP451 warning inSource", "DP401 warning external", "DP501 warning external"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func fingerprints(t *testing.T, r *finding.Report) []string {
	t.Helper()
	var list []string
	for _, x := range checkSARIF(t, sarif(t, r, nil)).list("results") {
		list = append(list, x.at("partialFingerprints").text("primaryLocationLineHash"))
	}
	return list
}

// A finding stays the same while lines move, numbers and words change and files are renamed; another field is another finding.
func TestFingerprintsAreStable(t *testing.T) {
	before := fingerprints(t, sample())
	moved := sample()
	for i := range moved.Findings {
		f := &moved.Findings[i]
		f.Line += 100
		f.Message, f.Remedy, f.Facts = "said in other words", "another", nil
		if f.File != "" {
			f.File = "moved/" + f.File
		}
	}
	if after := fingerprints(t, moved); !slices.Equal(before, after) {
		t.Errorf("fingerprints change when lines do:\n%q\n%q", before, after)
	}
	other := sample()
	other.Findings[1].Path += ".exec"
	if after := fingerprints(t, other); before[1] == after[1] {
		t.Error("another field has the same fingerprint")
	}
	// Two findings of one rule on one field are twins, not one.
	twin := sample()
	twin.Findings = append(twin.Findings, twin.Findings[1])
	after := fingerprints(t, twin)
	if after[1] != before[1] || after[6] == after[1] {
		t.Errorf("twins: %q and %q, before %q", after[1], after[6], before[1])
	}
}

func TestFileURI(t *testing.T) {
	for in, want := range map[string]string{
		"web.yaml": "web.yaml", "./a/../k8s/web.yaml": "k8s/web.yaml", `k8s\web.yaml`: "k8s%5Cweb.yaml", "a b%.yaml": "a%20b%25.yaml", "../x.yaml": "../x.yaml",
		"c:d.yaml": "./c:d.yaml", "<stdin>": "%3Cstdin%3E", "/srv/web.yaml": "file:///srv/web.yaml",
	} {
		if got := fileURI(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}
