package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drainproof/drainproof/internal/fault"
)

const (
	// NamespaceAgents is the namespace of the node agents, and of nothing else.
	NamespaceAgents = "drainproof-agent"
	// nameAgent is the DaemonSet's and its container's name.
	nameAgent = "agent"
	// labelAgent marks what `drainproof agent install` made. It is not LabelManaged: an agent is no leftover of a trial.
	labelAgent = "drainproof.dev/agent"
)

// AgentPod is the agent of one node.
type AgentPod struct {
	Node, Namespace, Pod, Image string
	// Down: the node is not ready, so that no agent of it can be waited for.
	Down bool
	// Missing says why there is none to speak to; empty where there is.
	Missing string
}

// InstallAgents makes the DaemonSet of agents, or changes its image, and waits until every node that is ready has a ready one. changed is
// whether there was anything to do. A namespace of that name that another has made is refused.
func (c *Cluster) InstallAgents(ctx context.Context, image string, timeout time.Duration) (agents []AgentPod, changed bool, err error) {
	if err := c.agentNamespace(ctx); err != nil {
		return nil, false, err
	}
	sets := c.client.AppsV1().DaemonSets(NamespaceAgents)
	have, err := sets.Get(ctx, nameAgent, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		changed = true
		_, err = sets.Create(ctx, agentSet(image), metav1.CreateOptions{})
		err = asking(ctx, err, "creating daemonset %s/%s", NamespaceAgents, nameAgent)
	case err != nil:
		err = asking(ctx, err, "reading daemonset %s/%s", NamespaceAgents, nameAgent)
	case have.Spec.Template.Spec.Containers[0].Image != image:
		changed = true
		have.Spec = agentSet(image).Spec
		_, err = sets.Update(ctx, have, metav1.UpdateOptions{})
		err = asking(ctx, err, "changing daemonset %s/%s", NamespaceAgents, nameAgent)
	}
	if err != nil {
		return nil, changed, err
	}
	agents, err = c.awaitAgents(ctx, image, timeout)
	return agents, changed, err
}

func (c *Cluster) agentNamespace(ctx context.Context) error {
	namespaces := c.client.CoreV1().Namespaces()
	ns, err := namespaces.Get(ctx, NamespaceAgents, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: NamespaceAgents, Labels: map[string]string{labelAgent: "true", labelEnforce: "privileged"},
		}}, metav1.CreateOptions{})
		return asking(ctx, err, "creating namespace %s", NamespaceAgents)
	case err != nil:
		return asking(ctx, err, "reading namespace %s", NamespaceAgents)
	case ns.DeletionTimestamp != nil:
		return fault.Measuref(nil, "wait until it is gone, then install again", "namespace %s is being deleted", NamespaceAgents)
	case ns.Labels[labelAgent] == "":
		return fault.Measuref(nil, "rename it: the agents need that name", "namespace %s exists already, and is not drainproof's", NamespaceAgents)
	}
	return nil
}

// awaitAgents waits until the agent of every node is ready or cannot come.
func (c *Cluster) awaitAgents(ctx context.Context, image string, timeout time.Duration) ([]AgentPod, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		agents, err := c.Agents(limited)
		if err != nil && limited.Err() == nil {
			return nil, err
		}
		var missing []string
		for _, a := range agents {
			if !a.Down && (a.Missing != "" || a.Image != image) {
				missing = append(missing, a.Node+" ("+cmp.Or(a.Missing, "still that of before")+")")
			}
		}
		if err == nil && len(agents) > 0 && len(missing) == 0 {
			return agents, nil
		}
		if !sleep(limited, pollEvery) {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("waiting for the agents: %w", context.Cause(ctx))
			}
			return agents, fault.Measuref(nil, "see `kubectl -n "+NamespaceAgents+" describe pods`; the image must be on the nodes or in a registry that they reach",
				"the agents are not ready within %v: %s", timeout, strings.Join(missing, ", "))
		}
	}
}

