package fix

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// FuzzApply: whatever the text, what comes out can be read, has what was asked for, and has
// lost nothing else.
func FuzzApply(f *testing.F) {
	files, _ := filepath.Glob("testdata/plan/*.*")
	for _, path := range files {
		if text, err := os.ReadFile(path); err == nil && filepath.Ext(path) != ".golden" {
			f.Add(text)
		}
	}
	for _, spec := range []string{
		"      containers:\n      - &a {name: web}\n      - *a\n", "      containers: [{name: web,\n  image: x}]\n", "      containers:\n      - name: 'a\n\n       b'\n        lifecycle:\n",
		"      containers:\n      - name: >2\n           a\n         b\n\n      ? volumes\n      : []\n", "      containers:\n      - ? name\n        : web\n",
	} {
		f.Add([]byte(deployment(spec)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := manifest.Parse("x.yaml", text)
		if err != nil {
			return
		}
		var changes []Change
		for _, o := range objects {
			if o.Find(containerPath).Kind() == manifest.Map {
				changes = append(changes, change(o, "", "a change", nil, hooked...))
			}
		}
		out, err := Apply(map[string][]byte{"x.yaml": text}, changes)
		after, ok := out["x.yaml"]
		if !ok {
			if err == nil && len(changes) > 0 {
				// Everything was as it should be before.
				for _, c := range changes {
					for _, e := range c.edits {
						if c.object.Find(e.path).Text() != e.value.text {
							t.Fatalf("%s was not changed, and nothing says why", e.path)
						}
					}
				}
			}
			return
		}
		again, err := manifest.Parse("x.yaml", after)
		if err != nil || len(again) != len(objects) {
			t.Fatalf("%v: %q became %q", err, text, after)
		}
		for i, o := range again {
			want := treeOf(objects[i].Root)
			if where, bad := want.differs(treeOf(o.Root), ""); !bad {
				continue // unchanged
			} else {
				for _, e := range hooked {
					if err := want.set(e); err != nil {
						t.Fatal(err)
					}
				}
				if where2, bad := want.differs(treeOf(o.Root), ""); bad {
					t.Fatalf("%s and %s differ: %q became %q", where, where2, text, after)
				}
			}
		}
	})
}
