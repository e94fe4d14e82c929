package model

import "github.com/drainproof/drainproof/internal/audit/manifest"

// stray stands for the Pods of one owner that is no workload here: a custom resource, a
// node. Nothing is said about such Pods, but a selector that matches them does not match nothing.
type stray struct {
	labels map[string]string
	pods   int
}

func (b *builder) strayed(owner name, labels map[string]string, pods int) {
	if b.strays == nil {
		b.strays = map[name]*stray{}
	}
	s := b.strays[owner]
	if s == nil {
		s = &stray{labels: labels}
		b.strays[owner] = s
	}
	s.pods += pods
}

// stray remembers what is no workload of its own, if it is a Pod whose owner is none either.
func (b *builder) stray(r reader) {
	kind, owner := r.controller()
	switch kind {
	case "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job":
		return
	}
	if r.o.Kind == "Pod" {
		meta := r.child(r.o.Root, "", "metadata", manifest.Map)
		b.strayed(name{kind, space(r.o.Namespace), owner}, r.labels(meta, "metadata", "labels"), 1)
	}
}

// custom remembers the Pods of a custom resource that holds a template as a Deployment does.
// The shapes of custom resources are their own business: nothing is noted. In a cluster the Pods are there to see.
func (b *builder) custom(r reader) {
	if b.options.Live {
		return
	}
	spec := r.o.Root.At("spec")
	template := spec.At("template")
	fields := template.At("metadata", "labels")
	if fields.Len() == 0 || template.At("spec", "containers").Kind() != manifest.List {
		return
	}
	labels := make(map[string]string, fields.Len())
	for key, value := range fields.Fields() {
		labels[key] = value.Text()
	}
	pods := int64(1)
	if n, ok := spec.At("replicas").Int(); ok && n > 1 && n < 1<<20 {
		pods = n
	}
	b.strayed(name{r.o.Kind, space(r.o.Namespace), r.o.Name}, labels, int(pods))
}

// others counts the strays that a selector picks.
func (b *builder) others(o *manifest.Object, s Selector) int {
	n := 0
	for owner, pods := range b.strays {
		if owner.namespace == space(o.Namespace) && s.Matches(pods.labels) {
			n += pods.pods
		}
	}
	return n
}
