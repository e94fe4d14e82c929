package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var autoscalingRules = []Rule{
	{
		ID: "DP551", Topic: finding.Autoscaling, Severity: finding.Warning,
		Title: "Scale-downs take many Pods at a time, and each is a lossy termination",
		Physics: "An autoscaler lowers the replica count, and the controller deletes the surplus Pods in one go. No PodDisruptionBudget is asked. By default one step may take every Pod above the minimum, after the recommendation was stable for 300 s; " +
			"a shorter stabilization window lets the count swing with the load, so that Pods are terminated many times a day. Each of them loses what a single termination loses.",
		Sources: []string{"kubernetes.io: Horizontal Pod Autoscaling, default behavior", "kubernetes/kubernetes pkg/controller/podautoscaler/horizontal.go", "falcondev-oss/github-actions-cache-server#261 (504s at scale-downs)", "bifrost PR 1923 (streams cut by an autoscaler without a stabilization window)"},
		Remedy:  "First make the single termination lossless (preStop sleep, drain). Then slow scale-downs: behavior.scaleDown with a policy of 1 Pod per 60 s and a window of 300 s.", Workload: checkScaleDowns,
	},
	{
		ID: "DP552", Topic: finding.Autoscaling, Severity: finding.Warning,
		Title: "Each apply resets the replica count that an autoscaler has set",
		Physics: "spec.replicas in a manifest is a wish of whoever applies it. Where an autoscaler owns the count, each kubectl apply, Helm upgrade or sync puts the manifest's number back: the surplus Pods are deleted at once, under load, " +
			"and the autoscaler has to make them again.",
		Sources: []string{"kubernetes.io: Horizontal Pod Autoscaling, migrating to horizontal autoscaling", "kubernetes/kubernetes#25238", "Kong/charts#222", "cortexproject/cortex-helm-chart#472"},
		Remedy:  "Leave spec.replicas out of the manifest. The first apply without it drops the count to 1 under client-side apply: hand the field over first, as the Kubernetes documentation shows.", Workload: checkAppliedReplicas,
	},
}

// behavior is the path of an autoscaler's scale-down rules.
func behavior(h *model.HPA) string {
	if h.Object.Kind == "ScaledObject" {
		return "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown"
	}
	return "spec.behavior.scaleDown"
}

// stepDown gives the most Pods that one scale-down step may take from so many, and the
// rules that say so. Per policy a percentage leaves the whole part of what remains.
func stepDown(h *model.HPA, from int64) (most int64, facts []finding.Fact) {
	at := behavior(h)
	scaleDown := h.Object.Find(at)
	policies := scaleDown.At("policies")
	if policies.Len() == 0 {
		return from, []finding.Fact{{Name: "scale-down policy", Value: "100% per 15 s", From: byDefault}}
	}
	choose := scaleDown.At("selectPolicy").Text()
	if choose == "Disabled" {
		return 0, nil
	}
	first := true
	for i, p := range policies.Items() {
		value, ok := p.At("value").Int()
		if !ok {
			continue
		}
		takes, unit := min(value, from), " Pods"
		if p.At("type").Text() == "Percent" {
			takes, unit = from-from*(100-min(value, 100))/100, "%"
		}
		facts = append(facts, finding.Fact{Name: "scale-down policy", Value: strconv.FormatInt(value, 10) + unit + " per " + p.At("periodSeconds").Text() + " s", From: fmt.Sprintf("%s.policies[%d]", at, i)})
		if first || (choose == "Min") == (takes < most) {
			most = takes
		}
		first = false
	}
	return most, facts
}

