package kube

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// containerUser is the image's user, said again for images that do not say.
const containerUser = 65532

// workerDeadline bounds the life of a worker that nobody puts away.
const workerDeadline = time.Hour

// labelsOf marks an object as one trial's, and tells the probe and the worker apart.
func labelsOf(trial, app string) map[string]string {
	return map[string]string{LabelManaged: trial, LabelApp: app}
}

// probeDeployment is the probe's Deployment: its ReplicaSet replaces a Pod as soon as it is deleted.
func probeDeployment(s ProbeSpec) *appsv1.Deployment {
	labels := labelsOf(s.Trial, NameProbe)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: NameProbe, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(s.replicas())),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: probePod(s)},
			Strategy: probeStrategy(s),
		},
	}
}

func (s ProbeSpec) replicas() int { return max(1, s.Replicas) }

func probePod(s ProbeSpec) corev1.PodSpec {
	c := container(NameProbe, s.Image, s.Args)
	c.Ports = []corev1.ContainerPort{
		{Name: "tcp", ContainerPort: int32(s.PortTCP), Protocol: corev1.ProtocolTCP},
		{Name: "udp", ContainerPort: int32(s.PortUDP), Protocol: corev1.ProtocolUDP},
		{Name: "http", ContainerPort: int32(s.PortHTTP), Protocol: corev1.ProtocolTCP},
	}
	asked := "http"
	if s.PortHealth > 0 {
		asked = "health"
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: asked, ContainerPort: int32(s.PortHealth), Protocol: corev1.ProtocolTCP})
	}
	if !s.NoReadiness {
		c.ReadinessProbe = &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: s.PathReady, Port: intstr.FromString(asked)}},
			PeriodSeconds:    max(1, int32(seconds(s.ReadinessEvery))),
			FailureThreshold: 1,
			TimeoutSeconds:   1,
		}
	}
	if hook := preStop(s); hook != nil {
		c.Lifecycle = &corev1.Lifecycle{PreStop: hook}
	}
	pod := podSpec(c)
	pod.TerminationGracePeriodSeconds = new(seconds(s.Grace))
	placeReplicas(&pod, s)
	return pod
}

// preStop is the hook, nil without one.
func preStop(s ProbeSpec) *corev1.LifecycleHandler {
	switch {
	case s.DrainHook != nil:
		drain := fmt.Sprintf("http://127.0.0.1:%d/drain", s.PortHTTP)
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
			Command: []string{"/drainproof", "probe-hook", "--url", drain, "--sleep", s.DrainHook.String()},
		}}
	case s.PreStopSleep > 0:
		return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds(s.PreStopSleep)}}
	default:
		return nil
	}
}

// placeReplicas says which nodes several replicas prefer. Neither way is a condition: a cluster of one node serves too.
func placeReplicas(pod *corev1.PodSpec, s ProbeSpec) {
	own := &metav1.LabelSelector{MatchLabels: labelsOf(s.Trial, NameProbe)}
	switch {
	case s.replicas() == 1:
	case s.Together:
		pod.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: own, TopologyKey: corev1.LabelHostname},
			}},
		}}
	case s.Spread:
		pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: own,
		}}
	}
}

func probeStrategy(s ProbeSpec) appsv1.DeploymentStrategy {
	d := appsv1.DeploymentStrategy{Type: appsv1.DeploymentStrategyType(s.Strategy)}
	if s.Strategy == string(appsv1.RecreateDeploymentStrategyType) || s.MaxUnavailable == "" && s.MaxSurge == "" {
		return d
	}
	d.Type, d.RollingUpdate = appsv1.RollingUpdateDeploymentStrategyType, &appsv1.RollingUpdateDeployment{}
	if s.MaxUnavailable != "" {
		d.RollingUpdate.MaxUnavailable = new(intstr.Parse(s.MaxUnavailable))
	}
	if s.MaxSurge != "" {
		d.RollingUpdate.MaxSurge = new(intstr.Parse(s.MaxSurge))
	}
	return d
}

// probeBudget is the PodDisruptionBudget; nil where none is asked for.
func probeBudget(s ProbeSpec) *policyv1.PodDisruptionBudget {
	if s.BudgetMinAvailable == nil {
		return nil
	}
	labels := labelsOf(s.Trial, NameProbe)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: NameProbe, Labels: labels},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(int32(*s.BudgetMinAvailable))),
			Selector:     &metav1.LabelSelector{MatchLabels: labels},
		},
	}
}

func probeService(s ProbeSpec) *corev1.Service {
	labels := labelsOf(s.Trial, NameProbe)
	kind := corev1.ServiceTypeClusterIP
	if s.NodePort {
		kind = corev1.ServiceTypeNodePort
	}
	port := func(name string, number int, p corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: int32(number), TargetPort: intstr.FromString(name), Protocol: p}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: NameProbe, Labels: labels},
		Spec: corev1.ServiceSpec{
			Type:     kind,
			Selector: labels,
			Ports: []corev1.ServicePort{
				port("tcp", s.PortTCP, corev1.ProtocolTCP), port("udp", s.PortUDP, corev1.ProtocolUDP), port("http", s.PortHTTP, corev1.ProtocolTCP),
			},
		},
	}
}

// workerPod is the client's Pod: on another node than the probe where there is one.
func workerPod(s WorkerSpec) *corev1.Pod {
	pod := podSpec(container(NameWorker, s.Image, s.Args))
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.ActiveDeadlineSeconds = new(seconds(workerDeadline))
	pod.TerminationGracePeriodSeconds = new(int64(1))
	pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 50,
			PodAffinityTerm: corev1.PodAffinityTerm{
				LabelSelector: &metav1.LabelSelector{MatchLabels: labelsOf(s.Trial, NameProbe)},
				TopologyKey:   corev1.LabelHostname,
			},
		}},
	}}
	if s.AwayFrom != "" {
		pod.Affinity.NodeAffinity = &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100,
				Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{s.AwayFrom}},
				}},
			}},
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: NameWorker, Labels: labelsOf(s.Trial, NameWorker)},
		Spec:       pod,
	}
}

// podSpec is what both Pods have in common: all that Pod Security restricted
// asks for, no API token, and no need of the cluster's DNS.
func podSpec(c corev1.Container) corev1.PodSpec {
	return corev1.PodSpec{
		Containers:                   []corev1.Container{c},
		NodeSelector:                 map[string]string{corev1.LabelOSStable: "linux"},
		DNSPolicy:                    corev1.DNSDefault,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      new(int64(containerUser)),
			RunAsGroup:     new(int64(containerUser)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}

func container(name, image string, args []string) corev1.Container {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	return corev1.Container{
		Name: name, Image: image, Args: args,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: field("metadata.name")},
			{Name: "POD_UID", ValueFrom: field("metadata.uid")},
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
