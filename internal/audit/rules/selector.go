package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var selectorRules = []Rule{
	{
		ID: "DP861", Topic: finding.Selector, Severity: finding.Error,
		Title: "A Service selects no workload",
		Physics: "The EndpointSlice controller lists the Pods whose labels match the selector. Where none does, the Service has no endpoint: kube-proxy rejects every new connection to its address, and ingress controllers answer 503. " +
			"A label that was renamed in the Pod template but not in the Service takes the Service down with the rollout that follows.",
		Sources: []string{"kubernetes.io: Service, services with selectors", "Popeye codes 1100, 1105 and 1106 (Service wiring)", "KubeLinter check dangling-service"},
		Remedy:  "Make the selector equal to labels of the Pod template.", Set: checkDanglingService,
	},
	{
		ID: "DP862", Topic: finding.Selector, Severity: finding.Error,
		Title: "targetPort names a port that no selected container declares",
		Physics: "A targetPort that is a name is looked up in each selected Pod, by name and protocol, among the ports of its containers and native sidecars. A Pod without it is left out of the endpoints of that port: " +
			"nothing fails, and no traffic arrives.",
		Sources: []string{"kubernetes.io: Service, port definitions", "kubernetes/kubernetes, EndpointSlice controller (FindPort)"},
		Remedy:  "Give the containerPort that name, with the protocol of the Service's port, or write the number.", Set: checkTargetName,
	},
	{
		ID: "DP863", Topic: finding.Selector, Severity: finding.Warning,
		Title: "A Service also selects Pods that do not serve its port",
		Physics: "A Service sends to every ready Pod that carries its labels. Where two workloads share them, for example a web server and the worker or the migration Job of the same application, the worker's Pods get their share of the connections " +
			"and refuse them, for as long as they run.",
		Sources: []string{"kubernetes.io: Service, services with selectors", "kubernetes.io: Labels and Selectors"},
		Remedy:  "Add a label that only the serving Pods carry, such as app.kubernetes.io/component, to template and selector.", Set: checkStrangers,
	},
	{
		ID: "DP864", Topic: finding.Selector, Severity: finding.Info,
		Title: "targetPort is a number that no selected container declares",
		Physics: "Container ports need not be declared, so this works where the process listens there. Where containers do declare ports, and only others, the number is often a leftover: " +
			"then every connection through the Service is refused.",
		Sources: []string{"kubernetes.io: Service, port definitions", "Popeye codes 1100, 1105 and 1106 (Service wiring)"},
		Remedy:  "Declare the port in the container, and let targetPort name it.", Set: checkTargetNumber,
	},
	{
		ID: "DP865", Topic: finding.Selector, Severity: finding.Error,
		Title: "An Ingress or route sends to a Service or a port that does not exist",
		Physics: "A backend that does not exist has no endpoint. The controller answers 503 or 500 in its place, for the share of requests that the rule matches. " +
			"The same holds for a port that the Service does not have: a backend names the Service's own port, by number or name, not the container's. ingress-nginx finds a targetPort too; others do not.",
		Sources: []string{"kubernetes.io: Ingress", "gateway-api.sigs.k8s.io: HTTPRoute, backendRefs", "kubernetes/ingress-nginx internal/ingress/controller: serviceEndpoints"},
		Remedy:  "Name a Service of the right namespace and one of its ports, or remove the rule.", Set: checkMissingBackend,
	},
}

// namespaceOf makes namespaces comparable: what has none is applied to default.
func namespaceOf(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}

func hasWorkloads(m *model.Model, namespace string) bool {
	return slices.ContainsFunc(m.Workloads, func(w *model.Workload) bool { return namespaceOf(w.Object.Namespace) == namespaceOf(namespace) })
}

// labelPairs lists labels as a=b, sorted.
func labelPairs(labels map[string]string) []string {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, k+"="+labels[k])
	}
	return pairs
}

// nearMiss is a workload that a selector misses by one label.
type nearMiss struct {
	w          *model.Workload
	key        string
	want, have string
	// lacks says that the workload's Pods do not carry the key at all.
	lacks bool
}

// Labels that say which application a Pod is, by their last part.
var identities = []string{"app", "name", "k8s-app", "run", "application"}

// Words in keys of labels that are set on Pods as they run, or that are switched on purpose from one set of Pods to another.
var switched = []string{"role", "color", "colour", "slot", "version", "track", "hash", "pod-name", "pod-index", "leader", "master", "primary", "active", "shard"}

// atRunTime says that the label in question may well be set by somebody while the Pods run.
func (n nearMiss) atRunTime() bool {
	return n.lacks || slices.ContainsFunc(switched, func(s string) bool { return strings.Contains(n.key, s) })
}

