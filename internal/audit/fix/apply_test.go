package fix

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
)

const (
	containerPath = "spec.template.spec.containers[0]"
	sleepPath     = containerPath + ".lifecycle.preStop.sleep.seconds"
	gracePath     = "spec.template.spec.terminationGracePeriodSeconds"
)

// hooked is the commonest pair of edits.
var hooked = []edit{{path: sleepPath, value: whole(5)}, {path: gracePath, value: whole(35)}}

// applied makes edits of the n-th object of a text, bound together.
func applied(t *testing.T, file, text string, n int, edits []edit) (string, error) {
	t.Helper()
	objects, err := manifest.Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := change(objects[n], edits[0].path, "a change", []finding.Finding{{Rule: "DP103"}}, edits...)
	out, err := Apply(map[string][]byte{file: []byte(text)}, []Change{c})
	if len(out) == 0 {
		return text, err
	}
	return string(out[file]), err
}

// deployment wraps a Pod spec, whose lines are given with six spaces in front.
func deployment(spec string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    spec:\n" + spec
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, before string
		edits        []edit
		// after has the lines that are new marked by a bar in the first column.
		after string
	}{
		{
			name:   "list under its key",
			before: deployment("      containers:\n      - name: web\n        image: nginx\n"),
			edits:  hooked,
			after: deployment("      containers:\n      - name: web\n        image: nginx\n" +
				"        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n      terminationGracePeriodSeconds: 35\n"),
		},
		{
			name:   "list deeper than its key, something behind, comments between",
			before: deployment("      # the server\n      containers:\n        - name: web # not the proxy\n          # pinned\n          image: nginx\n\n        - name: other\n          image: x\n      # shared\n      volumes: []\n---\nkind: Namespace\napiVersion: v1\n"),
			edits:  hooked,
			after: deployment("      # the server\n      containers:\n        - name: web # not the proxy\n          # pinned\n          image: nginx\n" +
				"          lifecycle:\n            preStop:\n              sleep:\n                seconds: 5\n\n        - name: other\n          image: x\n      # shared\n      volumes: []\n      terminationGracePeriodSeconds: 35\n---\nkind: Namespace\napiVersion: v1\n"),
		},
		{
			name:   "steps of four, wide dashes",
			before: "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n    name: web\nspec:\n    template:\n        spec:\n            containers:\n            -   image: nginx\n                name: web\n",
			edits:  hooked,
			after: "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n    name: web\nspec:\n    template:\n        spec:\n            containers:\n            -   image: nginx\n                name: web\n" +
				"                lifecycle:\n                    preStop:\n                        sleep:\n                            seconds: 5\n            terminationGracePeriodSeconds: 35\n",
		},
		{
			name:   "no newline at the end",
			before: deployment("      containers:\n      - name: web\n        image: nginx"),
			edits:  hooked,
			after: deployment("      containers:\n      - name: web\n        image: nginx\n" +
				"        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n      terminationGracePeriodSeconds: 35"),
		},
		{
			name:   "carriage returns",
			before: strings.ReplaceAll(deployment("      containers:\n      - name: web\n        image: nginx\n"), "\n", "\r\n"),
			edits:  hooked,
			after: strings.ReplaceAll(deployment("      containers:\n      - name: web\n        image: nginx\n"+
				"        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n      terminationGracePeriodSeconds: 35\n"), "\n", "\r\n"),
		},
		{
			name:   "a number is replaced where it stands, with its comment",
			before: deployment("      terminationGracePeriodSeconds:   30   # agreed with ops\n      containers:\n      - name: web\n        lifecycle: {preStop: {sleep: {seconds: 2}}} # short\n"),
			edits:  hooked,
			after:  deployment("      terminationGracePeriodSeconds:   35   # agreed with ops\n      containers:\n      - name: web\n        lifecycle: {preStop: {sleep: {seconds: 5}}} # short\n"),
		},
		{
			name:   "flow maps",
			before: deployment("      containers:\n      - {name: web, image: nginx}\n"),
			edits:  hooked,
			after:  deployment("      containers:\n      - {lifecycle: {preStop: {sleep: {seconds: 5}}}, name: web, image: nginx}\n      terminationGracePeriodSeconds: 35\n"),
		},
		{
			name:   "empty flow maps",
			before: deployment("      containers:\n      - name: web\n        lifecycle: {}\n"),
			edits:  hooked,
			after:  deployment("      containers:\n      - name: web\n        lifecycle: {preStop: {sleep: {seconds: 5}}}\n      terminationGracePeriodSeconds: 35\n"),
		},
		{
			name:   "fields without a value",
			before: deployment("      terminationGracePeriodSeconds:\n      containers:\n      - lifecycle: # none yet\n        name: web\n"),
			edits:  hooked,
			after:  deployment("      terminationGracePeriodSeconds: 35\n      containers:\n      - lifecycle: # none yet\n          preStop:\n            sleep:\n              seconds: 5\n        name: web\n"),
		},
		{
			name:   "fields that are null",
			before: deployment("      terminationGracePeriodSeconds: ~\n      containers:\n      - lifecycle: null\n        name: web\n"),
			edits:  hooked,
			after:  deployment("      terminationGracePeriodSeconds: 35\n      containers:\n      - lifecycle: {preStop: {sleep: {seconds: 5}}}\n        name: web\n"),
		},
		{
			name:   "a field without a value at the end of a text without a newline",
			before: deployment("      containers:\n      - name: web\n        lifecycle:"),
			edits:  hooked[:1],
			after:  deployment("      containers:\n      - name: web\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5"),
		},
		{
			name:   "a hook of another kind beside",
			before: deployment("      containers:\n      - name: web\n        lifecycle:\n          postStart:\n            exec:\n              command: [\"true\"]\n        image: nginx\n"),
			edits:  hooked[:1],
			after:  deployment("      containers:\n      - name: web\n        lifecycle:\n          postStart:\n            exec:\n              command: [\"true\"]\n          preStop:\n            sleep:\n              seconds: 5\n        image: nginx\n"),
		},
		{
			name:   "a block scalar at the end, with what looks like YAML in it",
			before: deployment("      containers:\n      - name: web\n        args:\n        - |\n          # not a comment\n          terminationGracePeriodSeconds: 1\n\n          # the end\n      volumes: []\n"),
			edits:  hooked,
			after:  deployment("      containers:\n      - name: web\n        args:\n        - |\n          # not a comment\n          terminationGracePeriodSeconds: 1\n\n          # the end\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n      volumes: []\n      terminationGracePeriodSeconds: 35\n"),
		},
		{
			name:   "comments at the end of a container",
			before: deployment("      containers:\n      - name: web\n        ports:\n        - containerPort: 80\n        # - containerPort: 9090\n        # resources: {}\n\n        # much later\n      # of the Pod\n"),
			edits:  hooked,
			after:  deployment("      containers:\n      - name: web\n        ports:\n        - containerPort: 80\n        # - containerPort: 9090\n        # resources: {}\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n      terminationGracePeriodSeconds: 35\n\n        # much later\n      # of the Pod\n"),
		},
		{
			name:   "comments less indented than their map",
			before: deployment("      containers:\n      - name: web\n# TODO: which tag?\n        image: nginx\n  # odd\n"),
			edits:  hooked[:1],
			after:  deployment("      containers:\n      - name: web\n# TODO: which tag?\n        image: nginx\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n  # odd\n"),
		},
		{
			name:   "a text of several lines in quotes",
			before: deployment("      containers:\n      - name: web\n        args: [\"a\n          b\"]\n        image: 'nginx'\n"),
			edits:  hooked[:1],
			after:  deployment("      containers:\n      - name: web\n        args: [\"a\n          b\"]\n        image: 'nginx'\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n"),
		},
		{
			name:   "keys in quotes, a document end",
			before: "\"apiVersion\": apps/v1\n\"kind\": Deployment\n'metadata': {name: web}\n\"spec\":\n  \"template\":\n    \"spec\":\n      'containers':\n      - \"name\": web\n...\n",
			edits:  hooked,
			after:  "\"apiVersion\": apps/v1\n\"kind\": Deployment\n'metadata': {name: web}\n\"spec\":\n  \"template\":\n    \"spec\":\n      'containers':\n      - \"name\": web\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n      terminationGracePeriodSeconds: 35\n...\n",
		},
		{
			name:   "JSON on many lines",
			before: "{\n  \"apiVersion\": \"apps/v1\",\n  \"kind\": \"Deployment\",\n  \"metadata\": {\"name\": \"web\"},\n  \"spec\": {\n    \"template\": {\n      \"spec\": {\n        \"containers\": [\n          {\n            \"name\": \"web\"\n          }\n        ]\n      }\n    }\n  }\n}\n",
			edits:  hooked,
			after:  "{\n  \"apiVersion\": \"apps/v1\",\n  \"kind\": \"Deployment\",\n  \"metadata\": {\"name\": \"web\"},\n  \"spec\": {\n    \"template\": {\n      \"spec\": {\n        \"terminationGracePeriodSeconds\": 35,\n        \"containers\": [\n          {\n            \"lifecycle\": {\"preStop\": {\"sleep\": {\"seconds\": 5}}},\n            \"name\": \"web\"\n          }\n        ]\n      }\n    }\n  }\n}\n",
		},
		{
			name:   "JSON on one line, an empty map",
			before: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"web","lifecycle":{}}]}}}}`,
			edits:  hooked,
			after:  `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"terminationGracePeriodSeconds": 35, "containers":[{"name":"web","lifecycle":{"preStop": {"sleep": {"seconds": 5}}}}]}}}}`,
		},
		{
			name:   "a command's number keeps its quotes, a percentage becomes a number",
			before: deployment("      containers:\n      - name: web\n        command: ['sleep', '5', \"6\", 7]\n  strategy:\n    rollingUpdate:\n      maxUnavailable: \"25%\" # a quarter\n"),
			edits: []edit{
				{path: containerPath + ".command[1]", value: word("15")},
				{path: containerPath + ".command[2]", value: word("16")},
				{path: containerPath + ".command[3]", value: word("17")},
				{path: "spec.strategy.rollingUpdate.maxUnavailable", value: whole(0)},
			},
			after: deployment("      containers:\n      - name: web\n        command: ['sleep', '15', \"16\", \"17\"]\n  strategy:\n    rollingUpdate:\n      maxUnavailable: 0 # a quarter\n"),
		},
		{
			name:   "exec in front of what needs its quotes",
			before: deployment("      containers:\n      - name: web\n        args:\n        - \"server --greeting=\\\"hi\\\" --tag '#1'\"\n        - 'it''s'\n        - server -v   # loud\n"),
			edits: []edit{
				{path: containerPath + ".args[0]", value: word(`exec server --greeting="hi" --tag '#1'`)},
				{path: containerPath + ".args[1]", value: word("exec it's")},
				{path: containerPath + ".args[2]", value: word("exec server -v")},
			},
			after: deployment("      containers:\n      - name: web\n        args:\n        - \"exec server --greeting=\\\"hi\\\" --tag '#1'\"\n        - 'exec it''s'\n        - exec server -v   # loud\n"),
		},
		{
			name:   "an anchor nearby that nobody else uses here",
			before: "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  labels: &labels\n    app: web\nspec:\n  selector:\n    matchLabels: *labels\n  template:\n    metadata:\n      labels:\n        <<: *labels\n        tier: x\n    spec:\n      containers:\n      - name: web\n",
			edits:  hooked,
			after:  "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  labels: &labels\n    app: web\nspec:\n  selector:\n    matchLabels: *labels\n  template:\n    metadata:\n      labels:\n        <<: *labels\n        tier: x\n    spec:\n      containers:\n      - name: web\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n      terminationGracePeriodSeconds: 35\n",
		},
		{
			name:   "a container that starts with a merge",
			before: deployment("      containers:\n      - <<: {image: nginx}\n        name: web\n      - <<: {image: nginx}\n        name: web2\n"),
			edits:  hooked[:1],
			after:  deployment("      containers:\n      - <<: {image: nginx}\n        name: web\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n      - <<: {image: nginx}\n        name: web2\n"),
		},
		{
			name:   "letters that are not ASCII",
			before: deployment("      containers:\n      - {name: web, env: [{name: GRÜSSE, value: 你好}], lifecycle: {preStop: {sleep: {seconds: 1}}}}\n"),
			edits:  hooked[:1],
			after:  deployment("      containers:\n      - {name: web, env: [{name: GRÜSSE, value: 你好}], lifecycle: {preStop: {sleep: {seconds: 5}}}}\n"),
		},
		{
			name:   "flow over several lines with comments",
			before: deployment("      containers: [\n        { # the server\n          name: web,\n          image: nginx,\n        },\n      ]\n"),
			edits:  hooked,
			after:  deployment("      containers: [\n        { # the server\n          lifecycle: {preStop: {sleep: {seconds: 5}}},\n          name: web,\n          image: nginx,\n        },\n      ]\n      terminationGracePeriodSeconds: 35\n"),
		},
		{
			name:   "another name for a field",
			before: "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec:\n  minAvailable:  100%  # all\n  selector: {}\n",
			edits:  []edit{{path: "spec.minAvailable", value: whole(1), rename: "maxUnavailable"}},
			after:  "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec:\n  maxUnavailable:  1  # all\n  selector: {}\n",
		},
		{
			name:   "another name in JSON",
			before: `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"web"},"spec":{"minAvailable" : "100%","selector":{}}}`,
			edits:  []edit{{path: "spec.minAvailable", value: whole(1), rename: "maxUnavailable"}},
			after:  `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"web"},"spec":{"maxUnavailable" : 1,"selector":{}}}`,
		},
		{
			name:   "another handler in a hook",
			before: deployment("      containers:\n      - name: web\n        lifecycle:\n          preStop:\n            exec:\n              command:\n              - sleep\n              - \"5\"\n          # behind\n        image: nginx # the newest\n"),
			edits:  []edit{{path: containerPath + ".lifecycle.preStop.exec", rename: "sleep", value: nested(whole(5), "seconds")}},
			after:  deployment("      containers:\n      - name: web\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n          # behind\n        image: nginx # the newest\n"),
		},
		{
			name:   "another handler at the end of a text without a newline, with a hook for the other end inserted there",
			before: deployment("      containers:\n      - name: web\n        lifecycle:\n          preStop:\n            exec: {command: [sleep, '}']}"),
			edits:  []edit{{path: containerPath + ".lifecycle.preStop.exec", rename: "sleep", value: nested(whole(5), "seconds")}, hooked[1]},
			after:  deployment("      containers:\n      - name: web\n        lifecycle:\n          preStop:\n            sleep: {seconds: 5}\n      terminationGracePeriodSeconds: 35"),
		},
		{
			name:   "another handler, the last thing in a text without a newline",
			before: deployment("      containers:\n      - name: web\n        lifecycle:\n          preStop:\n            exec:\n              command: [sleep]"),
			edits:  []edit{{path: containerPath + ".lifecycle.preStop.exec", rename: "sleep", value: nested(whole(5), "seconds")}, hooked[1]},
			after:  deployment("      containers:\n      - name: web\n        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n      terminationGracePeriodSeconds: 35"),
		},
		{
			name:   "another handler in JSON",
			before: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"web","lifecycle":{"preStop":{"exec":{"command":["sleep","\"}"]}}}}]}}}}`,
			edits:  []edit{{path: containerPath + ".lifecycle.preStop.exec", rename: "sleep", value: nested(whole(5), "seconds")}},
			after:  `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"web","lifecycle":{"preStop":{"sleep":{"seconds": 5}}}}]}}}}`,
		},
		{
			name:   "an item of a List",
			before: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata:\n    name: web\n  spec:\n    template:\n      spec:\n        containers:\n        - name: web\n- apiVersion: v1\n  kind: Namespace\n  metadata:\n    name: x\n",
			edits:  hooked,
			after:  "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata:\n    name: web\n  spec:\n    template:\n      spec:\n        containers:\n        - name: web\n          lifecycle:\n            preStop:\n              sleep:\n                seconds: 5\n        terminationGracePeriodSeconds: 35\n- apiVersion: v1\n  kind: Namespace\n  metadata:\n    name: x\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := "web.yaml"
			if strings.HasPrefix(c.before, "{") {
				file = "web.json"
			}
			got, err := applied(t, file, c.before, 0, c.edits)
			if err != nil {
				t.Error(err)
			}
			if d := cmp.Diff(c.after, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestApplyRefuses: what cannot be edited safely stays byte for byte, with a reason that names the place.
func TestApplyRefuses(t *testing.T) {
	for _, c := range []struct{ name, before, reason string }{
		{
			"an alias in the way",
			"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  annotations:\n    x: &life {preStop: {}}\nspec:\n  template:\n    spec:\n      containers:\n      - name: web\n        lifecycle: *life\n",
			sleepPath + ": it stands behind an anchor, an alias or a tag",
		},
		{
			"an anchor in the way",
			deployment("      containers:\n      - &web\n        name: web\n      - <<: *web\n        name: web2\n"),
			sleepPath + ": it stands behind an anchor, an alias or a tag",
		},
		{
			"a map that another place shares",
			deployment("      initContainers: &all\n      - name: web\n      containers: *all\n"),
			sleepPath + ": it stands behind an anchor, an alias or a tag",
		},
		{
			"a map that comes out of a merge",
			"x: &base\n  lifecycle:\n    preStop: {}\n" + deployment("      containers:\n      - <<: *base\n        name: web\n"),
			"x.lifecycle.preStop of Deployment/web would change with it: an anchor shares the text",
		},
		{
			"a block scalar that keeps its empty lines",
			deployment("      containers:\n      - name: web\n        args:\n        - |+\n          text\n\n      volumes: []\n"),
			"would change with it",
		},
		{
			"something else where a map should be",
			deployment("      containers:\n      - name: web\n        lifecycle: none\n"),
			"something else is written there",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := applied(t, "web.yaml", c.before, 0, hooked)
			var refused *Refused
			if !errors.As(err, &refused) || len(refused.Changes) != 1 || !strings.Contains(refused.Changes[0].Skipped, c.reason) {
				t.Errorf("error %v, want one that says %q", err, c.reason)
			}
			if got != c.before {
				t.Errorf("the text was changed:\n%s", got)
			}
		})
	}
}

// TestApplyKeepsComments: what has to go must not take a comment with it.
func TestApplyKeepsComments(t *testing.T) {
	before := deployment("      containers:\n      - name: web\n        lifecycle:\n          preStop:\n            exec: # see OPS-17\n              command: [sleep]\n")
	swap := edit{path: containerPath + ".lifecycle.preStop.exec", rename: "sleep", value: nested(whole(5), "seconds")}
	got, err := applied(t, "web.yaml", before, 0, []edit{swap})
	if err == nil || !strings.Contains(err.Error(), "a comment stands in what has to go") || got != before {
		t.Errorf("error %v, text\n%s", err, got)
	}
}

// TestApplyLeavesOutOnlyTheCulprit: of many workloads in a file, one cannot be edited.
func TestApplyLeavesOutOnlyTheCulprit(t *testing.T) {
	docs := []string{
		deployment("      containers:\n      - name: web\n"),
		deployment("      initContainers: &all\n      - name: web\n      containers: *all\n"),
		deployment("      containers:\n      - name: web\n        image: x\n"),
	}
	for i, name := range []string{"a", "b", "c"} {
		docs[i] = strings.Replace(docs[i], "name: web\nspec", "name: "+name+"\nspec", 1)
	}
	file, text := "all.yaml", strings.Join(docs, "---\n")
	objects, err := manifest.Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var changes []Change
	for _, o := range objects {
		hook, grace := change(o, sleepPath, "a hook", nil, hooked[0]), change(o, gracePath, "grace", nil, hooked[1])
		hook.bond, grace.bond = "drain", "drain"
		changes = append(changes, hook, grace)
	}
	out, err := Apply(map[string][]byte{file: []byte(text)}, changes)
	var refused *Refused
	if !errors.As(err, &refused) || len(refused.Changes) != 2 {
		t.Fatalf("error %v, want the hook and the grace period of one workload refused", err)
	}
	const hook, grace = "        lifecycle:\n          preStop:\n            sleep:\n              seconds: 5\n", "      terminationGracePeriodSeconds: 35\n"
	want := docs[0] + hook + grace + "---\n" + docs[1] + "---\n" + docs[2] + hook + grace
	if d := cmp.Diff(want, string(out[file])); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestApplyWithoutTheText(t *testing.T) {
	objects, err := manifest.Parse("web.yaml", []byte(deployment("      containers:\n      - name: web\n")))
	if err != nil {
		t.Fatal(err)
	}
	c := change(objects[0], sleepPath, "a hook", nil, hooked[0])
	out, err := Apply(map[string][]byte{"other.yaml": nil}, []Change{c})
	if len(out) != 0 || err == nil || !strings.Contains(err.Error(), "the text of web.yaml is not at hand; take the overlay") {
		t.Errorf("got %q, %v", out, err)
	}
	moved := []byte("# a new line\n" + deployment("      containers:\n      - name: web\n"))
	out, err = Apply(map[string][]byte{"web.yaml": moved}, []Change{c})
	if len(out) != 0 || err == nil || !strings.Contains(err.Error(), "no longer stands where it was read") {
		t.Errorf("got %q, %v", out, err)
	}
	c.Skipped = "no reason"
	if out, err := Apply(nil, []Change{c}); len(out) != 0 || err != nil {
		t.Errorf("a skipped change: got %q, %v", out, err)
	}
}

func TestApplyAddsDocuments(t *testing.T) {
	added := nested(whole(1), "spec", "maxUnavailable")
	added.put("metadata", mapping(field{"name", word("web")}))
	added.put("kind", word("PodDisruptionBudget"))
	added.put("apiVersion", word("policy/v1"))
	const doc = "spec:\n  maxUnavailable: 1\nmetadata:\n  name: web\nkind: PodDisruptionBudget\napiVersion: policy/v1\n"
	for _, c := range []struct{ name, before, after, reason string }{
		{"as usual", "a: 1", "a: 1\n---\n" + doc, ""},
		{"carriage returns", "a: 1\r\n", "a: 1\r\n---\r\n" + strings.ReplaceAll(doc, "\n", "\r\n"), ""},
		{"a separator at the end", "a: 1\n---\n", "a: 1\n---\n---\n" + doc, ""},
		{"a document end", "a: 1\n...\n", "a: 1\n...\n---\n" + doc, ""},
		{"a comment at the end", "a: 1\n# bye", "a: 1\n# bye\n---\n" + doc, ""},
		{"JSON", `{"a": 1, `, "", "a JSON file holds one document"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n" + c.before
			after := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n" + c.after
			if c.reason != "" {
				before = c.before + `"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}`
			}
			objects, err := manifest.Parse("web.yaml", []byte(before))
			if err != nil {
				t.Fatal(err)
			}
			ch := change(objects[0], "", "a new object", nil)
			ch.added = &added
			out, err := Apply(map[string][]byte{"web.yaml": []byte(before)}, []Change{ch})
			if c.reason != "" {
				if err == nil || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("error %v, want %q", err, c.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(after, string(out["web.yaml"])); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
