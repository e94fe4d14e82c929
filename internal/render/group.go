package render

import (
	"cmp"
	"fmt"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/render/page"
)

// Group is one experiment under one set of conditions, whole: every repeat of every arm is there and complete.
type Group struct {
	// Title and Tool are written for people, and not yet clean.
	Title, Tool string
	// Repeats counts all trials.
	Repeats int
	Arms    []GroupArm
}

// GroupArm is one arm with its repeats in order; there is at least one.
type GroupArm struct {
	Arm    string
	Trials []record.Record
}

// Groups sorts records into sets for views of other packages. It refuses what New refuses.
func Groups(inputs []Input) ([]Group, error) {
	cohorts, err := cohortsOf(inputs)
	if err != nil {
		return nil, err
	}
	var list []Group
	for _, c := range cohorts {
		first := c.trials[0].Record
		list = append(list, Group{
			Title: setTitle(c.key.experiment, first.Environment.ProxyMode, c.key.kubernetes),
			Tool:  toolText(first.Tool), Repeats: len(c.trials), Arms: c.armsWhole(),
		})
	}
	return list, nil
}

// armsWhole are its arms with their records.
func (g *cohort) armsWhole() (arms []GroupArm) {
	for _, arm := range g.arms {
		arms = append(arms, GroupArm{Arm: arm, Trials: recordsOf(g.of(arm))})
	}
	return arms
}

func recordsOf(trials []trial) (list []record.Record) {
	for _, t := range trials {
		list = append(list, t.Record)
	}
	return list
}

func setTitle(experiment string, proxyMode *string, kubernetes string) string {
	mode := "proxy mode " + page.NotMeasured
	if proxyMode != nil {
		mode = *proxyMode
	}
	return fmt.Sprintf("%s, %s, Kubernetes %s", cmp.Or(experiment, "Single trials"), mode, kubernetes)
}

// toolText names the program and its digest, of which twelve characters tell any two apart.
func toolText(t record.Tool) string {
	text := t.Name + " " + t.Version
	if t.Sha256 != "" {
		text += " (sha256 " + t.Sha256[:min(12, len(t.Sha256))] + ")"
	}
	return text
}
