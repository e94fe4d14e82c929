package model

import (
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// join ties together what belongs together, in both directions, each in the order of the input.
func (b *builder) join() {
	index := newPodIndex(b.m.Workloads)
	variant := func(from *manifest.Object, selected []*Workload) []*Workload {
		if !index.twins {
			return selected
		}
		return variant(from, selected)
	}
	for _, s := range b.m.Services {
		s.Endpoints = b.endpoints[name{"Service", space(s.Object.Namespace), s.Object.Name}]
		if len(s.Selector) == 0 || s.Type == "ExternalName" {
			continue
		}
		s.Workloads = variant(s.Object, index.selected(space(s.Object.Namespace), s.Selector))
		for _, w := range s.Workloads {
			w.Services = append(w.Services, s)
		}
		if len(s.Workloads) == 0 {
			s.OtherPods = b.others(s.Object, Selector{Labels: s.Selector, Set: true})
		}
	}
	b.joinFronts()
	for _, p := range b.m.PDBs {
		var selected []*Workload
		for _, w := range index.candidates(space(p.Object.Namespace), p.Selector.Labels) {
			if p.Selector.Matches(w.Labels) {
				selected = append(selected, w)
			}
		}
		p.Workloads = variant(p.Object, selected)
		for _, w := range p.Workloads {
			w.PDBs = append(w.PDBs, p)
		}
		if len(p.Workloads) == 0 {
			p.OtherPods = b.others(p.Object, p.Selector)
		}
	}
	b.joinHPAs()
}

// podIndex finds workloads by their Pods' labels.
type podIndex struct {
	all  map[string][]*Workload // by namespace
	with map[pair][]*Workload
	// twins says that there are workloads of one kind and name, and so variants to choose from.
	twins bool
}

type pair struct{ namespace, key, value string }

func newPodIndex(workloads []*Workload) podIndex {
	index := podIndex{all: map[string][]*Workload{}, with: make(map[pair][]*Workload, 2*len(workloads))}
	names := make(map[name]bool, len(workloads))
	for _, w := range workloads {
		n := name{w.Object.Kind, space(w.Object.Namespace), w.Object.Name}
		index.twins = index.twins || names[n]
		names[n] = true
		ns := space(w.Object.Namespace)
		index.all[ns] = append(index.all[ns], w)
		for key, value := range w.Labels {
			p := pair{ns, key, value}
			index.with[p] = append(index.with[p], w)
		}
	}
	return index
}

// candidates gives the workloads that have the rarest of the labels: no others can have them all.
func (x podIndex) candidates(namespace string, labels map[string]string) []*Workload {
	few := x.all[namespace]
	for key, value := range labels {
		if !given(key) {
			if with := x.with[pair{namespace, key, value}]; len(with) < len(few) {
				few = with
			}
		}
	}
	return few
}

// selected gives the workloads that a Service's selector picks.
func (x podIndex) selected(namespace string, selector map[string]string) []*Workload {
	var selected []*Workload
	for _, w := range x.candidates(namespace, selector) {
		if w.carries(selector) {
			selected = append(selected, w)
		}
	}
	return selected
}

// carries says whether Pods of the workload have all these labels.
func (w *Workload) carries(labels map[string]string) bool {
	for key, value := range labels {
		have, ok := w.Labels[key]
		if !(ok && have == value) && !w.gives(key, value) {
			return false
		}
	}
	return true
}

// given says whether a label is one that a controller gives its Pods, beyond their template.
func given(key string) bool {
	switch key {
	case "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash", "pod-template-hash",
		"rollouts-pod-template-hash", "job-name", "batch.kubernetes.io/job-name":
		return true
	}
	return false
}

// gives says whether one of the workload's Pods may get this label from its controller.
func (w *Workload) gives(key, value string) bool {
	kind, owner := w.Object.Kind, w.Object.Name
	switch key {
	case "statefulset.kubernetes.io/pod-name":
		ordinal, ok := strings.CutPrefix(value, owner+"-")
		return kind == "StatefulSet" && ok && isNumber(ordinal)
	case "apps.kubernetes.io/pod-index":
		return kind == "StatefulSet" && isNumber(value)
	case "controller-revision-hash":
		return kind == "StatefulSet" || kind == "DaemonSet"
	case "pod-template-hash":
		return kind == "Deployment" || kind == "ReplicaSet"
	case "rollouts-pod-template-hash": // Argo Rollouts writes it into the selectors of live Services
		return kind == "Rollout"
	case "job-name", "batch.kubernetes.io/job-name":
		return kind == "Job" && value == owner || kind == "CronJob" && strings.HasPrefix(value, owner+"-")
	}
	return false
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// joinFronts finds the Services that Ingresses and routes name.
func (b *builder) joinFronts() {
	services := make(map[name][]*Service, len(b.m.Services))
	for _, s := range b.m.Services {
		n := name{"Service", space(s.Object.Namespace), s.Object.Name}
		services[n] = append(services[n], s)
	}
	for i, f := range b.m.Fronts {
		for _, backend := range b.backends[i] {
			named := services[name{"Service", space(backend.Namespace), backend.Name}]
			s := nearest(f.Object, named, (*Service).object)
			if s != nil && backend.port != "" && !backend.has(named) && !slices.ContainsFunc(f.NoPort, func(n NoPort) bool { return n.Service == s && n.Port == backend.port }) {
				f.NoPort = append(f.NoPort, NoPort{s, backend.port, backend.portAt})
			}
			switch {
			case s != nil && !slices.Contains(f.Services, s):
				f.Services = append(f.Services, s)
				s.Fronts = append(s.Fronts, f)
			case s == nil && b.complete(backend.Namespace) && !slices.ContainsFunc(f.Missing, func(m Backend) bool {
				return m.Name == backend.Name && space(m.Namespace) == space(backend.Namespace)
			}):
				f.Missing = append(f.Missing, backend.Backend)
			}
		}
	}
	last := map[*Front]*Workload{} // the last workload that a front was added to
	for _, w := range b.m.Workloads {
		for _, s := range w.Services {
			for _, f := range s.Fronts {
				if last[f] != w {
					last[f] = w
					w.Fronts = append(w.Fronts, f)
				}
			}
		}
	}
}

// complete says whether all of a namespace's objects can be in the input.
func (b *builder) complete(namespace string) bool {
	return !b.options.Live || len(b.options.Namespaces) == 0 || slices.Contains(b.options.Namespaces, space(namespace))
}

func (b *builder) joinHPAs() {
	if len(b.m.HPAs) == 0 {
		return
	}
	workloads := make(map[name][]*Workload, len(b.m.Workloads))
	for _, w := range b.m.Workloads {
		n := name{w.Object.Kind, space(w.Object.Namespace), w.Object.Name}
		workloads[n] = append(workloads[n], w)
	}
	for _, l := range b.loans { // the name of a lender leads to the Rollout
		workloads[l.from] = append(workloads[l.from], l.rollout)
	}
	for _, h := range b.m.HPAs {
		n := name{h.TargetKind, space(h.Object.Namespace), h.TargetName}
		h.Workload = nearest(h.Object, workloads[n], (*Workload).object)
		if h.Workload != nil {
			h.Workload.HPAs = append(h.Workload.HPAs, h)
		}
	}
}
