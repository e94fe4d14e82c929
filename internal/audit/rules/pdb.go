package rules

import (
	"fmt"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// What a budget covers; each rule that asks for one says so.
const evictionsOnly = "a PodDisruptionBudget acts on evictions (drains) only, not on deletes, rollouts, scale-downs or node shutdowns"

var pdbRules = []Rule{
	{
		ID: "DP501", Topic: finding.PDB, Severity: finding.Warning,
		Title: "No PodDisruptionBudget: a drain may take all Pods at once",
		Physics: "kubectl drain and the autoscalers evict all Pods of a node side by side, and nodes are often drained in parallel. Without a PodDisruptionBudget nothing makes them wait for a replacement, so the Pods of one Service can go together. " +
			"A budget acts on evictions only: deletes, rollouts, scale-downs by an autoscaler and node shutdowns pass it by, and it does not make a single departure lossless.",
		Sources: []string{"kubernetes.io: Disruptions", "kubernetes.io: API-initiated Eviction", "falcondev-oss/github-actions-cache-server#261 (an autoscaler's scale-downs bypass it)"},
		Remedy:  "Add a PodDisruptionBudget with maxUnavailable: 1 that selects the workload's Pods.", Workload: checkNoBudget,
	},
	{
		ID: "DP502", Topic: finding.PDB, Severity: finding.Error,
		Title: "A PodDisruptionBudget that never allows an eviction",
		Physics: "The budget allows as many evictions as there are healthy Pods above minAvailable, or above replicas - maxUnavailable; percentages are rounded up. Where that is zero with every Pod healthy, it is zero for ever. Drains hang and retry, " +
			"node upgrades run into their time limit, and what follows is a delete by force, which no budget slows and which takes the Pods together.",
		Sources: []string{"kubernetes.io: Specifying a Disruption Budget for your Application", "kubernetes/kubernetes pkg/controller/disruption/disruption.go", "kubernetes/kubernetes#48307", "kubermatic/kubermatic#7110"},
		Remedy:  "Use maxUnavailable: 1, which fits any number of replicas, and run at least two.", Set: checkBlockedBudget,
	},
	{
		ID: "DP503", Topic: finding.PDB, Severity: finding.Error,
		Title:   "Two PodDisruptionBudgets select the same Pods",
		Physics: "The eviction API handles one budget per Pod. Where two select it, each eviction ends in an error, whatever the budgets allow: the drain cannot go on, and the way out is a delete, which no budget slows.",
		Sources: []string{"kubernetes.io: API-initiated Eviction", "kubernetes/kubernetes pkg/registry/core/pod/storage/eviction.go", "eksctl-io/eksctl#783"},
		Remedy:  "Keep one budget for each workload; make the selectors disjoint.", Workload: checkTwoBudgets,
	},
	{
		ID: "DP504", Topic: finding.PDB, Severity: finding.Warning,
		Title:   "A PodDisruptionBudget selects no workload",
		Physics: "A budget whose selector matches no Pod protects nothing, and nothing says so: drains of the workload that it was written for go on without it.",
		Sources: []string{"kubernetes.io: Specifying a Disruption Budget for your Application", "Popeye codes 900 and 901"},
		Remedy:  "Make spec.selector.matchLabels equal to labels of the Pod template.", Set: checkIdleBudget,
	},
	{
		ID: "DP505", Topic: finding.PDB, Severity: finding.Info,
		Title: "Pods that are not ready hold drains up",
		Physics: "By default (IfHealthyBudget) a running Pod that is not ready may be evicted only while the budget is met without it. Pods in a restart loop that never become ready then block every drain of their node, " +
			"though they serve nobody; the usual way out is a delete by force. With AlwaysAllow they may always be evicted.",
		Sources: []string{"kubernetes.io: Specifying a Disruption Budget for your Application, unhealthy Pod eviction policy", "KubeLinter check pdb-unhealthy-pod-eviction-policy"},
		Remedy:  "Set unhealthyPodEvictionPolicy: AlwaysAllow, except where Pods that are not ready still hold something, as members of a quorum may.", Set: checkUnhealthyPolicy,
	},
	{
		ID: "DP506", Topic: finding.PDB, Severity: finding.Info,
		Title: "A PodDisruptionBudget is all the protection there is",
		Physics: "A budget decides how many Pods are evicted at a time. It does nothing for the Pod that goes: new connections still arrive until every node and proxy has followed. And it is not asked at all by a delete, a rollout, " +
			"an autoscaler's scale-down or a node's shutdown. Each of these loses what the shutdown sequence of the single Pod loses. " +
			"Silent where DP103, DP301 or DP843 says so of the same workload.",
		Sources: []string{"kubernetes.io: Disruptions", "kubernetes/kubernetes#43576", "kubernetes/kubernetes#116965", "falcondev-oss/github-actions-cache-server#261"},
		Remedy:  "Add a preStop sleep as long as the slowest path's floor; keep the budget.", Workload: checkBudgetAlone,
	},
}

// owned says that drains evict the workload's Pods and something makes them anew.
func owned(w *model.Workload) bool {
	switch w.Object.Kind {
	case "DaemonSet", "Pod", "Job", "CronJob":
		return false
	}
	return true
}

func checkNoBudget(c *Context, w *model.Workload) {
	if !carries(w) || !owned(w) || len(w.PDBs) > 0 {
		return
	}
	pods, known := leastPods(w)
	if !known || pods.n < 2 {
		return
	}
	f := finding.Finding{
		Message: fmt.Sprintf("no PodDisruptionBudget selects the %s: drains may evict all of them at once; %s", plural(pods.n, "Pod"), evictionsOnly),
		Facts:   []finding.Fact{pods.fact, {Name: "PodDisruptionBudgets", Value: "none", From: "the input"}},
		Remedy:  "add a PodDisruptionBudget with maxUnavailable: 1 and the labels of the Pod template",
	}
	apart, path := apartByNode(w)
	switch {
	case apart:
		f.Severity = finding.Info
		f.Facts = append(f.Facts, finding.Fact{Name: "spread over nodes", Value: "required", From: path})
		f.Ask = "are nodes ever drained in parallel? The Pods are kept on different nodes, so that one drain takes a part of them only"
	case onlyHeadless(w):
		f.Severity = finding.Info
		f.Ask = "can the clients of the headless name do without all Pods at once?"
	}
	c.Report(At(w.Object, "spec.replicas"), f)
}

// apartByNode says whether the scheduler must keep the Pods on different nodes.
func apartByNode(w *model.Workload) (apart bool, path string) {
	const hostname = "kubernetes.io/hostname"
	path = w.SpecPath() + ".affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	for _, term := range w.PodObject.Find(path).Items() {
		if term.At("topologyKey").Text() == hostname {
			return true, path
		}
	}
	path = w.SpecPath() + ".topologySpreadConstraints"
	for _, s := range w.PodObject.Find(path).Items() {
		if s.At("topologyKey").Text() == hostname && s.At("whenUnsatisfiable").Text() != "ScheduleAnyway" {
			return true, path
		}
	}
	return false, ""
}

