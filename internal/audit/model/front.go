package model

import (
	"encoding/json"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// ingress reads an Ingress and the Services that it names, in today's form
// (backend.service.name) and in that of the beta versions (backend.serviceName).
func (r reader) ingress() (*Front, []Backend) {
	f := r.newFront()
	spec := r.child(r.o.Root, "", "spec", manifest.Map)
	f.Class = r.textOr(spec, "spec", "ingressClassName", f.Annotations["kubernetes.io/ingress.class"])

	var backends []Backend
	backend := func(v manifest.Value, at, key string) {
		v, at = r.child(v, at, key, manifest.Map), join(at, key)
		service := r.child(v, at, "service", manifest.Map)
		called, written := r.text(service, join(at, "service"), "name"), join(at, "service.name")
		port := r.child(service, join(at, "service"), "port", manifest.Map).At("name").Text()
		if called == "" {
			called, written = r.text(v, at, "serviceName"), join(at, "serviceName")
			port = v.At("servicePort").Text()
		}
		if called == "" {
			return // a backend that is a resource, or none
		}
		if port != "use-annotation" {
			backends = append(backends, Backend{r.o.Namespace, called, written})
			return
		}
		// The AWS Load Balancer Controller: the name is that of an annotation, which may name Services.
		key = "alb.ingress.kubernetes.io/actions." + called
		for _, s := range actionServices(f.Annotations[key]) {
			backends = append(backends, Backend{r.o.Namespace, s, `metadata.annotations["` + key + `"]`})
		}
	}
	backend(spec, "spec", "defaultBackend")
	backend(spec, "spec", "backend")
	for at, rule := range r.maps(spec, "spec", "rules") {
		http := r.child(rule, at, "http", manifest.Map)
		for at, path := range r.maps(http, join(at, "http"), "paths") {
			backend(path, at, "backend")
		}
	}
	return f, backends
}

// actionServices gives the Services to which an action of the AWS Load Balancer Controller forwards.
func actionServices(action string) []string {
	var a struct {
		ForwardConfig struct {
			TargetGroups []struct{ ServiceName string }
		}
	}
	if !strings.HasPrefix(strings.TrimSpace(action), "{") || json.Unmarshal([]byte(action), &a) != nil {
		return nil
	}
	var services []string
	for _, g := range a.ForwardConfig.TargetGroups {
		if g.ServiceName != "" {
			services = append(services, g.ServiceName)
		}
	}
	return services
}

// route reads a route of the Gateway API. What a filter mirrors to is no backend: nobody waits for its answer.
func (r reader) route() (*Front, []Backend) {
	f := r.newFront()
	spec := r.child(r.o.Root, "", "spec", manifest.Map)
	for at, p := range r.maps(spec, "spec", "parentRefs") {
		if r.textOr(p, at, "kind", "Gateway") == "Gateway" {
			f.Class = r.text(p, at, "name")
			break
		}
	}
	var backends []Backend
	for at, rule := range r.maps(spec, "spec", "rules") {
		for at, ref := range r.maps(rule, at, "backendRefs") {
			if r.textOr(ref, at, "kind", "Service") != "Service" || r.text(ref, at, "group") != "" {
				continue
			}
			if called := r.text(ref, at, "name"); called != "" {
				backends = append(backends, Backend{r.textOr(ref, at, "namespace", r.o.Namespace), called, join(at, "name")})
			}
		}
	}
	return f, backends
}

func (r reader) newFront() *Front {
	meta := r.child(r.o.Root, "", "metadata", manifest.Map)
	return &Front{Object: r.o, Annotations: r.labels(meta, "metadata", "annotations")}
}
