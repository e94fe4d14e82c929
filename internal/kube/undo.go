package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drainproof/drainproof/internal/fault"
)

const (
	// undoGrace is what our own Pods get when they are put away: enough for the
	// kubelet to end them really, also those that ignore SIGTERM.
	undoGrace = 1 * time.Second
	// forceAfter is when a Pod whose kubelet does not answer is taken off the API all the same.
	forceAfter = 15 * time.Second
)

// Undo deletes everything of the trial: its namespace, if it is the trial's
// own, else its objects by label. It waits until they are gone or ctx ends,
// which must therefore end; an API server that does not answer is asked again. Safe to call twice.
func (c *Cluster) Undo(ctx context.Context, namespace, trial string) error {
	if trial == "" {
		return fault.Usagef("", "a trial without an id cannot be put away")
	}
	for start := time.Now(); ; {
		var left []string
		own, err := c.deleteOwnNamespace(ctx, namespace, trial)
		if err == nil {
			left, err = c.sweep(ctx, namespace, trial, own, time.Since(start) > forceAfter)
		}
		if err == nil && own {
			left, err = c.namespaceLeft(ctx, namespace, left)
		}
		if err == nil && len(left) == 0 {
			return nil
		}
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return asking(ctx, err, "putting away trial %s in namespace %s", trial, namespace)
		}
		if !sleep(ctx, pollEvery) {
			if err != nil {
				left = append(left, "unknown, the API server did not say")
			}
			return fault.Measuref(errors.Join(err, context.Cause(ctx)), "run the clean-up again; everything carries the label "+LabelManaged+"="+trial,
				"putting away trial %s in namespace %s: not finished; still there: %s", trial, namespace, strings.Join(left, ", "))
		}
	}
}

// deleteOwnNamespace asks for the deletion of the namespace if the trial made it; own says whether it did.
func (c *Cluster) deleteOwnNamespace(ctx context.Context, namespace, trial string) (own bool, err error) {
	ns, err := c.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	if ns.Labels[LabelManaged] != trial {
		return false, nil
	}
	if ns.DeletionTimestamp != nil {
		return true, nil
	}
	// The namespace first: then no controller makes another Pod in it.
	err = c.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ns.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return true, fmt.Errorf("deleting namespace %s: %w", namespace, err)
	}
	return true, nil
}

func (c *Cluster) namespaceLeft(ctx context.Context, namespace string, left []string) ([]string, error) {
	_, err := c.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return append(left, "namespace "+namespace), err
}

// sweep asks for the deletion of all objects of the trial in a namespace that
// are not being deleted yet, owners first, and lists what is still there. In a namespace of the trial's own,
// which takes the rest with it, only Pods are hurried along.
func (c *Cluster) sweep(ctx context.Context, namespace, trial string, own, force bool) (left []string, err error) {
	opts := metav1.ListOptions{LabelSelector: LabelManaged + "=" + trial}
	for _, k := range c.kinds() {
		if own && k.grace == nil {
			continue
		}
		items, err := k.list(ctx, namespace, opts)
		if err != nil && !k.mayLack(err) {
			return left, fmt.Errorf("listing %ss: %w", k.name, err)
		}
		for _, m := range items {
			left = append(left, k.name+" "+m.Name)
			stuck := force && k.grace != nil
			if m.DeletionTimestamp != nil && !stuck && !k.shorten(m) {
				continue
			}
			del := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.UID}, PropagationPolicy: new(metav1.DeletePropagationBackground)}
			if k.grace != nil {
				del.GracePeriodSeconds = k.grace
				if stuck {
					del.GracePeriodSeconds = new(int64(0))
				}
			}
			if err := k.delete(ctx, namespace, m.Name, del); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return left, fmt.Errorf("deleting %s %s: %w", k.name, m.Name, err)
			}
		}
	}
	return left, nil
}

// kind is one sort of object that a trial leaves in a namespace.
type kind struct {
	name  string
	grace *int64 // Pods only, seconds
	// rare: most trials make none, so that an account without the right to list them is taken to have none.
	rare   bool
	list   func(ctx context.Context, namespace string, o metav1.ListOptions) ([]metav1.ObjectMeta, error)
	delete func(ctx context.Context, namespace, name string, o metav1.DeleteOptions) error
}

// mayLack reports whether a list that failed with err can be taken for an empty one.
func (k kind) mayLack(err error) bool { return k.rare && apierrors.IsForbidden(err) }

// shorten reports whether a deletion that is under way lets it live longer than it should.
func (k kind) shorten(m metav1.ObjectMeta) bool {
	return k.grace != nil && m.DeletionGracePeriodSeconds != nil && *m.DeletionGracePeriodSeconds > *k.grace
}

// kinds are in the order of deletion: owners before what they would make again.
func (c *Cluster) kinds() []kind {
	return []kind{
		of("deployment", c.client.AppsV1().Deployments, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items }),
		of("replicaset", c.client.AppsV1().ReplicaSets, func(l *appsv1.ReplicaSetList) []appsv1.ReplicaSet { return l.Items }),
		rare(of("job", c.client.BatchV1().Jobs, func(l *batchv1.JobList) []batchv1.Job { return l.Items })),
		graced(of("pod", c.client.CoreV1().Pods, func(l *corev1.PodList) []corev1.Pod { return l.Items })),
		of("service", c.client.CoreV1().Services, func(l *corev1.ServiceList) []corev1.Service { return l.Items }),
		rare(of("poddisruptionbudget", c.client.PolicyV1().PodDisruptionBudgets, func(l *policyv1.PodDisruptionBudgetList) []policyv1.PodDisruptionBudget { return l.Items })),
	}
}

// listed is what client-go's typed clients have in common for a clean-up.
type listed[L any] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// of makes a kind from its client of a namespace and its list's items.
func of[T, L any, P object[T], C listed[L]](name string, client func(namespace string) C, items func(L) []T) kind {
	return kind{
		name: name,
		list: func(ctx context.Context, ns string, o metav1.ListOptions) ([]metav1.ObjectMeta, error) {
			l, err := client(ns).List(ctx, o)
			if err != nil {
				return nil, err
			}
			return metas[T, P](pointers(items(l))), nil
		},
		delete: func(ctx context.Context, ns, name string, o metav1.DeleteOptions) error {
			return client(ns).Delete(ctx, name, o)
		},
	}
}

func rare(k kind) kind {
	k.rare = true
	return k
}

func graced(k kind) kind {
	k.grace = new(int64(undoGrace / time.Second))
	return k
}

func metas[T any, P object[T]](items []*T) []metav1.ObjectMeta {
	ms := make([]metav1.ObjectMeta, len(items))
	for i, it := range items {
		m := P(it)
		ms[i] = metav1.ObjectMeta{
			Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(), Labels: m.GetLabels(), CreationTimestamp: m.GetCreationTimestamp(),
			DeletionTimestamp: m.GetDeletionTimestamp(), DeletionGracePeriodSeconds: m.GetDeletionGracePeriodSeconds(), OwnerReferences: m.GetOwnerReferences(),
		}
	}
	return ms
}
