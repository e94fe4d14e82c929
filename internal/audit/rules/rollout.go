package rules

import (
	"fmt"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var rolloutRules = []Rule{
	{
		ID: "DP401", Topic: finding.Rollout, Severity: finding.Error,
		Title: "A rolling update may take every Pod away at once",
		Physics: "The deployment controller keeps at least replicas - maxUnavailable Pods available. maxUnavailable in percent is rounded down, maxSurge up, and where both come to 0 maxUnavailable is taken as 1. " +
			"Where the result is no less than replicas, all old Pods may be deleted in the same instant in which the new ones are created. Until the first of those is ready the Service has no ready endpoint; " +
			"kube-proxy then falls back on terminating Pods that still pass readiness (KEP-1669), which bridges the gap only as long as a preStop hook holds them.",
		Sources: []string{"kubernetes.io: Deployments, max unavailable", "kubernetes/kubernetes pkg/controller/deployment/rolling.go", "KEP-1669 (ProxyTerminatingEndpoints)"},
		Remedy:  "Set maxUnavailable: 0 and maxSurge: 1 (or 25%): a Pod goes only after its replacement is available.", Workload: checkAllAtOnce,
	},
	{
		ID: "DP402", Topic: finding.Rollout, Severity: finding.Warning,
		Title: "Recreate: no Pod serves between the old and the new",
		Physics: "With strategy Recreate the controller deletes all old Pods and creates new ones only when the old have ended. Every release has a gap of at least the new Pods' start, " +
			"and of whatever the old ones still take after they have stopped accepting. No preStop hook can bridge it: the new Pods do not exist before the hook has ended.",
		Sources: []string{"kubernetes.io: Deployments, recreate deployment", "kubernetes/kubernetes pkg/controller/deployment/recreate.go"},
		Remedy:  "Use RollingUpdate with maxUnavailable: 0, where two versions may run side by side and share their volumes.", Workload: checkRecreate,
	},
	{
		ID: "DP403", Topic: finding.Rollout, Severity: finding.Warning,
		Title: "An update removes the only Pod before it makes the new one",
		Physics: "A StatefulSet never surges: it deletes a Pod, waits until it is gone, and makes its successor under the same name. With one replica each update has a gap of termination and start. " +
			"A DaemonSet without maxSurge does the same on each node, and where a Service has internalTrafficPolicy Local the clients of that node have no other Pod to go to.",
		Sources: []string{"kubernetes.io: StatefulSets, rolling updates", "kubernetes.io: Service Internal Traffic Policy", "KEP-1591 (DaemonSet maxSurge)"},
		Remedy:  "StatefulSet: run two replicas where the application can. DaemonSet: set maxSurge: 1 and maxUnavailable: 0.", Workload: checkNoSurge,
	},
	{
		ID: "DP404", Topic: finding.Rollout, Severity: finding.Warning,
		Title: "The rollout is over before the first new Pod listens",
		Physics: "Without a readiness or startup probe a Pod counts as available minReadySeconds after its process started. The controller then takes the next old Pods away. Where all its steps together are " +
			"shorter than the start of the application, no Pod that listens is left for a while: not a share of the connections is refused but all of them.",
		Sources: []string{"kubernetes.io: Deployments, min ready seconds", proberSource},
		Remedy:  "Add a readiness probe: it paces the rollout by what Pods can do. minReadySeconds only paces it by the clock.", Workload: checkBlindRollout,
	},
	{
		ID: "DP405", Topic: finding.Rollout, Severity: finding.Info,
		Title: "OnDelete: updates are deletes that nothing paces",
		Physics: "With updateStrategy OnDelete the controller replaces a Pod only after someone has deleted it. Whoever does that decides how many go at once and whether anybody waits for the successor: " +
			"a delete by label takes all of them, and no PodDisruptionBudget stands in its way.",
		Sources: []string{"kubernetes.io: StatefulSets, update strategies", "kubernetes.io: Disruptions"},
		Remedy:  "Use RollingUpdate, or delete one Pod at a time and wait until its successor is ready.", Workload: checkOnDelete,
	},
	{
		ID: "DP406", Topic: finding.Rollout, Severity: finding.Warning,
		Title: "Argo Rollouts scales the old Pods down before the data plane has switched",
		Physics: "On a promotion Argo Rollouts changes a Service's selector or the router's weights and scales the old ReplicaSet down after scaleDownDelaySeconds. Nodes, load balancers and controllers that have not yet followed go on sending " +
			"to the old Pods: these must live, delay and preStop hook together, as long as the slowest path takes.",
		Sources: []string{"argoproj.github.io: Rollout specification, scaleDownDelaySeconds", "argoproj/argo-rollouts#3617 (503s in an intermediate scale-down)", "argoproj/argo-rollouts#1056"},
		Remedy:  "Raise scaleDownDelaySeconds to the floor of the slowest path; 30 s is the default and the least that Argo Rollouts recommends.", Workload: checkScaleDownDelay,
	},
}

// rolls says that a controller replaces the workload's Pods step by step.
func rolls(w *model.Workload) bool {
	switch w.Strategy {
	case "RollingUpdate":
		return true
	case "Canary":
		// With a traffic router the old Pods all stay until the end.
		return !w.Object.Find("spec.strategy.canary.trafficRouting").Exists()
	}
	return false
}

// strategyPath is where a workload's rolling update is set.
func strategyPath(w *model.Workload) string {
	switch {
	case w.Object.Kind == "Rollout":
		return "spec.strategy.canary"
	case w.Object.Kind == "Deployment":
		return "spec.strategy.rollingUpdate"
	}
	return "spec.updateStrategy.rollingUpdate"
}

func checkAllAtOnce(c *Context, w *model.Workload) {
	if !carries(w) || !rolls(w) {
		return
	}
	at := strategyPath(w) + ".maxUnavailable"
	if w.Object.Kind == "DaemonSet" {
		if w.MaxUnavailable.Percent && w.MaxUnavailable.N >= 100 {
			c.Report(At(w.Object, at), finding.Finding{
				Message: fmt.Sprintf("an update may take the Pods of all nodes away at once (maxUnavailable %s) and makes each new one when the old is gone: until the first is ready nothing serves; %s",
					written(w.MaxUnavailable), handOver(c, w, false).words()),
				Facts:  append([]finding.Fact{shareFact("maxUnavailable", w.MaxUnavailable, at)}, handOver(c, w, false).facts...),
				Remedy: "set maxUnavailable: 10%, or maxSurge: 1 with maxUnavailable: 0",
			})
		}
		return
	}
	pods, known := leastPods(w)
	if !known || pods.n < 1 || w.Object.Kind == "StatefulSet" && pods.n == 1 { // that one is DP403
		return
	}
	surge, unavailable := w.RollingUpdate(pods.n)
	if w.Object.Kind == "StatefulSet" {
		// Members below the partition keep the version that they have.
		partition, _ := w.Object.Find(strategyPath(w) + ".partition").Int()
		unavailable = min(unavailable, pods.n-partition)
	}
	if unavailable < pods.n {
		return
	}
	h := handOver(c, w, w.Object.Kind != "StatefulSet")
	f := finding.Finding{
		Message: fmt.Sprintf("a rolling update may take %s away at once (maxUnavailable %s, maxSurge %s): until the first new one is ready nothing serves; %s",
			wholeOf(pods.n), written(w.MaxUnavailable), written(w.MaxSurge), h.words()),
		Facts: append([]finding.Fact{pods.fact, shareFact("maxUnavailable", w.MaxUnavailable, at), shareFact("maxSurge", w.MaxSurge, strategyPath(w)+".maxSurge"),
			{Name: "Pods that may be missing", Value: fmt.Sprint(unavailable), From: fmt.Sprintf("computed of %d", pods.n)},
			{Name: "Pods that may be added", Value: fmt.Sprint(surge), From: fmt.Sprintf("computed of %d", pods.n)}}, h.facts...),
		Remedy: "set maxUnavailable: 0 and maxSurge: 1, so that a Pod goes only after its replacement is available",
	}
	if w.Object.Kind == "StatefulSet" {
		f.Message += " (where the cluster honours maxUnavailable for StatefulSets)"
		f.Remedy = fmt.Sprintf("set maxUnavailable to at most %d, or leave it out: one at a time", pods.n-1)
		f.Severity = finding.Warning
	}
	if pods.scaler != nil {
		f.Message += fmt.Sprintf(" (while %s %s holds it at its minimum)", pods.scaler.Object.Kind, pods.scaler.Object.Name)
		f.Severity = finding.Warning
	}
	if h.covered() || !h.held {
		f.Severity = finding.Warning // it may go well
	}
	c.Report(At(w.Object, at), f)
}

// wholeOf says "the only Pod" or "all 3 Pods".
func wholeOf(n int64) string {
	if n == 1 {
		return "the only Pod"
	}
	return "all " + plural(n, "Pod")
}

func checkRecreate(c *Context, w *model.Workload) {
	if !carries(w) || w.Strategy != "Recreate" {
		return
	}
	pods, known := leastPods(w)
	if !known {
		return
	}
	h := handOver(c, w, false)
	f := finding.Finding{
		Message: fmt.Sprintf("each release deletes all Pods (%s) and makes new ones only when the old are gone: %s", plural(pods.n, "replica"), h.words()),
		Facts:   append([]finding.Fact{{Name: "strategy", Value: "Recreate", From: "spec.strategy.type"}, pods.fact}, h.facts...),
		Remedy:  "use strategy RollingUpdate with maxUnavailable: 0 and maxSurge: 1, if two versions may run side by side",
	}
	sum := c.Sum(w)
	if sum.HookKnown {
		if rest := sum.Grace - sum.Hook; rest > 0 {
			f.Message += fmt.Sprintf(", and up to %s more while the old ones end", spell(rest))
			f.Facts = append(f.Facts, graceFact(w, sum.Grace))
		}
	}
	for _, v := range w.PodObject.Find(w.SpecPath() + ".volumes").Items() {
		if claim := v.At("persistentVolumeClaim", "claimName").Text(); claim != "" {
			f.Facts = append(f.Facts, finding.Fact{Name: "volume claim", Value: claim, From: w.SpecPath() + ".volumes"})
			f.Remedy += fmt.Sprintf("; claim %s must be mountable by both (ReadWriteMany, or ReadWriteOnce with both on one node)", claim)
			break
		}
	}
	c.Report(At(w.Object, "spec.strategy.type"), f)
}

func checkNoSurge(c *Context, w *model.Workload) {
	if !carries(w) || w.Strategy != "RollingUpdate" {
		return
	}
	h := handOver(c, w, false)
	switch w.Object.Kind {
	case "StatefulSet":
		pods, _ := leastPods(w)
		partition, _ := w.Object.Find("spec.updateStrategy.rollingUpdate.partition").Int()
		if pods.n != 1 || partition >= 1 {
			return
		}
		c.Report(pods.at, finding.Finding{
			Message: "each update deletes the only Pod and makes the new one when the old is gone: " + h.words(),
			Facts:   append([]finding.Fact{pods.fact}, h.facts...),
			Remedy:  "run 2 replicas where the application can; else shorten the gap: a prompt exit on SIGTERM and a readiness probe without initialDelaySeconds",
		})
	case "DaemonSet":
		if w.MaxSurge.N != 0 {
			return
		}
		for _, s := range w.Services {
			if s.Headless || s.InternalTrafficPolicy != "Local" {
				continue
			}
			f := finding.Finding{
				Message: fmt.Sprintf("Service %s has internalTrafficPolicy Local, and an update deletes each node's Pod before it makes the new one (maxSurge 0): clients on that node have no endpoint; %s", s.Object.Name, h.words()),
				Facts: append([]finding.Fact{shareFact("maxSurge", w.MaxSurge, strategyPath(w)+".maxSurge"),
					{Name: "internalTrafficPolicy", Value: "Local", From: "Service " + s.Object.Name + ": spec.internalTrafficPolicy"}}, h.facts...),
				Remedy: "set maxSurge: 1 and maxUnavailable: 0: the new Pod is available before the old one goes",
			}
			if len(hostPorts(w)) > 0 {
				f.Remedy = fmt.Sprintf("set internalTrafficPolicy Cluster on Service %s; a surge is not possible, because the Pods take ports of the node", s.Object.Name)
			}
			c.Report(At(w.Object, strategyPath(w)+".maxSurge"), f)
		}
	}
}

func checkBlindRollout(c *Context, w *model.Workload) {
	if !carries(w) || w.Object.Kind != "Deployment" || !rolls(w) {
		return
	}
	bare := unguarded(w)
	pods, _ := leastPods(w)
	if len(bare) == 0 || pods.n < 2 {
		return
	}
	k := bare[0].container
	start, fact, declared := declaredStart(w)
	if !declared {
		p := k.Liveness
		if p == nil {
			return
		}
		start, fact = ofSeconds(p.InitialDelay), probeFacts("liveness", p, "initialDelaySeconds")[0]
	}
	surge, unavailable := w.RollingUpdate(pods.n)
	step := max(surge+unavailable, 1)
	steps := (pods.n + step - 1) / step
	over := time.Duration(steps) * ofSeconds(w.MinReady)
	if over >= start {
		return
	}
	hint := ""
	if !declared {
		hint = ", as far as the liveness probe's delay tells"
	}
	f := finding.Finding{
		Message: fmt.Sprintf("nothing asks container %s whether it serves, so a rollout of %s takes %s of minReadySeconds %d each: it can be over %s after the first new process runs, while the start takes %s%s: up to %s in which no Pod listens",
			k.Name, plural(pods.n, "Pod"), plural(steps, "step"), w.MinReady.N, spell(over), spell(start), hint, spell(start-over)),
		Facts: []finding.Fact{pods.fact, fact, secondsFact("minReadySeconds", w.MinReady, "spec.minReadySeconds"),
			shareFact("maxSurge", w.MaxSurge, strategyPath(w)+".maxSurge"), shareFact("maxUnavailable", w.MaxUnavailable, strategyPath(w)+".maxUnavailable")},
		Remedy: fmt.Sprintf("give container %s a readinessProbe; or, as a crutch, set minReadySeconds to at least %d", k.Name, int64((start+time.Duration(steps)*time.Second-1)/(time.Duration(steps)*time.Second))),
	}
	if !declared {
		f.Severity = finding.Info
		f.Ask = fmt.Sprintf("how long does it take until it listens? Say so with the annotation %s. %s", startupNote, askTell(w, "rollout"))
	}
	c.Report(At(w.PodObject, k.Path+".readinessProbe"), f)
}

func checkOnDelete(c *Context, w *model.Workload) {
	if !carries(w) || w.Strategy != "OnDelete" {
		return
	}
	c.Report(At(w.Object, "spec.updateStrategy.type"), finding.Finding{
		Message: fmt.Sprintf("%s %s is updated by deleting its Pods by hand (OnDelete): no controller decides how many go at once, and no PodDisruptionBudget does", w.Object.Kind, w.Object.Name),
		Facts:   []finding.Fact{{Name: "update strategy", Value: "OnDelete", From: "spec.updateStrategy.type"}},
		Remedy:  "use RollingUpdate; or delete one Pod at a time and wait for its successor to be ready",
		Ask:     "who deletes the Pods on a release, and does it wait for each successor to be ready? " + askTell(w, "delete"),
	})
}

func checkScaleDownDelay(c *Context, w *model.Workload) {
	if !carries(w) || w.Object.Kind != "Rollout" {
		return
	}
	at := "spec.strategy.blueGreen.scaleDownDelaySeconds"
	if w.Strategy != "BlueGreen" {
		if !w.Object.Find("spec.strategy.canary.trafficRouting").Exists() {
			return
		}
		at = "spec.strategy.canary.scaleDownDelaySeconds"
	}
	sum := c.Sum(w)
	delay := ofSeconds(w.ScaleDownDelay)
	// A delay of 0 is left alone: versions of Argo Rollouts differ in what they take it for.
	if sum.Slowest == nil || !sum.HookKnown || delay == 0 || delay+sum.Hook >= sum.Slowest.Least {
		return
	}
	delayFact := secondsFact("scaleDownDelaySeconds", w.ScaleDownDelay, at)
	if !w.ScaleDownDelay.Set {
		delayFact.From = "default of Argo Rollouts"
	}
	c.Report(At(w.Object, at), finding.Finding{
		Message: fmt.Sprintf("after a promotion the old Pods live for %s (scaleDownDelaySeconds %s + preStop hook %s), but new connections may go on arriving for %s (%s): up to %s of refused connections per promotion",
			spell(delay+sum.Hook), spell(delay), spell(sum.Hook), spell(sum.Slowest.Least), sum.Slowest.Path, spell(sum.Slowest.Least-delay-sum.Hook)),
		Facts: []finding.Fact{delayFact, {Name: "preStop hook", Value: spell(sum.Hook), From: hookPath(w)},
			{Name: "floor of path " + sum.Slowest.Path, Value: spell(sum.Slowest.Least), From: sum.Slowest.Source}},
		Remedy: fmt.Sprintf("set scaleDownDelaySeconds to at least %d", wholeSeconds(sum.Slowest.Least-sum.Hook)),
	})
}