func (n nearMiss) words() string {
	if n.lacks {
		return fmt.Sprintf("%s %s has every label but %s=%s", n.w.Object.Kind, n.w.Object.Name, n.key, n.want)
	}
	return fmt.Sprintf("%s %s carries %s=%s, the selector asks for %s=%s", n.w.Object.Kind, n.w.Object.Name, n.key, n.have, n.key, n.want)
}

func (n nearMiss) fact() finding.Fact {
	return finding.Fact{Name: "labels of " + n.w.Object.Kind + " " + n.w.Object.Name, Value: strings.Join(labelPairs(n.w.Labels), ","), From: "its Pod template"}
}

func (n nearMiss) remedy(field string) string {
	return fmt.Sprintf("set %s of %s to %q, or the label of %s %s to %q", n.key, field, n.have, n.w.Object.Kind, n.w.Object.Name, n.want)
}

// closest looks for the workload that a selector was most likely meant for: one of the namespace that differs in
// one label and is the same application by another, or has the same name, or whose value looks like a misprint.
func closest(m *model.Model, namespace, called string, labels map[string]string) (nearMiss, bool) {
	for _, w := range m.Workloads {
		if namespaceOf(w.Object.Namespace) != namespaceOf(namespace) {
			continue
		}
		var n nearMiss
		misses, same := 0, w.Object.Name == called
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			have, ok := w.Labels[key]
			switch {
			case ok && have == labels[key]:
				same = same || slices.Contains(identities, key[strings.LastIndexByte(key, '/')+1:])
			default:
				misses++
				n = nearMiss{w, key, labels[key], have, !ok}
			}
		}
		if misses == 1 && (same || !n.lacks && misprint(n.want, n.have)) {
			return n, true
		}
	}
	return nearMiss{}, false
}

// misprint says that two words differ by one letter more, fewer or other.
func misprint(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 4 || len(b)-len(a) > 1 || a == b {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return a[i+1:] == b[i+1:] && !numbered(a[i]) && !numbered(b[i])
	}
	return a[i:] == b[i+1:] && !numbered(b[i])
}

// numbered: web-1 and web-2 are two things, no misprint.
func numbered(c byte) bool { return c >= '0' && c <= '9' }

func checkDanglingService(c *Context) {
	for _, s := range c.Model.Services {
		if len(s.Selector) == 0 || s.Type == "ExternalName" || len(s.Workloads) > 0 || s.Endpoints > 0 || s.OtherPods > 0 {
			continue
		}
		f := finding.Finding{
			Facts:  []finding.Fact{{Name: "selector", Value: strings.Join(labelPairs(s.Selector), ","), From: "spec.selector"}},
			Remedy: "make spec.selector equal to labels of the Pod template that it is for",
		}
		near, close := closest(c.Model, s.Object.Namespace, s.Object.Name, s.Selector)
		if close {
			f.Facts = append(f.Facts, near.fact())
		}
		switch {
		case close && !near.atRunTime():
			f.Message = fmt.Sprintf("Service %s selects no Pod and so has no endpoint: %s", s.Object.Name, near.words())
			f.Remedy = near.remedy("spec.selector")
		case close:
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("Service %s selects no workload as it stands here: %s", s.Object.Name, near.words())
			f.Ask = fmt.Sprintf("does something set %s on the Pods as they run? If not, the Service has no endpoint", near.key)
			if c.Model.Live {
				f.Severity = finding.Warning
				f.Message = fmt.Sprintf("Service %s has no endpoint at this moment: %s", s.Object.Name, near.words())
			}
		case c.Model.Live:
			f.Message = fmt.Sprintf("Service %s selects no Pod of any workload and has no endpoint: every connection to it fails", s.Object.Name)
		case !hasWorkloads(c.Model, s.Object.Namespace):
			continue
		default:
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("no workload of the input carries the labels that Service %s selects", s.Object.Name)
			f.Ask = "does an operator, or a manifest that was not given, make Pods with these labels? If not, the Service has no endpoint"
		}
		c.Report(At(s.Object, "spec.selector"), f)
	}
}

// declares says whether a Pod's containers declare a port, by name or by number.
func declares(w *model.Workload, p model.ServicePort) bool {
	for _, k := range everyContainer(w) {
		for _, d := range k.Ports {
			if d.Protocol == p.Protocol && (d.Name == p.Target || strconv.FormatInt(d.Number, 10) == p.Target) {
				return true
			}
		}
	}
	return false
}

