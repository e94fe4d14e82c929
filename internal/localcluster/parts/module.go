package parts

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
)

// The program's source and, for the versions that the project measures with,
// the module files: they pin every library by its digest. The names end in
// .txt so that the go command sees neither a package nor a nested module here.
//
//go:embed module
var moduleFiles embed.FS

const etcdModule = "go.etcd.io/etcd/server/v3"

// writeModule fills dir with the module that builds every part of the version.
func (g *getter) writeModule(ctx context.Context, dir string) error {
	source, err := moduleFiles.ReadFile("module/main.go.txt")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source, 0o644); err != nil {
		return fmt.Errorf("module for Kubernetes %s: %w", g.version, err)
	}
	pinned := path.Join("module", g.version.String())
	switch _, err := fs.Stat(moduleFiles, pinned); {
	case errors.Is(err, fs.ErrNotExist):
		return g.deriveModule(ctx, dir)
	case err != nil:
		return err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := moduleFiles.ReadFile(path.Join(pinned, name+".txt"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			return fmt.Errorf("module for Kubernetes %s: %w", g.version, err)
		}
	}
	return nil
}

// deriveModule makes the module files of a version that is not pinned, from
// Kubernetes's own go.mod. Its libraries are checked by Go's checksum database.
func (g *getter) deriveModule(ctx context.Context, dir string) error {
	g.say("looking up the modules of Kubernetes %s", g.version)
	out, err := g.run(ctx, dir, "mod", "download", "-json", "k8s.io/kubernetes@"+g.version.String())
	var module struct{ GoMod, Error string }
	if jsonErr := json.Unmarshal(out, &module); jsonErr == nil && module.Error != "" {
		return g.goFault(module.Error, "choose a version that was released",
			"kubernetes %s is not to be had as a Go module", g.version)
	}
	if err != nil {
		return err
	}
	if module.GoMod == "" {
		return fmt.Errorf("go mod download -json k8s.io/kubernetes@%s named no go.mod: %.200q", g.version, out)
	}
	out, err = g.run(ctx, dir, "mod", "edit", "-json", module.GoMod)
	if err != nil {
		return err
	}
	goMod, err := deriveGoMod(out, g.version)
	if err != nil {
		return fmt.Errorf("go.mod of Kubernetes %s: %w", g.version, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(goMod), 0o644); err != nil {
		return fmt.Errorf("module for Kubernetes %s: %w", g.version, err)
	}
	_, err = g.run(ctx, dir, "mod", "tidy")
	return err
}

// goModJSON is what `go mod edit -json` prints, as far as it is needed.
type goModJSON struct {
	Go      string
	GoDebug []struct{ Key, Value string }
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// deriveGoMod turns Kubernetes's go.mod (as JSON) into one of a module that
// imports it. Kubernetes replaces its libraries by folders of its repository,
// which no other module can see; they are published as v0.MINOR.PATCH.
func deriveGoMod(asJSON []byte, v version) (string, error) {
	var of goModJSON
	if err := json.Unmarshal(asJSON, &of); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module kubernetes\n\ngo %s\n", of.Go)
	for _, d := range of.GoDebug {
		fmt.Fprintf(&b, "\ngodebug %s=%s\n", d.Key, d.Value)
	}
	etcd := ""
	for _, r := range of.Require {
		if r.Path == etcdModule {
			etcd = r.Version
		}
	}
	if etcd == "" {
		return "", fault.Measuref(nil, "choose another version", "it does not name %s", etcdModule)
	}
	fmt.Fprintf(&b, "\nrequire (\n\t%s %s\n\tk8s.io/kubernetes %s\n)\n\nreplace (\n", etcdModule, etcd, v)
	for _, r := range of.Replace {
		to, version := r.New.Path, r.New.Version
		if rest, ok := strings.CutPrefix(to, "./staging/src/"); ok {
			to, version = rest, v.staging()
		}
		if version == "" {
			return "", fmt.Errorf("it replaces %s by the folder %s", r.Old.Path, to)
		}
		fmt.Fprintf(&b, "\t%s => %s %s\n", strings.TrimSpace(r.Old.Path+" "+r.Old.Version), to, version)
	}
	b.WriteString(")\n")
	return b.String(), nil
}
