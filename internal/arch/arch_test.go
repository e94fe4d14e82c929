// Package arch holds the house to its plan: which package may know which.
// docs/architecture.md draws the same picture.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/drainproof/drainproof/"

// allowed lists, for each package, the packages of the project that it may
// import. Imports point down; siblings do not know each other.
var allowed = map[string][]string{
	"cmd/drainproof": {"internal/cli"},
	"internal/cli": {
		"internal/agent", "internal/evidence", "internal/vantage", "internal/experiment", "internal/trial", "internal/release", "internal/trigger", "internal/kube", "internal/kill", "internal/traffic", "internal/traffic/request", "internal/verdict",
		"internal/probe", "internal/image", "internal/render/testview", "internal/render/htmlview",
		"internal/localcluster", "internal/localcluster/parts", "internal/render", "internal/record", "internal/explain", "internal/fault", "schema",
		"internal/audit", "internal/audit/finding", "internal/audit/fix", "internal/audit/budget", "internal/audit/manifest", "internal/audit/model", "internal/audit/source", "internal/render/auditview",
	},
	"internal/experiment": {"internal/trial", "internal/record", "internal/fault"},
	"internal/course":     {"internal/journal", "internal/record", "internal/fault"},
	"internal/trial": {"internal/course", "internal/evidence", "internal/explain", "internal/agent", "internal/kube", "internal/trigger", "internal/traffic", "internal/traffic/request", "internal/probe", "internal/probelog", "internal/vantage", "internal/journal",
		"internal/record", "internal/clock", "internal/fault"},
	"internal/release": {"internal/course", "internal/trial", "internal/evidence", "internal/agent", "internal/kube", "internal/trigger", "internal/traffic", "internal/traffic/request", "internal/probe", "internal/probelog", "internal/vantage", "internal/journal",
		"internal/tally", "internal/explain", "internal/verdict", "internal/record", "internal/clock", "internal/fault"},
	"internal/journal":                     {"internal/record", "internal/clock"},
	"internal/vantage":                     {"internal/traffic", "internal/agent", "internal/record", "internal/clock"},
	"internal/probelog":                    {"internal/probe", "internal/record", "internal/clock"},
	"internal/tally":                       {"internal/traffic/request", "internal/record", "internal/stats"},
	"internal/explain":                     {"internal/figure", "internal/record"},
	"internal/verdict":                     {"internal/figure", "internal/record", "internal/stats", "internal/fault"},
	"internal/evidence":                    {"internal/fault", "internal/agent", "internal/vantage", "internal/journal", "internal/record", "internal/clock"},
	"internal/agent":                       {"internal/jsonlines", "internal/record", "internal/agent/kernel", "internal/agent/conntrack", "internal/agent/dataplane", "internal/agent/containers", "internal/agent/sockdiag", "internal/clock", "internal/fault"},
	"internal/agent/kernel":                {"internal/clock", "internal/fault"},
	"internal/agent/conntrack":             {"internal/osthread", "internal/clock", "internal/fault"},
	"internal/agent/dataplane":             {"internal/clock", "internal/fault"},
	"internal/agent/containers":            {},
	"internal/agent/sockdiag":              {},
	"internal/kill":                        {"internal/clock", "internal/fault"},
	"internal/rollout":                     {},
	"internal/jsonlines":                   {},
	"internal/osthread":                    {},
	"internal/traffic":                     {"internal/jsonlines", "internal/traffic/request", "internal/traffic/request/eventloop", "internal/traffic/request/client", "internal/wire", "internal/record", "internal/clock", "internal/stats", "internal/fault"},
	"internal/traffic/request":             {"internal/record", "internal/stats"},
	"internal/traffic/request/http1":       {},
	"internal/traffic/request/eventloop":   {"internal/traffic/request", "internal/traffic/request/http1", "internal/record", "internal/clock", "internal/fault"},
	"internal/traffic/request/client":      {"internal/traffic/request", "internal/traffic/request/http1", "internal/traffic/request/client/held", "internal/record", "internal/clock", "internal/fault"},
	"internal/traffic/request/client/held": {"internal/traffic/request", "internal/wire/websocket", "internal/record", "internal/clock", "internal/fault"},
	"internal/wire/websocket":              {},
	"internal/probe":                       {"internal/wire", "internal/wire/websocket", "internal/clock", "internal/fault"},
	"internal/trigger":                     {"internal/rollout", "internal/fault"},
	"internal/kube":                        {"internal/rollout", "internal/record", "internal/clock", "internal/fault"},
	"internal/image":                       {"internal/fault"},
	"internal/localcluster":                {"internal/osthread", "internal/localcluster/parts", "internal/fault"},
	"internal/localcluster/parts":          {"internal/fault"},
	"internal/render":                      {"internal/render/page", "internal/explain", "internal/figure", "internal/record", "internal/stats", "internal/verdict"},
	"internal/render/page":                 {"internal/figure", "internal/record"},
	"internal/render/testview":             {"internal/render", "internal/fault", "internal/render/page", "internal/figure", "internal/explain", "internal/verdict", "internal/record", "internal/stats"},
	"internal/render/htmlview":             {"internal/render", "internal/render/page", "internal/figure", "internal/verdict", "internal/record"},
	"internal/figure":                      {},
	"internal/render/auditview":            {"internal/audit/finding", "internal/figure"},
	"internal/audit":                       {"internal/audit/rules", "internal/audit/budget", "internal/audit/model", "internal/audit/manifest", "internal/audit/finding", "internal/record", "internal/fault"},
	"internal/audit/rules":                 {"internal/audit/budget", "internal/audit/model", "internal/audit/manifest", "internal/audit/images", "internal/audit/cmdline", "internal/audit/finding"},
	"internal/audit/fix":                   {"internal/audit/rules", "internal/audit/budget", "internal/audit/model", "internal/audit/manifest", "internal/audit/images", "internal/audit/finding", "internal/fault"},
	"internal/audit/budget":                {"internal/audit/model", "internal/audit/cmdline", "internal/audit/finding"},
	"internal/audit/model":                 {"internal/audit/manifest", "internal/audit/cmdline"},
	"internal/audit/source":                {"internal/audit/manifest", "internal/fault"},
	"internal/audit/manifest":              {"internal/fault"},
	"internal/audit/images":                {"internal/audit/cmdline"},
	"internal/audit/cmdline":               {},
	"internal/audit/finding":               {},
	"internal/record":                      {},
	"internal/stats":                       {},
	"internal/wire":                        {},
	"internal/clock":                       {},
	"internal/fault":                       {},
	"schema":                               {},
	"servers/go-plain":                     {},
	"servers/go-shutdown":                  {},
}

