package rules

import (
	"cmp"
	"slices"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// groups are the rules by file; each file of this package names its own.
var groups = [][]Rule{
	graceRules, signalRules, listenerRules, sidecarRules,
	readinessRules, livenessRules, rolloutRules, replicaRules, pdbRules, autoscalingRules, selectorRules, hostPortRules,
	loadBalancerRules, ingressRules, publishNotReadyRules, udpRules, keepAliveRules, dnsRules, registryRules, grpcRules,
}

func all() []Rule {
	var rules []Rule
	for _, g := range groups {
		rules = append(rules, g...)
	}
	slices.SortFunc(rules, func(a, b Rule) int { return cmp.Compare(a.ID, b.ID) })
	return rules
}

func check(m *model.Model, server int, floors budget.Floors) []finding.Finding {
	c := &Context{Model: m, Server: server, Floors: floors, sums: make(map[*model.Workload]budget.Sum, len(m.Workloads))}
	for _, r := range all() {
		c.rule, c.workload = &r, nil
		if r.Set != nil {
			r.Set(c)
			continue
		}
		for _, w := range m.Workloads {
			c.workload = w
			r.Workload(c, w)
		}
	}
	return c.found
}

func (c *Context) report(on *Place, f finding.Finding) {
	if f.Rule == "" {
		f.Rule = c.rule.ID
	}
	if f.Topic == "" {
		f.Topic = c.rule.Topic
	}
	if f.Severity == "" {
		f.Severity = c.rule.Severity
	}
	f.Object, f.Path, f.File, f.Line = ObjectOf(on.Object), on.Path, on.Object.File, on.Object.Line(on.Path)
	if c.workload != nil && c.workload.Object != on.Object {
		w := ObjectOf(c.workload.Object)
		f.Workload = &w
	}
	if f.Facts == nil {
		f.Facts = []finding.Fact{}
	}
	c.found = append(c.found, f)
}
