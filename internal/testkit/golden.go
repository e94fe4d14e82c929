package testkit

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
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
