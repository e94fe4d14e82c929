package testkit

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update rewrites goldens: go test ./internal/render -update.
var update = flag.Bool("update", false, "rewrite golden files with what the tests got")

// Updating says whether -update was given, for tests that keep a part of a page.
func Updating() bool { return *update }

// Golden compares got with the file testdata/name of the package under test.
// With -update it writes that file instead.
func Golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the golden (run this test with -update to make it): %v", err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs (run this test with -update if that is meant), -want +got:\n%s", path, cmp.Diff(string(want), string(got)))
	}
}

// Page is a page of the documentation whose parts are held to what the program gives.
type Page struct{ path, have, want string }

// ReadPage reads one.
func ReadPage(t testing.TB, path string) *Page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Page{path, string(text), string(text)}
}

// Put sets what the page must hold between two marks, which stay. A page without them fails the test.
func (p *Page) Put(t testing.TB, begin, end, text string) {
	t.Helper()
	before, rest, found := strings.Cut(p.want, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for this, between %s and %s", p.path, begin, end)
	}
	p.want = before + begin + text + end + after
}

// Hold demands that the page is as Put has set it. With -update it writes it so instead.
func (p *Page) Hold(t testing.TB) {
	t.Helper()
	switch {
	case p.want == p.have:
	case *update:
		if err := os.WriteFile(p.path, []byte(p.want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the program gives; make update writes it (-page +program):\n%s", p.path, cmp.Diff(p.have, p.want))
	}
}
