package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/testkit/records"
)

// A set whose arms differ in a setting must not print the first arm's for all.
func TestConditionsThatDifferAreGivenByArm(t *testing.T) {
	var in []Input
	for i, r := range records.Matrix("iptables", 1) {
		if i == 0 {
			r.Config.GraceNs = int64(7 * time.Second)
		}
		in = append(in, Input{Path: r.ID, Record: r})
	}
	var b bytes.Buffer
	if err := Set(&b, in, Opts{Width: 200}); err != nil {
		t.Fatal(err)
	}
	first, second := in[0].Record.Set.Arm, in[1].Record.Set.Arm
	for _, w := range []string{"grace by arm (", first + " 7 s", second + " 30 s", "path clusterip"} {
		if !strings.Contains(strings.ReplaceAll(b.String(), "\n", " "), w) {
			t.Errorf("the conditions do not say %q:\n%.1500s", w, b.String())
		}
	}
}
