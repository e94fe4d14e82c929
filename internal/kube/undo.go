package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
			left, err = c.sweep(ctx, namespace, trial, time.Since(start) > forceAfter)
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
// are not being deleted yet, owners first, and lists what is still there.
func (c *Cluster) sweep(ctx context.Context, namespace, trial string, force bool) (left []string, err error) {
	opts := metav1.ListOptions{LabelSelector: LabelManaged + "=" + trial}
	for _, k := range c.kinds() {
		items, err := k.list(ctx, namespace, opts)
		if err != nil {
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
	name   string
	grace  *int64 // Pods only, seconds
	list   func(ctx context.Context, namespace string, o metav1.ListOptions) ([]metav1.ObjectMeta, error)
	delete func(ctx context.Context, namespace, name string, o metav1.DeleteOptions) error
}

// shorten reports whether a deletion that is under way lets it live longer than it should.
func (k kind) shorten(m metav1.ObjectMeta) bool {
	return k.grace != nil && m.DeletionGracePeriodSeconds != nil && *m.DeletionGracePeriodSeconds > *k.grace
}

// kinds are in the order of deletion: owners before what they would make again.
func (c *Cluster) kinds() []kind {
	return []kind{
		{name: "deployment",
			list: func(ctx context.Context, ns string, o metav1.ListOptions) ([]metav1.ObjectMeta, error) {
				l, err := c.client.AppsV1().Deployments(ns).List(ctx, o)
				if err != nil {
					return nil, err
				}
				return metas(pointers(l.Items)), nil
			},
			delete: func(ctx context.Context, ns, name string, o metav1.DeleteOptions) error {
				return c.client.AppsV1().Deployments(ns).Delete(ctx, name, o)
			}},
		{name: "replicaset",
			list: func(ctx context.Context, ns string, o metav1.ListOptions) ([]metav1.ObjectMeta, error) {
				l, err := c.client.AppsV1().ReplicaSets(ns).List(ctx, o)
				if err != nil {
					return nil, err
				}
				return metas(pointers(l.Items)), nil
			},
			delete: func(ctx context.Context, ns, name string, o metav1.DeleteOptions) error {
				return c.client.AppsV1().ReplicaSets(ns).Delete(ctx, name, o)
			}},
		{name: "pod", grace: new(int64(undoGrace / time.Second)),
			list: func(ctx context.Context, ns string, o metav1.ListOptions) ([]metav1.ObjectMeta, error) {
				l, err := c.client.CoreV1().Pods(ns).List(ctx, o)
				if err != nil {
					return nil, err
				}
				return metas(pointers(l.Items)), nil
			},
			delete: func(ctx context.Context, ns, name string, o metav1.DeleteOptions) error {
				return c.client.CoreV1().Pods(ns).Delete(ctx, name, o)
			}},
		{name: "service",
			list: func(ctx context.Context, ns string, o metav1.ListOptions) ([]metav1.ObjectMeta, error) {
				l, err := c.client.CoreV1().Services(ns).List(ctx, o)
				if err != nil {
					return nil, err
				}
				return metas(pointers(l.Items)), nil
			},
			delete: func(ctx context.Context, ns, name string, o metav1.DeleteOptions) error {
				return c.client.CoreV1().Services(ns).Delete(ctx, name, o)
			}},
	}
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
