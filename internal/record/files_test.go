package record_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func write(t *testing.T, dir string, r record.Record, force bool) string {
	t.Helper()
	path, err := record.Write(dir, r, force)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// compress turns a record file into its compressed form.
func compress(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), os.WriteFile(path+".gz", b.Bytes(), 0o644), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
}

func TestWriteAndRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on demand")
	path := write(t, dir, records.Ignore(), false)
	if path != filepath.Join(dir, "record.json") {
		t.Errorf("path is %s", path)
	}
	if diff := cmp.Diff([]string{"record.json"}, names(t, dir)); diff != "" {
		t.Errorf("folder (-want +got):\n%s", diff)
	}
	want, err := record.Encode(records.Ignore())
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{path, dir} {
		got, err := record.Read(from)
		if err != nil {
			t.Fatal(err)
		}
		if problems := record.Validate(got); len(problems) > 0 {
			t.Errorf("reading %s: %v", from, problems)
		}
		again, err := record.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(again)); diff != "" {
			t.Errorf("reading %s (-written +read):\n%s", from, diff)
		}
	}
	compress(t, path)
	got, err := record.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if *got.Summary.ContainerExitCode != 137 {
		t.Errorf("the compressed record says exit code %d", *got.Summary.ContainerExitCode)
	}
}

func TestWriteNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, records.Exit(), false)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = record.Write(dir, records.Drain(), false)
	if exists, ok := errors.AsType[*record.ExistsError](err); !ok || exists.Path != path {
		t.Fatalf("error is %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the record was changed")
	}
	compress(t, path)
	_, err = record.Write(dir, records.Drain(), false)
	if exists, ok := errors.AsType[*record.ExistsError](err); !ok || exists.Path != path+".gz" {
		t.Fatalf("over a compressed record: error is %v", err)
	}
	write(t, dir, records.Drain(), true)
	if diff := cmp.Diff([]string{"record.json"}, names(t, dir)); diff != "" {
		t.Errorf("after a forced write (-want +got):\n%s", diff)
	}
	if got, err := record.Read(dir); err != nil || got.ID != records.Drain().ID {
		t.Errorf("after a forced write: %s, %v", got.ID, err)
	}
}

func TestWriteByManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		wg.Go(func() { _, results[i] = record.Write(dir, records.Exit(), false) })
	}
	wg.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
		} else if _, ok := errors.AsType[*record.ExistsError](err); !ok {
			t.Errorf("error is %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d writers won, not 1", won)
	}
	if diff := cmp.Diff([]string{"record.json"}, names(t, dir)); diff != "" {
		t.Errorf("folder (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	good, err := record.Encode(records.Survived())
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, data []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	isSchema := func(found string) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*record.SchemaError](err)
			return ok && e.Found == found && strings.Contains(err.Error(), e.Path)
		}
	}
	named := func(text string) func(error) bool {
		return func(err error) bool { return err != nil && strings.Contains(err.Error(), text) }
	}
	for _, c := range []struct {
		name string
		path string
		ok   func(error) bool
	}{
		{"a later version", file("v2.json", bytes.Replace(good, []byte("record/v1"), []byte("record/v2"), 1)), isSchema("drainproof.dev/record/v2")},
		{"another document", file("pod.json", []byte(`{"kind":"Pod"}`)), isSchema("")},
		{"a cut file", file("cut.json", good[:len(good)/2]), named("cut.json is not a record")},
		{"two documents", file("two.json", append(bytes.Clone(good), good...)), named("two.json is not a record")},
		{"an empty file", file("empty.json", nil), named("empty.json is not a record")},
		{"a cut archive", file("cut.json.gz", []byte{0x1f, 0x8b, 8, 0}), named("cut.json.gz")},
		{"no file", filepath.Join(dir, "none.json"), func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		{"a folder without one", dir, func(err error) bool { _, ok := errors.AsType[*record.NoRecordError](err); return ok }},
	} {
		if _, err := record.Read(c.path); !c.ok(err) {
			t.Errorf("%s: error is %v", c.name, err)
		}
	}
}

func TestReadPassesOverUnknownFields(t *testing.T) {
	data, err := record.Encode(records.Survived())
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	doc["of_a_later_release"] = map[string]any{"x": 1}
	if data, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(t.TempDir(), "record.json")
	if err := os.WriteFile(p, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := record.Read(p); err != nil || r.ID != records.Survived().ID {
		t.Errorf("%s, %v", r.ID, err)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	b := write(t, filepath.Join(root, "b"), records.Exit(), false)
	a := write(t, filepath.Join(root, "a", "1"), records.Exit(), false)
	c := write(t, filepath.Join(root, "c"), records.Exit(), false)
	compress(t, c)
	both := write(t, filepath.Join(root, "d"), records.Exit(), false)
	compress(t, both)
	data, err := record.Encode(records.Exit())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(both, data, 0o644); err != nil {
		t.Fatal(err)
	}
	want := []string{a, b, c + ".gz", both}
	got, err := record.Find(root, b, filepath.Join(root, "a"))
	if err != nil || !slices.Equal(want, got) {
		t.Errorf("found %q, %v; want %q", got, err, want)
	}
	empty := filepath.Join(root, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = record.Find(root, empty)
	if e, ok := errors.AsType[*record.NoRecordError](err); !ok || e.Path != empty {
		t.Errorf("error is %v", err)
	}
	none := filepath.Join(root, "none")
	_, err = record.Find(root, none)
	if e, ok := errors.AsType[*record.NotFoundError](err); !ok || e.Path != none || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

// TestReadWantsAFile: a device or a pipe is refused at once, not waited for.
func TestReadWantsAFile(t *testing.T) {
	if _, err := record.Read("/dev/zero"); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("reading a device: %v", err)
	}
}
