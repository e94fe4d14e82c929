package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/fault"
)

func mustParse(t testing.TB, text string) []*Object {
	t.Helper()
	objects, err := Parse("in.yaml", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, text)
	}
	return objects
}

// names lists objects as Kind namespace/name@line.
func names(objects []*Object) []string {
	list := []string{}
	for _, o := range objects {
		list = append(list, fmt.Sprintf("%s %s/%s@%d", o.Kind, o.Namespace, o.Name, o.Line("")))
	}
	return list
}

const web = `# the shop's front
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  annotations:
    example.com/drain: "25s"   # in quotes
    note: 'it''s "fine"'
spec:
  replicas: 3
  template:
    metadata:
      labels: {app: web, "tier": front}
    spec:
      containers:
      - name: web
        image: registry.example.com:5000/web:v1.2
        args: ["-c", sleep 5, --port=80]
        command:
        - /bin/sh
        - -c
        - |
          trap 'exit 0' TERM

          sleep 5
        lifecycle:
          # the hook
          preStop:
            sleep:
              seconds: 5
        env:
        - name: EMPTY
          value:
        - {name: LONG, value: "a\tb\n"}
      -
        name: side
        image: envoy
        # a text over several lines
        workingDir: one two
          three
`

func TestPositions(t *testing.T) {
	objects := mustParse(t, web)
	if len(objects) != 1 {
		t.Fatalf("got %v", names(objects))
	}
	o := objects[0]
	if o.APIVersion != "apps/v1" || o.Kind != "Deployment" || o.Namespace != "shop" || o.Name != "web" || o.File != "in.yaml" || o.Group() != "apps" {
		t.Errorf("got %+v", o)
	}
	for _, c := range []struct {
		path string
		line int
		kind Kind
		text string
	}{
		{"", 2, Map, ""},
		{"kind", 3, String, "Deployment"},
		{"metadata", 4, Map, ""},
		{`metadata.annotations["example.com/drain"]`, 8, String, "25s"},
		{`metadata.annotations.note`, 9, String, `it's "fine"`},
		{"spec.replicas", 11, Number, "3"},
		{"spec.template.metadata.labels", 14, Map, ""},
		{"spec.template.metadata.labels.app", 14, String, "web"},
		{"spec.template.metadata.labels.tier", 14, String, "front"},
		{"spec.template.spec.containers", 16, List, ""},
		{"spec.template.spec.containers[0]", 17, Map, ""},
		{"spec.template.spec.containers[0].image", 18, String, "registry.example.com:5000/web:v1.2"},
		{"spec.template.spec.containers[0].args[0]", 19, String, "-c"},
		{"spec.template.spec.containers[0].args[1]", 19, String, "sleep 5"},
		{"spec.template.spec.containers[0].args[2]", 19, String, "--port=80"},
		{"spec.template.spec.containers[0].command", 20, List, ""},
		{"spec.template.spec.containers[0].command[0]", 21, String, "/bin/sh"},
		{"spec.template.spec.containers[0].command[2]", 23, String, "trap 'exit 0' TERM\n\nsleep 5\n"},
		{"spec.template.spec.containers[0].lifecycle", 27, Map, ""},
		{"spec.template.spec.containers[0].lifecycle.preStop", 29, Map, ""},
		{"spec.template.spec.containers[0].lifecycle.preStop.sleep.seconds", 31, Number, "5"},
		{"spec.template.spec.containers[0].env[0].value", 34, Null, ""},
		{"spec.template.spec.containers[0].env[1].value", 35, String, "a\tb\n"},
		{"spec.template.spec.containers[1]", 37, Map, ""},
		{"spec.template.spec.containers[1].image", 38, String, "envoy"},
		{"spec.template.spec.containers[1].workingDir", 40, String, "one two three"},
		// What is not written: the nearest parent.
		{"spec.template.spec.terminationGracePeriodSeconds", 15, Absent, ""},
		{"spec.template.spec.containers[0].lifecycle.postStart.exec", 27, Absent, ""},
		{"spec.template.spec.containers[1].lifecycle.preStop", 37, Absent, ""},
		{"spec.template.spec.containers[7].image", 16, Absent, ""},
		{`metadata.labels["app"]`, 4, Absent, ""},
		{"status", 2, Absent, ""},
		{"kind.of", 3, Absent, ""},
		// What is no path.
		{".", 2, Absent, ""},
		{"spec.", 2, Absent, ""},
		{"spec[x]", 10, Absent, ""},
		{"spec.template.spec.containers[-1]", 16, Absent, ""},
		{"spec.template.spec.containers[0", 16, Absent, ""},
		{`metadata.annotations["note`, 7, Absent, ""},
	} {
		if got := o.Line(c.path); got != c.line {
			t.Errorf("Line(%s) = %d, want %d", c.path, got, c.line)
		}
		if v := o.Find(c.path); v.Kind() != c.kind || v.Text() != c.text {
			t.Errorf("Find(%s) = %v %q, want %v %q", c.path, v.Kind(), v.Text(), c.kind, c.text)
		}
	}
	// A value's own place is where its text starts.
	for path, want := range map[string][2]int{
		"":                                       {2, 1},
		"spec.template.spec.containers":          {17, 7},
		"spec.template.spec.containers[0]":       {17, 9},
		"spec.template.spec.containers[0].image": {18, 16},
		"spec.template.metadata.labels":          {14, 15},
		"metadata.annotations.note":              {9, 11},
	} {
		if line, column := o.Find(path).Position(); line != want[0] || column != want[1] {
			t.Errorf("Position of %s = %d:%d, want %v", path, line, column, want)
		}
	}
	if n := o.Find("spec.template.spec.containers").Len(); n != 2 {
		t.Errorf("%d containers", n)
	}
}

