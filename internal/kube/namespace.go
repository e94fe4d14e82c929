package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drainproof/drainproof/internal/fault"
)

// EnsureNamespace creates the trial's own namespace with Pod Security
// restricted enforced; a namespace of that name which another has made is refused. With
// create false it looks an existing one up and changes nothing.
func (c *Cluster) EnsureNamespace(ctx context.Context, name, trial string, create bool) (uid string, err error) {
	namespaces := c.client.CoreV1().Namespaces()
	if !create {
		ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return "", fault.Usagef("create it, or leave --namespace out: a trial then makes its own", "no such namespace %q", name)
		case err != nil:
			return "", asking(ctx, err, "reading namespace %s", name)
		case ns.DeletionTimestamp != nil:
			return "", fault.Usagef("wait until it is gone, or choose another", "namespace %q is being deleted", name)
		}
		return string(ns.UID), nil
	}
	ns, err := namespaces.Create(ctx, ownNamespace(name, trial), metav1.CreateOptions{})
	if err == nil {
		return string(ns.UID), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", asking(ctx, err, "creating namespace %s", name)
	}
	have, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", asking(ctx, err, "reading namespace %s", name)
	}
	if have.Labels[LabelManaged] != trial || have.DeletionTimestamp != nil {
		return "", fault.Measuref(nil, "clean up after the earlier trial, or choose another namespace",
			"namespace %q exists already, and is not this trial's", name)
	}
	return string(have.UID), nil
}

func ownNamespace(name, trial string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			LabelManaged:                                 trial,
			"pod-security.kubernetes.io/enforce":         "restricted",
			"pod-security.kubernetes.io/enforce-version": "latest",
		},
	}}
}
