package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/fault"
)

// tree writes files into a new folder and makes it the working folder, so that paths are short.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func pod(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\n"
}

func list(objects []*manifest.Object) []string {
	out := []string{}
	for _, o := range objects {
		out = append(out, fmt.Sprintf("%s %s %s:%d", o.Kind, o.Name, o.File, o.Line("")))
	}
	return out
}

func files(t *testing.T, stdin string, paths ...string) ([]string, []string, error) {
	t.Helper()
	objects, notes, err := Files(t.Context(), paths, strings.NewReader(stdin))
	return list(objects), notes, err
}

func wantObjects(t *testing.T, got []string, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func wantFault(t *testing.T, err error, code fault.Code, what, next string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if !strings.Contains(err.Error(), what) || !strings.Contains(fault.NextOf(err), next) {
		t.Errorf("got %q, advice %q; want %q, advice %q", err, fault.NextOf(err), what, next)
	}
	if fault.CodeOf(err) != code {
		t.Errorf("exit code %d, want %d", fault.CodeOf(err), code)
	}
}

func TestFolder(t *testing.T) {
	tree(t, map[string]string{
		"m/b.yaml":                        pod("b1") + "---\n" + pod("b2"),
		"m/a/x.yml":                       pod("x"),
		"m/a/y.JSON":                      `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "y"}}`,
		"m/a/README.md":                   "# not YAML: {{",
		"m/a/script.sh":                   "exit",
		"m/.hidden/z.yaml":                "][",
		"m/.z.yaml":                       "][",
		"m/comments.yaml":                 "# nothing\n",
		"m/values.yaml":                   "replicaCount: 1\n",
		"m/chart/Chart.yaml":              "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"m/chart/templates/web.yaml":      "{{ if }}",
		"m/over/kustomization.yaml":       "resources: [../base]\n",
		"m/over/patch.yaml":               pod("patch"),
		"m/over/deeper/also-skipped.yaml": pod("deeper"),
		"m/z/Kustomization":               "resources: []\n",
	})
	got, notes, err := files(t, "", "m")
	wantObjects(t, got, err, "Pod x m/a/x.yml:1", "Pod y m/a/y.JSON:1", "Pod b1 m/b.yaml:1", "Pod b2 m/b.yaml:5")
	want := []string{
		"m/chart is a Helm chart, whose templates are not manifests: skipped; audit it with --helm m/chart",
		"m/over is a kustomization, whose patches are not whole manifests: skipped; audit it with -k m/over",
		"m/z is a kustomization, whose patches are not whole manifests: skipped; audit it with -k m/z",
		"m/values.yaml:1: this looks like a Helm values file: it has neither apiVersion nor kind: skipped",
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{"m/values.yaml", "m/over/kustomization.yaml", "m/chart/Chart.yaml"} {
		if _, _, err := files(t, "", path); !errors.Is(err, manifest.ErrNoObject) || fault.CodeOf(err) != fault.Usage {
			t.Errorf("%s by its name: %v", path, err)
		}
	}
	_, _, err = files(t, "", "m/chart/templates/web.yaml")
	wantFault(t, err, fault.Usage, "m/chart/templates/web.yaml:1: this is a template, not a manifest; render it first (helm template ... | drainproof audit -f -)", "--helm")
	_, _, err = files(t, "", "m/chart")
	wantFault(t, err, fault.Usage, "no Kubernetes object was found: m/chart is a Helm chart", "audit it with --helm m/chart")
	_, _, err = files(t, "", "m/over")
	wantFault(t, err, fault.Usage, "m/over is a kustomization", "audit it with -k m/over")
}

func TestNamedPaths(t *testing.T) {
	tree(t, map[string]string{"b.txt": pod("b"), "d/a.yaml": pod("a"), "d/.h.yaml": pod("h"), "empty.yaml": "---\n"})
	got, notes, err := files(t, pod("in"), "b.txt", "-", "./d/", "d/.h.yaml", "d/a.yaml", "./b.txt", "empty.yaml")
	wantObjects(t, got, err, "Pod b b.txt:1", "Pod in stdin:1", "Pod a d/a.yaml:1", "Pod h d/.h.yaml:1")
	if len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
	for path, want := range map[string][2]string{
		"none.yaml":           {"none.yaml does not exist", "check the path"},
		"d/none/x":            {"d/none/x does not exist", "check the path"},
		"":                    {"a path is empty", "name a file"},
		"https://example.com": {"https://example.com is a URL", "curl -sSfL URL | drainproof audit -f -"},
		"b.txt/x":             {"b.txt/x cannot be read: not a directory", "check the path"},
	} {
		_, _, err := files(t, "", path)
		wantFault(t, err, fault.Usage, want[0], want[1])
	}
	_, _, err = files(t, "", "-", "-")
	wantFault(t, err, fault.Usage, "standard input is named twice", "once")
}

func TestStdin(t *testing.T) {
	_, _, err := files(t, "a: 1\n", "-")
	wantFault(t, err, fault.Usage, "stdin:1: this map has neither apiVersion nor kind", "")
	_, _, err = Files(t.Context(), []string{"-"}, broken{})
	wantFault(t, err, fault.Usage, "standard input cannot be read: the pipe broke", "")
	// What helm template printed keeps the names of its templates.
	got, _, err := files(t, helmOutput+"---\n"+pod("own"), "-")
	wantObjects(t, got, err, "Pod web shop/templates/web.yaml (rendered):3", "Service web shop/templates/web.yaml (rendered):8",
		"Pod side shop/charts/db/templates/db.yaml (rendered):15", "Pod own stdin:20")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the pipe broke") }

func TestSeveralBrokenFiles(t *testing.T) {
	tree(t, map[string]string{"a.yaml": pod("a"), "b.yaml": "a: b: c\n", "c.yaml": "{{ x }}\n", "d/d.yaml": pod("d") + "---\nreplicaCount: 1\n"})
	_, _, err := files(t, "", ".")
	wantFault(t, err, fault.Usage, "b.yaml:1: not valid YAML", "put the text in quotes")
	for _, want := range []string{"c.yaml:1: this is a template", "d/d.yaml:5: this looks like a Helm values file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s too", err, want)
		}
	}
	many := map[string]string{}
	for i := range 9 {
		many[fmt.Sprintf("%d.yaml", i)] = "a: b: c\n"
	}
	tree(t, many)
	if _, _, err := files(t, "", "."); err == nil || strings.Count(err.Error(), "not valid YAML") != 5 || !strings.Contains(err.Error(), "and 4 more files") {
		t.Errorf("got %v", err)
	}
}

func TestManyNotes(t *testing.T) {
	many := map[string]string{"a.yaml": strings.Repeat(pod("a")+"---\n", 14)}
	for i := range 25 {
		many[fmt.Sprintf("v%02d.yaml", i)] = "x: 1\n"
	}
	tree(t, many)
	_, notes, err := files(t, "", ".")
	if err != nil || len(notes) != 22 {
		t.Fatalf("%d notes: %q %v", len(notes), notes, err)
	}
	for i, want := range map[int]string{
		0:  `v00.yaml:1: this map has neither apiVersion nor kind; it starts with "x": skipped`,
		10: "15 more files that hold no Kubernetes object: skipped",
		11: "Pod a is given twice, at a.yaml:1 and a.yaml:5: both are judged",
		21: "3 more objects are given twice: all are judged",
	} {
		if notes[i] != want {
			t.Errorf("note %d is %q, want %q", i, notes[i], want)
		}
	}
}

func TestGivenTwice(t *testing.T) {
	const named, other = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\n", "apiVersion: apps/v1\nkind: Pod\nmetadata: {name: a}\n"
	tree(t, map[string]string{"a.yaml": named, "b.yaml": pod("a") + "---\n" + other + "---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x}\n---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x}\n", "c.yaml": named})
	got, notes, err := files(t, "", ".")
	if err != nil || len(got) != 6 {
		t.Fatal(got, err)
	}
	if diff := cmp.Diff([]string{"Pod shop/a is given twice, at a.yaml:1 and c.yaml:1: both are judged"}, notes); diff != "" {
		t.Error(diff)
	}
}

func TestLinks(t *testing.T) {
	tree(t, map[string]string{"real/a.yaml": pod("a"), "m/b.yaml": pod("b")})
	for name, to := range map[string]string{"m/loop": "..", "m/real": "../real", "m/again": "../real", "m/file.yaml": "../real/a.yaml", "m/none.yaml": "nowhere", "m/self": "self"} {
		if err := os.Symlink(to, name); err != nil {
			t.Skip("needs symbolic links: ", err)
		}
	}
	got, notes, err := files(t, "", "m")
	// again is real: it is read under the first name that sorts.
	wantObjects(t, got, err, "Pod a m/again/a.yaml:1", "Pod b m/b.yaml:1", "Pod a m/file.yaml:1")
	for _, want := range []string{"m/none.yaml is a link that leads nowhere: skipped", "m/self is a link that leads nowhere: skipped"} {
		if !strings.Contains(strings.Join(notes, "\n"), want) {
			t.Errorf("%q lacks %q", notes, want)
		}
	}
}

func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs an account that permissions bind")
	}
	tree(t, map[string]string{"a.yaml": pod("a"), "d/b.yaml": pod("b")})
	if err := os.Chmod("a.yaml", 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod("d", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod("d", 0o755) })
	for _, path := range []string{"a.yaml", "d"} {
		_, _, err := files(t, "", path)
		wantFault(t, err, fault.Usage, path+" cannot be read: permission denied", "permissions")
	}
}

