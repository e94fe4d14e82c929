package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// annotationCordonedBy names the trial that cordoned a node; trigger's drain writes it together with the cordon.
const annotationCordonedBy = "drainproof.dev/cordoned-by"

// The kinds of leftovers that are no objects, but changes of somebody's object.
const (
	leftClaim  = "claim"  // a mark on a workload, and the scale that it says to put back
	leftCordon = "cordon" // of a node
)

// Leftovers finds everything with the tool's label in all namespaces, the marks of tests on workloads and their cordons of nodes, except
// those of the named trials. What a listed object owns (the Pods of a Deployment) is not listed by
// itself. It cannot tell an interrupted trial from one that another process is
// running now: the caller asks, or looks at Created.
func (c *Cluster) Leftovers(ctx context.Context, except ...string) ([]Leftover, error) {
	left, err := c.find(ctx, except)
	return left.all(), err
}

// remains are leftovers with what it takes to put them back.
type remains struct {
	objects []Leftover
	claims  []claimed
	cordons []Leftover
}

// claimed is a workload that carries a mark.
type claimed struct {
	kind workloadKind
	*standing
}

func (c claimed) leftover() Leftover {
	held, _ := claimOf(c.meta.Labels)
	return Leftover{Trial: held.Trial, Kind: leftClaim, Namespace: c.meta.Namespace, Name: c.kind.singular() + "/" + c.meta.Name, Created: unixTime(c.meta.Labels[labelTestSince])}
}

func (r remains) all() []Leftover {
	all := slices.Clone(r.objects)
	for _, c := range r.claims {
		all = append(all, c.leftover())
	}
	return append(all, r.cordons...)
}

func (c *Cluster) find(ctx context.Context, except []string) (remains, error) {
	var found remains
	opts := metav1.ListOptions{LabelSelector: LabelManaged}
	add := func(kind string, m metav1.ObjectMeta) {
		if trial := m.Labels[LabelManaged]; !slices.Contains(except, trial) {
			found.objects = append(found.objects, Leftover{Trial: trial, Kind: kind, Namespace: m.Namespace, Name: m.Name, Created: m.CreationTimestamp.Time})
		}
	}
	namespaces, err := c.client.CoreV1().Namespaces().List(ctx, opts)
	if err != nil {
		return remains{}, asking(ctx, err, "looking for leftover namespaces")
	}
	for _, ns := range namespaces.Items {
		ns.Namespace = ns.Name
		add("namespace", ns.ObjectMeta)
	}
	for _, k := range c.kinds() {
		items, err := k.list(ctx, metav1.NamespaceAll, opts)
		if err != nil && !k.mayLack(err) {
			return remains{}, asking(ctx, err, "looking for leftover %ss", k.name)
		}
		for _, m := range items {
			if metav1.GetControllerOf(&m) == nil {
				add(k.name, m)
			}
		}
	}
	for _, k := range c.workloadKinds() {
		marked, err := k.list(ctx, metav1.NamespaceAll, metav1.ListOptions{LabelSelector: LabelTest})
		if err != nil {
			return remains{}, asking(ctx, err, "looking for %s that tests have marked", k.plural)
		}
		for _, s := range marked {
			if !slices.Contains(except, s.meta.Labels[LabelTest]) {
				found.claims = append(found.claims, claimed{k, s})
			}
		}
	}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return remains{}, asking(ctx, err, "looking for nodes that tests have cordoned")
	}
	for _, n := range nodes.Items {
		if by := n.Annotations[annotationCordonedBy]; by != "" && !slices.Contains(except, by) {
			found.cordons = append(found.cordons, Leftover{Trial: by, Kind: leftCordon, Name: n.Name})
		}
	}
	return found, nil
}

// Cleanup puts away every trial that Leftovers finds, each as Undo does, takes marks off workloads with the scale
// put back that they tell, and uncordons nodes. It gives what it found. One failure does not keep it from the others.
func (c *Cluster) Cleanup(ctx context.Context, except ...string) ([]Leftover, error) {
	found, err := c.find(ctx, except)
	if err != nil {
		return nil, err
	}
	var errs []error
	failed := func(trial string, err error) {
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("trial %s: %w", trial, err))
		}
	}
	// The users' own first.
	for _, w := range found.claims {
		l := w.leftover()
		failed(l.Trial, asking(ctx, unmark(ctx, w.kind, w.standing, true), "putting back %s of namespace %s", l.Name, l.Namespace))
	}
	for _, l := range found.cordons {
		failed(l.Trial, asking(ctx, c.uncordon(ctx, l), "uncordoning node %s", l.Name))
	}
	type place struct{ namespace, trial string }
	done := map[place]bool{}
	for _, l := range found.objects {
		p := place{l.Namespace, l.Trial}
		if done[p] {
			continue
		}
		done[p] = true
		failed(p.trial, c.Undo(ctx, p.namespace, p.trial))
	}
	return found.all(), errors.Join(errs...)
}

// uncordon takes the cordon and its mark off a node, as long as the mark is that trial's.
func (c *Cluster) uncordon(ctx context.Context, l Leftover) error {
	path := "/metadata/annotations/" + strings.ReplaceAll(annotationCordonedBy, "/", "~1")
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": path, "value": l.Trial}, {"op": "remove", "path": path}, {"op": "add", "path": "/spec/unschedulable", "value": false},
	})
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, l.Name, types.JSONPatchType, body, metav1.PatchOptions{})
	return err
}
