package fix

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestOnTheExamplesOfTheRules: whatever a rule finds in its examples, the repair is sound, leaves nothing
// of its own to do, and brings no warning or error that was not there.
func TestOnTheExamplesOfTheRules(t *testing.T) {
	files, err := filepath.Glob("../rules/testdata/DP*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	repaired := 0
	for _, path := range files {
		file := filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			before := audit(t, file, text)
			changes := before.plan()
			out, err := Apply(map[string][]byte{file: text}, changes)
			var refused *Refused
			if err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
			if refused != nil {
				t.Log(refused)
			}
			for _, c := range changes {
				if c.Skipped == "" {
					repaired++
				}
			}
			after := audit(t, file, cmpOr(out[file], text))
			nothingLeft(t, changes, refused, after)
			nothingNew(t, before, after)
			if got, err := patched(text, Diff(file, text, cmpOr(out[file], text))); err != nil || string(got) != string(cmpOr(out[file], text)) {
				t.Errorf("the diff does not give the result: %v", err)
			}
		})
	}
	t.Logf("%d changes in %d files", repaired, len(files))
	if repaired == 0 {
		t.Error("nothing was repaired")
	}
}
