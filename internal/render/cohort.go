package render

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/figure"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// conditions are what must not differ inside one set.
type conditions struct {
	experiment, experimentSha string
	kubernetes, proxyMode     string
	toolVersion, toolSha      string
	// single: the trials belong to no set.
	single bool
}

// differ names the first condition in which two sets of one experiment differ, and both values.
func (c conditions) differ(d conditions) (what string, values [2]string) {
	for _, f := range []struct{ what, a, b string }{
		{"tool.version", c.toolVersion, d.toolVersion},
		{"tool.sha256", c.toolSha, d.toolSha},
		{"environment.kubernetes", c.kubernetes, d.kubernetes},
		{"environment.proxy_mode", c.proxyMode, d.proxyMode},
		{"set.experiment_sha256", c.experimentSha, d.experimentSha},
	} {
		if f.a != f.b {
			return f.what, [2]string{page.Clean(f.a), page.Clean(f.b)}
		}
	}
	return "", values
}

// trial is an input with its place in a set, also where its record names none.
type trial struct {
	Input
	set record.Set
}

// cohort is all trials of one experiment under the same conditions.
type cohort struct {
	key     conditions
	arms    []string
	repeats int
	trials  []trial
}

// of gives the trials of an arm, in order of their repeats.
func (g *cohort) of(arm string) []trial {
	var list []trial
	for _, t := range g.trials {
		if t.set.Arm == arm {
			list = append(list, t)
		}
	}
	return list
}

func (g *cohort) has(arm string, repeat int) bool {
	return slices.ContainsFunc(g.trials, func(t trial) bool { return t.set.Arm == arm && t.set.Repeat == repeat })
}

func cohortsOf(inputs []Input) ([]*cohort, error) {
	if len(inputs) == 0 {
		return nil, &NoRecordsError{}
	}
	var list []*cohort
	for _, t := range placed(inputs) {
		key := conditionsOf(t)
		i := slices.IndexFunc(list, func(g *cohort) bool { return g.key == key })
		if i < 0 {
			i = len(list)
			list = append(list, &cohort{key: key})
		}
		list[i].trials = append(list[i].trials, t)
	}
	slices.SortFunc(list, func(a, b *cohort) int {
		return cmp.Or(cmp.Compare(a.key.experiment, b.key.experiment), cmp.Compare(a.key.experimentSha, b.key.experimentSha),
			cmp.Compare(a.key.kubernetes, b.key.kubernetes), cmp.Compare(a.key.proxyMode, b.key.proxyMode),
			cmp.Compare(a.key.toolVersion, b.key.toolVersion), cmp.Compare(a.key.toolSha, b.key.toolSha))
	})
	for _, g := range list {
		if err := g.order(); err != nil {
			return nil, err
		}
	}
	return list, refuse(list)
}

func conditionsOf(t trial) conditions {
	c := conditions{
		experiment: t.set.Experiment, experimentSha: t.set.ExperimentSha256, kubernetes: t.Record.Environment.Kubernetes,
		proxyMode: page.NotMeasured, toolVersion: t.Record.Tool.Version, toolSha: t.Record.Tool.Sha256,
		single: t.Record.Set == nil,
	}
	if m := t.Record.Environment.ProxyMode; m != nil {
		c.proxyMode = *m
	}
	return c
}

// placed gives every trial its place. Trials without a set are repeats of an arm that is named after their flags.
func placed(inputs []Input) []trial {
	trials := make([]trial, len(inputs))
	for i, in := range inputs {
		trials[i].Input = in
		if in.Record.Set != nil {
			trials[i].set = *in.Record.Set
		}
	}
	slices.SortStableFunc(trials, func(a, b trial) int {
		return cmp.Or(a.Record.StartedAt.Compare(b.Record.StartedAt), cmp.Compare(a.Record.ID, b.Record.ID), cmp.Compare(a.Path, b.Path))
	})
	type single struct {
		conditions
		arm string
	}
	total := map[single]int{}
	for i := range trials {
		if t := &trials[i]; t.Record.Set == nil {
			t.set.Arm = flagsName(t.Record)
			key := single{conditionsOf(*t), t.set.Arm}
			total[key]++
			t.set.Repeat = total[key]
		}
	}
	for i := range trials {
		if t := &trials[i]; t.Record.Set == nil {
			t.set.Repeats = total[single{conditionsOf(*t), t.set.Arm}]
		}
	}
	return trials
}

func flagsName(r record.Record) string {
	c := r.Config
	if t := c.Traffic; t != nil && r.Workload != nil {
		return fmt.Sprintf("%s of %s %s/%s, %s", c.Trigger, r.Workload.Kind, r.Workload.Namespace, r.Workload.Name, t.Mode)
	}
	return fmt.Sprintf("%s, %s, grace %s", c.Arm, c.Trigger, figure.Setting(c.GraceNs))
}

