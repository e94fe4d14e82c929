package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// NameKiller names the Pod from which a process of a node is ended.
const NameKiller = "killer"

// labelEnforce is the Pod Security level that a namespace admits.
const labelEnforce = "pod-security.kubernetes.io/enforce"

// DeployKiller makes a privileged Pod on the node, in its process namespace, and waits until it is ready. The command
// that ends a process is an exec in it. The namespace should be the trial's own: it is then made to admit such a
// Pod. In any other, the cluster's policy may refuse it, and the error says so.
func (c *Cluster) DeployKiller(ctx context.Context, namespace, trial, image, node string, timeout time.Duration) (PodRef, error) {
	if err := c.admitPrivileged(ctx, namespace, trial); err != nil {
		return PodRef{}, err
	}
	if _, err := c.client.CoreV1().Pods(namespace).Create(ctx, killerPod(namespace, trial, image, node), metav1.CreateOptions{}); err != nil {
		return PodRef{}, creating(ctx, err, "pod", namespace, NameKiller)
	}
	w := &waiter{c: c, namespace: namespace, image: image, selector: labels.Set(labelsOf(trial, NameKiller)).String(), replicas: 1}
	pods, err := w.wait(ctx, timeout)
	if err != nil {
		return PodRef{}, err
	}
	return refOf(pods[0]), nil
}

// admitPrivileged makes or changes the trial's own namespace; somebody else's is left as it is.
func (c *Cluster) admitPrivileged(ctx context.Context, namespace, trial string) error {
	namespaces := c.client.CoreV1().Namespaces()
	ns, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		own := ownNamespace(namespace, trial)
		own.Labels[labelEnforce] = "privileged"
		_, err = namespaces.Create(ctx, own, metav1.CreateOptions{})
		return asking(ctx, err, "creating namespace %s", namespace)
	case err != nil:
		return asking(ctx, err, "reading namespace %s", namespace)
	case ns.Labels[LabelManaged] != trial:
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": ns.UID, "labels": map[string]string{labelEnforce: "privileged"}}})
	if err != nil {
		return fmt.Errorf("writing the labels of namespace %s: %w", namespace, err)
	}
	_, err = namespaces.Patch(ctx, namespace, types.MergePatchType, body, metav1.PatchOptions{})
	return asking(ctx, err, "letting namespace %s admit a privileged Pod", namespace)
}

// killerPod goes to its node without the scheduler, so that a cordon, a taint or a full node does not keep it away.
func killerPod(namespace, trial, image, node string) *corev1.Pod {
	pod := workerPod(WorkerSpec{Namespace: namespace, Trial: trial, Image: image, Args: []string{"worker", "--idle=1h"}})
	pod.Name, pod.Labels = NameKiller, labelsOf(trial, NameKiller)
	s := &pod.Spec
	s.NodeName, s.NodeSelector, s.Affinity = node, nil, nil
	ofNode(s)
	return pod
}

// ofNode makes a Pod one of its node: privileged, in the node's process namespace, kept away by no taint.
func ofNode(s *corev1.PodSpec) {
	s.HostPID = true
	s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0)), RunAsGroup: new(int64(0))}
	s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true), ReadOnlyRootFilesystem: new(true)}
}