// budgeted is how many Pods a budget counts, and whether that is an autoscaler's minimum.
func budgeted(p *model.PDB) (n int64, facts []finding.Fact, scaled, known bool) {
	for _, w := range p.Workloads {
		pods, ok := leastPods(w)
		if !ok {
			return 0, nil, false, false
		}
		n += pods.n
		scaled = scaled || pods.scaler != nil
		fact := pods.fact
		if len(p.Workloads) > 1 {
			fact.Name += " of " + w.Object.Kind + " " + w.Object.Name
		}
		facts = append(facts, fact)
	}
	return n, facts, scaled, len(p.Workloads) > 0
}

func checkBlockedBudget(c *Context) {
	for _, p := range c.Model.PDBs {
		if !anyOwned(p) {
			continue
		}
		n, facts, scaled, known := budgeted(p)
		f := finding.Finding{Remedy: "set maxUnavailable: 1 in place of it, and run at least 2 replicas; if a person shall decide on each eviction, suppress this with that reason"}
		at := ""
		// Where every Pod must stay, their number does not matter.
		switch lo, hi := p.MinAvailable, p.MaxUnavailable; {
		case hi.Set && hi.N == 0:
			at = "spec.maxUnavailable"
			f.Message = fmt.Sprintf("maxUnavailable %s allows no eviction, ever: each drain of a node with such a Pod hangs until somebody deletes the Pod, which no budget slows", written(hi))
			f.Facts = append(facts, shareFact("maxUnavailable", hi, at))
		case lo.Set && lo.Percent && lo.N >= 100:
			at = "spec.minAvailable"
			f.Message = fmt.Sprintf("minAvailable %s allows no eviction, ever: each drain of a node with such a Pod hangs until somebody deletes the Pod, which no budget slows", written(lo))
			f.Facts = append(facts, shareFact("minAvailable", lo, at))
		case lo.Set && known && n > 0 && lo.Resolve(n, true) >= n:
			at = "spec.minAvailable"
			f.Message = fmt.Sprintf("minAvailable %s of %s means that %d must stay: no eviction is allowed, each drain hangs until somebody deletes the Pod, which no budget slows", written(lo), plural(n, "Pod"), lo.Resolve(n, true))
			f.Facts = append(facts, shareFact("minAvailable", lo, at))
			if scaled {
				f.Severity = finding.Warning
				f.Message += " (while the autoscaler holds the workload at its minimum)"
				f.Remedy = "set maxUnavailable: 1 in place of it: that fits any number of replicas"
			}
			if n == 1 {
				f.Remedy = "run 2 replicas; or set maxUnavailable: 1, which lets drains go on and takes the only Pod with each"
			}
		default:
			continue
		}
		if f.Facts == nil {
			f.Facts = []finding.Fact{}
		}
		c.Report(At(p.Object, at), f)
	}
}

