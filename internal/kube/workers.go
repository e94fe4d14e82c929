package kube

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drainproof/drainproof/internal/fault"
)

const (
	// workersDeadline bounds the life of workers that nobody puts away: longer than a test lasts.
	workersDeadline = 3 * time.Hour
	// workersKept is how long the Job stays once they have ended.
	workersKept = 5 * time.Minute
	// workerCPU is what a client asks of its node. The largest load of one client takes about as much.
	workerCPU = "500m"
)

// DeployWorkers makes n client Pods (an indexed Job), spread over the nodes, and waits until they are ready. The list
// is in the order of their index.
func (c *Cluster) DeployWorkers(ctx context.Context, s WorkerSpec, n int, timeout time.Duration) ([]PodRef, error) {
	if n < 1 {
		return nil, fault.Usagef("ask for at least one", "%d client Pods are none", n)
	}
	if _, err := c.client.BatchV1().Jobs(s.Namespace).Create(ctx, workerJob(s, n), metav1.CreateOptions{}); err != nil {
		return nil, creating(ctx, err, "job", s.Namespace, NameWorker)
	}
	w := &waiter{c: c, namespace: s.Namespace, image: s.Image, selector: labels.Set(labelsOf(s.Trial, NameWorker)).String(), replicas: n}
	pods, err := w.wait(ctx, timeout)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(workerIndex(a), workerIndex(b)) })
	var refs []PodRef
	for _, p := range pods {
		refs = append(refs, refOf(p))
	}
	return refs, nil
}

// workerIndex is the Pod's number within its Job.
func workerIndex(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return -1
	}
	return n
}

// workerJob makes n of what workerPod makes one of. None is made again: a client that is lost is a fact, not to be mended.
func workerJob(s WorkerSpec, n int) *batchv1.Job {
	pod := workerPod(s)
	pod.Spec.ActiveDeadlineSeconds = new(seconds(workersDeadline))
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	// A node under load gives a Pod its share by what it asks for, and a client that waits for the processor measures itself.
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(workerCPU)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: NameWorker, Labels: pod.Labels},
		Spec: batchv1.JobSpec{
			Completions: new(int32(n)), Parallelism: new(int32(n)), CompletionMode: new(batchv1.IndexedCompletion),
			BackoffLimit:            new(int32(0)),
			TTLSecondsAfterFinished: new(int32(seconds(workersKept))),
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
}
