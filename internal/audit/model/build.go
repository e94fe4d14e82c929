package model

import (
	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// Options say what the objects are.
type Options struct {
	// Live: they come from a cluster and are complete in the namespaces that were asked for.
	Live bool
	// Namespaces are those of a live model; empty means all. A name that leads out of
	// them is not reported as missing.
	Namespaces []string
}

// Build works out what the objects mean and joins them. Kinds that it does not know are
// counted and left alone. It takes any object whatever: what cannot be used is in Notes.
func Build(objects []*manifest.Object, o Options) *Model {
	b := &builder{objects: objects, options: o, m: &Model{Live: o.Live}}
	for _, object := range objects {
		if object != nil {
			b.m.Objects++
			r := reader{object, b.m}
			r.checkName()
			b.add(r)
		}
	}
	b.borrow()
	b.join()
	return b.m
}

// builder is a model in the making.
type builder struct {
	objects []*manifest.Object
	options Options
	m       *Model
	// held are the names of all objects; made when an owner is first looked for.
	held map[name]bool
	// loans are Rollouts whose Pod template is another object's.
	loans []loan
	// backends are what each of m.Fronts names, in their order.
	backends [][]backend
	// endpoints counts by Service.
	endpoints map[name]int
	// strays are Pods whose owner is of a kind that is no workload here, one for each owner.
	strays map[name]*stray
}

// name is an object's name among the objects of its kind.
type name struct{ kind, namespace, name string }

// space makes namespaces comparable: an object without one is applied to "default"
// unless someone says otherwise.
func space(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}

func (b *builder) add(r reader) {
	switch r.o.Group() + "/" + r.o.Kind {
	case "/Pod", "/ReplicationController", "apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet",
		"extensions/Deployment", "extensions/DaemonSet", "extensions/ReplicaSet", "batch/Job", "batch/CronJob", "argoproj.io/Rollout":
		b.workload(r)
	case "/Service":
		b.m.Services = append(b.m.Services, r.service())
	case "discovery.k8s.io/EndpointSlice":
		b.count(r)
	case "networking.k8s.io/Ingress", "extensions/Ingress":
		b.front(r.ingress())
	case "gateway.networking.k8s.io/HTTPRoute", "gateway.networking.k8s.io/GRPCRoute", "gateway.networking.k8s.io/TLSRoute",
		"gateway.networking.k8s.io/TCPRoute", "gateway.networking.k8s.io/UDPRoute":
		b.front(r.route())
	case "policy/PodDisruptionBudget":
		b.m.PDBs = append(b.m.PDBs, r.pdb())
	case "autoscaling/HorizontalPodAutoscaler":
		if !b.made(r) {
			b.m.HPAs = append(b.m.HPAs, r.hpa())
		}
	case "keda.sh/ScaledObject":
		b.m.HPAs = append(b.m.HPAs, r.scaledObject())
	default:
		b.custom(r)
	}
}

func (b *builder) front(f *Front, backends []backend) {
	b.m.Fronts = append(b.m.Fronts, f)
	b.backends = append(b.backends, backends)
}

// count adds up the endpoints that a slice lists for its Service.
func (b *builder) count(r reader) {
	meta := r.child(r.o.Root, "", "metadata", manifest.Map)
	service := r.child(meta, "metadata", "labels", manifest.Map).At("kubernetes.io/service-name").Text()
	n := r.child(r.o.Root, "", "endpoints", manifest.List).Len()
	if service == "" || n == 0 {
		return
	}
	if b.endpoints == nil {
		b.endpoints = map[name]int{}
	}
	b.endpoints[name{"Service", space(r.o.Namespace), service}] += n
}

// controller gives the owner that manages the object, in its metadata.
func (r reader) controller() (kind, name string) {
	meta := r.child(r.o.Root, "", "metadata", manifest.Map)
	for at, e := range r.maps(meta, "metadata", "ownerReferences") {
		if r.flag(e, at, "controller") {
			return r.text(e, at, "kind"), r.text(e, at, "name")
		}
	}
	return "", ""
}

// holds says whether an object is in the input.
func (b *builder) holds(kind, namespace, called string) bool {
	if b.held == nil {
		b.held = make(map[name]bool, len(b.objects))
		for _, o := range b.objects {
			if o != nil {
				b.held[name{o.Kind, space(o.Namespace), o.Name}] = true
			}
		}
	}
	return b.held[name{kind, space(namespace), called}]
}

// made says whether the object is only what another one made: a Deployment's ReplicaSet, a
// ReplicaSet's Pod, the autoscaler of a ScaledObject. Then its owner says it all. In files the
// owner may have been left out; then the object is the only trace of it, and stands for itself.
func (b *builder) made(r reader) bool {
	kind, called := r.controller()
	if kind == "" {
		return false
	}
	switch r.o.Kind {
	case "ReplicaSet":
		return (kind == "Deployment" || kind == "Rollout") && (b.options.Live || b.holds(kind, r.o.Namespace, called))
	case "Job":
		return kind == "CronJob" && (b.options.Live || b.holds(kind, r.o.Namespace, called))
	case "Pod":
		return b.options.Live || b.holds(kind, r.o.Namespace, called)
	case "HorizontalPodAutoscaler":
		return kind == "ScaledObject" && b.holds(kind, r.o.Namespace, called)
	}
	return false
}
