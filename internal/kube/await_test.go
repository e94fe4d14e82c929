package kube

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/drainproof/drainproof/internal/fault"
)

func await(t *testing.T, c *Cluster, r Ref, condition Condition, gone ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	return c.Await(ctx, &Workload{Ref: r}, condition, gone)
}

func TestAwaitOfWhatIsSo(t *testing.T) {
	c := with(webDeployment(), webPod("web-a"), webPod("web-b"), webPod("alone", func(p *corev1.Pod) { p.OwnerReferences = nil }))
	for _, condition := range Conditions() {
		if err := await(t, c, webRef, condition, "a Pod that is gone"); err != nil {
			t.Errorf("%s: %v", condition, err)
		}
	}
	for _, condition := range []Condition{Ready, Gone} {
		if err := await(t, c, Ref{"Pod", "shop", "alone"}, condition, "the one before"); err != nil {
			t.Errorf("a bare Pod, %s: %v", condition, err)
		}
	}
	if err := await(t, c, Ref{"Pod", "shop", "alone"}, RolledOut); fault.CodeOf(err) != fault.Usage {
		t.Errorf("the rollout of a bare Pod: %v", err)
	}
	if err := await(t, c, Ref{"Pod", "shop", "removed"}, Gone, "x"); err != nil {
		t.Errorf("a bare Pod that is gone: %v", err)
	}
}

func TestAwaitSaysWhatIsMissing(t *testing.T) {
	late := func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }
	pulling := webPod("web-b", ready("False"), func(p *corev1.Pod) { waitingFor("ImagePullBackOff", "no such image")(p) })
	unready := webPod("web-b", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "False", Reason: "ContainersNotReady", Message: "containers with unready status: [web]"}}
	})
	creating := webPod("web-b", ready("False"), func(p *corev1.Pod) { waitingFor("ContainerCreating", "")(p) })
	refused := func(d *appsv1.Deployment) {
		d.Status.UpdatedReplicas = 1
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: "ReplicaFailure", Status: "True", Reason: "FailedCreate", Message: "exceeded quota: small"}}
	}
	tests := []struct {
		name      string
		objects   []runtime.Object
		condition Condition
		want      []string
	}{
		{"an image", []runtime.Object{webDeployment(late), webPod("web-a"), pulling}, RolledOut,
			[]string{"is not rolled out in time: 1 of 2 updated replicas are available", "pod web-b: ImagePullBackOff: no such image"}},
		{"readiness", []runtime.Object{webDeployment(late), webPod("web-a"), unready}, Ready,
			[]string{"is not ready in time: 1 of 2 Pods are ready", "pod web-b: containers with unready status: [web]"}},
		{"still being made", []runtime.Object{webDeployment(late), webPod("web-a"), creating}, Ready, []string{"pod web-b: container probe: ContainerCreating"}},
		{"a quota", []runtime.Object{webDeployment(refused), webPod("web-a")}, RolledOut, []string{"1 of 2 replicas are updated", "FailedCreate: exceeded quota: small"}},
		{"too many", []runtime.Object{webDeployment(), webPod("web-a"), webPod("web-b"), webPod("web-c")}, Ready, []string{"there are 3 Pods, and 2 are wanted"}},
		{"one that terminates", []runtime.Object{webDeployment(), webPod("web-a"), webPod("web-b"), webPod("web-c", terminating)}, Ready, []string{"pod web-c is still terminating"}},
		{"an ended one that terminates", []runtime.Object{webDeployment(), webPod("web-a", terminating)}, Gone, []string{"is not rid of its ended Pods", "pod web-a is still terminating"}},
		{"an ended one that was not deleted", []runtime.Object{webDeployment(), webPod("web-a"), webPod("web-b")}, RolledOut, []string{"pod web-a is not deleted yet"}},
		{"all of it", nil, Ready, []string{`there is no deployment "web"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var gone []string
			if strings.Contains(tt.name, "ended") {
				gone = []string{"web-a-uid"}
			}
			err := await(t, with(tt.objects...), webRef, tt.condition, gone...)
			if fault.CodeOf(err) != fault.Unmeasurable || err == nil {
				t.Fatalf("error %v, want exit code 4", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
}

func TestAwaitDoesNotWaitForWhatWasGivenUp(t *testing.T) {
	c := with(webDeployment(func(d *appsv1.Deployment) {
		d.Status.AvailableReplicas = 1
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Progressing", Status: "False", Reason: "ProgressDeadlineExceeded", Message: `ReplicaSet "web-2" has timed out progressing.`}}
	}))
	// Without an end of its own, this returns only because the controller gave up.
	err := c.Await(t.Context(), &Workload{Ref: webRef}, RolledOut, nil)
	if fault.CodeOf(err) != fault.Unmeasurable || err == nil || !strings.Contains(err.Error(), "timed out progressing") {
		t.Errorf("error %v", err)
	}
}

func TestAwaitOutlivesTheAPIServersAbsence(t *testing.T) {
	client := fake.NewClientset(webDeployment(), webPod("web-a"), webPod("web-b"))
	var asked atomic.Int32
	client.PrependReactor("get", "deployments", func(ktesting.Action) (bool, runtime.Object, error) {
		if asked.Add(1) == 1 {
			return true, nil, apierrors.NewServiceUnavailable("not now")
		}
		return false, nil, nil
	})
	if err := (&Cluster{client: client}).Await(t.Context(), &Workload{Ref: webRef}, Ready, nil); err != nil {
		t.Errorf("error %v", err)
	}
	client.PrependReactor("get", "deployments", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New("no right"))
	})
	if err := (&Cluster{client: client}).Await(t.Context(), &Workload{Ref: webRef}, Ready, nil); err == nil || !strings.Contains(err.Error(), "refuses") {
		t.Errorf("without the right: %v", err)
	}
}

func TestAwaitInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := with(webDeployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }))
	if err := c.Await(ctx, &Workload{Ref: webRef}, RolledOut, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want an interruption", err)
	}
}

func TestAwaitOfADaemonSetCountsItsNodes(t *testing.T) {
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent", UID: "a1"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: webLabels}},
		Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, NumberAvailable: 1, UpdatedNumberScheduled: 2},
	}
	err := await(t, with(ds), Ref{"DaemonSet", "shop", "agent"}, Ready)
	if err == nil || !strings.Contains(err.Error(), "0 of 2 Pods are ready") {
		t.Errorf("error %v", err)
	}
}
