package model

import (
	"strconv"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

func (r reader) service() *Service {
	meta := r.child(r.o.Root, "", "metadata", manifest.Map)
	spec := r.child(r.o.Root, "", "spec", manifest.Map)
	s := &Service{
		Object:                r.o,
		Type:                  r.textOr(spec, "spec", "type", "ClusterIP"),
		Headless:              r.text(spec, "spec", "clusterIP") == "None",
		Selector:              r.labels(spec, "spec", "selector"),
		ExternalTrafficPolicy: r.textOr(spec, "spec", "externalTrafficPolicy", "Cluster"),
		InternalTrafficPolicy: r.textOr(spec, "spec", "internalTrafficPolicy", "Cluster"),
		PublishNotReady:       r.flag(spec, "spec", "publishNotReadyAddresses"),
		SessionAffinity:       r.textOr(spec, "spec", "sessionAffinity", "None"),
		LoadBalancerClass:     r.text(spec, "spec", "loadBalancerClass"),
		Annotations:           r.labels(meta, "metadata", "annotations"),
	}
	for at, v := range r.maps(spec, "spec", "ports") {
		p := ServicePort{
			Name:        r.text(v, at, "name"),
			Protocol:    r.textOr(v, at, "protocol", "TCP"),
			AppProtocol: r.text(v, at, "appProtocol"),
			Port:        r.number(v, at, "port", 0).N,
			Target:      r.text(v, at, "targetPort"),
			NodePort:    r.number(v, at, "nodePort", 0).N,
			At:          at,
		}
		if p.Target == "" || p.Target == "0" {
			p.Target = strconv.FormatInt(p.Port, 10)
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}
