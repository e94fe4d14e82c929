package trigger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drainproof/drainproof/internal/fault"
)

const (
	// pollEvery is how often a wait for the API server's state looks.
	pollEvery = 200 * time.Millisecond
	// tokenVolume begins the name of the volume that the API server adds for the service account's token.
	tokenVolume = "kube-api-access-"
	// markPrefix begins the labels that say who tests a workload. They belong to
	// the test, not to the Pod: one that is made again goes without.
	markPrefix = "drainproof.dev/test"
)

// bare is a Pod that no controller makes again. Its methods take nil, which stands for any other target.
type bare struct {
	client   kubernetes.Interface
	was      *corev1.Pod
	mu       sync.Mutex
	mayBeOff bool // a request to end it has left
}

// readBare reads the Pod that is the whole workload; nil where the target is none such.
func readBare(ctx context.Context, client kubernetes.Interface, t Target) (*bare, error) {
	if t.WorkloadKind != kindPod {
		return nil, nil
	}
	p, err := client.CoreV1().Pods(t.Namespace).Get(ctx, t.Workload, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, explain(err, "reading pod", t.Namespace+"/"+t.Workload)
	case t.PodUID != "" && string(p.UID) != t.PodUID:
		return nil, fault.Measuref(nil, "run the trial again", "pod %s/%s was replaced by another of its name before the trigger", p.Namespace, p.Name)
	case metav1.GetControllerOf(p) != nil:
		return nil, nil
	}
	return &bare{client: client, was: p}, nil
}

// ended is called before the first request that may end it.
func (b *bare) ended() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.mayBeOff = true
	b.mu.Unlock()
}

// putBack waits until the Pod is gone and makes it again. One that was not ended, or that somebody has made again, is left alone.
func (b *bare) putBack(ctx context.Context) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mayBeOff {
		return nil
	}
	pods := b.client.CoreV1().Pods(b.was.Namespace)
	for {
		now, err := pods.Get(ctx, b.was.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = pods.Create(ctx, manifestOf(b.was), metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) {
				b.mayBeOff = false
				return nil
			}
		case err == nil && (now.UID != b.was.UID || now.DeletionTimestamp == nil):
			b.mayBeOff = false
			return nil
		}
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || !sleep(ctx, pollEvery) {
			if err == nil {
				err = ctx.Err()
			}
			return fault.Measuref(err, "make it again from its manifest (kubectl apply); no controller does",
				"pod %s/%s was ended and is not put back", b.was.Namespace, b.was.Name)
		}
	}
}

// manifestOf is the Pod as somebody would create it again: what its owner wrote, without what the cluster added.
func manifestOf(p *corev1.Pod) *corev1.Pod {
	labels := maps.Clone(p.Labels)
	maps.DeleteFunc(labels, func(k, _ string) bool { return strings.HasPrefix(k, markPrefix) })
	spec := p.Spec.DeepCopy()
	spec.NodeName = ""
	spec.EphemeralContainers = nil // cannot be created, only added
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && strings.HasPrefix(v.Name, tokenVolume)
	})
	for _, cs := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range cs {
			cs[i].VolumeMounts = slices.DeleteFunc(cs[i].VolumeMounts, func(m corev1.VolumeMount) bool {
				return strings.HasPrefix(m.Name, tokenVolume)
			})
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: labels, Annotations: p.Annotations},
		Spec:       *spec,
	}
}

// sleep reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
