package model

import (
	"slices"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// The API's defaults of a rolling update, by kind.
var (
	quarter = IntOrPercent{N: 25, Percent: true}
	one     = IntOrPercent{N: 1}
	none    = IntOrPercent{}
)

// workload adds an owner of Pods, or a Pod that nobody owns.
func (b *builder) workload(r reader) {
	if b.made(r) {
		b.stray(r)
		return
	}
	w := &Workload{Object: r.o, PodObject: r.o, PodPath: "spec.template", Replicas: Int{N: 1}}
	meta := r.child(r.o.Root, "", "metadata", manifest.Map)
	w.OwnAnnotations = r.labels(meta, "metadata", "annotations")
	r.checkNotes(w.OwnAnnotations, "metadata")
	spec := r.child(r.o.Root, "", "spec", manifest.Map)
	b.m.Workloads = append(b.m.Workloads, w)

	switch r.o.Kind {
	case "Pod":
		w.PodPath = ""
		w.Labels, w.Annotations = r.labels(meta, "metadata", "labels"), w.OwnAnnotations
		w.Pod = r.pod(spec, "spec")
		return
	case "Deployment":
		w.Replicas = r.count(spec, "spec", "replicas", 1)
		w.MinReady = r.count(spec, "spec", "minReadySeconds", 0)
		r.rolling(w, spec, "strategy", quarter, quarter)
	case "StatefulSet":
		w.Replicas = r.count(spec, "spec", "replicas", 1)
		w.MinReady = r.count(spec, "spec", "minReadySeconds", 0)
		r.rolling(w, spec, "updateStrategy", one, none)
	case "DaemonSet":
		w.Replicas = Int{} // as many as there are nodes for it
		w.MinReady = r.count(spec, "spec", "minReadySeconds", 0)
		r.rolling(w, spec, "updateStrategy", one, none)
	case "ReplicaSet", "ReplicationController":
		w.Replicas = r.count(spec, "spec", "replicas", 1)
		w.MinReady = r.count(spec, "spec", "minReadySeconds", 0)
	case "Job":
		w.Replicas = r.count(spec, "spec", "parallelism", 1)
	case "CronJob":
		w.PodPath = "spec.jobTemplate.spec.template"
		job := r.child(spec, "spec", "jobTemplate", manifest.Map)
		spec = r.child(job, "spec.jobTemplate", "spec", manifest.Map)
		w.Replicas = r.count(spec, "spec.jobTemplate.spec", "parallelism", 1)
		r.template(w, spec, "spec.jobTemplate.spec")
		return
	case "Rollout":
		w.Replicas = r.count(spec, "spec", "replicas", 1)
		w.MinReady = r.count(spec, "spec", "minReadySeconds", 0)
		r.steps(w, spec)
		if ref := r.child(spec, "spec", "workloadRef", manifest.Map); ref.Exists() {
			from := name{r.text(ref, "spec.workloadRef", "kind"), space(r.o.Namespace), r.text(ref, "spec.workloadRef", "name")}
			b.loans = append(b.loans, loan{r, w, from})
			return
		}
	}
	r.template(w, spec, "spec")
}

// template reads the Pod template below spec.
func (r reader) template(w *Workload, spec manifest.Value, at string) {
	template := r.child(spec, at, "template", manifest.Map)
	meta := r.child(template, w.PodPath, "metadata", manifest.Map)
	w.Labels = r.labels(meta, join(w.PodPath, "metadata"), "labels")
	w.Annotations = r.labels(meta, join(w.PodPath, "metadata"), "annotations")
	r.checkNotes(w.Annotations, join(w.PodPath, "metadata"))
	w.Pod = r.pod(r.child(template, w.PodPath, "spec", manifest.Map), w.SpecPath())
}

// rolling reads a strategy and, where it rolls, how.
func (r reader) rolling(w *Workload, spec manifest.Value, key string, unavailable, surge IntOrPercent) {
	at := join("spec", key)
	strategy := r.child(spec, "spec", key, manifest.Map)
	w.Strategy = r.text(strategy, at, "type")
	if w.StrategySet = w.Strategy != ""; !w.StrategySet {
		w.Strategy = "RollingUpdate"
	}
	if w.Strategy != "RollingUpdate" {
		return
	}
	update := r.child(strategy, at, "rollingUpdate", manifest.Map)
	at = join(at, "rollingUpdate")
	w.MaxUnavailable = r.share(update, at, "maxUnavailable", unavailable)
	if w.Object.Kind != "StatefulSet" { // which has no surge
		w.MaxSurge = r.share(update, at, "maxSurge", surge)
	}
}

// steps reads the strategy of an Argo Rollout.
func (r reader) steps(w *Workload, spec manifest.Value) {
	strategy := r.child(spec, "spec", "strategy", manifest.Map)
	if v := r.child(strategy, "spec.strategy", "blueGreen", manifest.Map); v.Exists() {
		w.Strategy, w.StrategySet = "BlueGreen", true
		w.MaxUnavailable = r.share(v, "spec.strategy.blueGreen", "maxUnavailable", quarter)
		w.ScaleDownDelay = r.number(v, "spec.strategy.blueGreen", "scaleDownDelaySeconds", 30)
		return
	}
	v := r.child(strategy, "spec.strategy", "canary", manifest.Map)
	if !v.Exists() {
		return
	}
	w.Strategy, w.StrategySet = "Canary", true
	w.MaxUnavailable = r.share(v, "spec.strategy.canary", "maxUnavailable", quarter)
	w.MaxSurge = r.share(v, "spec.strategy.canary", "maxSurge", quarter)
	// Without a traffic router the delay is not looked at: old Pods go as new ones come.
	if v.At("trafficRouting").Exists() {
		w.ScaleDownDelay = r.number(v, "spec.strategy.canary", "scaleDownDelaySeconds", 30)
	}
}

// loan is a Rollout that takes its Pod template from another object.
type loan struct {
	r       reader
	rollout *Workload
	from    name
}

// borrow gives Rollouts with a workloadRef the template that they name. The lender is then
// no workload of its own: Argo Rollouts scales it down and runs its Pods.
func (b *builder) borrow() {
	if len(b.loans) == 0 {
		return
	}
	lenders := map[name][]*Workload{}
	for _, w := range b.m.Workloads {
		if w.Object.Kind == "Deployment" || w.Object.Kind == "ReplicaSet" {
			n := name{w.Object.Kind, space(w.Object.Namespace), w.Object.Name}
			lenders[n] = append(lenders[n], w)
		}
	}
	lent := map[*Workload]bool{}
	for _, l := range b.loans {
		w, r := l.rollout, l.r
		from := nearest(r.o, lenders[l.from], (*Workload).object)
		if from == nil {
			r.note("spec.workloadRef names %s %s, which the input does not hold: its Pods are unknown", l.from.kind, l.from.name)
			// They carry at least the labels that the Rollout selects.
			spec := r.child(r.o.Root, "", "spec", manifest.Map)
			w.Labels = r.selector(spec, "spec", "selector").Labels
			w.Pod = r.pod(manifest.Value{}, w.SpecPath())
			continue
		}
		w.PodObject, w.PodPath = from.PodObject, from.PodPath
		w.Labels, w.Annotations, w.Pod = from.Labels, from.Annotations, from.Pod
		lent[from] = true
	}
	b.m.Workloads = slices.DeleteFunc(b.m.Workloads, func(w *Workload) bool { return lent[w] })
}