// declared lists the ports of a Pod's containers.
func declared(w *model.Workload) string {
	var ports []string
	for _, k := range everyContainer(w) {
		for _, d := range k.Ports {
			ports = append(ports, strings.TrimSpace(d.Name+" "+strconv.FormatInt(d.Number, 10)+"/"+d.Protocol))
		}
	}
	if len(ports) == 0 {
		return "none"
	}
	return strings.Join(ports, ", ")
}

func title(w *model.Workload) string { return w.Object.Kind + " " + w.Object.Name }

func titles(workloads []*model.Workload) string {
	var names []string
	for _, w := range workloads {
		names = append(names, title(w))
	}
	return inWords(names)
}

func checkTargetName(c *Context) {
	for _, s := range c.Model.Services {
		for _, p := range s.Ports {
			if isNumber(p.Target) {
				continue
			}
			var without []*model.Workload
			for _, w := range s.Workloads {
				if !declares(w, p) && (!isJob(w) || len(s.Workloads) == 1) {
					without = append(without, w)
				}
			}
			if len(without) == 0 {
				continue
			}
			f := finding.Finding{
				Message: fmt.Sprintf("port %d of Service %s goes to the port named %q (%s), which no container of %s declares: such Pods get no traffic through it",
					p.Port, s.Object.Name, p.Target, p.Protocol, titles(without)),
				Facts:  []finding.Fact{{Name: "targetPort", Value: p.Target + "/" + p.Protocol, From: p.At + ".targetPort"}},
				Remedy: fmt.Sprintf("name the containerPort %q in %s, or write its number as targetPort", p.Target, titles(without)),
			}
			for _, w := range without {
				f.Facts = append(f.Facts, finding.Fact{Name: "ports of " + title(w), Value: declared(w), From: w.SpecPath()})
			}
			if len(without) < len(s.Workloads) {
				// What the Service leaves out may well be meant to be left out.
				f.Severity = finding.Info
				f.Ask = "is this workload meant to stand behind the Service?"
			}
			c.Report(At(s.Object, p.At+".targetPort"), f)
		}
	}
}

func checkStrangers(c *Context) {
	for _, s := range c.Model.Services {
		if len(s.Workloads) < 2 {
			continue
		}
		for _, p := range s.Ports {
			if !isNumber(p.Target) {
				continue // those Pods are left out: DP862
			}
			var serve, strange []*model.Workload
			for _, w := range s.Workloads {
				switch {
				case declares(w, p):
					serve = append(serve, w)
				case declared(w) != "none" || isJob(w):
					strange = append(strange, w)
				}
			}
			if len(serve) == 0 || len(strange) == 0 {
				continue
			}
			f := finding.Finding{
				Message: fmt.Sprintf("Service %s sends port %d to port %s of %s too, whose containers do not declare it", s.Object.Name, p.Port, p.Target, titles(strange)),
				Facts: []finding.Fact{{Name: "selector", Value: strings.Join(labelPairs(s.Selector), ","), From: "spec.selector"},
					{Name: "targetPort", Value: p.Target + "/" + p.Protocol, From: p.At + ".targetPort"}},
				Remedy: fmt.Sprintf("add a label that only the Pods of %s carry to the selector", titles(serve)),
			}
			for _, w := range strange {
				f.Facts = append(f.Facts, finding.Fact{Name: "ports of " + title(w), Value: declared(w), From: w.SpecPath()})
			}
			if mine, all, known := shareOf(strange, s.Workloads); known {
				f.Message += fmt.Sprintf(": if nothing listens there, %d of every %d connections fail", mine, all)
			} else {
				f.Message += ": if nothing listens there, their share of the connections fails while they run"
			}
			c.Report(At(s.Object, "spec.selector"), f)
		}
	}
}

// shareOf counts the least Pods of some workloads and of all.
func shareOf(some, of []*model.Workload) (mine, all int64, known bool) {
	for _, w := range of {
		pods, ok := leastPods(w)
		if !ok {
			return 0, 0, false
		}
		all += pods.n
		if slices.Contains(some, w) {
			mine += pods.n
		}
	}
	return mine, all, mine > 0
}

func checkTargetNumber(c *Context) {
	for _, s := range c.Model.Services {
		if s.Headless { // its clients choose the port themselves
			continue
		}
		for _, p := range s.Ports {
			if !isNumber(p.Target) || len(s.Workloads) == 0 || slices.ContainsFunc(s.Workloads, func(w *model.Workload) bool {
				return declares(w, p) || !declaresAny(w, p.Protocol) || isProbed(w, p.Target)
			}) {
				continue
			}
			f := finding.Finding{
				Message: fmt.Sprintf("port %d of Service %s goes to port %s (%s), while the containers of %s declare other ports only", p.Port, s.Object.Name, p.Target, p.Protocol, titles(s.Workloads)),
				Facts:   []finding.Fact{{Name: "targetPort", Value: p.Target + "/" + p.Protocol, From: p.At + ".targetPort"}},
				Remedy:  "declare the port in the container that listens on it, or correct targetPort",
				Ask:     fmt.Sprintf("does a process of the Pod listen on port %s? If not, every connection through this port is refused", p.Target),
			}
			for _, w := range s.Workloads {
				f.Facts = append(f.Facts, finding.Fact{Name: "ports of " + title(w), Value: declared(w), From: w.SpecPath()})
			}
			c.Report(At(s.Object, p.At+".targetPort"), f)
		}
	}
}

