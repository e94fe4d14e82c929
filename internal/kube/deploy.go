package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drainproof/drainproof/internal/fault"
)

// pollEvery is how often a waiting deploy looks.
const pollEvery = 200 * time.Millisecond

// DeployProbe creates the Service, the PodDisruptionBudget where one is asked for and the Deployment,
// and waits until there are exactly as many Pods as replicas, all are ready, their endpoints are ready
// in the Service's slices, and the budget has counted them. What stands in the way is a fault as soon
// as Kubernetes says so.
func (c *Cluster) DeployProbe(ctx context.Context, s ProbeSpec, timeout time.Duration) (*Probe, error) {
	svc, err := c.client.CoreV1().Services(s.Namespace).Create(ctx, probeService(s), metav1.CreateOptions{})
	if err != nil {
		return nil, creating(ctx, err, "service", s.Namespace, NameProbe)
	}
	w := &waiter{
		c: c, namespace: s.Namespace, image: s.Image, selector: labels.Set(labelsOf(s.Trial, NameProbe)).String(),
		replicas: s.replicas(), deployment: NameProbe, service: NameProbe,
	}
	if b := probeBudget(s); b != nil {
		if _, err := c.client.PolicyV1().PodDisruptionBudgets(s.Namespace).Create(ctx, b, metav1.CreateOptions{}); err != nil {
			return nil, creating(ctx, err, "poddisruptionbudget", s.Namespace, NameProbe)
		}
		w.budget = NameProbe
	}
	if _, err := c.client.AppsV1().Deployments(s.Namespace).Create(ctx, probeDeployment(s), metav1.CreateOptions{}); err != nil {
		return nil, creating(ctx, err, "deployment", s.Namespace, NameProbe)
	}
	pods, err := w.wait(ctx, timeout+s.StartDelay)
	if err != nil {
		return nil, err
	}
	p := &Probe{Namespace: s.Namespace, Deployment: NameProbe, Service: NameProbe, Pod: refOf(pods[0]), ClusterIP: svc.Spec.ClusterIP}
	for _, pod := range pods {
		p.Pods = append(p.Pods, refOf(pod))
	}
	for _, port := range svc.Spec.Ports {
		switch port.Name {
		case "tcp":
			p.NodePortTCP = int(port.NodePort)
		case "udp":
			p.NodePortUDP = int(port.NodePort)
		case "http":
			p.NodePortHTTP = int(port.NodePort)
		}
	}
	return p, nil
}

// DeployWorker creates the client's Pod and waits until it is ready.
func (c *Cluster) DeployWorker(ctx context.Context, s WorkerSpec, timeout time.Duration) (PodRef, error) {
	if _, err := c.client.CoreV1().Pods(s.Namespace).Create(ctx, workerPod(s), metav1.CreateOptions{}); err != nil {
		return PodRef{}, creating(ctx, err, "pod", s.Namespace, NameWorker)
	}
	w := &waiter{c: c, namespace: s.Namespace, image: s.Image, selector: labels.Set(labelsOf(s.Trial, NameWorker)).String(), replicas: 1}
	pods, err := w.wait(ctx, timeout)
	if err != nil {
		return PodRef{}, err
	}
	return refOf(pods[0]), nil
}

func refOf(p *corev1.Pod) PodRef {
	r := PodRef{Name: p.Name, UID: string(p.UID), IP: p.Status.PodIP, Node: p.Spec.NodeName, NodeIP: p.Status.HostIP}
	if len(p.Status.ContainerStatuses) > 0 {
		r.ImageID = p.Status.ContainerStatuses[0].ImageID
	}
	return r
}

func creating(ctx context.Context, err error, kind, namespace, name string) error {
	if apierrors.IsAlreadyExists(err) {
		return fault.Measuref(nil, "clean up after the earlier trial, or choose another namespace", "%s %s/%s exists already", kind, namespace, name)
	}
	return asking(ctx, err, "creating %s %s/%s", kind, namespace, name)
}

// waiter waits for Pods. deployment, service and budget are empty where there is none to ask.
type waiter struct {
	c                                                       *Cluster
	namespace, image, selector, deployment, service, budget string
	replicas                                                int

	since   time.Time // when the present obstacle was first seen
	present diagnosis
	last    string // what it waits for, in words
	pod     string // the name of a Pod that it waits for, once there is one
}

// wait gives the Pods in order of name.
func (w *waiter) wait(ctx context.Context, timeout time.Duration) ([]*corev1.Pod, error) {
	deadline := time.Now().Add(timeout)
	limited, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		pods, err := w.look(limited)
		// A request that the deadline cut, or would have cut, is no failure of its own.
		if err != nil && limited.Err() == nil && time.Now().Before(deadline) || pods != nil {
			return pods, err
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return nil, fmt.Errorf("waiting for %s: %w", w.last, context.Cause(ctx))
			}
			return nil, w.tooLate(ctx, timeout)
		}
	}
}

// look gives the Pods when all is ready, nil while it is not, and an error when waiting is pointless.
func (w *waiter) look(ctx context.Context) ([]*corev1.Pod, error) {
	list, err := w.c.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: w.selector})
	if err != nil {
		return nil, asking(ctx, err, "listing pods in namespace %s", w.namespace)
	}
	pods := pointers(list.Items)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range pods {
		if d := diagnosePod(pod); d.obstacle != noObstacle {
			w.awaitReady(pod)
			return nil, w.judge(ctx, d)
		}
	}
	if len(pods) != w.replicas {
		w.last = fmt.Sprintf("%s in namespace %s (there are %d)", numberOfPods(w.replicas), w.namespace, len(pods))
		if len(pods) < w.replicas && w.deployment != "" {
			return nil, w.lookForRefusal(ctx)
		}
		return nil, nil
	}
	w.present = diagnosis{}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || !isReady(pod) {
			w.awaitReady(pod)
			return nil, nil
		}
	}
	if ok, err := w.served(ctx, pods); err != nil || !ok {
		return nil, err
	}
	if ok, err := w.budgeted(ctx); err != nil || !ok {
		return nil, err
	}
	return pods, nil
}