// anyOwned says that the budget concerns Pods which a drain evicts and which come again.
func anyOwned(p *model.PDB) bool {
	for _, w := range p.Workloads {
		if owned(w) && (w.Replicas.N > 0 || len(w.HPAs) > 0) {
			return true
		}
	}
	return false
}

func checkTwoBudgets(c *Context, w *model.Workload) {
	if len(w.PDBs) < 2 || !owned(w) {
		return
	}
	var names []string
	for _, p := range w.PDBs {
		names = append(names, p.Object.Name)
	}
	facts := []finding.Fact{}
	for _, p := range w.PDBs {
		facts = append(facts, finding.Fact{Name: "selector of " + p.Object.Name, Value: selectorText(p.Selector), From: "spec.selector"})
	}
	c.Report(At(w.PDBs[1].Object, "spec.selector"), finding.Finding{
		Message: fmt.Sprintf("PodDisruptionBudgets %s all select the Pods of %s %s: the eviction API refuses each eviction with an error, and drains cannot go on", inWords(names), w.Object.Kind, w.Object.Name),
		Facts:   facts,
		Remedy:  fmt.Sprintf("delete all but one of %s, or make their selectors disjoint", inWords(names)),
	})
}

func checkIdleBudget(c *Context) {
	for _, p := range c.Model.PDBs {
		if len(p.Workloads) > 0 || p.OtherPods > 0 {
			continue
		}
		f := finding.Finding{
			Facts:  []finding.Fact{{Name: "selector", Value: selectorText(p.Selector), From: "spec.selector"}},
			Remedy: "make spec.selector.matchLabels equal to labels of the Pod template that it is for",
		}
		near, close := closest(c.Model, p.Object.Namespace, p.Object.Name, p.Selector.Labels)
		switch {
		case !p.Selector.Set:
			f.Message = "the budget has no selector and so protects no Pod"
		case close && !near.atRunTime():
			f.Message = "the budget selects no Pod and so protects none: " + near.words()
			f.Facts = append(f.Facts, near.fact())
			f.Remedy = near.remedy("spec.selector.matchLabels")
		case c.Model.Live:
			f.Message = "the budget selects no Pod of any workload and so protects none"
		case !hasWorkloads(c.Model, p.Object.Namespace):
			continue
		default:
			f.Severity = finding.Info
			f.Message = "no workload of the input carries the labels that the budget selects"
			f.Ask = "does an operator, or a manifest that was not given, make Pods with these labels? If not, the budget protects nothing"
		}
		c.Report(At(p.Object, "spec.selector"), f)
	}
}

