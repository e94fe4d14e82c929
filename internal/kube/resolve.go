package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
)

// defaultGrace is what the API server writes where a Pod says none.
const defaultGrace = 30 * time.Second

// mostNames is how many names an error lists.
const mostNames = 5

// Resolve reads the workload, its Pods, budgets and Services. A name that is not there is wrong use; the error lists
// those of its kind that are, nearest first. A workload without Pods cannot be tested, and the error says why it has none.
func (c *Cluster) Resolve(ctx context.Context, r Ref) (*Workload, error) {
	k, err := c.workloadKind(r.Kind)
	if err != nil {
		return nil, err
	}
	s, err := k.get(ctx, r.Namespace, r.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, c.noSuch(ctx, k, r)
	case err != nil:
		return nil, asking(ctx, err, "reading %s", r)
	}
	pods, err := c.pods(ctx, r, s)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(pods) == 0 || finished(pods[0]) {
		return nil, noPods(r, s)
	}
	if len(pods) > s.wanted && r.Kind == deploymentKind.kind {
		return nil, fault.Measuref(nil, "wait until its last rollout is over; if it is, another workload's Pods have labels that its selector matches",
			"%s wants %d Pods, and %d match its selector", r, s.wanted, len(pods))
	}
	w := &Workload{Ref: r, Facts: factsOf(r, s, pods)}
	if s.selector != nil {
		w.Selector = metav1.FormatLabelSelector(s.selector)
	}
	for _, p := range pods {
		if isReady(p) {
			w.Ready++
			w.ReadyPods = append(w.ReadyPods, p.Name)
		}
	}
	if w.Facts.Budgets, err = c.budgets(ctx, r.Namespace, pods); err != nil {
		return nil, err
	}
	w.Services, err = c.services(ctx, r.Namespace, pods)
	return w, err
}

// noSuch says what there is instead.
func (c *Cluster) noSuch(ctx context.Context, k workloadKind, r Ref) error {
	what := fmt.Sprintf("no such %s %q in namespace %s", k.singular(), r.Name, r.Namespace)
	here, err := k.list(ctx, r.Namespace, metav1.ListOptions{})
	if err != nil {
		return fault.Usagef("check the name and the namespace", "%s", what)
	}
	if len(here) == 0 {
		if _, err := c.client.CoreV1().Namespaces().Get(ctx, r.Namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return fault.Usagef("check --namespace", "%s: there is no such namespace", what)
		}
	}
	names := make([]string, len(here))
	for i, s := range here {
		names[i] = s.meta.Name
	}
	next := fmt.Sprintf("namespace %s has no %s at all", r.Namespace, k.singular())
	if len(names) > 0 {
		next = "there is: " + strings.Join(nearest(r.Name, names, mostNames), ", ")
		if more := len(names) - mostNames; more > 0 {
			next += fmt.Sprintf(" and %d more", more)
		}
	}
	// Whether other namespaces may be looked into is not this command's business: what cannot be listed is not named.
	if elsewhere, err := k.list(ctx, metav1.NamespaceAll, metav1.ListOptions{FieldSelector: "metadata.name=" + r.Name}); err == nil {
		var in []string
		for _, s := range elsewhere {
			if s.meta.Name == r.Name && s.meta.Namespace != r.Namespace {
				in = append(in, s.meta.Namespace)
			}
		}
		if slices.Sort(in); len(in) > 0 {
			next += fmt.Sprintf("; a %s of that name is in namespace %s", k.singular(), strings.Join(in[:min(mostNames, len(in))], ", "))
		}
	}
	return fault.Usagef(next, "%s", what)
}

// noPods says why there is nothing to end.
func noPods(r Ref, s *standing) error {
	left, marked := claimOf(s.meta.Labels)
	switch {
	case s.pod != nil:
		return fault.Measuref(nil, "start it again", "%s has run to its end (phase %s)", r, s.pod.Status.Phase)
	case s.wanted == 0 && marked && left.Replicas != nil:
		return fault.Measuref(nil, "run `drainproof cleanup`, which puts its replicas back", "%s has no Pods: trial %s scaled it down and was never finished", r, left.Trial)
	case s.wanted == 0 && r.Kind == daemonSetKind.kind:
		return fault.Measuref(nil, "look at its node selector and tolerations", "%s has no Pods: no node fits it", r)
	case s.wanted == 0:
		return fault.Measuref(nil, "scale it up first", "%s has no Pods: it is scaled to zero", r)
	case s.refused.obstacle != noObstacle:
		return fault.Measuref(nil, s.refused.next(""), "%s has none of its %d Pods: %s: %s", r, s.wanted, s.refused.reason, s.refused.message)
	default:
		return fault.Measuref(nil, "`kubectl describe` it: its events say why its controller makes none",
			"%s has none of its %d Pods: its selector %s matches nothing that runs", r, s.wanted, metav1.FormatLabelSelector(s.selector))
	}
}

