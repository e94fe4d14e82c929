package kube

import (
	"context"
	"slices"

	authv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Need says when a right is needed.
type Need string

const (
	// NeedTrial: every trial.
	NeedTrial Need = "every trial"
	// NeedOwnNamespace: a trial that makes a namespace of its own.
	NeedOwnNamespace Need = "a namespace of the trial's own"
	NeedDelete       Need = "--trigger delete"
	NeedEvict        Need = "--trigger evict"
	NeedScale        Need = "--trigger scale"
	// NeedCleanup: finding leftovers in all namespaces.
	NeedCleanup Need = "cleaning up after an interrupted trial"
	// NeedOptional: without it, the record says not-readable.
	NeedOptional Need = "optional: the record then says which proxy mode it was"
)

// Right is one kind of object and what is done to it.
type Right struct {
	Group, Resource, Subresource string
	Verbs                        []string
	// Cluster rights hold for all namespaces, or for objects outside any.
	Cluster bool
	Need    Need
	// Why is half a sentence for the documentation.
	Why string
}

// Name is the resource as RBAC writes it, such as pods/exec.
func (r Right) Name() string {
	name := r.Resource
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	if r.Group != "" {
		name += "." + r.Group
	}
	return name
}

// Rights lists all that the tool ever asks of a cluster. docs/permissions.md
// is held to it by a test, and Missing asks for those that a trial needs.
func Rights() []Right {
	return []Right{
		{Resource: "namespaces", Verbs: []string{"get"}, Cluster: true, Need: NeedTrial, Why: "the UID of kube-system names the cluster"},
		{Resource: "nodes", Verbs: []string{"list"}, Cluster: true, Need: NeedTrial, Why: "versions and kernels go into the record"},
		{Group: "apps", Resource: "deployments", Verbs: []string{"create", "get", "list", "watch", "delete"}, Need: NeedTrial, Why: "the probe"},
		{Group: "apps", Resource: "replicasets", Verbs: []string{"list", "delete"}, Need: NeedTrial, Why: "go with the probe"},
		{Resource: "services", Verbs: []string{"create", "list", "delete"}, Need: NeedTrial, Why: "the path to the probe"},
		{Resource: "pods", Verbs: []string{"create", "get", "list", "watch", "delete"}, Need: NeedTrial, Why: "the worker; watching the probe; putting everything away"},
		{Resource: "pods", Subresource: "exec", Verbs: []string{"create", "get"}, Need: NeedTrial, Why: "clients at vantage pod (get is what WebSocket asks for, create what SPDY does)"},
		{Resource: "pods", Subresource: "log", Verbs: []string{"get"}, Need: NeedTrial, Why: "the probe's own account"},
		{Resource: "events", Verbs: []string{"list", "watch"}, Need: NeedTrial, Why: "what the kubelet, the quota and the admission say"},
		{Group: "discovery.k8s.io", Resource: "endpointslices", Verbs: []string{"list", "watch"}, Need: NeedTrial, Why: "when the endpoint was withdrawn"},
		{Resource: "namespaces", Verbs: []string{"create", "delete"}, Cluster: true, Need: NeedOwnNamespace, Why: "made before, deleted after"},
		{Resource: "pods", Verbs: []string{"delete"}, Need: NeedDelete, Why: "the trigger"},
		{Resource: "pods", Subresource: "eviction", Verbs: []string{"create"}, Need: NeedEvict, Why: "the trigger"},
		{Group: "apps", Resource: "deployments", Subresource: "scale", Verbs: []string{"get", "patch"}, Need: NeedScale, Why: "the trigger, and putting it back"},
		{Resource: "configmaps", Verbs: []string{"get"}, Need: NeedOptional, Why: "kube-system/kube-proxy, and no other"},
		{Resource: "namespaces", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
		{Group: "apps", Resource: "deployments", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
		{Group: "apps", Resource: "replicasets", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
		{Resource: "services", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
		{Resource: "pods", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
	}
}

// needsOf picks what one trial needs.
func needsOf(trigger string, ownNamespace bool) []Need {
	needs := []Need{NeedTrial}
	if ownNamespace {
		needs = append(needs, NeedOwnNamespace)
	}
	switch trigger {
	case "delete":
		needs = append(needs, NeedDelete)
	case "evict":
		needs = append(needs, NeedEvict)
	case "scale":
		needs = append(needs, NeedScale)
	}
	return needs
}

// Missing asks the API server (SelfSubjectAccessReview) which of the rights a
// trial needs are missing, as "verb resource". For a namespace that does not exist yet, or
// "", the rights to make and delete one are asked for too.
func (c *Cluster) Missing(ctx context.Context, namespace, trigger string) ([]string, error) {
	own := namespace == ""
	if !own {
		_, err := c.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		own = apierrors.IsNotFound(err)
	}
	needs := needsOf(trigger, own)
	var missing []string
	for _, r := range Rights() {
		if !slices.Contains(needs, r.Need) {
			continue
		}
		for _, verb := range r.Verbs {
			name := verb + " " + r.Name()
			if slices.Contains(missing, name) {
				continue
			}
			ok, err := c.allowed(ctx, r, verb, namespace)
			if err != nil {
				return nil, asking(ctx, err, "asking the API server for the right to %s", name)
			}
			if !ok {
				missing = append(missing, name)
			}
		}
	}
	return missing, nil
}

func (c *Cluster) allowed(ctx context.Context, r Right, verb, namespace string) (bool, error) {
	if r.Cluster {
		namespace = ""
	}
	review, err := c.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
