package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drainproof/drainproof/internal/fault"
)

func waitingFor(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "probe", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

func TestDiagnosePod(t *testing.T) {
	crashing := func(p *corev1.Pod) {
		waitingFor("CrashLoopBackOff", "back-off")(p)
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = ended("c1", 2)
	}
	cannotStart := func(p *corev1.Pod) {
		exitedWith("c1", 128)(p)
		p.Status.ContainerStatuses[0].State.Terminated.Reason = "StartError"
	}
	nowhere := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: "Unschedulable", Message: "0/1 nodes"}}
	}
	failed := func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu" }
	tests := []struct {
		name string
		pod  *corev1.Pod
		want obstacle
	}{
		{"being created", pod("a", waitingFor("ContainerCreating", "")), noObstacle},
		{"running", pod("a", running("c1")), noObstacle},
		{"first failed pull", pod("a", waitingFor("ErrImagePull", "not found")), noImage},
		{"pull backs off", pod("a", waitingFor("ImagePullBackOff", "")), noImage},
		{"never pulled", pod("a", waitingFor("ErrImageNeverPull", "")), noImage},
		{"configuration", pod("a", waitingFor("CreateContainerConfigError", "runs as root")), badContainer},
		{"cannot be started", pod("a", cannotStart), badContainer},
		{"ended", pod("a", exitedWith("c1", 0)), exited},
		{"crash loop", pod("a", crashing), exited},
		{"no node", pod("a", nowhere), unschedulable},
		{"refused by the kubelet", pod("a", failed), podFailed},
	}
	for _, tt := range tests {
		d := diagnosePod(tt.pod)
		if d.obstacle != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, d.obstacle, tt.want)
		}
		if d.obstacle != noObstacle && d.next("img") == (diagnosis{}).next("img") {
			t.Errorf("%s: no advice of its own", tt.name)
		}
	}
}

var spec = ProbeSpec{
	Namespace: "ns", Trial: "t1", Image: "drainproof.dev/drainproof:x", Args: []string{"probe"}, Grace: 30 * time.Second,
	ReadinessEvery: time.Second, PreStopSleep: 5 * time.Second, PortTCP: 7001, PortUDP: 7002, PortHTTP: 7080, PathReady: "/readyz",
}

// The fake API server has no controllers: the test puts there what they would have made.
func fakeCluster(t *testing.T, p *corev1.Pod) *Cluster {
	t.Helper()
	client := fake.NewClientset()
	if p != nil {
		if _, err := client.CoreV1().Pods("ns").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return &Cluster{client: client}
}

func TestDeployProbeWaitsForTheEndpoint(t *testing.T) {
	p := pod("a", onNode, ready("True"), running("c1"))
	p.Status.PodIP, p.Status.HostIP = "10.0.0.1", "192.0.2.1"
	c := fakeCluster(t, p)
	_, err := c.DeployProbe(t.Context(), spec, 300*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "endpoint of pod ns/probe-a") {
		t.Fatalf("without an endpoint: %v", err)
	}
	c = fakeCluster(t, p)
	s := slice("s1", ep("a", "RSt"))
	s.Labels = map[string]string{discoveryv1.LabelServiceName: NameProbe}
	if _, err := c.client.DiscoveryV1().EndpointSlices("ns").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.DeployProbe(t.Context(), spec, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := PodRef{Name: "probe-a", UID: "a", IP: "10.0.0.1", Node: "n1", NodeIP: "192.0.2.1"}
	if got.Pod != want || got.Deployment != NameProbe || got.Service != NameProbe {
		t.Errorf("probe %+v, want Pod %+v", got, want)
	}
}

func TestDeployProbeSaysWhatStandsInTheWay(t *testing.T) {
	tests := []struct {
		name string
		pod  *corev1.Pod
		want []string
	}{
		{"image", pod("a", waitingFor("ErrImagePull", "pull access denied")), []string{"pod probe-a", "ErrImagePull", "pull access denied", "load-image", spec.Image}},
		{"crash", pod("a", exitedWith("c1", 3)), []string{"exit code 3", "its log ends:", "fake logs"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := fakeCluster(t, tt.pod).DeployProbe(t.Context(), spec, time.Minute)
			if fault.CodeOf(err) != fault.Unmeasurable || err == nil {
				t.Fatalf("error %v, want exit code 4", err)
			}
			all := err.Error() + "\n" + fault.NextOf(err)
			for _, w := range tt.want {
				if !strings.Contains(all, w) {
					t.Errorf("%q is not in %q", w, all)
				}
			}
		})
	}
}

func TestRefusedReplicaSetIsToldAtOnce(t *testing.T) {
	dep := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: NameProbe}}
	if d := diagnoseDeployment(dep); d.obstacle != noObstacle {
		t.Errorf("a fresh Deployment: %+v", d)
	}
	dep.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: "True", Reason: "FailedCreate", Message: "exceeded quota: small"}}
	if d := diagnoseDeployment(dep); d.obstacle != notCreated || d.patience() != 0 || !strings.Contains(d.message, "quota") {
		t.Errorf("refused by a quota: %+v", d)
	}
}

func TestInterruptedDeployIsAnInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := fakeCluster(t, nil).DeployProbe(ctx, spec, time.Minute)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want a cancellation", err)
	}
}

func TestProbeManifest(t *testing.T) {
	d := probeDeployment(spec)
	p := d.Spec.Template.Spec
	c := p.Containers[0]
	if *p.TerminationGracePeriodSeconds != 30 || c.Lifecycle.PreStop.Sleep.Seconds != 5 || c.ReadinessProbe.PeriodSeconds != 1 || c.ReadinessProbe.FailureThreshold != 1 {
		t.Errorf("grace %d, lifecycle %+v, readiness %+v", *p.TerminationGracePeriodSeconds, c.Lifecycle, c.ReadinessProbe)
	}
	bare := spec
	bare.PreStopSleep, bare.Grace = 0, 0
	b := probeDeployment(bare).Spec.Template.Spec
	if b.Containers[0].Lifecycle != nil || *b.TerminationGracePeriodSeconds != 0 {
		t.Errorf("without preStop and grace: %+v, %d", b.Containers[0].Lifecycle, *b.TerminationGracePeriodSeconds)
	}
	if s := probeService(spec); s.Spec.Type != corev1.ServiceTypeClusterIP || len(s.Spec.Ports) != 3 {
		t.Errorf("service %+v", s.Spec)
	}
	np := spec
	np.NodePort = true
	if s := probeService(np); s.Spec.Type != corev1.ServiceTypeNodePort {
		t.Errorf("service type %s, want NodePort", s.Spec.Type)
	}
}

func TestWorkerAvoidsTheProbesNode(t *testing.T) {
	w := workerPod(WorkerSpec{Namespace: "ns", Trial: "t1", Image: "i", AwayFrom: "n1"})
	f := w.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchFields[0]
	if f.Key != "metadata.name" || f.Operator != corev1.NodeSelectorOpNotIn || f.Values[0] != "n1" {
		t.Errorf("affinity %+v", f)
	}
	if w.Spec.RestartPolicy != corev1.RestartPolicyNever || *w.Spec.ActiveDeadlineSeconds != 3600 {
		t.Errorf("restart policy %s, deadline %d", w.Spec.RestartPolicy, *w.Spec.ActiveDeadlineSeconds)
	}
}