func checkScaleDowns(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	sum := c.Sum(w)
	// Where one termination loses nothing, many lose nothing either.
	if sum.Slowest == nil || !sum.HookKnown || sum.Hook >= sum.Slowest.Least || sum.Drain.Known {
		return
	}
	each := sum.Slowest.Least - sum.Hook
	for _, h := range w.HPAs {
		span := h.MaxReplicas.N - h.MinReplicas.N
		takes, policies := stepDown(h, h.MaxReplicas.N)
		takes = min(takes, span)
		if takes < 2 {
			continue
		}
		at := behavior(h)
		window := ofSeconds(h.ScaleDownStabilization)
		f := finding.Finding{
			Message: fmt.Sprintf("%s %s may take %d of %d Pods away in one step once the load was low for %s; no PodDisruptionBudget slows that, and each Pod may refuse new connections for %s (%s of path %s less %s of preStop hook)",
				h.Object.Kind, h.Object.Name, takes, h.MaxReplicas.N, spell(window), spell(each), spell(sum.Slowest.Least), sum.Slowest.Path, spell(sum.Hook)),
			Facts: append([]finding.Fact{limitFact("maximum", h, h.MaxReplicas, "spec."+strings.Replace(scaleField(h), "min", "max", 1)), limitFact("minimum", h, h.MinReplicas, "spec."+scaleField(h)),
				secondsFact("stabilizationWindowSeconds", h.ScaleDownStabilization, at+".stabilizationWindowSeconds"),
				{Name: "floor of path " + sum.Slowest.Path, Value: spell(sum.Slowest.Least), From: sum.Slowest.Source}, {Name: "preStop hook", Value: spell(sum.Hook), From: hookPath(w)}}, policies...),
			Remedy: fmt.Sprintf("add a preStop sleep of at least %s to the workload, and a scaleDown policy of 1 Pod per 60 s", spell(sum.Slowest.Least)),
		}
		// A window of a minute or more follows tides of load, a shorter one its ripples.
		if h.ScaleDownStabilization.N >= 60 {
			f.Severity = finding.Info
			f.Ask = "does the application go on accepting for that long after SIGTERM? " + askTell(w, "scale")
		}
		c.Report(At(h.Object, at), f)
	}
}

// scalerOrigin is origin for a number of an autoscaler's own: KEDA has its own defaults. What it leaves to the
// HorizontalPodAutoscaler that it makes, the behavior, is Kubernetes'.
func scalerOrigin(h *model.HPA, n model.Int, path string) string {
	if !n.Set && h.Object.Kind == "ScaledObject" {
		return byKEDADefault
	}
	return origin(n, path)
}

// limitFact is an autoscaler's minimum or maximum with its origin.
func limitFact(name string, h *model.HPA, n model.Int, path string) finding.Fact {
	return finding.Fact{Name: name, Value: strconv.FormatInt(n.N, 10), From: scalerOrigin(h, n, path)}
}

// scaleField is the field of an autoscaler's minimum.
func scaleField(h *model.HPA) string {
	if h.Object.Kind == "ScaledObject" {
		return "minReplicaCount"
	}
	return "minReplicas"
}

func checkAppliedReplicas(c *Context, w *model.Workload) {
	// In a cluster the number is always there: the autoscaler writes it.
	if !carries(w) || c.Model.Live || !w.Replicas.Set || w.Replicas.N == 0 {
		return
	}
	for _, h := range w.HPAs {
		most := h.MaxReplicas.N - w.Replicas.N
		if most <= 0 {
			continue
		}
		c.Report(At(w.Object, "spec.replicas"), finding.Finding{
			Message: fmt.Sprintf("each apply of this manifest sets the count back to %d although %s %s may have scaled it to %d: up to %s deleted at once, under the load that called for them",
				w.Replicas.N, h.Object.Kind, h.Object.Name, h.MaxReplicas.N, plural(most, "Pod")),
			Facts:  []finding.Fact{countFact("replicas", w.Replicas, "spec.replicas"), limitFact("maximum", h, h.MaxReplicas, h.Object.Kind+" "+h.Object.Name+": spec."+strings.Replace(scaleField(h), "min", "max", 1))},
			Remedy: "remove spec.replicas from the manifest (hand the field over first: without that the first apply sets 1)",
		})
		return
	}
}
