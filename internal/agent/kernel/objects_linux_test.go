//go:build amd64 || arm64

package kernel

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

const record = "bpf/sources.sha256"

// TestObjectsAreOfTheirSources needs no compiler: whoever changed a source without compiling it left the old sum.
func TestObjectsAreOfTheirSources(t *testing.T) {
	b, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	recorded := make(map[string]string)
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if sum, name, ok := strings.Cut(lines.Text(), "  "); ok {
			recorded[name] = sum
		}
	}
	actual := make(map[string]string)
	for _, pattern := range []string{"bpf/*.c", "bpf/*.h"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(source)
			actual[filepath.Base(file)] = hex.EncodeToString(sum[:])
		}
	}
	if diff := cmp.Diff(recorded, actual); diff != "" {
		t.Errorf("the sources are not those that were compiled (run make bpf; -recorded +actual):\n%s", diff)
	}
}

// TestObjectsCompileAgain compares the committed objects with new ones: instruction by instruction where the same compiler makes
// them, else what every compiler must agree on.
func TestObjectsCompileAgain(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("../../../scripts/bpf.sh", dir).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 4 {
		t.Skipf("%s; the sums of the sources are compared all the same", bytes.TrimSpace(out))
	}
	if err != nil {
		t.Fatalf("compiling: %v\n%s", err, out)
	}
	sameCompiler := compiler(t, record) == compiler(t, filepath.Join(dir, filepath.Base(record)))
	if !sameCompiler {
		t.Logf("compared without instructions: this compiler is %q, and the committed objects are made by %q", compiler(t, filepath.Join(dir, filepath.Base(record))), compiler(t, record))
	}
	committed, err := filepath.Glob("bpf/*.o")
	if err != nil || len(committed) == 0 {
		t.Fatalf("no committed objects: %v", err)
	}
	for _, object := range committed {
		old, again := describe(t, object, sameCompiler), describe(t, filepath.Join(dir, filepath.Base(object)), sameCompiler)
		if diff := cmp.Diff(old, again); diff != "" {
			t.Errorf("%s is not what its source compiles to (run make bpf; -committed +compiled):\n%s", object, diff)
		}
	}
}

func compiler(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimPrefix(first, "# compiled by ")
}

// describe lists an object's maps and programs, and where asked their instructions with the kernel's fields that they read.
func describe(t *testing.T, file string, instructions bool) []string {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		m := spec.Maps[name]
		lines = append(lines, fmt.Sprintf("map %s: %s, key %d, value %d, %d entries, flags %d, %v of %v", name, m.Type, m.KeySize, m.ValueSize, m.MaxEntries, m.Flags, m.Value, m.Key))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		p := spec.Programs[name]
		lines = append(lines, fmt.Sprintf("program %s: %s, license %s", name, p.SectionName, p.License))
		if !instructions {
			continue
		}
		for i, ins := range p.Instructions {
			line := fmt.Sprintf("%s %d: %v", name, i, ins)
			if field := btf.CORERelocationMetadata(&ins); field != nil {
				line += " " + field.String()
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// TestEveryProgramHasItsSource holds the table of sources and the objects together.
func TestEveryProgramHasItsSource(t *testing.T) {
	compiled, err := specs()
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, s := range sources {
		for _, name := range s.ways {
			named[name] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(compiled))); diff != "" {
		t.Errorf("programs (-table +objects):\n%s", diff)
	}
}
