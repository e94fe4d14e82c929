package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goversion "go/version"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
)

// Space that a first build was seen to take, with room to spare.
const (
	goCacheSpace = 6 * gib // compiled packages, in Go's build cache
	modulesSpace = 1 * gib // sources, in Go's module cache
	workSpace    = 1 * gib // the program, and what the linker leaves while it works
)

// program is the file that holds all parts of a built set.
const program = "kubernetes"

// buildModule builds all parts as one program in dir, and links each name to it.
func (g *getter) buildModule(ctx context.Context, dir string) (builtWith string, err error) {
	if err := os.Remove(g.logName()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("old build log: %w", err)
	}
	tools, err := g.toolchain(ctx)
	if err != nil {
		return "", err
	}
	// The lock is held, so that what is there was left by a process that died.
	work := filepath.Join(g.root, "."+g.version.String()+"-"+g.arch+"-module.tmp")
	if err := os.RemoveAll(work); err != nil {
		return "", fmt.Errorf("clearing %s: %w", work, err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	module := filepath.Join(work, "module")
	g.goTmp = filepath.Join(work, "tmp")
	for _, d := range []string{module, g.goTmp} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", fmt.Errorf("module for Kubernetes %s: %w", g.version, err)
		}
	}
	if err := g.writeModule(ctx, module); err != nil {
		return "", err
	}
	if err := g.goSuffices(module, tools); err != nil {
		return "", err
	}
	g.say("building Kubernetes %s from its Go modules: 10 to 25 minutes on 2 cores the first time, log in %s",
		g.version, g.logName())
	g.say("fetching the modules")
	out, err := g.run(ctx, module, "list", "-deps", ".")
	if err != nil {
		return "", err
	}
	g.say("compiling; Kubernetes has %d packages, and those in Go's cache cost no time", strings.Count(string(out), "\n"))
	if _, err := g.run(ctx, module, "build", "-v", "-trimpath", "-buildvcs=false",
		"-ldflags", ldflags(g.version), "-o", filepath.Join(dir, program), "."); err != nil {
		return "", err
	}
	for _, p := range all() {
		if err := os.Symlink(program, filepath.Join(dir, string(p))); err != nil {
			return "", fmt.Errorf("link for %s: %w", p, err)
		}
	}
	return tools.GOVERSION, nil
}

// ldflags strip the program and tell it its version, as Kubernetes's own build does.
func ldflags(v version) string {
	const base = "-X k8s.io/component-base/version."
	return fmt.Sprintf("-s -w %sgitVersion=%s %sgitMajor=1 %sgitMinor=%d", base, v, base, base, v.minor)
}

// toolchain is what `go env -json` says about the user's Go.
type toolchain struct {
	path                                        string
	GOVERSION, GOTOOLCHAIN, GOCACHE, GOMODCACHE string
}

// toolchain finds Go, and room for what it will do.
func (g *getter) toolchain(ctx context.Context) (toolchain, error) {
	path, err := g.lookPath(g.goTool)
	if err != nil {
		return toolchain{}, fault.Measuref(nil, "install Go, or use --kubernetes-from download or a folder",
			"no Go in PATH to build Kubernetes %s with", g.version)
	}
	out, err := g.run(ctx, g.root, "env", "-json", "GOVERSION", "GOTOOLCHAIN", "GOCACHE", "GOMODCACHE")
	if err != nil {
		return toolchain{}, err
	}
	t := toolchain{path: path}
	if err := json.Unmarshal(out, &t); err != nil {
		return toolchain{}, fmt.Errorf("go env of %s: %w", path, err)
	}
	what := "build Kubernetes " + g.version.String()
	for _, need := range []struct {
		dir   string
		bytes uint64
	}{{t.GOCACHE, goCacheSpace}, {t.GOMODCACHE, modulesSpace}, {g.root, workSpace}} {
		if err := os.MkdirAll(need.dir, 0o755); err != nil {
			return toolchain{}, fault.Measuref(err, "set GOCACHE and GOMODCACHE to folders that can be written", "go has no cache")
		}
		if err := g.needSpace(need.dir, need.bytes, what); err != nil {
			return toolchain{}, err
		}
	}
	return t, nil
}

var goDirective = regexp.MustCompile(`(?m)^go ([0-9.a-z]+)$`)

// goSuffices compares the module's wish with the Go at hand. A newer Go is
// fetched by the go command itself, unless GOTOOLCHAIN forbids it.
func (g *getter) goSuffices(module string, t toolchain) error {
	raw, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return fmt.Errorf("module for Kubernetes %s: %w", g.version, err)
	}
	m := goDirective.FindSubmatch(raw)
	if m == nil {
		return fmt.Errorf("go.mod for Kubernetes %s names no version of Go", g.version)
	}
	have, _, _ := strings.Cut(t.GOVERSION, " ") // experiments follow the version
	if !goversion.IsValid(have) || goversion.Compare(have, "go"+string(m[1])) >= 0 {
		return nil // a Go from its repository ("devel ...") decides for itself
	}
	if t.GOTOOLCHAIN == "auto" || strings.HasSuffix(t.GOTOOLCHAIN, "+auto") {
		g.say("Kubernetes %s needs Go %s, and this is %s: the go command fetches the newer one", g.version, m[1], have)
		return nil
	}
	return fault.Measuref(nil, fmt.Sprintf("install Go %s or newer, or let Go fetch it: GOTOOLCHAIN=auto", m[1]),
		"kubernetes %s needs Go %s, and %s is %s", g.version, m[1], t.path, have)
}
