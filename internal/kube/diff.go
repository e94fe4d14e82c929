package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/drainproof/drainproof/internal/record"
)

// The functions in this file are pure: two states of one object give the
// facts between them. A nil old state is the first sight, a nil new one the
// removal. MonoNs is left for the caller, who knows when the new state arrived.

// diffPod compares two states of one Pod (the same UID).
func diffPod(old, now *corev1.Pod) []Fact {
	if now == nil {
		return []Fact{podFact(old, record.PodRemoved, nil)}
	}
	if old == nil {
		old = &corev1.Pod{}
	}
	var facts []Fact
	add := func(k record.EventKind, detail map[string]any) { facts = append(facts, podFact(now, k, detail)) }
	if old.UID == "" {
		d := map[string]any{"created_at": stamp(now.CreationTimestamp.Time)}
		if r := revision(now); r != "" {
			d["revision"] = r
		}
		add(record.PodAdded, d)
	}
	if old.Spec.NodeName == "" && now.Spec.NodeName != "" {
		add(record.PodScheduled, nil)
	}
	if old.DeletionTimestamp == nil && now.DeletionTimestamp != nil {
		d := map[string]any{"deletion_timestamp": stamp(now.DeletionTimestamp.Time)}
		if g := now.DeletionGracePeriodSeconds; g != nil {
			d["grace_seconds"] = *g
		}
		add(record.PodTerminating, d)
	}
	facts = append(facts, diffContainers(old, now)...)
	was, is := readyCondition(old), readyCondition(now)
	switch {
	case was.Status != corev1.ConditionTrue && is.Status == corev1.ConditionTrue:
		add(record.PodReady, conditionDetail(is))
	case was.Status == corev1.ConditionTrue && is.Status != corev1.ConditionTrue:
		add(record.PodNotReady, conditionDetail(is))
	}
	return facts
}

// revision is the hash of the template that the Pod was made from, as its controller labels it; empty for a bare Pod.
func revision(p *corev1.Pod) string {
	return cmp.Or(p.Labels[appsv1.DefaultDeploymentUniqueLabelKey], p.Labels[appsv1.ControllerRevisionHashLabelKey])
}

func podFact(p *corev1.Pod, k record.EventKind, detail map[string]any) Fact {
	return Fact{Kind: k, Subject: "pod/" + p.Name, PodUID: string(p.UID), Node: p.Spec.NodeName, Detail: detail}
}

func readyCondition(p *corev1.Pod) corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i < 0 {
		return corev1.PodCondition{}
	}
	return p.Status.Conditions[i]
}

func conditionDetail(c corev1.PodCondition) map[string]any {
	d := map[string]any{}
	if c.Reason != "" {
		d["reason"] = c.Reason
	}
	if !c.LastTransitionTime.IsZero() {
		d["last_transition_at"] = stamp(c.LastTransitionTime.Time)
	}
	return d
}

// diffContainers reports starts and exits by container id, so that an exit is
// seen also where the next run has begun already or the Pod goes with it.
func diffContainers(old, now *corev1.Pod) []Fact {
	var facts []Fact
	for _, s := range statuses(now) {
		var before corev1.ContainerStatus
		if i := slices.IndexFunc(statuses(old), func(o corev1.ContainerStatus) bool { return o.Name == s.Name }); i >= 0 {
			before = statuses(old)[i]
		}
		add := func(k record.EventKind, detail map[string]any) {
			f := podFact(now, k, detail)
			f.Subject = "container/" + now.Name + "/" + s.Name
			facts = append(facts, f)
		}
		for _, end := range []*corev1.ContainerStateTerminated{s.LastTerminationState.Terminated, s.State.Terminated} {
			if end != nil && !hasEnded(before, end) {
				add(record.ContainerExited, exitDetail(end))
			}
		}
		if run := s.State.Running; run != nil && (before.State.Running == nil || before.ContainerID != s.ContainerID) {
			add(record.ContainerStarted, map[string]any{
				"started_at": stamp(run.StartedAt.Time), "container_id": s.ContainerID, "restart_count": s.RestartCount, "image_id": s.ImageID,
			})
		}
	}
	return facts
}