func checkUnhealthyPolicy(c *Context) {
	if c.Server < 27 { // off by default before
		return
	}
	for _, p := range c.Model.PDBs {
		if p.UnhealthyPodEvictionPolicy == "AlwaysAllow" || !anyOwned(p) {
			continue
		}
		quorum := false
		var names []string
		for _, w := range p.Workloads {
			quorum = quorum || w.Object.Kind == "StatefulSet"
			names = append(names, w.Object.Kind+" "+w.Object.Name)
		}
		if quorum {
			continue
		}
		from := byDefault
		if p.Object.Find("spec.unhealthyPodEvictionPolicy").Exists() {
			from = "spec.unhealthyPodEvictionPolicy"
		}
		c.Report(At(p.Object, "spec.unhealthyPodEvictionPolicy"), finding.Finding{
			Message: fmt.Sprintf("Pods of %s that run without being ready may be evicted only while the budget is met: a release that never becomes ready blocks the drains of its nodes", inWords(names)),
			Facts:   []finding.Fact{{Name: "unhealthyPodEvictionPolicy", Value: p.UnhealthyPodEvictionPolicy, From: from}},
			Remedy:  "set unhealthyPodEvictionPolicy: AlwaysAllow",
			Ask:     "does a Pod that is not ready still hold something that the others need, such as data or a vote? If not, AlwaysAllow is the better choice",
		})
	}
}

func checkBudgetAlone(c *Context, w *model.Workload) {
	if !carries(w) || !owned(w) || len(w.PDBs) == 0 {
		return
	}
	sum := c.Sum(w)
	floor := arrival(sum)
	if floor == nil || !sum.HookKnown || sum.Hook > 0 || sum.Drain.Known || sum.Grace == 0 || neverRelieved(w) {
		return
	}
	// DP103, DP301 and DP843 say it of these, with the hook that they have.
	if containers, _ := exposed(c, w); len(containers) > 0 {
		return
	}
	var held *hold
	for _, k := range clientsOf(c, w) {
		s := knownOf(k).Server
		if h := holdOf(k, s); !k.Sidecar && (s == nil || !s.Clustered) && !losesSignal(w, k) && h.took < floor.Least {
			held = &h
			break
		}
	}
	if held == nil {
		return
	}
	p := w.PDBs[0]
	f := finding.Finding{
		Message: fmt.Sprintf("PodDisruptionBudget %s paces drains and does nothing for the Pod that goes: %s, and %s; rollouts, scale-downs, deletes and node shutdowns ask no budget",
			p.Object.Name, arriving(floor), held.words),
		Facts:  append([]finding.Fact{{Name: "PodDisruptionBudget", Value: p.Object.Name, From: "spec.selector"}, floorFact(floor)}, held.facts...),
		Remedy: fmt.Sprintf("add a preStop sleep of %s and keep the budget", spell(sleepFor(floor))),
		Ask:    "does the application go on accepting for that long after SIGTERM? " + askTell(w, "rollout"),
	}
	c.Report(At(w.PodObject, w.SpecPath()), f)
}

// selectorText writes a selector as kubectl does: a=b,c in (d,e).
func selectorText(s model.Selector) string {
	if !s.Set {
		return "none"
	}
	parts := labelPairs(s.Labels)
	for _, e := range s.Expressions {
		switch e.Operator {
		case "Exists":
			parts = append(parts, e.Key)
		case "DoesNotExist":
			parts = append(parts, "!"+e.Key)
		default:
			parts = append(parts, fmt.Sprintf("%s %s (%s)", e.Key, strings.ToLower(e.Operator), strings.Join(e.Values, ",")))
		}
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, ",")
}
