// Package source gets the objects of an audit from where they are: files,
// folders, standard input, and what kustomize and helm render.
//
// It must not know what an object means, nor touch a cluster.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/fault"
)

// stdinName is the File of objects from standard input.
const stdinName = "stdin"

// Files reads files, folders (with all below) and standard input ("-"), and gives the
// objects in the order of the paths, those of a folder in the order of their files' names.
//
// In a folder, what is hidden is left out, and so are folders that have to be rendered first (of Helm
// and kustomize) and files that hold no Kubernetes object: the notes name them. Named by its own path, such
// a file is an error. The notes name objects that are given twice, too.
func Files(ctx context.Context, paths []string, stdin io.Reader) ([]*manifest.Object, []string, error) {
	w := walker{folders: map[string]bool{}, named: map[string]bool{}}
	for _, path := range paths {
		if err := w.add(path); err != nil {
			return nil, nil, err
		}
	}
	results, err := readAll(ctx, w.inputs, stdin)
	if err != nil {
		return nil, nil, err
	}
	var objects []*manifest.Object
	var wrong []error
	skipped := w.skipped
	for i, r := range results {
		switch {
		case r.err == nil:
		case w.inputs[i].found && len(r.objects) == 0 && errors.Is(r.err, manifest.ErrNoObject):
			skipped = append(skipped, skip{r.err.Error(), fault.NextOf(r.err), true})
		default:
			wrong = append(wrong, r.err)
		}
		objects = append(objects, r.objects...)
	}
	switch {
	case len(wrong) > 0:
		return nil, nil, several(wrong)
	case len(objects) == 0 && len(skipped) > 0:
		return nil, nil, fault.Usagef(skipped[0].next, "no Kubernetes object was found: %s", skipped[0].what)
	}
	return objects, append(notesOf(skipped), twice(objects)...), nil
}

// several makes one error of a few; the first one's advice and exit code count.
func several(wrong []error) error {
	const most = 5
	if len(wrong) == 1 {
		return wrong[0]
	}
	more := len(wrong) - most
	if more > 0 {
		wrong = append(wrong[:most:most], fmt.Errorf("and %d more files cannot be read", more))
	}
	return errors.Join(wrong...)
}

// input is one text to read.
type input struct {
	path string
	// found says that it was met in a folder, not named.
	found bool
}

type result struct {
	objects []*manifest.Object
	err     error
}

// readAll reads and parses a few inputs at a time. Its error is the context's.
func readAll(ctx context.Context, inputs []input, stdin io.Reader) ([]result, error) {
	results := make([]result, len(inputs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, in := range inputs {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			results[i] = in.read(stdin)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fault.Measuref(err, "run it again", "reading the manifests was interrupted")
	}
	return results, nil
}

func (in input) read(stdin io.Reader) (r result) {
	if in.path == "-" {
		text, err := capped(stdin, 0)
		switch {
		case errors.Is(err, errLarge):
			return result{err: tooLarge("standard input")}
		case err != nil:
			return result{err: fault.Usagef("check the command before the pipe", "standard input cannot be read: %v", err)}
		}
		r.objects, r.err = manifest.Parse(stdinName, text)
		nameTemplates(r.objects, text)
		return r
	}
	text, err := readFile(in.path)
	switch {
	case errors.Is(err, errLarge):
		return result{err: tooLarge(in.path)}
	case err != nil:
		return result{err: unreadable(in.path, err)}
	}
	r.objects, r.err = manifest.Parse(in.path, text)
	return r
}

func unreadable(path string, err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		err = p.Err
	}
	if errors.Is(err, os.ErrNotExist) {
		return fault.Usagef("check the path", "%s does not exist", path)
	}
	return fault.Usagef("check the path and its permissions", "%s cannot be read: %v", path, err)
}

// walker finds the files.
type walker struct {
	inputs  []input
	skipped []skip
	// folders holds the real paths of the folders that were seen: links may lead back.
	folders map[string]bool
	named   map[string]bool
}

// add takes one path as the user gave it.
func (w *walker) add(path string) error {
	switch {
	case path == "":
		return fault.Usagef("name a file, a folder, or - for stdin", "a path is empty")
	case path == "-":
		if w.named[path] {
			return fault.Usagef("name - once", "standard input is named twice")
		}
		w.file(path, false)
		return nil
	case strings.HasPrefix(path, "http://"), strings.HasPrefix(path, "https://"):
		return fault.Usagef("fetch it and pipe it: curl -sSfL URL | drainproof audit -f -", "%s is a URL, and only files are read", path)
	}
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err != nil {
		return unreadable(path, err)
	}
	if info.IsDir() {
		return w.folder(path)
	}
	w.file(path, false)
	return nil
}

func (w *walker) file(path string, found bool) {
	if w.named[path] {
		return
	}
	w.named[path] = true
	w.inputs = append(w.inputs, input{path, found})
}

func (w *walker) folder(dir string) error {
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return unreadable(dir, err)
	}
	if target, err = filepath.Abs(target); err != nil {
		return unreadable(dir, err)
	}
	if w.folders[target] {
		return nil
	}
	w.folders[target] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unreadable(dir, err)
	}
	for _, e := range entries {
		switch e.Name() {
		case "Chart.yaml":
			w.skipped = append(w.skipped, skip{dir + " is a Helm chart, whose templates are not manifests", "audit it with --helm " + dir, false})
			return nil
		case "kustomization.yaml", "kustomization.yml", "Kustomization":
			w.skipped = append(w.skipped, skip{dir + " is a kustomization, whose patches are not whole manifests", "audit it with -k " + dir, false})
			return nil
		}
	}
	for _, e := range entries {
		path, mode := filepath.Join(dir, e.Name()), e.Type()
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if mode&os.ModeSymlink != 0 {
			info, err := os.Stat(path)
			if err != nil {
				w.skipped = append(w.skipped, skip{path + " is a link that leads nowhere", "check where it leads", false})
				continue
			}
			mode = info.Mode()
		}
		switch {
		case mode.IsDir():
			if err := w.folder(path); err != nil {
				return err
			}
		case mode.IsRegular() && isManifest(e.Name()):
			w.file(path, true)
		}
	}
	return nil
}

func isManifest(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