func factsOf(r Ref, s *standing, pods []*corev1.Pod) record.Workload {
	w := record.Workload{
		Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: string(s.meta.UID), Replicas: s.wanted,
		Strategy: s.strategy, MaxUnavailable: s.maxUnavailable, MaxSurge: s.maxSurge,
		GraceNs:        int64(deref(s.spec.TerminationGracePeriodSeconds, seconds(defaultGrace))) * int64(time.Second),
		ReadinessProbe: probed(s.spec), Budgets: []string{}, Pods: []record.WorkloadPod{},
	}
	w.PreStop, w.PreStopSleepNs = preStops(s.spec)
	for _, c := range serving(s.spec) {
		w.Images = append(w.Images, c.Image)
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range pods {
		w.Pods = append(w.Pods, record.WorkloadPod{Name: p.Name, UID: string(p.UID), IP: p.Status.PodIP, Node: p.Spec.NodeName, NodeIP: p.Status.HostIP})
	}
	return w
}

// probed reports whether every container that serves has a readiness probe: those with ports, or all where none names a port.
func probed(spec corev1.PodSpec) bool {
	all := serving(spec)
	if with := slices.DeleteFunc(slices.Clone(all), func(c corev1.Container) bool { return len(c.Ports) == 0 }); len(with) > 0 {
		all = with
	}
	return !slices.ContainsFunc(all, func(c corev1.Container) bool { return c.ReadinessProbe == nil })
}

// budgets are the PodDisruptionBudgets that select at least one of the Pods, as name (minAvailable 1).
func (c *Cluster) budgets(ctx context.Context, namespace string, pods []*corev1.Pod) ([]string, error) {
	list, err := c.client.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, asking(ctx, err, "listing the poddisruptionbudgets of namespace %s", namespace)
	}
	said := []string{}
	for _, b := range list.Items {
		// No selector selects nothing, an empty one everything (policy/v1).
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selectsAny(selector, pods) {
			said = append(said, b.Name+" ("+budgetSays(b.Spec)+")")
		}
	}
	return said, nil
}

func budgetSays(s policyv1.PodDisruptionBudgetSpec) string {
	switch {
	case s.MinAvailable != nil:
		return "minAvailable " + s.MinAvailable.String()
	case s.MaxUnavailable != nil:
		return "maxUnavailable " + s.MaxUnavailable.String()
	default:
		return "says nothing"
	}
}

func selectsAny(s labels.Selector, pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return s.Matches(labels.Set(p.Labels)) })
}

// services are those whose selector matches at least one of the Pods, by name.
func (c *Cluster) services(ctx context.Context, namespace string, pods []*corev1.Pod) ([]Service, error) {
	list, err := c.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, asking(ctx, err, "listing the services of namespace %s", namespace)
	}
	var services []Service
	for _, svc := range list.Items {
		// A Service without a selector leads where somebody else says.
		if len(svc.Spec.Selector) == 0 || !selectsAny(labels.SelectorFromSet(svc.Spec.Selector), pods) {
			continue
		}
		s := serviceOf(&svc, pods[0].Spec)
		if s.ReadyEndpoints, err = c.readyEndpoints(ctx, namespace, svc.Name); err != nil {
			return nil, err
		}
		services = append(services, s)
	}
	slices.SortFunc(services, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	return services, nil
}

func serviceOf(svc *corev1.Service, spec corev1.PodSpec) Service {
	s := Service{Name: svc.Name, Type: string(svc.Spec.Type), ClusterIP: svc.Spec.ClusterIP, Headless: svc.Spec.ClusterIP == corev1.ClusterIPNone}
	for _, p := range svc.Spec.Ports {
		number := podPort(p, spec)
		s.Ports = append(s.Ports, ServicePort{
			Name: p.Name, Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), AppProtocol: deref(p.AppProtocol, ""),
			Port: int(p.Port), NodePort: int(p.NodePort), PodPort: number, Container: containerOf(number, p.Protocol, spec),
		})
	}
	return s
}

// containerOf names the container that declares the port; a Pod's only container needs to declare none.
func containerOf(port int, protocol corev1.Protocol, spec corev1.PodSpec) string {
	all := serving(spec)
	for _, c := range all {
		for _, p := range c.Ports {
			if int(p.ContainerPort) == port && cmp.Or(p.Protocol, corev1.ProtocolTCP) == cmp.Or(protocol, corev1.ProtocolTCP) {
				return c.Name
			}
		}
	}
	if len(all) == 1 {
		return all[0].Name
	}
	return ""
}

// podPort is the number behind a Service's port: that which is written, or the container's port of that name.
func podPort(p corev1.ServicePort, spec corev1.PodSpec) int {
	switch {
	case p.TargetPort.Type == intstr.String:
		for _, c := range serving(spec) {
			for _, cp := range c.Ports {
				if cp.Name == p.TargetPort.StrVal && cmp.Or(cp.Protocol, corev1.ProtocolTCP) == cmp.Or(p.Protocol, corev1.ProtocolTCP) {
					return int(cp.ContainerPort)
				}
			}
		}
		return 0
	case p.TargetPort.IntVal != 0:
		return int(p.TargetPort.IntVal)
	default:
		return int(p.Port)
	}
}

// readyEndpoints counts the ready addresses of a Service, in the address family that has more of them.
func (c *Cluster) readyEndpoints(ctx context.Context, namespace, service string) (int, error) {
	list, err := c.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: serviceSelector(service)})
	if err != nil {
		return 0, asking(ctx, err, "listing the endpointslices of service %s/%s", namespace, service)
	}
	ready := map[discoveryv1.AddressType]map[string]bool{}
	most := 0
	for _, s := range list.Items {
		if ready[s.AddressType] == nil {
			ready[s.AddressType] = map[string]bool{}
		}
		for _, e := range s.Endpoints {
			if len(e.Addresses) > 0 && deref(e.Conditions.Ready, true) {
				ready[s.AddressType][e.Addresses[0]] = true // the first stands for all: they are interchangeable
			}
		}
		most = max(most, len(ready[s.AddressType]))
	}
	return most, nil
}
