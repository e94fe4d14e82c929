package model

import (
	"slices"
	"strconv"
)

// Target is where one port of a Service ends.
type Target struct {
	// Service is nil for a port that the workload opens on its node.
	Service     *Service
	ServicePort ServicePort
	// Container is never nil in what TargetsOf gives.
	Container *Container
	Port      Port
}

// SpecPath is the path of the Pod's spec in PodObject, e.g. spec.template.spec.
func (w *Workload) SpecPath() string {
	if w.PodPath == "" {
		return "spec"
	}
	return w.PodPath + ".spec"
}

// ReceivesTraffic says whether anything is known to send traffic to the workload:
// a Service selects it, or it opens a port on its node.
func (w *Workload) ReceivesTraffic() bool {
	if len(w.Services) > 0 {
		return true
	}
	for _, c := range w.all() {
		for _, p := range c.Ports {
			if w.onHost(p) {
				return true
			}
		}
	}
	return false
}

// Serving gives the containers that answer clients, in the order of the spec,
// native sidecars last. They are those whose ports a Service targets or that open a
// port on the node; where no such port is known, those that declare
// ports, then those that a readiness probe reaches over the network, then a container that is alone.
func (w *Workload) Serving() []*Container {
	reached := func(c *Container) bool {
		return slices.ContainsFunc(c.Ports, func(p Port) bool { return p.HostPort != 0 })
	}
	targeted := w.targeted()
	var serving []*Container
	for _, c := range w.all() {
		if slices.Contains(targeted, c) || reached(c) {
			serving = append(serving, c)
		}
	}
	if len(serving) > 0 {
		return serving
	}
	for _, c := range w.Pod.Containers {
		if len(c.Ports) > 0 {
			serving = append(serving, c)
		}
	}
	if len(serving) > 0 {
		return serving
	}
	for _, c := range w.Pod.Containers {
		if p := c.Readiness; p != nil && p.Port != "" {
			serving = append(serving, c)
		}
	}
	if len(serving) == 0 && len(w.Pod.Containers) == 1 {
		return w.Pod.Containers
	}
	return serving
}

// targeted gives the containers that ports of its Services end at. Many Services may select a
// workload, and most of their ports are the same: each is followed once.
func (w *Workload) targeted() []*Container {
	type end struct{ target, protocol string }
	var targeted []*Container
	var seen []end
	for _, s := range w.Services {
		for i := range s.Ports {
			sp := &s.Ports[i]
			e := end{sp.Target, sp.Protocol}
			if slices.Contains(seen, e) {
				continue
			}
			seen = append(seen, e)
			if c, _ := w.listener(*sp); c != nil && !slices.Contains(targeted, c) {
				targeted = append(targeted, c)
			}
		}
	}
	return targeted
}

// TargetsOf gives, for each port of the Service, the container of the workload that
// it ends at. A port is left out where its name is declared by no container (then no
// traffic reaches the Pod through it), and where its number is declared by none and the Pod
// has several containers (then the manifest does not tell which of them listens).
func (s *Service) TargetsOf(w *Workload) []Target {
	targets := make([]Target, 0, len(s.Ports))
	for _, sp := range s.Ports {
		if c, p := w.listener(sp); c != nil {
			targets = append(targets, Target{s, sp, c, p})
		}
	}
	return targets
}

// UDP gives the UDP ports over which the workload is reached: those of its Services, then those
// that it opens on its node. Container is nil where it is not known which one listens.
func (w *Workload) UDP() []Target {
	var targets []Target
	for _, s := range w.Services {
		for _, sp := range s.Ports {
			if sp.Protocol == "UDP" {
				c, p := w.listener(sp)
				targets = append(targets, Target{s, sp, c, p})
			}
		}
	}
	for _, c := range w.all() {
		for _, p := range c.Ports {
			known := slices.ContainsFunc(targets, func(t Target) bool { return t.Container == c && t.Port.Number == p.Number })
			if p.Protocol == "UDP" && w.onHost(p) && !known {
				targets = append(targets, Target{Container: c, Port: p})
			}
		}
	}
	return targets
}

// onHost says whether a port is open on the node.
func (w *Workload) onHost(p Port) bool { return p.HostPort != 0 || w.Pod.HostNetwork }

// all gives the containers and then the native sidecars: the order in which names of ports are looked up.
func (w *Workload) all() []*Container {
	if len(w.Pod.Sidecars) == 0 {
		return w.Pod.Containers
	}
	return slices.Concat(w.Pod.Containers, w.Pod.Sidecars)
}

// listener finds the container that a Service's port ends at, and the port there.
func (w *Workload) listener(sp ServicePort) (*Container, Port) {
	number, err := strconv.ParseInt(sp.Target, 10, 64)
	if err != nil {
		for _, c := range w.all() {
			for _, p := range c.Ports {
				if p.Name == sp.Target && p.Protocol == sp.Protocol {
					return c, p
				}
			}
		}
		return nil, Port{}
	}
	// A number reaches the Pod whether a container declares it or not.
	undeclared := Port{Number: number, Protocol: sp.Protocol}
	var other, probed *Container
	for _, c := range w.all() {
		for _, p := range c.Ports {
			switch {
			case p.Number != number:
			case p.Protocol == sp.Protocol:
				return c, p
			case other == nil:
				other = c
			}
		}
		for _, p := range []*Probe{c.Readiness, c.Liveness, c.Startup} {
			if p != nil && p.Port == sp.Target && probed == nil {
				probed = c
			}
		}
	}
	switch {
	case other != nil:
		return other, undeclared
	case probed != nil:
		return probed, undeclared
	case len(w.Pod.Containers) == 1:
		return w.Pod.Containers[0], undeclared
	}
	return nil, Port{}
}
