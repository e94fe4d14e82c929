package explain

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/record"
)

// Whatever part of whatever evidence is there, in whatever order of times: no loss has two causes, every cause is of the closed list, has a sentence, and names only
// events that exist; what is claimed of the workload is claimed by some.
func TestNothingHasTwoCauses(t *testing.T) {
	all := append(scenarios(), flowScenarios()...)
	rapid.Check(t, func(t *rapid.T) {
		s := all[rapid.IntRange(0, len(all)-1).Draw(t, "scenario")]
		b := s.make()
		if rapid.Bool().Draw(t, "with another") {
			other := all[rapid.IntRange(0, len(all)-1).Draw(t, "other")].make()
			b.r.Events = append(b.r.Events, other.r.Events...)
		}
		damage(t, b)
		f := s.f
		if s.flow == nil {
			f.Outcome = rapid.SampledFrom([]record.RequestOutcome{f.Outcome, f.Outcome, record.Refused, record.ConnectTimeout, record.ResetBeforeResponse, record.EOFBeforeResponse, record.HTTPError}).Draw(t, "outcome")
			f.Connection = rapid.SampledFrom([]record.Connection{f.Connection, record.NewConnection, record.ReusedConnection}).Draw(t, "connection")
			f.Instance = rapid.SampledFrom([]*string{nil, nil, new("web-1"), new("web-2")}).Draw(t, "instance")
			s.f = f
		}
		r, c := s.judged(b)
		if !slices.Contains(record.CauseKinds(), c.Kind) || c.Sentence == "" || c.Evidence == nil || !slices.IsSorted(c.Evidence) {
			t.Fatalf("%+v", c)
		}
		for _, id := range c.Evidence {
			if id < 1 || id > len(r.Events) {
				t.Fatalf("%s names event %d of %d", c.Kind, id, len(r.Events))
			}
		}
		if c.Kind != unattributed && c.Kind != "client-limit" && len(c.Evidence) == 0 {
			t.Fatalf("%s by nothing: %s", c.Kind, c.Sentence)
		}
		v := newView(&r)
		var l loss
		if s.flow != nil {
			l, _ = v.flowLost(&r.Flows[0])
		} else {
			l = v.lossOf(r.Failures[0])
		}
		var fit []string
		for _, rule := range rules {
			if x := rule.fits(v, l); x.sentence != "" {
				fit = append(fit, rule.kind)
			}
		}
		if len(fit) > 1 {
			t.Fatalf("%v fit alike: %s", fit, c.Sentence)
		}
	})
}

// damage leaves out events, moves them and makes their times less sure, and takes sights away.
func damage(t *rapid.T, b *test) {
	var kept []record.Event
	for _, e := range b.r.Events {
		if rapid.IntRange(0, 5).Draw(t, "drop") == 0 {
			continue
		}
		e.TNs += int64(rapid.SampledFrom([]int{0, 0, 0, 0, -3, 2, 40, -700, 1500}).Draw(t, "shift")) * ms
		e.UncertaintyNs = rapid.SampledFrom([]*int64{new(int64(0)), new(int64(0)), new(int64(3 * ms)), nil}).Draw(t, "doubt")
		kept = append(kept, e)
	}
	b.r.Events = kept
	for _, a := range b.r.Agents {
		for i := range a.Sights {
			a.Sights[i].Seen = rapid.IntRange(0, 9).Draw(t, "seen") > 0
		}
	}
}
