package model

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// backend is a reference to a Service with the port that it names, "" for none.
type backend struct {
	Backend
	port, portAt string
}

// has says whether one of the Services has the port, by number or name. Where a Service lists no ports, or
// has no endpoints of its own (ExternalName), there is nothing to compare.
func (b backend) has(services []*Service) bool {
	return slices.ContainsFunc(services, func(s *Service) bool {
		return len(s.Ports) == 0 || s.Type == "ExternalName" || slices.ContainsFunc(s.Ports, func(p ServicePort) bool {
			return p.Name != "" && p.Name == b.port || strconv.FormatInt(p.Port, 10) == b.port
		})
	})
}

// ingress reads an Ingress and the Services that it names, in today's form
// (backend.service.name) and in that of the beta versions (backend.serviceName).
func (r reader) ingress() (*Front, []backend) {
	f := r.newFront()
	spec := r.child(r.o.Root, "", "spec", manifest.Map)
	f.Class = r.textOr(spec, "spec", "ingressClassName", f.Annotations["kubernetes.io/ingress.class"])

	var backends []backend
	add := func(v manifest.Value, at, key string) {
		v, at = r.child(v, at, key, manifest.Map), join(at, key)
		service := r.child(v, at, "service", manifest.Map)
		called, written := r.text(service, join(at, "service"), "name"), join(at, "service.name")
		// A number and a name of a port exclude each other.
		portAt := join(at, "service.port")
		ports := r.child(service, join(at, "service"), "port", manifest.Map)
		port := ports.At("name").Text()
		if port == "" {
			port = ports.At("number").Text()
		}
		if called == "" {
			called, written = r.text(v, at, "serviceName"), join(at, "serviceName")
			port, portAt = v.At("servicePort").Text(), join(at, "servicePort")
		}
		if called == "" {
			return // a backend that is a resource, or none
		}
		if port != "use-annotation" {
			backends = append(backends, backend{Backend{r.o.Namespace, called, written}, port, portAt})
			return
		}
		// The AWS Load Balancer Controller: the name is that of an annotation, which may name Services.
		key = "alb.ingress.kubernetes.io/actions." + called
		for _, s := range actionServices(f.Annotations[key]) {
			backends = append(backends, backend{Backend: Backend{r.o.Namespace, s, `metadata.annotations["` + key + `"]`}})
		}
	}
	add(spec, "spec", "defaultBackend")
	add(spec, "spec", "backend")
	for at, rule := range r.maps(spec, "spec", "rules") {
		http := r.child(rule, at, "http", manifest.Map)
		for at, path := range r.maps(http, join(at, "http"), "paths") {
			add(path, at, "backend")
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
func (r reader) route() (*Front, []backend) {
	f := r.newFront()
	spec := r.child(r.o.Root, "", "spec", manifest.Map)
	for at, p := range r.maps(spec, "spec", "parentRefs") {
		if r.textOr(p, at, "kind", "Gateway") == "Gateway" {
			f.Class = r.text(p, at, "name")
			break
		}
	}
	var backends []backend
	for at, rule := range r.maps(spec, "spec", "rules") {
		for at, ref := range r.maps(rule, at, "backendRefs") {
			if r.textOr(ref, at, "kind", "Service") != "Service" || r.text(ref, at, "group") != "" {
				continue
			}
			if called := r.text(ref, at, "name"); called != "" {
				b := Backend{r.textOr(ref, at, "namespace", r.o.Namespace), called, join(at, "name")}
				backends = append(backends, backend{b, ref.At("port").Text(), join(at, "port")})
			}
		}
	}
	return f, backends
}

func (r reader) newFront() *Front {
	meta := r.child(r.o.Root, "", "metadata", manifest.Map)
	return &Front{Object: r.o, Annotations: r.labels(meta, "metadata", "annotations")}
}
