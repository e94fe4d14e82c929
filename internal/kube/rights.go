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
	// NeedBudget: a trial whose probe gets a PodDisruptionBudget.
	NeedBudget Need = "an experiment with a PodDisruptionBudget"
	// NeedWorkers: a test whose clients are Pods, in a namespace of the trial's own.
	NeedWorkers Need = "test --vantage pod"
	// NeedTest: every test of a user's workload. The others of this list: a test with that trigger.
	NeedTest            Need = "every test"
	NeedTestDelete      Need = "test --trigger delete"
	NeedTestForceDelete Need = "test --trigger force-delete"
	NeedTestEvict       Need = "test --trigger evict"
	NeedTestScale       Need = "test --trigger scale"
	NeedTestDrain       Need = "test --trigger drain"
	NeedTestKill        Need = "test --trigger kill"
	// NeedCleanup: finding leftovers in all namespaces.
	NeedCleanup Need = "cleaning up after an interrupted trial"
	// NeedAgents: a trial that asks the nodes' agents; without it there is no evidence from nodes. NeedAgentInstall: putting them there.
	NeedAgents       Need = "optional: evidence from the nodes' agents"
	NeedAgentInstall Need = "agent install and uninstall"
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
	// Kind is the workload's, where a test of that kind alone needs it; empty for all.
	Kind string
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
		{Group: "policy", Resource: "poddisruptionbudgets", Verbs: []string{"create", "get", "list", "delete"}, Need: NeedBudget, Why: "the probe's budget"},
		{Resource: "namespaces", Verbs: []string{"get"}, Cluster: true, Need: NeedTest, Why: "the UID of kube-system names the cluster"},
		{Resource: "nodes", Verbs: []string{"list"}, Cluster: true, Need: NeedTest, Why: "versions and kernels go into the record"},
		{Group: "apps", Resource: "deployments", Verbs: []string{"get", "list", "watch", "patch"}, Need: NeedTest, Kind: "Deployment", Why: "a Deployment: reading it, marking who tests it, trigger rollout"},
		{Group: "apps", Resource: "statefulsets", Verbs: []string{"get", "list", "watch", "patch"}, Need: NeedTest, Kind: "StatefulSet", Why: "a StatefulSet: the same"},
		{Group: "apps", Resource: "daemonsets", Verbs: []string{"get", "list", "patch"}, Need: NeedTest, Kind: "DaemonSet", Why: "a DaemonSet: the same"},
		{Resource: "pods", Verbs: []string{"get", "list", "watch"}, Need: NeedTest, Why: "whom the trigger ends, and who follows"},
		{Resource: "pods", Verbs: []string{"patch"}, Need: NeedTest, Kind: kindPod, Why: "a bare Pod: marking who tests it"},
		{Resource: "services", Verbs: []string{"list"}, Need: NeedTest, Why: "the path to the workload"},
		{Group: "discovery.k8s.io", Resource: "endpointslices", Verbs: []string{"list", "watch"}, Need: NeedTest, Why: "when endpoints were withdrawn and added"},
		{Group: "policy", Resource: "poddisruptionbudgets", Verbs: []string{"list"}, Need: NeedTest, Why: "the record names those of the workload"},
		{Resource: "events", Verbs: []string{"list", "watch"}, Need: NeedTest, Why: "what the kubelet says"},
		{Resource: "pods", Verbs: []string{"delete"}, Need: NeedTestDelete, Why: "the trigger"},
		{Resource: "pods", Verbs: []string{"create"}, Need: NeedTestDelete, Kind: kindPod, Why: "a bare Pod: making it again"},
		{Resource: "pods", Verbs: []string{"delete"}, Need: NeedTestForceDelete, Why: "the trigger"},
		{Resource: "pods", Verbs: []string{"create"}, Need: NeedTestForceDelete, Kind: kindPod, Why: "a bare Pod: making it again"},
		{Resource: "pods", Subresource: "eviction", Verbs: []string{"create"}, Need: NeedTestEvict, Why: "the trigger"},
		{Resource: "pods", Verbs: []string{"create"}, Need: NeedTestEvict, Kind: kindPod, Why: "a bare Pod: making it again"},
		{Group: "apps", Resource: "deployments", Subresource: "scale", Verbs: []string{"get", "patch"}, Need: NeedTestScale, Kind: "Deployment", Why: "the trigger, and putting it back"},
		{Group: "apps", Resource: "statefulsets", Subresource: "scale", Verbs: []string{"get", "patch"}, Need: NeedTestScale, Kind: "StatefulSet", Why: "the trigger, and putting it back"},
		{Resource: "nodes", Verbs: []string{"get", "patch"}, Cluster: true, Need: NeedTestDrain, Why: "the cordon, and taking it off"},
		{Resource: "pods", Verbs: []string{"get", "list"}, Cluster: true, Need: NeedTestDrain, Why: "what runs on the node"},
		{Resource: "pods", Subresource: "eviction", Verbs: []string{"create"}, Cluster: true, Need: NeedTestDrain, Why: "the trigger"},
		{Group: "apps", Resource: "daemonsets", Verbs: []string{"get"}, Cluster: true, Need: NeedTestDrain, Why: "telling which Pods a drain leaves alone"},
		{Resource: "pods", Verbs: []string{"create"}, Need: NeedTestDrain, Kind: kindPod, Why: "a bare Pod: making it again"},
		{Resource: "namespaces", Verbs: []string{"create", "patch", "delete"}, Cluster: true, Need: NeedTestKill, Why: "one that admits a privileged Pod, from which the process is ended"},
		{Resource: "pods", Verbs: []string{"create", "list", "delete"}, Cluster: true, Need: NeedTestKill, Why: "that Pod, in that namespace"},
		{Resource: "pods", Subresource: "exec", Verbs: []string{"create", "get"}, Cluster: true, Need: NeedTestKill, Why: "the command in it"},
		{Resource: "namespaces", Verbs: []string{"create", "delete"}, Cluster: true, Need: NeedWorkers, Why: "made before, deleted after"},
		{Group: "batch", Resource: "jobs", Verbs: []string{"create"}, Cluster: true, Need: NeedWorkers, Why: "the clients, in that namespace"},
		{Resource: "pods", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedWorkers, Why: "the clients"},
		{Resource: "pods", Subresource: "exec", Verbs: []string{"create", "get"}, Cluster: true, Need: NeedWorkers, Why: "speaking to the clients"},
		{Resource: "pods", Verbs: []string{"list"}, Need: NeedAgents, Why: "finding them"},
		{Resource: "pods", Subresource: "exec", Verbs: []string{"create", "get"}, Need: NeedAgents, Why: "speaking to them"},
		{Group: "apps", Resource: "daemonsets", Verbs: []string{"get"}, Need: NeedAgents, Why: "whether they are installed"},
		{Resource: "namespaces", Verbs: []string{"create", "get", "delete"}, Cluster: true, Need: NeedAgentInstall, Why: "drainproof-agent, which admits privileged Pods"},
		{Group: "apps", Resource: "daemonsets", Verbs: []string{"create", "get", "update"}, Cluster: true, Need: NeedAgentInstall, Why: "the agents, in that namespace"},
		{Resource: "pods", Verbs: []string{"list"}, Cluster: true, Need: NeedAgentInstall, Why: "whether they are ready"},
		{Resource: "nodes", Verbs: []string{"list"}, Cluster: true, Need: NeedAgentInstall, Why: "which nodes there are"},
		{Resource: "configmaps", Verbs: []string{"get"}, Need: NeedOptional, Why: "kube-system/kube-proxy, and no other"},
		{Resource: "namespaces", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
		{Group: "apps", Resource: "deployments", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
		{Group: "apps", Resource: "replicasets", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
		{Resource: "services", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
		{Resource: "pods", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label"},
		{Group: "policy", Resource: "poddisruptionbudgets", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label; without the right to list them there can be none"},
		{Group: "batch", Resource: "jobs", Verbs: []string{"list", "delete"}, Cluster: true, Need: NeedCleanup, Why: "by label; the same"},
		{Group: "apps", Resource: "deployments", Verbs: []string{"list", "patch"}, Cluster: true, Need: NeedCleanup, Why: "marks of tests, and the replicas that they say to put back"},
		{Group: "apps", Resource: "statefulsets", Verbs: []string{"list", "patch"}, Cluster: true, Need: NeedCleanup, Why: "the same"},
		{Group: "apps", Resource: "daemonsets", Verbs: []string{"list", "patch"}, Cluster: true, Need: NeedCleanup, Why: "the same"},
		{Resource: "pods", Verbs: []string{"list", "patch"}, Cluster: true, Need: NeedCleanup, Why: "the same"},
		{Resource: "nodes", Verbs: []string{"list", "patch"}, Cluster: true, Need: NeedCleanup, Why: "cordons of tests"},
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
	return c.missing(ctx, namespace, func(r Right) bool { return slices.Contains(needs, r.Need) })
}

// MissingForTest asks which rights a test with that trigger lacks in the workload's namespace. What client Pods need is MissingForWorkers'.
func (c *Cluster) MissingForTest(ctx context.Context, w Ref, trigger string) ([]string, error) {
	return c.missing(ctx, w.Namespace, func(r Right) bool {
		return (r.Need == NeedTest || r.Need == Need("test --trigger "+trigger)) && (r.Kind == "" || r.Kind == w.Kind)
	})
}

// MissingForWorkers asks which rights clients in Pods need that are missing. They run in a namespace of the trial's own.
func (c *Cluster) MissingForWorkers(ctx context.Context) ([]string, error) {
	return c.missing(ctx, "", func(r Right) bool { return r.Need == NeedWorkers })
}

// missing asks for the rights that are needed, each once.
func (c *Cluster) missing(ctx context.Context, namespace string, needed func(Right) bool) ([]string, error) {
	type asked struct {
		name    string
		cluster bool
	}
	seen := map[asked]bool{}
	var missing []string
	for _, r := range Rights() {
		if !needed(r) {
			continue
		}
		for _, verb := range r.Verbs {
			name := verb + " " + r.Name()
			if seen[asked{name, r.Cluster}] {
				continue
			}
			seen[asked{name, r.Cluster}] = true
			ok, err := c.allowed(ctx, r, verb, namespace)
			if err != nil {
				return nil, asking(ctx, err, "asking the API server for the right to %s", name)
			}
			if !ok && !slices.Contains(missing, name) {
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