// walls are modules that only some packages may reach.
var walls = []struct {
	module string
	only   []string
	reason string
}{
	{"k8s.io/client-go", []string{"internal/kube", "internal/trigger"}, "the cluster is touched in two places"},
	{"k8s.io/api", []string{"internal/kube", "internal/trigger", "internal/rollout"}, "the cluster is touched in two places, and one judges its objects"},
	{"k8s.io/kubectl", []string{"internal/trigger"}, "a drain is kubectl's own, and only that"},
	{"k8s.io/streaming", []string{"internal/kube"}, "streams to Pods are the cluster's business"},
	{"k8s.io/apimachinery", []string{"internal/kube", "internal/trigger"}, "the cluster is touched in two places"},
	{"go.yaml.in/yaml", []string{"internal/audit/manifest", "internal/audit"}, "manifests are read in one place, and the audit's configuration to the letter in another"},
	{"github.com/spf13/cobra", []string{"internal/cli"}, "flags are the command layer's business"},
	{"github.com/google/go-containerregistry", []string{"internal/image", "internal/localcluster"}, "images are made in one place, and the local cluster's sandbox image beside it"},
	{"github.com/mdlayher/netlink", []string{"internal/agent/dataplane", "internal/agent/sockdiag"}, "what the node knows is the agent's business"},
	{"github.com/cilium/ebpf", []string{"internal/agent/kernel"}, "programs are loaded into the kernel in one place"},
	{"github.com/vishvananda/netlink", []string{"internal/localcluster"}, "links and routes are the local cluster's business"},
}

// lean packages must not reach Kubernetes' libraries even indirectly, so that they stay small and need no credentials.
var lean = []string{"internal/probe", "internal/traffic/request", "internal/tally", "internal/explain", "internal/verdict", "internal/journal", "internal/render/testview", "internal/traffic", "internal/wire", "internal/clock", "internal/record", "internal/stats", "internal/fault", "internal/localcluster", "internal/localcluster/parts", "internal/render", "internal/agent", "internal/evidence", "internal/render/htmlview",
	"internal/audit", "internal/audit/source", "internal/audit/fix", "internal/audit/rules", "internal/render/auditview"}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 10 {
		t.Fatalf("go list found only %d packages: the test would prove nothing", len(pkgs))
	}
	return pkgs
}

func TestImportsPointDown(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "internal/testkit") || slices.Contains([]string{"internal/arch", "internal/e2e", "internal/traffic/bench", "internal/agent/bench", "internal/audit/bench", "internal/traffic/request/bench"}, name) {
			continue // tests may know everything
		}
		seen[name] = true
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s has no place in the plan: add it to the table here and to docs/architecture.md", name)
			continue
		}
		for _, imp := range p.Imports {
			if inner, ok := strings.CutPrefix(imp, module); ok && !slices.Contains(may, inner) {
				t.Errorf("%s imports %s, which is not below it", name, inner)
			}
			for _, w := range walls {
				if (imp == w.module || strings.HasPrefix(imp, w.module+"/")) && !slices.Contains(w.only, name) {
					t.Errorf("%s imports %s, only for %v: %s", name, imp, w.only, w.reason)
				}
			}
		}
	}
	for name := range allowed {
		if !seen[name] {
			t.Errorf("the plan names %s, which does not exist", name)
		}
	}
}

func TestLeanPackagesStayLean(t *testing.T) {
	for _, p := range list(t) {
		if !slices.Contains(lean, strings.TrimPrefix(p.ImportPath, module)) {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "k8s.io/") {
				t.Errorf("%s reaches %s", p.ImportPath, dep)
				break
			}
		}
	}
}

func TestNoBagOfThings(t *testing.T) {
	for _, p := range list(t) {
		last := p.ImportPath[strings.LastIndex(p.ImportPath, "/")+1:]
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "types", "misc"}, last) {
			t.Errorf("%s: a package is named for what it is about", p.ImportPath)
		}
	}
}