func declaresAny(w *model.Workload, protocol string) bool {
	return slices.ContainsFunc(everyContainer(w), func(k *model.Container) bool {
		return slices.ContainsFunc(k.Ports, func(d model.Port) bool { return d.Protocol == protocol })
	})
}

// isProbed says that some probe asks the port, so that a process is expected there.
func isProbed(w *model.Workload, port string) bool {
	for _, k := range everyContainer(w) {
		for _, p := range []*model.Probe{k.Readiness, k.Liveness, k.Startup} {
			if p != nil && p.Port == port {
				return true
			}
		}
	}
	return false
}

// checkBackendPorts looks for backends whose Service is there and lacks the port.
func checkBackendPorts(c *Context, front *model.Front) {
	for _, n := range front.NoPort {
		var have []string
		targeted := false
		for _, p := range n.Service.Ports {
			have = append(have, strings.TrimSpace(p.Name+" "+strconv.FormatInt(p.Port, 10)))
			targeted = targeted || p.Target == n.Port
		}
		f := finding.Finding{
			Message: fmt.Sprintf("%s %s sends to port %s of Service %s, which has no such port: there is no backend for those requests, and they are answered with an error", front.Object.Kind, front.Object.Name, n.Port, n.Service.Object.Name),
			Facts:   []finding.Fact{{Name: "port of the backend", Value: n.Port, From: n.At}, {Name: "ports of Service " + n.Service.Object.Name, Value: strings.Join(have, ", "), From: "spec.ports"}},
			Remedy:  "name a port that the Service has",
		}
		if len(n.Service.Ports) == 1 {
			f.Remedy = fmt.Sprintf("name port %d of Service %s", n.Service.Ports[0].Port, n.Service.Object.Name)
		}
		if targeted && front.Object.Kind == "Ingress" {
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("Ingress %s sends to port %s of Service %s, which is a targetPort and not a port of the Service: ingress-nginx finds it all the same, other controllers have no backend for those requests", front.Object.Name, n.Port, n.Service.Object.Name)
			f.Ask = "which controller serves this Ingress?"
		}
		c.Report(At(front.Object, n.At), f)
	}
}

func checkMissingBackend(c *Context) {
	for _, front := range c.Model.Fronts {
		checkBackendPorts(c, front)
		var told []model.Backend
		for _, b := range front.Missing {
			if slices.ContainsFunc(told, func(t model.Backend) bool { return t.Namespace == b.Namespace && t.Name == b.Name }) {
				continue
			}
			told = append(told, b)
			var have []string
			meant := ""
			for _, s := range c.Model.Services {
				if namespaceOf(s.Object.Namespace) == namespaceOf(b.Namespace) {
					have = append(have, s.Object.Name)
					if misprint(s.Object.Name, b.Name) {
						meant = s.Object.Name
					}
				}
			}
			if len(have) == 0 && !c.Model.Live {
				continue // the Services of that namespace were not given
			}
			f := finding.Finding{
				Message: fmt.Sprintf("%s %s sends to Service %s of namespace %s, which does not exist: those requests are answered with an error", front.Object.Kind, front.Object.Name, b.Name, namespaceOf(b.Namespace)),
				Facts:   []finding.Fact{{Name: "backend", Value: b.Name, From: b.At}, {Name: "Services of the namespace", Value: manyInWords(have), From: "the input"}},
				Remedy:  "name a Service that exists, or remove the rule",
			}
			switch {
			case meant != "":
				f.Message += fmt.Sprintf(" (Service %s does)", meant)
				f.Remedy = fmt.Sprintf("name Service %s", meant)
			case !c.Model.Live:
				f.Severity = finding.Warning
				f.Message = fmt.Sprintf("%s %s sends to Service %s of namespace %s, which the input does not hold though it holds others of that namespace: if it does not exist, those requests are answered with an error", front.Object.Kind, front.Object.Name, b.Name, namespaceOf(b.Namespace))
			}
			c.Report(At(front.Object, b.At), f)
		}
	}
}

// manyInWords lists up to five names.
func manyInWords(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}
