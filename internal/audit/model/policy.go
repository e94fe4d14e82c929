package model

import "github.com/drainproof/drainproof/internal/audit/manifest"

func (r reader) pdb() *PDB {
	spec := r.child(r.o.Root, "", "spec", manifest.Map)
	p := &PDB{
		Object:                     r.o,
		Selector:                   r.selector(spec, "spec", "selector"),
		MinAvailable:               r.share(spec, "spec", "minAvailable", IntOrPercent{}),
		MaxUnavailable:             r.share(spec, "spec", "maxUnavailable", IntOrPercent{}),
		UnhealthyPodEvictionPolicy: r.textOr(spec, "spec", "unhealthyPodEvictionPolicy", "IfHealthyBudget"),
	}
	if r.o.APIVersion == "policy/v1beta1" && len(p.Selector.Labels) == 0 && len(p.Selector.Expressions) == 0 {
		p.Selector.Set = false // in that version an empty selector matches nothing
	}
	return p
}

func (r reader) hpa() *HPA {
	spec := r.child(r.o.Root, "", "spec", manifest.Map)
	target := r.child(spec, "spec", "scaleTargetRef", manifest.Map)
	return &HPA{
		Object:                 r.o,
		TargetKind:             r.text(target, "spec.scaleTargetRef", "kind"),
		TargetName:             r.text(target, "spec.scaleTargetRef", "name"),
		MinReplicas:            r.number(spec, "spec", "minReplicas", 1),
		MaxReplicas:            r.number(spec, "spec", "maxReplicas", 0),
		ScaleDownStabilization: r.stabilization(spec, "spec"),
	}
}

// scaledObject reads KEDA's ScaledObject as the autoscaler that KEDA makes from it.
func (r reader) scaledObject() *HPA {
	spec := r.child(r.o.Root, "", "spec", manifest.Map)
	target := r.child(spec, "spec", "scaleTargetRef", manifest.Map)
	advanced := r.child(spec, "spec", "advanced", manifest.Map)
	config := r.child(advanced, "spec.advanced", "horizontalPodAutoscalerConfig", manifest.Map)
	return &HPA{
		Object:                 r.o,
		TargetKind:             r.textOr(target, "spec.scaleTargetRef", "kind", "Deployment"),
		TargetName:             r.text(target, "spec.scaleTargetRef", "name"),
		MinReplicas:            r.number(spec, "spec", "minReplicaCount", 0),
		MaxReplicas:            r.number(spec, "spec", "maxReplicaCount", 100),
		ScaleDownStabilization: r.stabilization(config, "spec.advanced.horizontalPodAutoscalerConfig"),
		Cooldown:               r.number(spec, "spec", "cooldownPeriod", 300),
	}
}

// stabilization gives behavior.scaleDown.stabilizationWindowSeconds. Its default is
// the controller manager's, which a cluster may have changed.
func (r reader) stabilization(v manifest.Value, at string) Int {
	behavior := r.child(v, at, "behavior", manifest.Map)
	down := r.child(behavior, join(at, "behavior"), "scaleDown", manifest.Map)
	return r.number(down, join(at, "behavior.scaleDown"), "stabilizationWindowSeconds", 300)
}
