package fix

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// TestOverlayMeansTheSame: the API's own merge of each patch gives what the edited file says.
func TestOverlayMeansTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/plan/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	merged := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Base(path)
		a := audit(t, file, text)
		changes := a.plan()
		out, err := Apply(map[string][]byte{file: text}, changes)
		if refused := (*Refused)(nil); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		} else if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		before, after := documents(t, text), documents(t, cmpOr(out[file], text))
		for name, patch := range Overlay(changes, nil) {
			object, err := yaml.YAMLToJSON(patch)
			if err != nil {
				t.Fatalf("%s: %s: %v", file, name, err)
			}
			id := identityOf(object)
			base, patched := before[id], object
			switch {
			case name == "kustomization.yaml" || id == (finding.Object{}):
				continue // TestOperations is about JSON patches
			case base == nil: // a new object
			case id.Kind == "Deployment":
				patched, err = strategicpatch.StrategicMergePatch(base, object, appsv1.Deployment{})
			case id.Kind == "StatefulSet":
				patched, err = strategicpatch.StrategicMergePatch(base, object, appsv1.StatefulSet{})
			case id.Kind == "DaemonSet":
				patched, err = strategicpatch.StrategicMergePatch(base, object, appsv1.DaemonSet{})
			case id.Kind == "PodDisruptionBudget":
				patched, err = strategicpatch.StrategicMergePatch(base, object, policyv1.PodDisruptionBudget{})
			default:
				t.Fatalf("%s: a patch of a %s", file, id.Kind)
			}
			if err != nil {
				t.Fatalf("%s: %s: %v", file, name, err)
			}
			if d := cmp.Diff(generic(t, after[id]), generic(t, patched)); d != "" {
				t.Errorf("%s: %s, -in place +merged:\n%s", file, name, d)
			}
			merged++
		}
	}
	if merged < 10 {
		t.Errorf("only %d patches were tried", merged)
	}
}

func identityOf(object []byte) finding.Object {
	var o struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
	}
	if json.Unmarshal(object, &o) != nil {
		return finding.Object{}
	}
	return finding.Object{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
}

// documents gives the objects of a text as JSON.
func documents(t *testing.T, text []byte) map[finding.Object][]byte {
	t.Helper()
	all := map[finding.Object][]byte{}
	for _, doc := range strings.Split(string(text), "\n---\n") {
		object, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(object, []byte("null")) {
			all[identityOf(object)] = object
		}
	}
	return all
}

func generic(t *testing.T, object []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(object, &v); err != nil {
		t.Fatalf("%v: %s", err, object)
	}
	return v
}

func TestOperations(t *testing.T) {
	const text = "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: web, annotations: {}}\nspec:\n  template:\n    spec:\n      terminationGracePeriodSeconds: 5\n      containers:\n      - name: web\n        command: [sh, -c, server]\n        lifecycle: {preStop: {exec: {command: [sleep]}}}\n      - name: other\n        lifecycle:\n"
	objects, err := manifest.Parse("rollout.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := operations(objects[0], []edit{
		{path: gracePath, value: whole(35)},
		{path: containerPath + ".command[2]", value: word("exec server")},
		{path: containerPath + ".lifecycle.preStop.exec", rename: "sleep", value: nested(whole(5), "seconds")},
		{path: "spec.template.spec.containers[1].lifecycle.preStop.sleep.seconds", value: whole(5)},
		{path: `metadata.annotations["drainproof.dev/a~b"]`, value: word("1")},
	})
	const want = `- op: replace
  path: /spec/template/spec/terminationGracePeriodSeconds
  value: 35
- op: replace
  path: /spec/template/spec/containers/0/command/2
  value: exec server
- op: remove
  path: /spec/template/spec/containers/0/lifecycle/preStop/exec
- op: add
  path: /spec/template/spec/containers/0/lifecycle/preStop/sleep
  value:
    seconds: 5
- op: add
  path: /spec/template/spec/containers/1/lifecycle
  value:
    preStop:
      sleep:
        seconds: 5
- op: add
  path: "/metadata/annotations/drainproof.dev~1a~0b"
  value: "1"
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestResources(t *testing.T) {
	got := Resources([]string{"a/web.yaml", "./a/web.yaml", "b.yaml", "/abs/x.yaml"}, "a/overlay")
	if d := cmp.Diff([]string{"../web.yaml", "../../b.yaml", "/abs/x.yaml"}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestOverlayNamesAreFree(t *testing.T) {
	var changes []Change
	for _, namespace := range []string{"a", "b", "a"} {
		o := &manifest.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "web"}
		changes = append(changes, change(o, "spec.replicas", "two", nil, edit{path: "spec.replicas", value: whole(2)}))
	}
	got := Overlay(changes, []string{"../base"})
	if len(got) != 3 || got["deployment-web.yaml"] == nil || got["deployment-b-web.yaml"] == nil {
		t.Errorf("got %q", got)
	}
	const want = "# Patches by drainproof audit fix.\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- ../base\npatches:\n- path: deployment-web.yaml\n- path: deployment-b-web.yaml\n"
	if d := cmp.Diff(want, string(got["kustomization.yaml"])); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := Overlay(nil, nil); len(got) != 0 {
		t.Errorf("of no change: %q", got)
	}
}
