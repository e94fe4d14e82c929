package render

import (
	"bytes"
	"testing"

	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

func TestTrialGoldens(t *testing.T) {
	for _, s := range records.Named() {
		t.Run(s.Name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Trial(&b, s.Record, Opts{}); err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, "trial-"+s.Name+".txt", b.Bytes())
		})
	}
	for name, o := range map[string]Opts{
		"trial-color.txt": {Color: true}, "trial-narrow.txt": {Width: 80}, "trial-verbose.txt": {Verbose: true},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Trial(&b, records.Exit(), o); err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, name, b.Bytes())
		})
	}
}
