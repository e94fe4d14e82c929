package htmlview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render"
)

// view is a page before it is HTML. Its texts are as the record has them; the template cleans and escapes them.
type view struct {
	Title string
	// Set sums up several trials; nil for one.
	Set    *setView
	Trials []trialView
	// Made names the program that measured.
	Made string
}

// trialView is one trial of a page.
type trialView struct {
	// Anchor is the id of its section, Heading its name in a set.
	Anchor, Heading, ID, Subject string
	Index                        int
	Verdict                      verdictView
	Tiles                        []tile
	Tested                       []fact
	Doubts                       []string
	// Notes are the record's own: what the harness caused itself, and what else a reader must know.
	Notes []string
	// Sound says what was checked where nothing is to be doubted.
	Sound  string
	Tables []table
	// Lanes and Curves are drawings for print, and for where no script runs.
	Lanes  *drawing
	Curves []drawing
	// Kept says what of the requests the record holds one by one; empty without any. Cut says what the timeline leaves out; empty for nothing.
	Kept, Cut string
	island    string
}

// fact is a name and its value.
type fact struct{ Name, Value string }

func viewOf(inputs []render.Input) (view, error) {
	inputs = ordered(inputs)
	v := view{Made: toolText(inputs[0].Record.Tool)}
	for i, in := range inputs {
		t, err := trialOf(i, in.Record)
		if err != nil {
			return view{}, err
		}
		v.Trials = append(v.Trials, t)
	}
	if len(inputs) == 1 {
		v.Title = v.Trials[0].Subject
		return v, nil
	}
	v.Set = setOf(inputs, v.Trials)
	v.Title = v.Set.Title
	return v, nil
}

// ordered sorts trials by experiment, arm and repeat, single ones by when they began.
func ordered(inputs []render.Input) []render.Input {
	list := slices.Clone(inputs)
	slices.SortStableFunc(list, func(a, b render.Input) int {
		x, y := placeOf(a.Record), placeOf(b.Record)
		return cmp.Or(cmp.Compare(x.Experiment, y.Experiment), cmp.Compare(armIndex(x), armIndex(y)), cmp.Compare(x.Arm, y.Arm), cmp.Compare(x.Repeat, y.Repeat),
			a.Record.StartedAt.Compare(b.Record.StartedAt), cmp.Compare(a.Record.ID, b.Record.ID), cmp.Compare(a.Path, b.Path))
	})
	return list
}

// placeOf is a record's place in a set; a single trial's arm is named after what it was.
func placeOf(r record.Record) record.Set {
	if r.Set != nil {
		return *r.Set
	}
	return record.Set{Arm: subjectOf(r)}
}

func armIndex(s record.Set) int { return slices.Index(s.Arms, s.Arm) }

func trialOf(i int, r record.Record) (trialView, error) {
	t := trialView{
		Index: i, Anchor: fmt.Sprintf("trial-%d", i+1), ID: r.ID, Subject: subjectOf(r), Heading: headingOf(r),
		Verdict: verdictOf(r), Tiles: tilesOf(r), Tested: testedOf(r), Doubts: doubtsOf(r), Notes: r.Notes, Sound: soundOf(r),
	}
	m := modelOf(r)
	t.Kept, t.Cut = keptOf(r), m.cut
	t.Tables = tablesOf(r)
	t.Lanes, t.Curves = m.drawing(), curvesOf(r, m.view)
	var err error
	if t.island, err = m.island(); err != nil {
		return trialView{}, fmt.Errorf("encoding record %s: %w", r.ID, err)
	}
	return t, nil
}

// subjectOf says in a few words what was done to what.
func subjectOf(r record.Record) string {
	trigger := cmp.Or(r.Config.Trigger, "trial")
	switch w := r.Workload; {
	case w != nil && trigger == "none":
		return fmt.Sprintf("Control: nothing was done to %s %s/%s", w.Kind, w.Namespace, w.Name)
	case w != nil:
		return fmt.Sprintf("%s of %s %s/%s", upperFirst(trigger), w.Kind, w.Namespace, w.Name)
	case r.Config.Arm != "":
		return fmt.Sprintf("%s, %s, grace %s", upperFirst(r.Config.Arm), trigger, figure.Setting(r.Config.GraceNs))
	}
	return upperFirst(trigger)
}

func headingOf(r record.Record) string {
	if s := r.Set; s != nil {
		return fmt.Sprintf("%s, repeat %d of %d", s.Arm, s.Repeat, s.Repeats)
	}
	return subjectOf(r)
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// toolText names the program and its digest, of which twelve characters tell any two apart.
func toolText(t record.Tool) string {
	text := strings.TrimSpace(t.Name + " " + t.Version)
	if t.Sha256 != "" {
		text += " (sha256 " + t.Sha256[:min(12, len(t.Sha256))] + ")"
	}
	return text
}