// Agents lists the agent of each node, by name of the node; empty where none is installed. A node without one is in the list with the reason.
func (c *Cluster) Agents(ctx context.Context) ([]AgentPod, error) {
	pods, err := c.client.CoreV1().Pods(NamespaceAgents).List(ctx, metav1.ListOptions{LabelSelector: labels.Set{labelAgent: "true"}.String()})
	if apierrors.IsForbidden(err) {
		return nil, nil // who may not look for agents has none
	}
	if err != nil {
		return nil, asking(ctx, err, "listing the pods of namespace %s", NamespaceAgents)
	}
	if len(pods.Items) == 0 {
		_, err := c.client.AppsV1().DaemonSets(NamespaceAgents).Get(ctx, nameAgent, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return nil, nil
		}
		if err != nil {
			return nil, asking(ctx, err, "reading daemonset %s/%s", NamespaceAgents, nameAgent)
		}
	}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, asking(ctx, err, "listing nodes")
	}
	var agents []AgentPod
	for _, n := range nodes.Items {
		if os := n.Labels[corev1.LabelOSStable]; os != "" && os != "linux" {
			continue
		}
		a := AgentPod{Node: n.Name, Missing: "no agent runs on it"}
		for _, c := range n.Status.Conditions {
			a.Down = a.Down || c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
		}
		for _, p := range pods.Items {
			over := p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
			if p.Spec.NodeName != n.Name || over || a.Pod != "" && a.Missing == "" {
				continue
			}
			a.Namespace, a.Pod, a.Image, a.Missing = p.Namespace, p.Name, p.Spec.Containers[0].Image, ""
			if readyCondition(&p).Status != corev1.ConditionTrue {
				a.Missing = "its agent is not ready"
				if d := diagnosePod(&p); d.obstacle != noObstacle {
					a.Missing += ": " + strings.TrimSpace(d.reason+" "+d.message)
				}
			}
		}
		if a.Down {
			a.Missing = "the node is not ready"
		}
		agents = append(agents, a)
	}
	slices.SortFunc(agents, func(a, b AgentPod) int { return strings.Compare(a.Node, b.Node) })
	return agents, nil
}

// UninstallAgents removes the namespace with all that is in it, and waits until it is gone. was is whether there was one.
func (c *Cluster) UninstallAgents(ctx context.Context, timeout time.Duration) (was bool, err error) {
	namespaces := c.client.CoreV1().Namespaces()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		ns, err := namespaces.Get(limited, NamespaceAgents, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return was, nil
		case err != nil:
			return was, asking(limited, err, "reading namespace %s", NamespaceAgents)
		case ns.Labels[labelAgent] == "":
			return false, fault.Measuref(nil, "remove it yourself if it may go", "namespace %s is not drainproof's", NamespaceAgents)
		case ns.DeletionTimestamp == nil:
			was = true
			if err := namespaces.Delete(limited, NamespaceAgents, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ns.UID}}); err != nil && !apierrors.IsNotFound(err) {
				return was, asking(limited, err, "deleting namespace %s", NamespaceAgents)
			}
		default:
			was = true
		}
		if !sleep(limited, pollEvery) {
			return was, fault.Measuref(context.Cause(limited), "see `kubectl get namespace "+NamespaceAgents+" -o yaml` for what it waits for", "namespace %s is not gone within %v", NamespaceAgents, timeout)
		}
	}
}

// agentSet puts one agent on every node, whatever taints it. It idles until a trial opens a session in it by an exec; nothing is loaded into
// a kernel before.
func agentSet(image string) *appsv1.DaemonSet {
	marks := map[string]string{labelAgent: "true"}
	pod := podSpec(container(nameAgent, image, []string{"agent", "hold"}))
	ofNode(&pod)
	pod.HostNetwork = true
	pod.TerminationGracePeriodSeconds = new(int64(1))
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: NamespaceAgents, Name: nameAgent, Labels: marks},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: marks},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("100%"))},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: marks}, Spec: pod},
		},
	}
}
