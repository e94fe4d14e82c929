package fix

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// surge makes a rolling update add a Pod before it takes one away.
func (p *planner) surge(w *model.Workload, fs []finding.Finding) []Change {
	at := rollingUpdate(w)
	if reason := noSurge(w); at == "" || reason != "" {
		var all []Change
		for _, f := range fs {
			if at == "" {
				reason = f.Remedy
			}
			all = append(all, p.skip(f, reason))
		}
		return all
	}
	fields := []field{{"maxUnavailable", whole(0)}}
	what := "let an update take no Pod away before a new one is available: maxUnavailable 0"
	// What surges already goes on surging as it did: a percentage is rounded up, so it is at least one.
	if w.MaxSurge.N <= 0 {
		fields = append(fields, field{"maxSurge", whole(1)})
		what += ", maxSurge 1"
	}
	edits := []edit{{path: at, value: mapping(fields...)}}
	if w.Object.Find(at).Len() > 0 {
		edits = nil
		for _, f := range fields {
			edits = append(edits, edit{path: at + "." + f.key, value: f.value})
		}
	}
	return []Change{change(w.Object, at+".maxUnavailable", what, fs, edits...)}
}

// rollingUpdate is where a workload's rolling update is set; "" where there is none that could surge.
func rollingUpdate(w *model.Workload) string {
	switch {
	case w.Object.Kind == "Deployment":
		return "spec.strategy.rollingUpdate"
	case w.Object.Kind == "DaemonSet":
		return "spec.updateStrategy.rollingUpdate"
	case w.Object.Kind == "Rollout" && w.Strategy == "Canary":
		return "spec.strategy.canary"
	}
	return ""
}

// noSurge says why a second Pod beside an old one cannot be had for sure.
func noSurge(w *model.Workload) string {
	const and = ". Where that is no hindrance, set maxUnavailable 0 and maxSurge 1"
	for _, c := range w.Pod.Containers {
		for _, port := range c.Ports {
			if w.Pod.HostNetwork || port.HostPort > 0 {
				return fmt.Sprintf("its Pods take port %d of their node: a second one does not fit beside the first", max(port.HostPort, port.Number)) + and
			}
		}
	}
	for _, v := range w.PodObject.Find(w.SpecPath() + ".volumes").Items() {
		if path := v.At("hostPath", "path").Text(); path != "" && w.Object.Kind == "DaemonSet" {
			return fmt.Sprintf("its Pods share %s of their node: two at once may not expect each other", path) + and
		}
		if claim := v.At("persistentVolumeClaim", "claimName").Text(); claim != "" {
			return fmt.Sprintf("its Pods mount the claim %s: if that is ReadWriteOnce, a new Pod on another node waits until the old one is gone", claim) + and
		}
	}
	if w.Object.Kind == "Deployment" && w.Replicas.N == 1 && len(w.HPAs) == 0 && w.MaxSurge.Set && w.MaxSurge.N == 0 {
		return "one replica with maxSurge 0 never runs twice, which may be meant so" + and
	}
	return ""
}

// promotion keeps the old Pods of an Argo Rollout until the slowest path has switched.
func (p *planner) promotion(w *model.Workload, fs []finding.Finding) []Change {
	sum := budget.Of(w, p.Floors)
	var all []Change
	for _, f := range fs {
		if sum.Slowest == nil {
			all = append(all, p.skip(f, f.Remedy))
			continue
		}
		n := seconds(sum.Slowest.Least)
		what := fmt.Sprintf("keep the old Pods for %d s after a promotion: over %s new traffic goes on arriving that long", n, pathName(sum.Slowest))
		all = append(all, change(w.Object, f.Path, what, []finding.Finding{f}, edit{path: f.Path, value: whole(n)}))
	}
	return all
}
