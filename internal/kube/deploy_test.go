package kube

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/testkit"
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
func fakeCluster(t *testing.T, pods ...*corev1.Pod) *Cluster {
	t.Helper()
	client := fake.NewClientset()
	for _, p := range pods {
		if p == nil {
			continue // a cluster without Pods
		}
		if _, err := client.CoreV1().Pods("ns").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return &Cluster{client: client}
}

func putSlice(t *testing.T, c *Cluster, s *discoveryv1.EndpointSlice) {
	t.Helper()
	s.Labels = map[string]string{discoveryv1.LabelServiceName: NameProbe}
	if _, err := c.client.DiscoveryV1().EndpointSlices("ns").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
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
	putSlice(t, c, slice("s1", ep("a", "RSt")))
	got, err := c.DeployProbe(t.Context(), spec, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := PodRef{Name: "probe-a", UID: "a", IP: "10.0.0.1", Node: "n1", NodeIP: "192.0.2.1"}
	if got.Pod != want || len(got.Pods) != 1 || got.Pods[0] != want || got.Deployment != NameProbe || got.Service != NameProbe {
		t.Errorf("probe %+v, want Pod %+v", got, want)
	}
}

// What is missing of several replicas is waited for, and named.
func TestDeployProbeWaitsForEveryReplica(t *testing.T) {
	one := func(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
		return pod(name, append([]func(*corev1.Pod){onNode, running("c1")}, edits...)...)
	}
	three := spec
	three.Replicas, three.BudgetMinAvailable = 3, new(2)
	all := []*corev1.Pod{one("c", ready("True")), one("a", ready("True")), one("b", ready("True"))}
	whole := slice("s1", ep("a", "RSt"), ep("b", "RSt"), ep("c", "RSt"))
	// The fake API server has no controller that counts: what it would count is put there as the budget is created.
	counting := func(c *Cluster, healthy int32) *Cluster {
		c.client.(*fake.Clientset).PrependReactor("get", "poddisruptionbudgets", func(ktesting.Action) (bool, runtime.Object, error) {
			b := probeBudget(three)
			b.Status.CurrentHealthy = healthy
			return true, b, nil
		})
		return c
	}
	tests := []struct {
		name    string
		pods    []*corev1.Pod
		slice   *discoveryv1.EndpointSlice
		healthy int32
		want    string
	}{
		{"a Pod", all[:2], whole, 3, "3 pods in namespace ns (there are 2)"},
		{"readiness", []*corev1.Pod{all[0], all[1], one("b", ready("False"))}, whole, 3, "pod ns/probe-b to become ready"},
		{"an endpoint", all, slice("s1", ep("a", "RSt"), ep("b", "rSt"), ep("c", "RSt")), 3, "the endpoint of pod ns/probe-b"},
		{"the budget", all, whole, 2, "poddisruptionbudget ns/probe to count 3 pods as healthy (it counts 2)"},
		{"a blocked Pod", []*corev1.Pod{all[0], pod("d", waitingFor("ErrImagePull", "not found"))}, whole, 3, "pod probe-d"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := counting(fakeCluster(t, tt.pods...), tt.healthy)
			putSlice(t, c, tt.slice.DeepCopy())
			_, err := c.DeployProbe(t.Context(), three, 300*time.Millisecond)
			if fault.CodeOf(err) != fault.Unmeasurable || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
		})
	}
	c := counting(fakeCluster(t, all...), 3)
	putSlice(t, c, whole.DeepCopy())
	got, err := c.DeployProbe(t.Context(), three, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range got.Pods {
		names = append(names, p.Name)
	}
	if strings.Join(names, " ") != "probe-a probe-b probe-c" || got.Pod != got.Pods[0] {
		t.Errorf("Pods %v, the first %s", names, got.Pod.Name)
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
	_, err := fakeCluster(t).DeployProbe(ctx, spec, time.Minute)
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

// A trial of flows gets the very objects that it got before there were trials of requests: the golden is from then.
func TestProbeOfFlowsIsUnchanged(t *testing.T) {
	one := spec
	one.Replicas = 1
	for _, s := range []ProbeSpec{spec, one} {
		got, err := json.MarshalIndent([]any{probeService(s), probeDeployment(s)}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, "probe.json", append(got, '\n'))
		if probeBudget(s) != nil {
			t.Error("there is a budget")
		}
	}
}

func TestProbeOfRequests(t *testing.T) {
	s := spec
	s.PreStopSleep = 0
	s.Replicas, s.Strategy, s.MaxUnavailable, s.MaxSurge, s.BudgetMinAvailable = 3, "RollingUpdate", "25%", "0", new(2)
	s.DrainHook, s.PortHealth, s.Spread = new(2*time.Second), 7081, true
	d := probeDeployment(s).Spec
	c := d.Template.Spec.Containers[0]
	if *d.Replicas != 3 || d.Strategy.RollingUpdate.MaxUnavailable.String() != "25%" || d.Strategy.RollingUpdate.MaxSurge.IntValue() != 0 {
		t.Errorf("%d replicas, strategy %+v", *d.Replicas, d.Strategy)
	}
	if got := strings.Join(c.Lifecycle.PreStop.Exec.Command, " "); got != "/drainproof probe-hook --url http://127.0.0.1:7080/drain --sleep 2s" {
		t.Errorf("hook %s", got)
	}
	if p := c.Ports[3]; c.ReadinessProbe.HTTPGet.Port.String() != p.Name || p.ContainerPort != 7081 {
		t.Errorf("readiness asks port %s; the fourth port is %+v", c.ReadinessProbe.HTTPGet.Port.String(), p)
	}
	spread := d.Template.Spec.TopologySpreadConstraints
	if len(spread) != 1 || spread[0].WhenUnsatisfiable != corev1.ScheduleAnyway || spread[0].LabelSelector.MatchLabels[LabelManaged] != "t1" {
		t.Errorf("spread %+v", spread)
	}
	if b := probeBudget(s); b.Spec.MinAvailable.IntValue() != 2 || b.Labels[LabelManaged] != "t1" || b.Name != NameProbe || b.Namespace != "ns" {
		t.Errorf("budget %+v", b)
	}

	s.Strategy, s.NoReadiness, s.Together, s.DrainHook = "Recreate", true, true, nil
	d = probeDeployment(s).Spec
	c = d.Template.Spec.Containers[0]
	if d.Strategy.Type != appsv1.RecreateDeploymentStrategyType || d.Strategy.RollingUpdate != nil {
		t.Errorf("strategy %+v: the API server refuses a Recreate with bounds of a rolling update", d.Strategy)
	}
	if c.ReadinessProbe != nil || c.Lifecycle != nil {
		t.Errorf("readiness %+v, hooks %+v, want none", c.ReadinessProbe, c.Lifecycle)
	}
	if p := d.Template.Spec; len(p.TopologySpreadConstraints) != 0 || len(p.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Errorf("together: affinity %+v, spread %+v", p.Affinity, p.TopologySpreadConstraints)
	}
	s.Replicas = 1
	if p := probeDeployment(s).Spec.Template.Spec; p.Affinity != nil {
		t.Errorf("one replica has nobody to be with: %+v", p.Affinity)
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