// order settles the arms and repeats of a cohort and sorts its trials by them.
func (g *cohort) order() error {
	first := g.trials[0]
	for _, t := range g.trials {
		g.repeats = max(g.repeats, t.set.Repeats)
		if t.Record.Set != nil && t.set.Repeats != first.set.Repeats {
			return g.mixed("", "set.repeats", first, t, fmt.Sprint(first.set.Repeats), fmt.Sprint(t.set.Repeats))
		}
		for _, arm := range append(slices.Clone(t.set.Arms), t.set.Arm) {
			if !slices.Contains(g.arms, arm) {
				g.arms = append(g.arms, arm)
			}
		}
	}
	slices.SortStableFunc(g.trials, func(a, b trial) int {
		return cmp.Or(cmp.Compare(slices.Index(g.arms, a.set.Arm), slices.Index(g.arms, b.set.Arm)), cmp.Compare(a.set.Repeat, b.set.Repeat))
	})
	for i, t := range g.trials[1:] {
		last := g.trials[i]
		if t.set.Arm != last.set.Arm {
			continue
		}
		if t.set.Repeat == last.set.Repeat {
			return &DuplicateError{Experiment: g.name(), Arm: t.set.Arm, Repeat: t.set.Repeat, Paths: [2]string{last.Path, t.Path}}
		}
		if field, a, b := configDiffers(last.Record.Config, t.Record.Config); field != "" {
			return g.mixed(t.set.Arm, "config."+field, last, t, a, b)
		}
	}
	return nil
}

func (g *cohort) mixed(arm, what string, a, b trial, va, vb string) error {
	return &MixedError{Experiment: g.name(), Arm: arm, What: what, Values: [2]string{va, vb}, Paths: [2]string{a.Path, b.Path}}
}

func (g *cohort) name() string { return cmp.Or(page.Clean(g.key.experiment), "single trials") }

// configDiffers names the first flag that differs, as a path. The namespace is each trial's own, and so is the
// address in the URL.
func configDiffers(a, b record.Config) (field, va, vb string) {
	a.Namespace, b.Namespace = nil, nil
	if a.Traffic != nil && b.Traffic != nil {
		x, y := *a.Traffic, *b.Traffic
		x.URL, y.URL = "", ""
		a.Traffic, b.Traffic = &x, &y
	}
	return differs(reflect.ValueOf(a), reflect.ValueOf(b))
}

// differs compares two structures of one type, whatever they point to included.
func differs(x, y reflect.Value) (field, vx, vy string) {
	for i := range x.NumField() {
		p, q := x.Field(i), y.Field(i)
		if reflect.DeepEqual(p.Interface(), q.Interface()) {
			continue
		}
		name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
		if p.Kind() != reflect.Pointer {
			return name, page.Clean(fmt.Sprint(p)), page.Clean(fmt.Sprint(q))
		}
		if p.IsNil() || q.IsNil() || p.Elem().Kind() != reflect.Struct {
			return name, pointed(p), pointed(q)
		}
		field, vx, vy = differs(p.Elem(), q.Elem())
		return name + "." + field, vx, vy
	}
	return "", "", ""
}

// pointed prints what p points to; a whole structure only as being there.
func pointed(p reflect.Value) string {
	switch {
	case p.IsNil():
		return "none"
	case p.Elem().Kind() == reflect.Struct:
		return "some"
	}
	return page.Clean(fmt.Sprint(p.Elem()))
}

// refuse finds holes, and tells a hole from a set whose parts were made under different conditions.
func refuse(list []*cohort) error {
	var holes []Hole
	for _, g := range list {
		mine := g.holes(armsOf(list, g.key))
		if len(mine) == 0 {
			continue
		}
		for _, other := range list {
			if other != g && !g.key.single && !other.key.single && other.key.experiment == g.key.experiment && complements(g, other) {
				what, values := g.key.differ(other.key)
				return &MixedError{Experiment: g.name(), What: what, Values: values, Paths: [2]string{g.trials[0].Path, other.trials[0].Path}}
			}
		}
		holes = append(holes, mine...)
	}
	if len(holes) > 0 {
		return &HoleError{Holes: holes}
	}
	return nil
}

// armsOf lists the arms of an experiment as any of its cohorts knows them.
func armsOf(list []*cohort, key conditions) []string {
	var arms []string
	for _, g := range list {
		related := !key.single && !g.key.single && g.key.experiment == key.experiment && g.key.experimentSha == key.experimentSha
		if g.key != key && !related {
			continue
		}
		for _, arm := range g.arms {
			if !slices.Contains(arms, arm) {
				arms = append(arms, arm)
			}
		}
	}
	return arms
}

func (g *cohort) holes(arms []string) []Hole {
	var holes []Hole
	for _, arm := range arms {
		if len(g.of(arm)) == 0 {
			holes = append(holes, Hole{Experiment: g.name(), Arm: arm, Why: "is missing"})
			continue
		}
		for repeat := 1; repeat <= g.repeatsOf(arm); repeat++ {
			if !g.has(arm, repeat) {
				holes = append(holes, Hole{Experiment: g.name(), Arm: arm, Repeat: repeat, Why: "is missing"})
			}
		}
		for _, t := range g.of(arm) {
			if t.Record.Completeness != record.Complete {
				why := "is incomplete"
				if len(t.Record.Missing) > 0 {
					// Records of earlier versions end an interruption with Go's words for it.
					why += ": " + strings.TrimSuffix(page.Clean(t.Record.Missing[0]), ": context canceled")
				}
				holes = append(holes, Hole{Experiment: g.name(), Arm: arm, Repeat: t.set.Repeat, Path: t.Path, Why: why, Single: g.key.single})
			}
		}
	}
	return holes
}

// repeatsOf is the set's number of repeats; single trials have as many as there are.
func (g *cohort) repeatsOf(arm string) int {
	if g.key.single {
		return len(g.of(arm))
	}
	return g.repeats
}

// complements reports whether two cohorts share no repeat: together they look
// like one set, so one was finished under other conditions than it was begun.
func complements(a, b *cohort) bool {
	return !slices.ContainsFunc(a.trials, func(t trial) bool { return b.has(t.set.Arm, t.set.Repeat) })
}