func statuses(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

// hasEnded reports whether the earlier state knew of this very end.
func hasEnded(before corev1.ContainerStatus, end *corev1.ContainerStateTerminated) bool {
	for _, e := range []*corev1.ContainerStateTerminated{before.LastTerminationState.Terminated, before.State.Terminated} {
		if e != nil && e.ContainerID == end.ContainerID && e.FinishedAt.Equal(&end.FinishedAt) {
			return true
		}
	}
	return false
}

// statusUnknown is the kubelet's reason when it did not see how a container
// ended; the exit code beside it (137) is then invented, not observed.
const statusUnknown = "ContainerStatusUnknown"

func exitDetail(e *corev1.ContainerStateTerminated) map[string]any {
	d := map[string]any{"exit_code": e.ExitCode, "reason": e.Reason, "signal": e.Signal, "container_id": e.ContainerID}
	if e.Reason == statusUnknown {
		d = map[string]any{"reason": e.Reason, "container_id": e.ContainerID, "exit_code_not_observed": true}
	}
	if !e.StartedAt.IsZero() {
		d["started_at"] = stamp(e.StartedAt.Time)
	}
	if !e.FinishedAt.IsZero() {
		d["finished_at"] = stamp(e.FinishedAt.Time)
	}
	return d
}

// endpointKey is one Pod in one address family.
type endpointKey struct {
	uid    string
	family discoveryv1.AddressType
}

// endpoint is what the slices say of one Pod.
type endpoint struct {
	pod, node, slice            string
	addresses                   []string
	ready, serving, terminating bool
}

// endpointsOf gathers all slices of one Service. Conditions that are not said
// mean what the API defines: ready true, serving as ready, terminating false.
func endpointsOf(all []*discoveryv1.EndpointSlice) map[endpointKey]endpoint {
	eps := map[endpointKey]endpoint{}
	for _, s := range all {
		for _, e := range s.Endpoints {
			if e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
				continue
			}
			ready := deref(e.Conditions.Ready, true)
			eps[endpointKey{string(e.TargetRef.UID), s.AddressType}] = endpoint{
				pod: e.TargetRef.Name, node: deref(e.NodeName, ""), slice: s.Name, addresses: e.Addresses,
				ready: ready, serving: deref(e.Conditions.Serving, ready), terminating: deref(e.Conditions.Terminating, false),
			}
		}
	}
	return eps
}

// diffEndpoints compares what all slices of a Service said before and now. It
// is the Pod that counts: one that moves from slice to slice was not removed.
func diffEndpoints(old, now map[endpointKey]endpoint) []Fact {
	var facts []Fact
	for _, key := range sortedKeys(old, now) {
		was, had := old[key]
		is, has := now[key]
		e := is
		if !has {
			e = was
		}
		add := func(k record.EventKind) {
			facts = append(facts, Fact{Kind: k, Subject: "endpoint/" + e.pod, PodUID: key.uid, Node: e.node, Detail: map[string]any{
				"slice": e.slice, "addresses": strings.Join(e.addresses, ","), "family": string(key.family),
				"ready": e.ready, "serving": e.serving, "terminating": e.terminating,
			}})
		}
		if !has {
			add(record.EndpointRemoved)
			continue
		}
		if !had {
			add(record.EndpointAdded)
		}
		if !was.terminating && is.terminating {
			add(record.EndpointTerminating)
		}
		change(was.ready, is.ready, func() { add(record.EndpointReady) }, func() { add(record.EndpointNotReady) })
		change(was.serving, is.serving, func() { add(record.EndpointServing) }, func() { add(record.EndpointNotServing) })
	}
	return facts
}

func change(was, is bool, up, down func()) {
	switch {
	case is && !was:
		up()
	case was && !is:
		down()
	}
}

func sortedKeys(a, b map[endpointKey]endpoint) []endpointKey {
	var keys []endpointKey
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y endpointKey) int {
		return strings.Compare(x.uid+string(x.family), y.uid+string(y.family))
	})
	return keys
}

// diffDeployment reports a change of the wanted replicas; the first sight is no change.
func diffDeployment(old, now *appsv1.Deployment) []Fact {
	if old == nil || now == nil {
		return nil
	}
	return diffScale(now.Name, old.Spec.Replicas, now.Spec.Replicas)
}

// diffStatefulSet does the same.
func diffStatefulSet(old, now *appsv1.StatefulSet) []Fact {
	if old == nil || now == nil {
		return nil
	}
	return diffScale(now.Name, old.Spec.Replicas, now.Spec.Replicas)
}

func diffScale(name string, old, now *int32) []Fact {
	was, is := deref(old, 1), deref(now, 1)
	if was == is {
		return nil
	}
	return []Fact{{Kind: record.WorkloadScaled, Subject: "workload/" + name, Detail: map[string]any{"spec_replicas": is, "spec_replicas_before": was}}}
}

// diffEvent reports the kubelet's word that it kills a container: the first
// time, and again when the event is counted up.
func diffEvent(old, now *corev1.Event) []Fact {
	if now == nil || now.Reason != "Killing" || now.InvolvedObject.Kind != "Pod" || old != nil && old.Count == now.Count {
		return nil
	}
	d := map[string]any{"message": now.Message, "at": stamp(eventTime(now)), "count": now.Count}
	if c, ok := strings.CutPrefix(now.InvolvedObject.FieldPath, "spec.containers{"); ok {
		d["container"] = strings.TrimSuffix(c, "}")
	}
	node := now.Source.Host
	if node == "" {
		node = now.ReportingInstance
	}
	return []Fact{{Kind: record.KubeletKilling, Subject: "pod/" + now.InvolvedObject.Name, PodUID: string(now.InvolvedObject.UID), Node: node, Detail: d}}
}

// eventTime is the latest time that an Event carries; its sender's clock, mostly whole seconds.
func eventTime(e *corev1.Event) time.Time {
	t := e.CreationTimestamp.Time
	for _, c := range []time.Time{e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time} {
		if c.After(t) {
			t = c
		}
	}
	return t
}

// stamp writes the API's own times as it does: RFC 3339, UTC.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func pointers[T any](items []T) []*T {
	ps := make([]*T, len(items))
	for i := range items {
		ps[i] = &items[i]
	}
	return ps
}

func serviceSelector(service string) string {
	return fmt.Sprintf("%s=%s", discoveryv1.LabelServiceName, service)
}
