package kube

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
)

var webLabels = map[string]string{"app": "web"}

// webDeployment is a user's Deployment of two replicas.
func webDeployment(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "d1", Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: webLabels},
			Strategy: appsv1.DeploymentStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxUnavailable: new(intstr.FromString("25%")), MaxSurge: new(intstr.FromInt32(1)),
			}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: webLabels}, Spec: webSpec()},
		},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

func webSpec() corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(20)),
		Containers: []corev1.Container{
			{Name: "web", Image: "web:1", ReadinessProbe: &corev1.Probe{}, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}},
				Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}},
			{Name: "log", Image: "log:2"}, // serves nothing
		},
	}
}

// webPod is one of its Pods, ready.
func webPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name + "-uid"), Labels: webLabels,
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}},
		},
		Spec:   webSpec(),
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0." + name[len(name)-1:], HostIP: "192.0.2.1"},
	}
	onNode(p)
	ready("True")(p)
	for _, c := range change {
		c(p)
	}
	return p
}

func webService(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "10.96.0.9", Selector: webLabels, Ports: ports},
	}
}

func webBudget(name string, spec policyv1.PodDisruptionBudgetSpec) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: spec}
}

func with(objects ...runtime.Object) *Cluster { return &Cluster{client: fake.NewClientset(objects...)} }

var webRef = Ref{"Deployment", "shop", "web"}

func TestResolveADeployment(t *testing.T) {
	matching := &metav1.LabelSelector{MatchLabels: webLabels}
	slice := func(name string, family discoveryv1.AddressType, addresses ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: family,
		}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.7"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}})
		return s
	}
	headless := webService("web-headless", corev1.ServicePort{Port: 80})
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	c := with(
		webDeployment(), webPod("web-b"), webPod("web-a", ready("False")),
		webPod("web-done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		webPod("stranger", func(p *corev1.Pod) { p.OwnerReferences = nil }),
		webService("web",
			corev1.ServicePort{Name: "http", Port: 80, NodePort: 30080, TargetPort: intstr.FromString("http"), AppProtocol: new("http")},
			corev1.ServicePort{Name: "none", Port: 81, TargetPort: intstr.FromString("missing")},
			corev1.ServicePort{Name: "udp", Port: 82, Protocol: "UDP", TargetPort: intstr.FromString("http")},
			corev1.ServicePort{Name: "number", Port: 83, TargetPort: intstr.FromInt32(9000)}),
		headless,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "no-selector"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "others"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"}}},
		slice("s4a", discoveryv1.AddressTypeIPv4, "10.0.0.1"), slice("s4b", discoveryv1.AddressTypeIPv4, "10.0.0.2", "10.0.0.1"), slice("s6", discoveryv1.AddressTypeIPv6, "fd00::1"),
		webBudget("keep", policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: matching}),
		webBudget("all", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromString("30%")), Selector: &metav1.LabelSelector{}}),
		webBudget("nothing", policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))}),
	)
	got, err := c.Resolve(t.Context(), webRef)
	if err != nil {
		t.Fatal(err)
	}
	want := &Workload{
		Ref: webRef, Selector: "app=web", Ready: 1, ReadyPods: []string{"web-b"},
		Facts: record.Workload{
			Kind: "Deployment", Namespace: "shop", Name: "web", UID: "d1", Replicas: 2, Strategy: "RollingUpdate", MaxUnavailable: "25%", MaxSurge: "1",
			GraceNs: int64(20 * time.Second), PreStop: "web: sleep 5s", PreStopSleepNs: new(int64(5 * time.Second)), Images: []string{"web:1", "log:2"}, ReadinessProbe: true,
			Budgets: []string{"all (maxUnavailable 30%)", "keep (minAvailable 1)"},
			Pods: []record.WorkloadPod{
				{Name: "web-a", UID: "web-a-uid", IP: "10.0.0.a", Node: "n1", NodeIP: "192.0.2.1"},
				{Name: "web-b", UID: "web-b-uid", IP: "10.0.0.b", Node: "n1", NodeIP: "192.0.2.1"},
			},
		},
		Services: []Service{
			{Name: "web", Type: "ClusterIP", ClusterIP: "10.96.0.9", ReadyEndpoints: 2, Ports: []ServicePort{
				{Name: "http", Protocol: "TCP", AppProtocol: "http", Port: 80, NodePort: 30080, PodPort: 8080, Container: "web"},
				{Name: "none", Protocol: "TCP", Port: 81},
				{Name: "udp", Protocol: "UDP", Port: 82},
				{Name: "number", Protocol: "TCP", Port: 83, PodPort: 9000},
			}},
			{Name: "web-headless", Type: "ClusterIP", ClusterIP: "None", Headless: true, Ports: []ServicePort{{Protocol: "TCP", Port: 80, PodPort: 80}}},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("workload (-want +got):\n%s", d)
	}
}

