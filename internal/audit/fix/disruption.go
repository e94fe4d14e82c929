package fix

import (
	"fmt"
	"slices"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/manifest"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// evictionPolicy is the minor version since which unhealthyPodEvictionPolicy is on by default.
const evictionPolicy = 27

// protect gives a workload a PodDisruptionBudget that lets one Pod go at a time.
func (p *planner) protect(w *model.Workload, fs []finding.Finding) []Change {
	selector, reason := p.selectorFor(w)
	if reason != "" {
		var all []Change
		for _, f := range fs {
			all = append(all, p.skip(f, reason))
		}
		return all
	}
	what := "maxUnavailable 1"
	spec := mapping(field{"maxUnavailable", whole(1)})
	if p.Server >= evictionPolicy && w.Object.Kind != "StatefulSet" {
		// A Pod that is not ready protects nobody, unless it has a vote or data: without this it
		// can block a drain for ever.
		spec.put("unhealthyPodEvictionPolicy", word("AlwaysAllow"))
		what += ", and unhealthyPodEvictionPolicy AlwaysAllow so that Pods that never become ready do not block drains"
	}
	spec.put("selector", selector)
	name := p.freeName(w.Object)
	meta := mapping(field{"name", word(name)})
	if w.Object.Namespace != "" {
		meta.put("namespace", word(w.Object.Namespace))
	}
	added := mapping(field{"apiVersion", word("policy/v1")}, field{"kind", word("PodDisruptionBudget")}, field{"metadata", meta}, field{"spec", spec})
	c := change(w.Object, "", "let one Pod at a time be evicted: a new PodDisruptionBudget with "+what+" (deletes, rollouts, scaling and node shutdowns do not ask it)", fs)
	c.Object = finding.Object{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Namespace: w.Object.Namespace, Name: name}
	c.added = &added
	p.added[w.Object.Namespace] = append(p.added[w.Object.Namespace], &model.PDB{
		Object:   &manifest.Object{Namespace: w.Object.Namespace, Name: name},
		Selector: readSelector(selector),
	})
	return []Change{c}
}

// selectorFor gives the selector that a budget for a workload needs, or says why there
// can be none. The eviction API takes one budget for a Pod: with two it refuses every eviction.
func (p *planner) selectorFor(w *model.Workload) (selector tree, reason string) {
	v := w.Object.Find("spec.selector")
	if !v.Exists() {
		v = w.PodObject.Find("spec.selector")
	}
	selector = treeOf(v)
	if w.Object.Kind == "ReplicationController" && v.Len() > 0 {
		selector = nested(selector, "matchLabels") // its own are bare
	}
	if selector.at("matchLabels") == nil && selector.at("matchExpressions") == nil {
		return selector, "it has no label selector that a PodDisruptionBudget could share"
	}
	for _, b := range p.added[w.Object.Namespace] {
		if b.Selector.Matches(w.Labels) {
			return selector, fmt.Sprintf("the new PodDisruptionBudget %s selects its Pods too, and the eviction API takes one budget for a Pod: make the selectors of the workloads disjoint", b.Object.Name)
		}
	}
	reads := readSelector(selector)
	for _, other := range p.model.Workloads {
		if other != w && other.Object.Namespace == w.Object.Namespace && len(other.PDBs) > 0 && reads.Matches(other.Labels) {
			return selector, fmt.Sprintf("its selector matches the Pods of %s %s too, which have a PodDisruptionBudget, and the eviction API takes one for a Pod: make the selectors of the workloads disjoint", other.Object.Kind, other.Object.Name)
		}
	}
	return selector, ""
}

func readSelector(t tree) model.Selector {
	s := model.Selector{Set: true, Labels: map[string]string{}}
	if labels := t.at("matchLabels"); labels != nil {
		for i, key := range labels.keys {
			s.Labels[key] = labels.items[i].text
		}
	}
	expressions := t.at("matchExpressions")
	if expressions == nil {
		return s
	}
	for _, e := range expressions.items {
		var r model.Requirement
		for i, key := range e.keys {
			switch v := e.items[i]; key {
			case "key":
				r.Key = v.text
			case "operator":
				r.Operator = v.text
			case "values":
				for _, item := range v.items {
					r.Values = append(r.Values, item.text)
				}
			}
		}
		s.Expressions = append(s.Expressions, r)
	}
	return s
}

// freeName is the workload's name, with a number if another PodDisruptionBudget has it.
func (p *planner) freeName(o *manifest.Object) string {
	name := o.Name
	taken := func(b *model.PDB) bool { return b.Object.Name == name && b.Object.Namespace == o.Namespace }
	for n := 2; slices.ContainsFunc(p.model.PDBs, taken) || slices.ContainsFunc(p.added[o.Namespace], taken); n++ {
		name = fmt.Sprintf("%s-%d", o.Name, n)
	}
	return name
}

// unblock makes a PodDisruptionBudget that lets no Pod go let one go, if that leaves another.
func (p *planner) unblock(_ *model.Workload, fs []finding.Finding) []Change {
	var all []Change
	for _, f := range fs {
		b := p.budgetOf(f)
		if b == nil {
			all = append(all, p.skip(f, f.Remedy))
			continue
		}
		pods := int64(0)
		for _, w := range b.Workloads {
			pods += fewest(w)
		}
		if pods < 2 {
			all = append(all, p.skip(f, "there may be a single Pod, and an eviction would take it: "+f.Remedy))
			continue
		}
		e := edit{path: "spec.minAvailable", value: whole(1), rename: "maxUnavailable"}
		if b.Object.Find("spec.maxUnavailable").Exists() {
			e = edit{path: "spec.maxUnavailable", value: whole(1)}
		}
		all = append(all, change(b.Object, e.path, "let one Pod at a time be evicted: maxUnavailable 1", []finding.Finding{f}, e))
	}
	return all
}

// fewest is the least number of Pods that a workload keeps.
func fewest(w *model.Workload) int64 {
	if len(w.HPAs) == 0 {
		return w.Replicas.N
	}
	n := w.HPAs[0].MinReplicas.N
	for _, h := range w.HPAs[1:] {
		n = min(n, h.MinReplicas.N)
	}
	return n
}
