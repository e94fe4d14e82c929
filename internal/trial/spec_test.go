package trial

import (
	"strings"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
)

// TestNotesSayWhatWeCaused: each note is there where it applies, and nowhere else.
func TestNotesSayWhatWeCaused(t *testing.T) {
	with := func(edit func(*record.Config)) record.Config {
		c := Defaults()
		edit(&c)
		return Complete(c)
	}
	const forced, unforced, hook = "The resets are forced", "Nothing was forced", "at least 2s after its hook"
	for _, c := range []struct {
		name string
		c    record.Config
		want []string
	}{
		{"drain", with(func(*record.Config) {}), nil},
		{"drain, nothing forced", with(func(c *record.Config) { c.ForceRST = false }), nil},
		{"exit", with(func(c *record.Config) { c.Arm = "exit" }), []string{forced}},
		{"exit, left to the kernel", with(func(c *record.Config) { c.Arm, c.ForceRST = "exit", false }), []string{unforced}},
		{"a hook that leaves enough", with(func(c *record.Config) { c.PreStopSleepNs = int64(28 * time.Second) }), nil},
		{"a hook that leaves 1 s", with(func(c *record.Config) { c.PreStopSleepNs = int64(29 * time.Second) }), []string{hook}},
		{"a hook that leaves nothing", with(func(c *record.Config) { c.PreStopSleepNs = int64(30 * time.Second) }), []string{hook}},
		{"grace 1 s without a hook", with(func(c *record.Config) { c.GraceNs = int64(time.Second) }), nil},
		{"a hook that nothing runs", with(func(c *record.Config) { c.PreStopSleepNs, c.Trigger = int64(30*time.Second), "none" }), nil},
	} {
		notes := strings.Join(causedByUs(c.c), "\n")
		for _, text := range []string{forced, unforced, hook} {
			want := false
			for _, w := range c.want {
				want = want || w == text
			}
			if got := strings.Contains(notes, text); got != want {
				t.Errorf("%s: %q is there: %t, want %t\n%s", c.name, text, got, want, notes)
			}
		}
	}
}

func TestUnknownWordsNameTheKnownOnes(t *testing.T) {
	c := Complete(Defaults())
	c.Arm = "drian"
	err := Validate(c)
	if err == nil || fault.CodeOf(err) != fault.Usage || fault.NextOf(err) != "choose drain, exit or ignore" {
		t.Errorf("%v; next: %s", err, fault.NextOf(err))
	}
}
