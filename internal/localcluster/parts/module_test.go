package parts

import (
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pins lists the versions whose module files are embedded.
func pins(t *testing.T) []string {
	t.Helper()
	entries, err := fs.ReadDir(moduleFiles, "module")
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, e := range entries {
		if e.IsDir() {
			versions = append(versions, e.Name())
		}
	}
	return versions
}

func TestPins(t *testing.T) {
	if got, want := pins(t), []string{"v1.34.4", DefaultVersion}; !slices.Equal(got, want) {
		t.Errorf("pinned are %v, want %v", got, want)
	}
}

func embedded(t *testing.T, name string) string {
	t.Helper()
	raw, err := moduleFiles.ReadFile("module/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var (
	replaceLine = regexp.MustCompile(`(?m)^\t(\S+) => (\S+) (\S+)$`)
	requireLine = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)(?: // indirect)?$`)
)

// Kubernetes asks for its libraries as v0.0.0, which exists nowhere: each must
// be replaced by the one published with this release, and nothing else may be.
func TestPinnedModulesReplaceTheLibraries(t *testing.T) {
	for _, pin := range pins(t) {
		v, err := parseVersion(pin)
		if err != nil {
			t.Fatal(err)
		}
		goMod, goSum := embedded(t, pin+"/go.mod.txt"), embedded(t, pin+"/go.sum.txt")
		replaced := map[string]bool{}
		for _, m := range replaceLine.FindAllStringSubmatch(goMod, -1) {
			replaced[m[1]] = true
			if m[1] != m[2] || m[3] != v.staging() || !strings.HasPrefix(m[1], "k8s.io/") {
				t.Errorf("%s: replaces %s by %s %s, want itself at %s", pin, m[1], m[2], m[3], v.staging())
			}
		}
		for _, name := range []string{"api", "apimachinery", "apiserver", "client-go", "component-base", "cri-client", "kubectl", "kubelet"} {
			if !replaced["k8s.io/"+name] {
				t.Errorf("%s: k8s.io/%s is not replaced", pin, name)
			}
		}
		required := map[string]string{}
		for _, m := range requireLine.FindAllStringSubmatch(goMod, -1) {
			required[m[1]] = m[2]
			if m[2] == "v0.0.0" && !replaced[m[1]] {
				t.Errorf("%s: %s v0.0.0 is required and not replaced", pin, m[1])
			}
			if replaced[m[1]] && !strings.Contains(goSum, m[1]+" "+v.staging()+" h1:") {
				t.Errorf("%s: go.sum has no digest of %s %s", pin, m[1], v.staging())
			}
		}
		if got := required["k8s.io/kubernetes"]; got != pin {
			t.Errorf("%s: requires k8s.io/kubernetes %q", pin, got)
		}
		if required[etcdModule] == "" {
			t.Errorf("%s: requires no etcd", pin)
		}
	}
}

func TestProgramParses(t *testing.T) {
	source := embedded(t, "main.go.txt")
	if _, err := parser.ParseFile(token.NewFileSet(), "main.go", source, parser.AllErrors); err != nil {
		t.Error(err)
	}
	for _, p := range all() {
		if !strings.Contains(source, `"`+string(p)+`"`) {
			t.Errorf("the program does not know %s", p)
		}
	}
}

func TestDeriveGoMod(t *testing.T) {
	const of = `{"Module":{"Path":"k8s.io/kubernetes"},"Go":"1.24.0","GoDebug":[{"Key":"default","Value":"go1.24"}],
"Require":[{"Path":"github.com/spf13/cobra","Version":"v1.9.1"},{"Path":"go.etcd.io/etcd/server/v3","Version":"v3.6.4"}],
"Replace":[{"Old":{"Path":"k8s.io/api"},"New":{"Path":"./staging/src/k8s.io/api"}},
{"Old":{"Path":"example.com/a","Version":"v1.0.0"},"New":{"Path":"example.com/b","Version":"v1.2.0"}}]}`
	const want = `module kubernetes

go 1.24.0

godebug default=go1.24

require (
	go.etcd.io/etcd/server/v3 v3.6.4
	k8s.io/kubernetes v1.34.9
)

replace (
	k8s.io/api => k8s.io/api v0.34.9
	example.com/a v1.0.0 => example.com/b v1.2.0
)
`
	got, err := deriveGoMod([]byte(of), version{34, 9})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for says, bad := range map[string]string{
		"does not name " + etcdModule: `{"Go":"1.24.0"}`,
		"by the folder ./other":       strings.ReplaceAll(of, "./staging/src/k8s.io/api", "./other"),
		"unexpected end":              `{`,
	} {
		if _, err := deriveGoMod([]byte(bad), version{34, 9}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error with %q", err, says)
		}
	}
}
