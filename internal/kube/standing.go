package kube

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drainproof/drainproof/internal/rollout"
)

// standing is a workload as the API server has it: what its four kinds have in common.
type standing struct {
	meta metav1.ObjectMeta
	// wanted replicas: those of the spec, of a DaemonSet the nodes that it is for.
	wanted int
	// selector finds its Pods; nil for a bare Pod, which is pod itself.
	selector *metav1.LabelSelector
	pod      *corev1.Pod
	// spec is that of the Pods to come.
	spec corev1.PodSpec
	// strategy, maxUnavailable and maxSurge are as written; empty for a bare Pod.
	strategy, maxUnavailable, maxSurge string
	progress                           rollout.Progress
	// refused is why its controller makes no Pods, if its status shows it.
	refused diagnosis
}

// workloadKind is one of the four kinds, and how the API is asked for it.
type workloadKind struct {
	kindName
	get   func(ctx context.Context, namespace, name string) (*standing, error)
	list  func(ctx context.Context, namespace string, o metav1.ListOptions) ([]*standing, error)
	patch func(ctx context.Context, namespace, name string, t types.PatchType, body []byte) error
}

// typed is what client-go's typed clients have in common, for objects of type P in lists of type L.
type typed[P any, L runtime.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (P, error)
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Patch(ctx context.Context, name string, t types.PatchType, body []byte, o metav1.PatchOptions, subresources ...string) (P, error)
}

// ask fills in the requests of a kind, given its client of a namespace, its list's items and how one stands.
func ask[T any, L runtime.Object, C typed[*T, L]](name kindName, client func(namespace string) C, items func(L) []T, stands func(*T) *standing) workloadKind {
	k := workloadKind{kindName: name}
	k.get = func(ctx context.Context, namespace, name string) (*standing, error) {
		obj, err := client(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return stands(obj), nil
	}
	k.list = func(ctx context.Context, namespace string, o metav1.ListOptions) ([]*standing, error) {
		list, err := client(namespace).List(ctx, o)
		if err != nil {
			return nil, err
		}
		var all []*standing
		for _, obj := range pointers(items(list)) {
			all = append(all, stands(obj))
		}
		return all, nil
	}
	k.patch = func(ctx context.Context, namespace, name string, t types.PatchType, body []byte) error {
		_, err := client(namespace).Patch(ctx, name, t, body, metav1.PatchOptions{})
		return err
	}
	return k
}

// workloadKinds are those that can be tested.
func (c *Cluster) workloadKinds() []workloadKind {
	return []workloadKind{
		ask(deploymentKind, c.client.AppsV1().Deployments, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items }, deploymentStands),
		ask(statefulSetKind, c.client.AppsV1().StatefulSets, func(l *appsv1.StatefulSetList) []appsv1.StatefulSet { return l.Items }, statefulSetStands),
		ask(daemonSetKind, c.client.AppsV1().DaemonSets, func(l *appsv1.DaemonSetList) []appsv1.DaemonSet { return l.Items }, daemonSetStands),
		ask(podKind, c.client.CoreV1().Pods, func(l *corev1.PodList) []corev1.Pod { return l.Items }, podStands),
	}
}

// workloadKind gives the kind of a Ref.
func (c *Cluster) workloadKind(kind string) (workloadKind, error) {
	for _, k := range c.workloadKinds() {
		if k.kind == kind {
			return k, nil
		}
	}
	return workloadKind{}, fmt.Errorf("%q is no kind of workload", kind)
}

func deploymentStands(d *appsv1.Deployment) *standing {
	s := &standing{
		meta: d.ObjectMeta, wanted: int(deref(d.Spec.Replicas, 1)), selector: d.Spec.Selector, spec: d.Spec.Template.Spec,
		strategy: string(d.Spec.Strategy.Type), progress: rollout.OfDeployment(d), refused: diagnoseDeployment(d),
	}
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		s.maxUnavailable, s.maxSurge = written(r.MaxUnavailable), written(r.MaxSurge)
	}
	return s
}

func statefulSetStands(d *appsv1.StatefulSet) *standing {
	s := &standing{
		meta: d.ObjectMeta, wanted: int(deref(d.Spec.Replicas, 1)), selector: d.Spec.Selector, spec: d.Spec.Template.Spec,
		strategy: string(d.Spec.UpdateStrategy.Type), progress: rollout.OfStatefulSet(d),
	}
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil {
		s.maxUnavailable = written(r.MaxUnavailable)
	}
	return s
}

func daemonSetStands(d *appsv1.DaemonSet) *standing {
	s := &standing{
		meta: d.ObjectMeta, wanted: int(d.Status.DesiredNumberScheduled), selector: d.Spec.Selector, spec: d.Spec.Template.Spec,
		strategy: string(d.Spec.UpdateStrategy.Type), progress: rollout.OfDaemonSet(d),
	}
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil {
		s.maxUnavailable, s.maxSurge = written(r.MaxUnavailable), written(r.MaxSurge)
	}
	return s
}

func podStands(p *corev1.Pod) *standing {
	return &standing{meta: p.ObjectMeta, wanted: 1, pod: p, spec: p.Spec}
}

func written(v *intstr.IntOrString) string {
	if v == nil {
		return ""
	}
	return v.String()
}

// pods lists the Pods of a workload that have not run to their end. A Pod that its labels match but that another
// kind of controller made is not one of them.
func (c *Cluster) pods(ctx context.Context, r Ref, s *standing) ([]*corev1.Pod, error) {
	if s.pod != nil {
		return []*corev1.Pod{s.pod}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s.selector)
	if err != nil {
		return nil, fmt.Errorf("the selector of %s: %w", r, err)
	}
	list, err := c.client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, asking(ctx, err, "listing the pods of %s", r)
	}
	var pods []*corev1.Pod
	for _, p := range pointers(list.Items) {
		if !finished(p) && madeBy(p, r.Kind, s.meta.UID) {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// madeBy reports whether the workload's controller made the Pod. A Deployment does so through ReplicaSets,
// which are not asked for: their kind and the selector suffice.
func madeBy(p *corev1.Pod, kind string, uid types.UID) bool {
	owner := metav1.GetControllerOf(p)
	switch {
	case owner == nil:
		return false
	case kind == "Deployment":
		return owner.Kind == "ReplicaSet"
	default:
		return owner.UID == uid
	}
}
