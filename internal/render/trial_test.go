package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/drainproof/drainproof/internal/explain"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/testkit/records"
)

// The drain window is a setting of the arm that drains; elsewhere it would look like one in force.
func TestDrainWindowIsToldOfTheDrainArmOnly(t *testing.T) {
	for arm, want := range map[string]bool{"drain": true, "exit": false, "ignore": false} {
		r := records.Drain()
		r.Config.Arm = arm
		var b bytes.Buffer
		if err := Trial(&b, r, Opts{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "drain window"); got != want {
			t.Errorf("%s: the drain window is told: %t, want %t", arm, got, want)
		}
	}
}

func TestTrialGoldens(t *testing.T) {
	for _, s := range samples() {
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

// watched is a trial with agents, and what the product derives of it.
func watched() record.Record {
	r := records.ScaleWatched()
	explain.Record(&r)
	return r
}

// samples are all trials that are shown.
func samples() []records.Sample {
	return append(records.Named(), records.Sample{Name: "watched", Record: watched()})
}