func (w *waiter) awaitReady(pod *corev1.Pod) {
	w.pod, w.last = pod.Name, fmt.Sprintf("pod %s/%s to become ready (phase %s)", w.namespace, pod.Name, pod.Status.Phase)
}

// lookForRefusal asks the Deployment why there are too few Pods.
func (w *waiter) lookForRefusal(ctx context.Context) error {
	dep, err := w.c.client.AppsV1().Deployments(w.namespace).Get(ctx, w.deployment, metav1.GetOptions{})
	if err != nil {
		return asking(ctx, err, "reading deployment %s/%s", w.namespace, w.deployment)
	}
	return w.judge(ctx, diagnoseDeployment(dep))
}

// judge ends the wait when the obstacle has lasted for longer than its patience.
func (w *waiter) judge(ctx context.Context, d diagnosis) error {
	if d.obstacle != w.present.obstacle {
		w.since = time.Now()
	}
	w.present = d
	if d.obstacle == noObstacle || time.Since(w.since) < d.patience() {
		return nil
	}
	return w.fault(ctx, d)
}

func (w *waiter) fault(ctx context.Context, d diagnosis) error {
	what := fmt.Sprintf("%s in namespace %s: %s: %s", d.subject, w.namespace, d.reason, strings.TrimSpace(d.message))
	if d.obstacle == exited {
		what += w.lastLines(ctx, strings.TrimPrefix(d.subject, "pod "))
	}
	return fault.Measuref(nil, d.next(w.image), "%s", what)
}

// lastLines are the end of a container's log, for the person who must find out why it ended.
func (w *waiter) lastLines(ctx context.Context, pod string) string {
	for _, previous := range []bool{false, true} {
		b, err := w.c.client.CoreV1().Pods(w.namespace).GetLogs(pod, &corev1.PodLogOptions{TailLines: new(int64(5)), Previous: previous}).DoRaw(ctx)
		if err == nil && len(b) > 0 {
			return "; its log ends:\n" + strings.TrimSpace(string(b))
		}
	}
	return "; it left no log"
}

// served reports whether the endpoint of every Pod is ready in the Service's slices; yes where there is no Service.
func (w *waiter) served(ctx context.Context, pods []*corev1.Pod) (bool, error) {
	if w.service == "" {
		return true, nil
	}
	list, err := w.c.client.DiscoveryV1().EndpointSlices(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: serviceSelector(w.service)})
	if err != nil {
		return false, asking(ctx, err, "listing endpointslices in namespace %s", w.namespace)
	}
	ready := map[string]bool{}
	for key, e := range endpointsOf(pointers(list.Items)) {
		ready[key.uid] = ready[key.uid] || e.ready
	}
	for _, pod := range pods {
		if !ready[string(pod.UID)] {
			w.pod, w.last = pod.Name, fmt.Sprintf("the endpoint of pod %s/%s to become ready", w.namespace, pod.Name)
			return false, nil
		}
	}
	return true, nil
}

// budgeted reports whether the budget's controller has counted every Pod as healthy; yes where there is no
// budget. Until it has, the API server refuses an eviction that the budget would allow.
func (w *waiter) budgeted(ctx context.Context) (bool, error) {
	if w.budget == "" {
		return true, nil
	}
	b, err := w.c.client.PolicyV1().PodDisruptionBudgets(w.namespace).Get(ctx, w.budget, metav1.GetOptions{})
	if err != nil {
		return false, asking(ctx, err, "reading poddisruptionbudget %s/%s", w.namespace, w.budget)
	}
	if b.Status.ObservedGeneration < b.Generation || int(b.Status.CurrentHealthy) < w.replicas {
		w.last = fmt.Sprintf("poddisruptionbudget %s/%s to count %s as healthy (it counts %d)", w.namespace, w.budget, numberOfPods(w.replicas), b.Status.CurrentHealthy)
		return false, nil
	}
	return true, nil
}

func numberOfPods(n int) string {
	if n == 1 {
		return "one pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// tooLate says what was missing when time ran out, with the last that Kubernetes said of it.
func (w *waiter) tooLate(ctx context.Context, timeout time.Duration) error {
	if w.present.obstacle != noObstacle {
		return w.fault(ctx, w.present)
	}
	what := fmt.Sprintf("waited %s in vain for %s", timeout, w.last)
	next := "look at it with `kubectl describe pod`, or allow more time"
	if e := w.lastEvent(ctx); e != nil {
		what += fmt.Sprintf("; the last event of %s %s: %s: %s", strings.ToLower(e.InvolvedObject.Kind), e.InvolvedObject.Name, e.Reason, e.Message)
		if e.Reason == "Pulling" { // a registry that does not answer keeps the kubelet there for minutes
			next = diagnosis{obstacle: noImage}.next(w.image)
		}
	}
	return fault.Measuref(nil, next, "%s", what)
}

// lastEvent is the latest event of the Pod, or the latest warning of all where there is no Pod; nil without any.
func (w *waiter) lastEvent(ctx context.Context) *corev1.Event {
	about := "type=Warning"
	if w.pod != "" {
		about = "involvedObject.kind=Pod,involvedObject.name=" + w.pod
	}
	list, err := w.c.client.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: about})
	if err != nil || len(list.Items) == 0 {
		return nil
	}
	return new(slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return eventTime(&a).Compare(eventTime(&b)) }))
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