func TestResolveTheOtherKinds(t *testing.T) {
	owned := func(kind, uid string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, UID: types.UID(uid), Controller: new(true)}}
		}
	}
	selector := &metav1.LabelSelector{MatchLabels: webLabels}
	sts := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "s1"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: selector, UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"},
	}}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent", UID: "a1"}, Spec: appsv1.DaemonSetSpec{
			Selector: selector, UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(1))}},
		},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1},
	}
	bare := webPod("alone", func(p *corev1.Pod) { p.OwnerReferences, p.Spec.TerminationGracePeriodSeconds = nil, nil })
	c := with(sts, ds, bare, webPod("db-0", owned("StatefulSet", "s1")), webPod("agent-x", owned("DaemonSet", "a1")))
	tests := []struct {
		ref      Ref
		selector string
		pod      string
		strategy string
		grace    time.Duration
	}{
		{Ref{"StatefulSet", "shop", "db"}, "app=web", "db-0", "OnDelete", 30 * time.Second},
		{Ref{"DaemonSet", "shop", "agent"}, "app=web", "agent-x", "RollingUpdate", 30 * time.Second},
		{Ref{"Pod", "shop", "alone"}, "", "alone", "", 30 * time.Second},
	}
	for _, tt := range tests {
		w, err := c.Resolve(t.Context(), tt.ref)
		if err != nil {
			t.Errorf("%s: %v", tt.ref, err)
			continue
		}
		f := w.Facts
		if w.Selector != tt.selector || len(f.Pods) != 1 || f.Pods[0].Name != tt.pod || f.Strategy != tt.strategy || f.GraceNs != int64(tt.grace) || f.Replicas != 1 || w.Ready != 1 {
			t.Errorf("%s: %+v", tt.ref, w)
		}
	}
}

func TestResolveNamesWhatThereIs(t *testing.T) {
	elsewhere := webDeployment(func(d *appsv1.Deployment) { d.Namespace, d.Name = "test", "wob" })
	named := func(name string) *appsv1.Deployment {
		return webDeployment(func(d *appsv1.Deployment) { d.Name = name })
	}
	c := with(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, elsewhere, named("web"), named("api"), named("zoo"), named("queue"), named("works"), named("wobble"))
	tests := []struct {
		ref  Ref
		want []string
	}{
		{Ref{"Deployment", "shop", "wob"}, []string{`no such deployment "wob" in namespace shop`, "there is: web, zoo, api, wobble, works and 1 more", "in namespace test"}},
		{Ref{"Deployment", "empty", "wob"}, []string{"namespace empty has no deployment at all"}},
		{Ref{"StatefulSet", "nowhere", "db"}, []string{"there is no such namespace", "--namespace"}},
	}
	for _, tt := range tests {
		_, err := c.Resolve(t.Context(), tt.ref)
		if fault.CodeOf(err) != fault.Usage {
			t.Errorf("%s: %v, want wrong use", tt.ref, err)
			continue
		}
		all := err.Error() + "\n" + fault.NextOf(err)
		for _, w := range tt.want {
			if !strings.Contains(all, w) {
				t.Errorf("%s: %q lacks %q", tt.ref, all, w)
			}
		}
	}
}

func TestResolveOfNothingToEnd(t *testing.T) {
	zero := func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) }
	tests := []struct {
		name   string
		object runtime.Object
		ref    Ref
		want   []string
	}{
		{"scaled to zero", webDeployment(zero), webRef, []string{"scaled to zero", "scale it up"}},
		{"left at zero by a trial", webDeployment(zero, func(d *appsv1.Deployment) { d.Labels = map[string]string{LabelTest: "t0", labelTestReplicas: "3"} }),
			webRef, []string{"trial t0 scaled it down", "drainproof cleanup"}},
		{"refused", webDeployment(func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: "ReplicaFailure", Status: "True", Reason: "FailedCreate", Message: "exceeded quota: small"}}
		}), webRef, []string{"none of its 2 Pods", "exceeded quota: small"}},
		{"matches nothing", webDeployment(), webRef, []string{"selector app=web matches nothing", "kubectl describe"}},
		{"no node", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent"}, Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: webLabels}}},
			Ref{"DaemonSet", "shop", "agent"}, []string{"no node fits it"}},
		{"a Pod that ended", webPod("alone", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), Ref{"Pod", "shop", "alone"}, []string{"run to its end"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := with(tt.object).Resolve(t.Context(), tt.ref)
			if fault.CodeOf(err) != fault.Unmeasurable || err == nil {
				t.Fatalf("error %v, want exit code 4", err)
			}
			all := err.Error() + "\n" + fault.NextOf(err)
			for _, w := range tt.want {
				if !strings.Contains(all, w) {
					t.Errorf("%q lacks %q", all, w)
				}
			}
		})
	}
}

func TestReadinessProbesOfWhatServes(t *testing.T) {
	spec := webSpec()
	if !probed(spec) {
		t.Error("the container without ports serves nothing, and needs no probe")
	}
	spec.Containers[1].Ports = []corev1.ContainerPort{{ContainerPort: 9}}
	if probed(spec) {
		t.Error("one container with ports has no probe")
	}
	spec.Containers[0].Ports, spec.Containers[1].Ports = nil, nil
	if probed(spec) {
		t.Error("where none names its ports, all must have one")
	}
}
