package source

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/fault"
)

// rendered marks a File that holds the origin of an object, while the object's lines count in
// what was rendered from it.
const rendered = " (rendered)"

// Kustomize gives what kustomize builds of a folder, or kubectl where there is no kustomize. The
// objects' File is "DIR (rendered)"; their lines count in the program's whole output.
func Kustomize(ctx context.Context, dir string) ([]*manifest.Object, error) {
	if err := operand("-k", dir); err != nil {
		return nil, err
	}
	program, args := "kustomize", []string{"build", dir}
	if _, err := exec.LookPath(program); err != nil {
		program, args = "kubectl", []string{"kustomize", dir}
		if _, err := exec.LookPath(program); err != nil {
			return nil, fault.Usagef("install one of them, or pipe what another machine builds: kustomize build DIR | drainproof audit -f -",
				"%s cannot be built: neither kustomize nor kubectl is in PATH", dir)
		}
	}
	text, err := run(ctx, "kustomize build DIR | drainproof audit -f -", program, args...)
	if err != nil {
		return nil, err
	}
	return manifest.Parse(filepath.Clean(dir)+rendered, text)
}

// Helm gives what helm template renders of a chart. The objects' File is the template that they come from, as
// helm names it, e.g. "shop/templates/web.yaml (rendered)"; their lines count in helm's whole output,
// where alone a template's values are known.
func Helm(ctx context.Context, chart, release, namespace string, valuesFiles, set []string) ([]*manifest.Object, error) {
	if err := operand("--helm", chart); err != nil {
		return nil, err
	}
	const pipe = "helm template RELEASE CHART | drainproof audit -f -"
	if _, err := exec.LookPath("helm"); err != nil {
		return nil, fault.Usagef("install it, or pipe what another machine renders: "+pipe, "%s cannot be rendered: helm is not in PATH", chart)
	}
	args := []string{"template", release, chart}
	if namespace != "" {
		args = append(args, "--namespace", namespace)
	}
	for _, f := range valuesFiles {
		args = append(args, "--values", f)
	}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	text, err := run(ctx, pipe, "helm", args...)
	if err != nil {
		return nil, err
	}
	objects, err := manifest.Parse(filepath.Clean(chart)+rendered, text)
	nameTemplates(objects, text)
	return objects, err
}

// operand refuses what a program would take for a flag.
func operand(flag, value string) error {
	if value == "" || value[0] == '-' {
		return fault.Usagef("name a folder; write ./-name if it starts so", "%s %q names no folder", flag, value)
	}
	return nil
}

// run gives a program's standard output.
func run(ctx context.Context, pipe, program string, args ...string) ([]byte, error) {
	running, end := context.WithCancel(ctx)
	defer end()
	cmd := exec.CommandContext(running, program, args...)
	cmd.WaitDelay = 2 * time.Second // its children may hold the pipes
	out := output{end: end}
	var problems tail
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if err == nil {
		return out.text.Bytes(), nil
	}
	command := program + " " + strings.Join(args, " ")
	if out.over {
		return nil, tooLarge("what " + command + " prints")
	}
	if ctx.Err() != nil {
		return nil, fault.Measuref(ctx.Err(), "run it again", "%s was interrupted", command)
	}
	what := fmt.Sprintf("%s failed (%v)", command, err)
	if lines := problems.lines(); len(lines) > 0 {
		what += ":\n  " + strings.Join(lines, "\n  ")
	}
	return nil, fault.Usagef("make the command work by itself first; if it needs more flags, pipe it: "+pipe, "%s", what)
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

const (
	tailBytes = 8 << 10
	tailLines = 5
)

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if len(t.text) > 2*tailBytes {
		t.text = append(t.text[:0], t.text[len(t.text)-tailBytes:]...)
	}
	return len(b), nil
}

// lines gives the last lines that are not blank.
func (t *tail) lines() []string {
	var lines []string
	for row := range bytes.Lines(t.text) {
		if row := strings.TrimSpace(string(row)); row != "" {
			lines = append(lines, row)
		}
	}
	return lines[max(0, len(lines)-tailLines):]
}

// nameTemplates gives objects that helm rendered the name of their template, which stands in a
// comment on top of each document. Others keep their File.
func nameTemplates(objects []*manifest.Object, text []byte) {
	const comment = "# Source: "
	if len(objects) == 0 || !bytes.Contains(text, []byte(comment)) {
		return
	}
	type start struct {
		line int
		name string
	}
	var starts []start
	line, top := 0, true
	for row := range bytes.Lines(text) {
		line++
		row = bytes.TrimRight(row, "\r\n")
		switch name, is := bytes.CutPrefix(row, []byte(comment)); {
		case bytes.HasPrefix(row, []byte("---")):
			starts, top = append(starts, start{line, ""}), true
		case is && top:
			starts, top = append(starts, start{line, string(name)}), false
		case len(row) > 0 && row[0] != '#':
			top = false
		}
	}
	for _, o := range objects {
		at := o.Line("")
		i := sort.Search(len(starts), func(i int) bool { return starts[i].line > at }) - 1
		if i >= 0 && starts[i].name != "" {
			o.File = starts[i].name + rendered
		}
	}
}
