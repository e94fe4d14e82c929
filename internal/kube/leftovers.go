package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Leftovers finds everything with the tool's label in all namespaces, except
// that of the named trials. What a listed object owns (the Pods of a Deployment) is not listed by
// itself. It cannot tell an interrupted trial from one that another process is
// running now: the caller asks, or looks at Created.
func (c *Cluster) Leftovers(ctx context.Context, except ...string) ([]Leftover, error) {
	opts := metav1.ListOptions{LabelSelector: LabelManaged}
	var found []Leftover
	add := func(kind string, m metav1.ObjectMeta) {
		if trial := m.Labels[LabelManaged]; !slices.Contains(except, trial) {
			found = append(found, Leftover{Trial: trial, Kind: kind, Namespace: m.Namespace, Name: m.Name, Created: m.CreationTimestamp.Time})
		}
	}
	namespaces, err := c.client.CoreV1().Namespaces().List(ctx, opts)
	if err != nil {
		return nil, asking(ctx, err, "looking for leftover namespaces")
	}
	for _, ns := range namespaces.Items {
		ns.Namespace = ns.Name
		add("namespace", ns.ObjectMeta)
	}
	for _, k := range c.kinds() {
		items, err := k.list(ctx, metav1.NamespaceAll, opts)
		if err != nil {
			return nil, asking(ctx, err, "looking for leftover %ss", k.name)
		}
		for _, m := range items {
			if metav1.GetControllerOf(&m) == nil {
				add(k.name, m)
			}
		}
	}
	return found, nil
}

// Cleanup puts away every trial that Leftovers finds, each as Undo does, and
// gives what it found. One trial's failure does not keep it from the others.
func (c *Cluster) Cleanup(ctx context.Context, except ...string) ([]Leftover, error) {
	found, err := c.Leftovers(ctx, except...)
	if err != nil {
		return nil, err
	}
	type place struct{ namespace, trial string }
	done := map[place]bool{}
	var errs []error
	for _, l := range found {
		p := place{l.Namespace, l.Trial}
		if done[p] {
			continue
		}
		done[p] = true
		if err := c.Undo(ctx, p.namespace, p.trial); err != nil {
			errs = append(errs, fmt.Errorf("trial %s: %w", p.trial, err))
		}
	}
	return found, errors.Join(errs...)
}