func TestObjectWithoutRoot(t *testing.T) {
	o := &Object{}
	if o.Line("spec") != 0 || o.Find("spec").Exists() || o.Find("").Exists() {
		t.Error("an empty object has neither lines nor fields")
	}
}

func TestDocuments(t *testing.T) {
	const a, b = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":            {"", []string{}},
		"only comments":      {"# a\n\n  # b\n", []string{}},
		"empty documents":    {"---\n---\n# x\n---\nnull\n---\n~\n--- \n\n...\n", []string{}},
		"two":                {a + "---\n" + b, []string{"Pod /a@1", "Pod /b@5"}},
		"leading marker":     {"---\n" + a + "--- # next\n" + b, []string{"Pod /a@2", "Pod /b@6"}},
		"end markers":        {"---\n" + a + "...\n---\n" + b + "...\n", []string{"Pod /a@2", "Pod /b@7"}},
		"directive":          {"%YAML 1.2\n---\n" + a, []string{"Pod /a@3"}},
		"on the marker":      {"--- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n--- \n" + b, []string{"Pod /a@1", "Pod /b@3"}},
		"no marker in text":  {"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    x: |\n      ---\n      y\n    z: a---\n", []string{"Pod /a@1"}},
		"long dashes":        {"#----\n" + a + "# ---\n----: x\n", []string{"Pod /a@2"}},
		"CRLF":               {strings.ReplaceAll("---\n"+a+"---\n"+b, "\n", "\r\n"), []string{"Pod /a@2", "Pod /b@6"}},
		"byte order mark":    {"\ufeff" + a, []string{"Pod /a@1"}},
		"mark and separator": {"\ufeff---\n" + a, []string{"Pod /a@2"}},
		"no last newline":    {strings.TrimSpace(a), []string{"Pod /a@1"}},
		"JSON":               {"\n {\"apiVersion\": \"v1\",\n\"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}", []string{"Pod /a@2"}},
		"JSON values":        {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}` + "\n" + `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}`, []string{"Pod /a@1", "Pod /b@2"}},
		"JSON and YAML":      {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}\n---\n" + b, []string{"Pod /a@1", "Pod /b@3"}},
		"flow YAML":          {"{apiVersion: v1, kind: Pod, metadata: {name: a},}", []string{"Pod /a@1"}},
		"indented":           {"  apiVersion: v1\n  kind: Pod\n", []string{"Pod /@1"}},
		"tab in a text":      {"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations: {x: \"a\tb\"}\n", []string{"Pod /a@1"}},
		"a number as name":   {"apiVersion: v1\nkind: Pod\nmetadata: {name: 123, namespace: shop}\n", []string{"Pod shop/123@1"}},
		"generated name":     {"apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a-}\n", []string{"Job /@1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, names(mustParse(t, c.text))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUTF16(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		var text []byte
		for _, u := range utf16.Encode([]rune("\ufeffapiVersion: v1\r\nkind: Pod\r\nmetadata: {name: a, labels: {x: ü}}\r\n")) {
			text = order.AppendUint16(text, u)
		}
		objects, err := Parse("in.yaml", text)
		if err != nil || len(objects) != 1 || objects[0].Find("metadata.labels.x").Text() != "ü" || objects[0].Line("metadata.labels.x") != 3 {
			t.Errorf("%v: %v %v", order, names(objects), err)
		}
	}
}

func TestLists(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"List": {"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: b}\nkind: List\nmetadata: {}\n",
			[]string{"Pod /a@3", "ConfigMap /b@6"}},
		"nested": {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - apiVersion: v1\n    kind: Pod\n    metadata: {name: a}\n",
			[]string{"Pod /a@7"}},
		"typed": {"apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: a}\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n",
			[]string{"Deployment /a@4", "Pod /b@5"}},
		"empty":           {"apiVersion: v1\nkind: List\nitems: []\n", []string{}},
		"null":            {"apiVersion: v1\nkind: List\nitems:\n", []string{}},
		"no list at all":  {"apiVersion: x.io/v1\nkind: AllowList\nmetadata: {name: a}\nitems: [1, 2]\n", []string{"AllowList /a@1"}},
		"List, no items":  {"apiVersion: x.io/v1\nkind: AllowList\n", []string{"AllowList /@1"}},
		"JSON, each line": {"{\"kind\": \"List\",\n\"apiVersion\": \"v1\",\n\"items\": [\n{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a\"}}]}", []string{"Pod /a@4"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, names(mustParse(t, c.text))); diff != "" {
				t.Error(diff)
			}
		})
	}
	o := mustParse(t, "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: a}\n  spec: {replicas: 2}\n")[0]
	if o.APIVersion != "apps/v1" || o.Find("spec.replicas").Text() != "2" || o.Line("spec.template") != 5 {
		t.Errorf("%+v", o)
	}
}

func TestClusterObjectsHaveNoPlace(t *testing.T) {
	objects, err := Parse("", []byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"n"},"spec":{"containers":[{"name":"c"}]}}]}`))
	if err != nil || len(objects) != 1 {
		t.Fatal(objects, err)
	}
	o := objects[0]
	line, column := o.Find("spec.containers[0].name").Position()
	if o.Kind != "Pod" || o.APIVersion != "v1" || o.File != "" || o.Line("spec.containers[0].name") != 0 || line != 0 || column != 0 || o.Find("spec.containers[0].name").Text() != "c" {
		t.Errorf("%+v line %d column %d", o, line, column)
	}
	if _, err := Parse("", []byte(`{"kind":`)); err == nil || !strings.HasPrefix(err.Error(), "the API server's answer: ") {
		t.Errorf("got %v", err)
	}
}