func TestOrderOfManyFiles(t *testing.T) {
	many := map[string]string{}
	var want []string
	for i := range 200 {
		many[fmt.Sprintf("%03d.yaml", i)] = pod(fmt.Sprint("p", i))
		want = append(want, fmt.Sprintf("Pod p%d %03d.yaml:1", i, i))
	}
	tree(t, many)
	got, _, err := files(t, "", ".")
	wantObjects(t, got, err, want...)
}

func TestInterrupted(t *testing.T) {
	tree(t, map[string]string{"a.yaml": pod("a")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := Files(ctx, []string{"a.yaml"}, nil)
	wantFault(t, err, fault.Unmeasurable, "reading the manifests was interrupted: context canceled", "again")
	if !errors.Is(err, context.Canceled) {
		t.Error("the context's error is lost")
	}
	fake(t, "helm", "exit 0")
	_, err = Helm(ctx, "shop", "r", "", nil, nil)
	wantFault(t, err, fault.Unmeasurable, "helm template r shop was interrupted: context canceled", "")
}

// helmOutput is what helm template prints for three templates.
const helmOutput = `---
# Source: shop/templates/web.yaml
apiVersion: v1
kind: Pod
metadata: {name: web}
---
# Source: shop/templates/web.yaml
apiVersion: v1
kind: Service
metadata: {name: web}
---
# Source: shop/templates/empty.yaml
---
# Source: shop/charts/db/templates/db.yaml
apiVersion: v1
# Source: no name, a comment of the template
kind: Pod
metadata: {name: side}
`

// fake makes a program that is alone in PATH. Its script may use what the shell has built in.
func fake(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

// echo is a script that prints a text and writes its arguments to a file.
func echo(text, argsFile string) string {
	return "printf '%s\\n' \"$@\" > '" + argsFile + "'\nprintf '%s' '" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func arguments(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

func TestHelm(t *testing.T) {
	args := filepath.Join(t.TempDir(), "args")
	fake(t, "helm", echo(helmOutput, args))
	objects, err := Helm(t.Context(), "./shop", "rel", "prod", []string{"a.yaml", "b.yaml"}, []string{"x=1", "y=2"})
	wantObjects(t, list(objects), err, "Pod web shop/templates/web.yaml (rendered):3", "Service web shop/templates/web.yaml (rendered):8", "Pod side shop/charts/db/templates/db.yaml (rendered):15")
	want := strings.Fields("template rel ./shop --namespace prod --values a.yaml --values b.yaml --set x=1 --set y=2")
	if diff := cmp.Diff(want, arguments(t, args)); diff != "" {
		t.Error(diff)
	}
	if _, err := Helm(t.Context(), "./shop", "rel", "", nil, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"template", "rel", "./shop"}, arguments(t, args)); diff != "" {
		t.Error(diff)
	}
}

func TestHelmFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Helm(t.Context(), "shop", "r", "", nil, nil)
	wantFault(t, err, fault.Usage, "shop cannot be rendered: helm is not in PATH", "helm template RELEASE CHART | drainproof audit -f -")

	fake(t, "helm", "for i in 1 2 3 4 5 6 7; do echo \"line $i\" >&2; done; echo >&2; exit 3")
	_, err = Helm(t.Context(), "shop", "r", "", nil, nil)
	wantFault(t, err, fault.Usage, "helm template r shop failed (exit status 3):\n  line 3\n  line 4\n  line 5\n  line 6\n  line 7", "pipe it: helm template")

	fake(t, "helm", "echo 'a: b: c'")
	_, err = Helm(t.Context(), "./shop", "r", "", nil, nil)
	wantFault(t, err, fault.Usage, "shop (rendered):1: not valid YAML", "")

	fake(t, "helm", "exit 1")
	_, err = Helm(t.Context(), "shop", "r", "", nil, nil)
	wantFault(t, err, fault.Usage, "helm template r shop failed (exit status 1)", "")

	for _, chart := range []string{"", "--post-renderer=evil"} {
		_, err = Helm(t.Context(), chart, "r", "", nil, nil)
		wantFault(t, err, fault.Usage, "names no folder", "")
	}
}

func TestKustomize(t *testing.T) {
	args := filepath.Join(t.TempDir(), "args")
	for program, want := range map[string][]string{"kustomize": {"build", "over/"}, "kubectl": {"kustomize", "over/"}} {
		fake(t, program, echo(pod("a")+"---\n"+pod("b"), args))
		objects, err := Kustomize(t.Context(), "over/")
		wantObjects(t, list(objects), err, "Pod a over (rendered):1", "Pod b over (rendered):5")
		if diff := cmp.Diff(want, arguments(t, args)); diff != "" {
			t.Error(diff)
		}
	}
	fake(t, "kustomize", "echo 'Error: no such folder' >&2; exit 1")
	_, err := Kustomize(t.Context(), "over")
	wantFault(t, err, fault.Usage, "kustomize build over failed (exit status 1):\n  Error: no such folder", "kustomize build DIR | drainproof audit -f -")

	t.Setenv("PATH", t.TempDir())
	_, err = Kustomize(t.Context(), "over")
	wantFault(t, err, fault.Usage, "over cannot be built: neither kustomize nor kubectl is in PATH", "kustomize build DIR | drainproof audit -f -")
	_, err = Kustomize(t.Context(), "-x")
	wantFault(t, err, fault.Usage, `-k "-x" names no folder`, "./-name")
}

func TestTail(t *testing.T) {
	var w tail
	for i := range 5000 {
		if _, err := fmt.Fprintf(&w, "problem %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(&w, "the last"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"problem 4996", "problem 4997", "problem 4998", "problem 4999", "the last"}, w.lines()); diff != "" {
		t.Error(diff)
	}
	if len(w.text) > 2*tailBytes {
		t.Errorf("keeps %d bytes", len(w.text))
	}
}