func TestTruthValues(t *testing.T) {
	for text, want := range map[string]bool{
		"true": true, "True": true, "TRUE": true, "yes": true, "Yes": true, "y": true, "Y": true, "on": true, "On": true, "ON": true,
		"false": false, "FALSE": false, "no": false, "No": false, "n": false, "N": false, "off": false, "Off": false, "OFF": false,
	} {
		o := mustParse(t, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: "+text+"\n  namespace: "+text+"\n")[0]
		if got, ok := o.Find("metadata.name").Bool(); !ok || got != want {
			t.Errorf("%s is %v, %v", text, got, ok)
		}
		if o.Name != text || o.Namespace != text {
			t.Errorf("%s: the object is called %s in %s", text, o.Name, o.Namespace)
		}
	}
}

func TestItemsOfAListAreAList(t *testing.T) {
	for _, items := range []string{"{a: {apiVersion: v1, kind: Pod}}", "text", "5"} {
		objects, err := Parse("l.yaml", []byte("apiVersion: v1\nkind: List\nitems: "+items+"\n"))
		if !errors.Is(err, ErrNoObject) || fault.CodeOf(err) != fault.Usage || len(objects) > 0 || !strings.HasPrefix(err.Error(), "l.yaml:3: the items of this List are a ") {
			t.Errorf("%s: %d objects, error %v", items, len(objects), err)
		}
	}
}

func TestScalars(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\nspec:\n  x: "
	for text, want := range map[string]struct {
		kind Kind
		text string
	}{
		"abc": {String, "abc"}, "true": {Bool, "true"}, "True": {Bool, "True"}, "yes": {Bool, "yes"}, "on": {Bool, "on"}, "off": {Bool, "off"}, "No": {Bool, "No"},
		`"yes"`: {String, "yes"}, "yesterday": {String, "yesterday"}, "only": {String, "only"},
		"null": {Null, ""}, "~": {Null, ""}, "": {Null, ""}, `""`: {String, ""}, "nullable": {String, "nullable"},
		"0": {Number, "0"}, "8080": {Number, "8080"}, "-5": {Number, "-5"}, "+5": {Number, "5"}, "0x10": {Number, "16"}, "0644": {Number, "420"}, "1_000": {Number, "1000"},
		"1.5": {Number, "1.5"}, ".5": {Number, ".5"}, "1e3": {Number, "1e3"}, "1.": {Number, "1."}, "-": {Null, ""}, "-.5": {Number, "-.5"},
		"99999999999999999999": {Number, "99999999999999999999"}, "18446744073709551615": {Number, "18446744073709551615"},
		`"5"`: {String, "5"}, "'5'": {String, "5"}, "100m": {String, "100m"}, "5Gi": {String, "5Gi"}, "1.2.3": {String, "1.2.3"}, "10.0.0.1": {String, "10.0.0.1"}, "1:30": {String, "1:30"},
		"2024-01-02": {String, "2024-01-02"}, "25%": {String, "25%"}, "1e": {String, "1e"}, "0b": {String, "0b"}, ".": {String, "."}, "+": {String, "+"}, "0o": {String, "0o"}, "e5": {String, "e5"},
		"!!str 5": {String, "5"}, `!!int "5"`: {Number, "5"}, "!mine 5": {String, "5"}, "!!bool yes": {Bool, "yes"}, ">\n    a\n    b\n": {String, "a b\n"},
	} {
		text, want := text, want
		t.Run(text, func(t *testing.T) {
			if text == "-" { // a list with one empty element
				v := mustParse(t, "apiVersion: v1\nkind: Pod\nspec:\n  x:\n  -\n")[0].Find("spec.x[0]")
				if v.Kind() != Null {
					t.Errorf("got %v", v.Kind())
				}
				return
			}
			v := mustParse(t, head+text+"\n")[0].Find("spec.x")
			if v.Kind() != want.kind || v.Text() != want.text {
				t.Errorf("got %v %q, want %v %q", v.Kind(), v.Text(), want.kind, want.text)
			}
		})
	}
	v := mustParse(t, head+"yes\n")[0].Find("spec.x")
	if b, ok := v.Bool(); !b || !ok {
		t.Error("kubectl takes yes for true")
	}
	if n, ok := mustParse(t, head+"\"30\"\n")[0].Find("spec.x").Int(); n != 30 || !ok {
		t.Error("a number in quotes has a plain meaning")
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	o := mustParse(t, `apiVersion: v1
kind: Pod
metadata:
  labels: &l
    app: web
    tier: front
spec:
  selector: *l
  base: &b {cpu: 1, memory: 2, more: &n name}
  list:
  - <<: *b
    cpu: 7
  - <<: [{cpu: 3}, *b]
  - *n
  - "<<": plain
  *n : as key
`)[0]
	for path, want := range map[string]string{
		"spec.selector.app": "web 5", "spec.selector.tier": "front 6",
		"spec.list[0].cpu": "7 12", "spec.list[0].memory": "2 9",
		"spec.list[1].cpu": "3 13", "spec.list[1].memory": "2 9", "spec.list[2]": "name 14",
		`spec.list[3]["<<"]`: "plain 15", "spec.name": "as key 16", "spec.list[0].none": " 11",
	} {
		if got := fmt.Sprint(o.Find(path).Text(), " ", o.Line(path)); got != want {
			t.Errorf("%s = %q, want %q", path, got, want)
		}
	}
	if line, column := o.Find("spec.selector").Position(); line != 8 || column != 13 {
		t.Errorf("an alias stands at %d:%d", line, column)
	}
	if got := o.Find("spec.list[0]").Len(); got != 3 {
		t.Errorf("%d fields", got)
	}
}

func TestAliasBombs(t *testing.T) {
	var doubling strings.Builder
	doubling.WriteString("apiVersion: v1\nkind: Pod\nspec:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&doubling, "  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	merging := "apiVersion: v1\nkind: Pod\nspec:\n  a0: &a0 {x: 1}\n"
	for i := 1; i < 40; i++ {
		merging += fmt.Sprintf("  a%d: &a%d {l: {<<: *a%d}, r: {<<: *a%d}}\n", i, i, i-1, i-1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"doubling": {doubling.String(), "in.yaml:9: its aliases stand for more than 100000 fields"},
		"merging":  {merging, "its aliases stand for more than 100000 fields"},
		"itself":   {"apiVersion: v1\nkind: Pod\nspec: &a\n  b: *a\n", "in.yaml:4: the alias *a stands inside what it stands for"},
		"in key":   {"apiVersion: v1\nkind: Pod\nspec: &a\n  *a : b\n", "in.yaml:4: a map or a list stands where a key is expected"},
		"no map":   {"apiVersion: v1\nkind: Pod\nspec:\n  <<: 5\n", "in.yaml:4: << takes a map or a list of maps"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("in.yaml", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	const ok = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n" // four lines
	for name, c := range map[string]struct {
		text, want string
		is         error
	}{
		"indentation":         {ok + "apiVersion: v1\nkind: Pod\nspec:\n    a: 1\n  b: 2\n", "in.yaml:9: not valid YAML: did not find expected key", ErrSyntax},
		"indentation, first":  {"apiVersion: v1\n kind: Pod\n", "in.yaml:2: not valid YAML: mapping values are not allowed in this context", ErrSyntax},
		"list indentation":    {ok + "apiVersion: v1\nkind: Pod\nspec:\n  a:\n    - x\n   - y\n", "in.yaml:10: not valid YAML: did not find expected key", ErrSyntax},
		"colon":               {ok + "apiVersion: v1\nkind: Pod\nspec: a: b\n", "in.yaml:7: not valid YAML: mapping values are not allowed in this context", ErrSyntax},
		"tab":                 {ok + "apiVersion: v1\nkind: Pod\nspec:\n\ta: b\n", "in.yaml:8: not valid YAML: found character that cannot start any token", ErrSyntax},
		"open quote":          {ok + "apiVersion: v1\nkind: Pod\nspec:\n  a: \"b\n  c: d\n  e: f\n", "in.yaml:8: not valid YAML: found unexpected end of stream", ErrSyntax},
		"open bracket":        {ok + "apiVersion: v1\nkind: Pod\nspec:\n  a: [b\n  c: d\n", "in.yaml:8: not valid YAML: ", ErrSyntax},
		"unknown alias":       {ok + "apiVersion: v1\nkind: Pod\nspec: *x\n", "in.yaml:7: not valid YAML: unknown anchor 'x' referenced", ErrSyntax},
		"no list":             {ok + "apiVersion: v1\nkind: Pod\nspec:\n  - a\n  b: c\n", "in.yaml:9: not valid YAML: did not find expected '-' indicator", ErrSyntax},
		"in a ConfigMap":      {ok + "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: 'b\n", "in.yaml:8: not valid YAML: ", ErrSyntax},
		"control byte":        {ok + "apiVersion: v1\nkind: Pod\nspec: a\x01\n", "in.yaml:7: not valid YAML: control characters are not allowed", ErrSyntax},
		"not UTF-8":           {ok + "apiVersion: v1\nkind: Pod\nspec: a\xff\n", "in.yaml:7: not valid YAML: ", ErrSyntax},
		"after the document":  {ok + "apiVersion: v1\nkind: Pod\n]\n", "in.yaml:7: not valid YAML: ", ErrSyntax},
		"twice":               {ok + "apiVersion: v1\nkind: Pod\nspec:\n  a:\n    b: 1\n  c: 2\n  a: 3\n", `in.yaml:11: the key "a" is given twice, first on line 8`, ErrSyntax},
		"twice, many":         {ok + "apiVersion: v1\nkind: Pod\nspec:\n" + numbered(30) + "  k7: 1\n", `in.yaml:38: the key "k7" is given twice, first on line 15`, ErrSyntax},
		"twice, flow":         {ok + "apiVersion: v1\nkind: Pod\nspec: {a: 1, a: 2}\n", `in.yaml:7: the key "a" is given twice, first on line 7`, ErrSyntax},
		"twice, ConfigMap":    {ok + "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: 1\n  a: 1\n", `in.yaml:9: the key "a" is given twice, first on line 8`, ErrSyntax},
		"twice, JSON":         {"{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n\"spec\": {\"a\": 1,\n\"a\":\n2}}", `in.yaml:3: the key "a" is given twice, first on line 2`, ErrSyntax},
		"JSON":                {"{\"apiVersion\": \"v1\",\n \"kind\": \"Pod\"\n \"spec\": 1}", "in.yaml:3: not valid JSON: a comma or } is expected in column 2", ErrSyntax},
		"JSON, cut":           {"{\"apiVersion\": \"v1\",\n", "in.yaml:2: not valid JSON: the text ends where a field's name in double quotes is expected", ErrSyntax},
		"JSON, text":          {"{\"apiVersion\": \"v1\",\n\"a\": \"b}", "in.yaml:2: not valid JSON: the text in column 6 does not end", ErrSyntax},
		"template":            {ok + "apiVersion: v1\nkind: Pod\nspec:\n{{- if .Values.x }}\n  a: b\n{{- end }}\n", "in.yaml:8: this is a template, not a manifest; render it first (helm template ... | drainproof audit -f -)", ErrTemplate},
		"template, value":     {ok + "apiVersion: v1\nkind: Pod\nspec:\n  a: {{ .Values.x }}\n", "in.yaml:8: this is a template", ErrTemplate},
		"template, element":   {ok + "apiVersion: v1\nkind: Pod\nspec:\n  a:\n  - {{ .Values.x }}\n", "in.yaml:9: this is a template", ErrTemplate},
		"template, list":      {ok + "apiVersion: v1\nkind: Pod\nspec:\n  a: [{{ .Values.x }}]\n", "in.yaml:8: this is a template", ErrTemplate},
		"template, first":     {"{{- if .Values.x }}\napiVersion: v1\n", "in.yaml:1: this is a template", ErrTemplate},
		"template, jinja":     {ok + "{% if x %}\napiVersion: v1\n{% endif %}\n", "in.yaml:5: this is a template", ErrTemplate},
		"template, name":      {ok + "apiVersion: v1\nkind: Pod\nmetadata:\n  name: \"{{ .Release.Name }}\"\n", "in.yaml:8: this is a template", ErrTemplate},
		"values":              {"# settings\nreplicaCount: 1\nimage:\n  tag: x\n", "in.yaml:2: this looks like a Helm values file: it has neither apiVersion nor kind", ErrNoObject},
		"values with a kind":  {"kind: DaemonSet\nimage: x\n", "in.yaml:1: this looks like a Helm values file", ErrNoObject},
		"kustomization":       {"resources: [a.yaml]\n", "in.yaml:1: this is a kustomization without kind", ErrNoObject},
		"kustomization, kind": {"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", "in.yaml:1: this is a Kustomization of kustomize", ErrNoObject},
		"chart":               {"apiVersion: v2\nname: x\nversion: 1.0.0\n", "in.yaml:1: this is a Helm chart's Chart.yaml", ErrNoObject},
		"compose":             {"version: '3'\nservices: {}\n", "in.yaml:1: this is a Compose file", ErrNoObject},
		"some map":            {ok + "x: 1\n", `in.yaml:5: this map has neither apiVersion nor kind; it starts with "x"`, ErrNoObject},
		"empty map":           {"{}", "in.yaml:1: this map is empty", ErrNoObject},
		"list":                {"- a\n", "in.yaml:1: this is a list, not a Kubernetes object", ErrNoObject},
		"JSON list":           {"\n[1]", "in.yaml:2: this is a list, not a Kubernetes object", ErrNoObject},
		"text":                {"hello\n", "in.yaml:1: this is a text, not a Kubernetes object", ErrNoObject},
		"number":              {"5\n", "in.yaml:1: this is a number, not a Kubernetes object", ErrNoObject},
		"in a List":           {"apiVersion: v1\nkind: List\nitems:\n- 5\n", "in.yaml:4: element 0 of the List is a number, not a Kubernetes object", ErrNoObject},
		"in a List, a map":    {"apiVersion: v1\nkind: List\nitems:\n- a: 5\n", "in.yaml:4: this map has neither", ErrNoObject},
		"no version":          {"kind: Deployment\nmetadata: {name: a}\n", "in.yaml:1: this Deployment has no apiVersion", ErrSyntax},
		"no version, other":   {"kind: pipeline\nspec: {}\n", "in.yaml:1: this pipeline has no apiVersion", ErrNoObject},
		"no kind":             {"apiVersion: apps/v1\nmetadata: {name: a}\n", "in.yaml:1: this object of apps/v1 has no kind", ErrSyntax},
		"kind is no text":     {"apiVersion: v1\nkind: {}\nmetadata: {name: a}\n", "in.yaml:1: this object of v1 has no kind", ErrSyntax},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Parse("in.yaml", []byte(c.text))
			if err == nil {
				t.Fatalf("no error, but %v", names(objects))
			}
			if !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			if fault.CodeOf(err) != fault.Usage {
				t.Errorf("exit code %d", fault.CodeOf(err))
			}
			if want := strings.HasPrefix(c.text, ok) && c.is == ErrNoObject; want != (len(objects) == 1) {
				t.Errorf("with the error came %v", names(objects))
			}
		})
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  k%d: 1\n", i)
	}
	return b.String()
}

func TestAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"a: {{ x }}\n":          "or let drainproof render it: drainproof audit --helm CHART",
		"a:\n\tb: c\n":          "put the text in quotes, and replace tabs by spaces",
		"a: \"{{ x }}\"\n b: c": "check the indentation of this line against the lines above it; if this is a template, render it first: helm template ... | drainproof audit -f -",
		"resources: []\n":       "audit what it builds: drainproof audit -k DIR",
		"a: b: c\n":             "put the text in quotes if it holds a colon, or check the indentation",
		"kind: Pod\nspec: {}\n": "write which API version it is of",
	} {
		_, err := Parse("in.yaml", []byte(text))
		if got := fault.NextOf(err); got != want {
			t.Errorf("%q: %v; advice %q, want %q", text, err, got, want)
		}
	}
}

func TestObjectsBesideAnother(t *testing.T) {
	objects, err := Parse("in.yaml", []byte("a: 1\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n[]\n"))
	if diff := cmp.Diff([]string{"Pod /a@3"}, names(objects)); diff != "" || !errors.Is(err, ErrNoObject) || !strings.HasPrefix(err.Error(), "in.yaml:1:") {
		t.Error(diff, err)
	}
}

func TestDeepNesting(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, text := range []string{
		`{"apiVersion":"v1","kind":"Pod","spec":` + deep(100_000) + `}`,
		"apiVersion: v1\nkind: Pod\nspec: " + deep(100_000) + "\n",
		"apiVersion: v1\nkind: Pod\nspec:\n  " + strings.Repeat("- ", 3000) + "a\n",
	} {
		if _, err := Parse("in.yaml", []byte(text)); !errors.Is(err, ErrSyntax) {
			t.Errorf("got %v", err)
		}
	}
	for _, n := range []int{50, 99, 100, 101, 400} {
		for _, text := range []string{
			"apiVersion: v1\nkind: Pod\nspec: " + deep(n) + "\n",
			`{"apiVersion":"v1","kind":"Pod","spec":` + deep(n) + `}`,
			"apiVersion: v1\nkind: Pod\nspec:\n  " + strings.Repeat("- ", n) + "a\n",
		} {
			if o := mustParse(t, text)[0]; !o.Find("spec" + strings.Repeat("[0]", n-1)).Exists() {
				t.Errorf("%d levels: the innermost is not there", n)
			}
		}
	}
}

func TestOnlySomeKindsAreKept(t *testing.T) {
	const rest = `
metadata:
  name: a
  labels: {app: x}
  managedFields: [{manager: kubectl}]
  annotations:
    keep: me
    kubectl.kubernetes.io/last-applied-configuration: '{"data": "hush"}'
spec:
  ports: [{port: 80}]
data:
  password: hush
status:
  loadBalancer: {}
`
	for kind, want := range map[string]string{
		"Secret": "apiVersion kind metadata", "ConfigMap": "apiVersion kind metadata", "CustomResourceDefinition": "apiVersion kind metadata",
		"Deployment": "apiVersion kind metadata spec data", "HTTPRoute": "apiVersion kind metadata spec data", "Service": "apiVersion kind metadata spec data status",
	} {
		for form, text := range map[string]string{"fast": "", "whole": "x: &a 1\n"} {
			o := mustParse(t, "apiVersion: v1\nkind: "+kind+rest+text)[0]
			var fields []string
			for key := range o.Root.Fields() {
				if key != "x" {
					fields = append(fields, key)
				}
			}
			if got := strings.Join(fields, " "); got != want {
				t.Errorf("%s, %s: kept %s, want %s", kind, form, got, want)
			}
			if o.Name != "a" || o.Find("metadata.labels.app").Text() != "x" || o.Find("metadata.annotations.keep").Text() != "me" {
				t.Errorf("%s: lost metadata", kind)
			}
			if o.Find("metadata.managedFields").Exists() || o.Find("metadata.annotations").Len() != 1 {
				t.Errorf("%s: kept bookkeeping", kind)
			}
			if want == "apiVersion kind metadata" && o.Line("data.password") != 1 {
				t.Errorf("%s: line %d", kind, o.Line("data.password"))
			}
		}
	}
	const template = "apiVersion: x.io/v1\nkind: CloneSet\nspec: {template: {spec: {containers: %s}}}\n"
	if !mustParse(t, fmt.Sprintf(template, "[{name: a}]"))[0].Find("spec").Exists() {
		t.Error("a kind with a Pod template is kept")
	}
	if mustParse(t, fmt.Sprintf(template, "7"))[0].Find("spec").Exists() {
		t.Error("a kind with something like a Pod template is not kept")
	}
}

// TestAliasesShareNothing: what is cut out of one object of a List must stay in another that has it by alias.
func TestAliasesShareNothing(t *testing.T) {
	objects := mustParse(t, `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Secret
  metadata: &m
    name: a
    annotations: {kubectl.kubernetes.io/last-applied-configuration: x, b: c}
- apiVersion: v1
  kind: Pod
  metadata: *m
  spec: *m
`)
	if got := objects[1].Find("spec.annotations").Len(); got != 2 {
		t.Errorf("the Pod lost a field of its spec: %d left", got)
	}
	if got := objects[1].Find("metadata.annotations").Len(); got != 1 {
		t.Errorf("the Pod kept %d annotations", got)
	}
}

func TestTextIsNotHeld(t *testing.T) {
	text := []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: somebody}\nspec: {serviceAccountName: someone}\n")
	objects, err := Parse("in.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		text[i] = 'X'
	}
	o := objects[0]
	if o.Kind != "Pod" || o.Name != "somebody" || o.Find("spec.serviceAccountName").Text() != "someone" || o.APIVersion != "v1" {
		t.Errorf("the object changed with the text: %+v", o)
	}
	for key := range o.Root.Fields() {
		if strings.Contains(key, "X") {
			t.Errorf("key %s changed with the text", key)
		}
	}
}

func TestColumnsCountBytes(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Pod\nspec: {ü: 1, x: 2}\n",
		`{"apiVersion": "v1", "kind": "Pod",` + "\n\n" + `"sp": {"ü": 1, "x": 2}}`,
	} {
		o := mustParse(t, text)[0]
		for _, path := range []string{"spec.x", "sp.x"} {
			if line, column := o.Find(path).Position(); line != 0 {
				if row := strings.Split(text, "\n")[line-1]; row[column-1] != '2' {
					t.Errorf("%s: %d:%d", path, line, column)
				}
				if o.Line(path) != 3 {
					t.Errorf("line %d", o.Line(path))
				}
			}
		}
	}
	wide := mustParse(t, `{"apiVersion": "v1", "kind": "Pod", "spec": {"a": "`+strings.Repeat("x", 70_000)+`", "b": 1}}`)[0]
	if line, column := wide.Find("spec.b").Position(); line != 0 || column != 0 || wide.Line("spec.b") != 1 {
		t.Errorf("%d:%d, line %d", line, column, wide.Line("spec.b"))
	}
}

func TestJSONIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		"0": "", "-0": "", "12": "", "1.5": "", "1e5": "", "-1.25E-3": "", `"a\u00fc\/"`: "", "true": "", "null": "", "[]": "", "{}": "", "[1, {}]": "",
		"01": "a number is expected in column 1", "-": "a number is expected in column 1", "1.": "a number is expected in column 1", "1e": "a number is expected in column 1", ".5": "a value is expected in column 1",
		`"\x"`: "the text in column 1 holds an escape that JSON does not know", "\"a\nb\"": "the text in column 1 does not end on its line", `"\"`: "the text in column 1 does not end",
		"[1 2]": "a comma or ] is expected in column 4", "[1,]": "a value is expected in column 4", `{"a" 1}`: "a colon is expected in column 6", `{"a":1,}`: "a field's name in double quotes is expected in column 8",
		"{a: 1}": "a field's name in double quotes is expected in column 2", "": "the text ends where a value is expected", "nul": "a value is expected in column 1", "[": "the text ends where a value is expected",
	} {
		j := jsonScanner{builder: new(builder), s: text, line: 1}
		if _, ok := j.value(); ok != (want == "") || j.wrong != want {
			t.Errorf("%s: %v, %q, want %q", text, ok, j.wrong, want)
		}
	}
}
