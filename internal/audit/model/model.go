// Package model is what a set of Kubernetes objects means for terminations:
// workloads with their Pods' settings, and everything joined to them: the
// Services that send them traffic, the Ingresses and Routes before those, the
// disruption budgets and autoscalers.
//
// It fills in the defaults of the API and marks that it did. It does not judge
// (package rules) and does not read text or clusters (manifest, source).
package model

import (
	"time"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// Model is everything that an audit knows.
type Model struct {
	// Workloads in the order of the input.
	Workloads []*Workload
	Services  []*Service
	Fronts    []*Front
	PDBs      []*PDB
	HPAs      []*HPA
	// Objects counts all objects seen, the ignored ones too.
	Objects int
	// Live says that the objects come from a cluster, complete in the
	// namespaces that were asked for: what is absent is truly absent.
	Live bool
	// Notes are what could not be read, one sentence each.
	Notes []string
}

// Int is a number with where it comes from.
type Int struct {
	N int64
	// Set is false where the API's default stands in.
	Set bool
}

// IntOrPercent is a maxSurge or the like.
type IntOrPercent struct {
	N       int64
	Percent bool
	Set     bool
}

// Workload is one owner of Pods, or a bare Pod.
type Workload struct {
	Object *manifest.Object
	// PodObject is the object that holds the Pod template: Object itself, but for an Argo
	// Rollout with a workloadRef the one that this names. PodPath and the paths of
	// containers, probes and hooks are paths in it.
	PodObject *manifest.Object
	// PodPath is the path of the Pod template in PodObject, "spec.template" or
	// "spec.jobTemplate.spec.template"; "" for a bare Pod, whose spec is "spec".
	PodPath string
	// Replicas is the wanted count: 1 by default; for a DaemonSet N is 0, because the
	// cluster's nodes decide.
	Replicas Int
	// Strategy is RollingUpdate, Recreate, OnDelete, Canary, BlueGreen (Argo
	// Rollouts); "" for kinds without one.
	Strategy       string
	StrategySet    bool
	MaxUnavailable IntOrPercent
	MaxSurge       IntOrPercent
	MinReady       Int // seconds
	ScaleDownDelay Int // seconds; Argo Rollouts
	// Labels and Annotations are the Pod template's; OwnAnnotations the object's.
	Labels         map[string]string
	Annotations    map[string]string
	OwnAnnotations map[string]string
	Pod            Pod

	// Joined by Build.
	Services []*Service
	Fronts   []*Front
	PDBs     []*PDB
	HPAs     []*HPA
}

// Pod is a Pod template's spec, as far as it matters here.
type Pod struct {
	Grace         Int // seconds; default 30
	RestartPolicy string
	HostNetwork   bool
	OSName        string
	// ShareProcessNamespace: then PID 1 is the sandbox's pause process, not the application.
	ShareProcessNamespace bool
	// Containers are the ordinary ones; Sidecars the init containers that
	// restart always (native sidecars, KEP-753), in the order of the spec.
	Containers []*Container
	Sidecars   []*Container
	// ReadinessGates by condition type.
	ReadinessGates []string
}

// Container is one container.
type Container struct {
	Name, Image   string
	Command, Args []string
	// Env holds the literal values; a value from elsewhere is "" and listed in EnvFrom
	// by its variable's name. A whole source of variables is listed as configMap/NAME or secret/NAME.
	Env     map[string]string
	EnvFrom []string
	Ports   []Port
	// Probes; nil where there is none.
	Readiness, Liveness, Startup *Probe
	PreStop                      *Hook
	PostStart                    *Hook
	// StopSignal is lifecycle.stopSignal (KEP-4960), e.g. SIGQUIT; "" without.
	StopSignal string
	// Path is the container's path in the object, e.g. spec.template.spec.containers[0].
	Path    string
	Sidecar bool
}

// Port is one containerPort.
type Port struct {
	Name   string
	Number int64
	// HostPort is 0 where it is not written, although a Pod with hostNetwork has all
	// its ports on the host.
	HostPort int64
	Protocol string // TCP by default
}

// Probe is a readiness, liveness or startup probe with the API's defaults filled in.
type Probe struct {
	// How is http, tcp, grpc, exec, or "" where no handler is written.
	How  string
	Port string // number or name
	Path string // http
	Exec []string

	InitialDelay, Period, Timeout, Failure, Success Int // seconds, and thresholds
	// Grace is the probe's own terminationGracePeriodSeconds.
	Grace Int
	At    string // its path in the object
}

// Hook is a preStop or postStart hook.
type Hook struct {
	// How is sleep, exec, http, tcp, or "" where no handler is written.
	How  string
	Exec []string
	Path string // http
	Port string
	// Took is how long the hook holds the container, where its text says so
	// (sleep, or a command that only sleeps); Known is false elsewhere. A command that
	// does more than sleep has AtLeast: the sleeps that surely run in it.
	// Known implies that AtLeast is Took; nothing is longer than Endless.
	Took    time.Duration
	Known   bool
	AtLeast time.Duration
	// SleepsFirst is how much of AtLeast passes before the hook runs anything that
	// may stop the server: a hook that stops it and sleeps then holds nothing open.
	SleepsFirst time.Duration
	// Broken says why the hook fails at once as it is written, so that it holds the
	// container for no time; "" where nothing is seen to be wrong.
	Broken string
	// Shell says that the command needs a shell, Sleeper that it needs a sleep program.
	Shell, Sleeper bool
	At             string
}

// Service is one Service.
type Service struct {
	Object *manifest.Object
	// Type is ClusterIP, NodePort, LoadBalancer or ExternalName; Headless for clusterIP None.
	Type     string
	Headless bool
	Selector map[string]string
	Ports    []ServicePort
	// ExternalTrafficPolicy and InternalTrafficPolicy: Cluster by default.
	ExternalTrafficPolicy, InternalTrafficPolicy string
	PublishNotReady                              bool
	SessionAffinity                              string
	LoadBalancerClass                            string
	Annotations                                  map[string]string
	// Endpoints counts the endpoints that EndpointSlices of the input list for it. They are
	// how a Service without a selector, or of Pods that no known kind owns, gets its traffic through.
	Endpoints int
	// OtherPods counts Pods that its selector matches and that belong to a kind of owner which
	// is no Workload here, such as a custom resource. It is counted only where Workloads is empty.
	OtherPods int
	// Workloads that its selector matches, and the fronts that send to it.
	Workloads []*Workload
	Fronts    []*Front
}

// ServicePort is one port of a Service.
type ServicePort struct {
	Name, Protocol, AppProtocol string
	Port                        int64
	// Target is targetPort: number or name; Port's number where it is not written.
	Target   string
	NodePort int64
	// At is its path in the Service, e.g. spec.ports[0].
	At string
}

// Front is what sends traffic to a Service from outside: an Ingress or a Gateway API route.
type Front struct {
	Object *manifest.Object
	// Class is the ingressClassName, the class annotation, or the first parent Gateway.
	Class       string
	Annotations map[string]string
	Services    []*Service
	// Missing are names of Services that it names and the input does not hold.
	Missing []Backend
	// NoPort are backends whose Service is there but has no port as they name it.
	NoPort []NoPort
}

// NoPort is a reference to a port that a Service does not have.
type NoPort struct {
	Service *Service
	// Port is a number or a name.
	Port, At string
}

// Backend is a reference to a Service.
type Backend struct {
	Namespace, Name, At string
}

// PDB is one PodDisruptionBudget.
type PDB struct {
	Object         *manifest.Object
	Selector       Selector
	MinAvailable   IntOrPercent
	MaxUnavailable IntOrPercent
	// UnhealthyPodEvictionPolicy: IfHealthyBudget by default.
	UnhealthyPodEvictionPolicy string
	// OtherPods is as for a Service.
	OtherPods int
	Workloads []*Workload
}

// HPA is one HorizontalPodAutoscaler, or a KEDA ScaledObject, from which KEDA makes one.
type HPA struct {
	Object      *manifest.Object
	TargetKind  string
	TargetName  string
	MinReplicas Int // default 1; KEDA's 0
	MaxReplicas Int // no default, N is 0; KEDA's 100
	// ScaleDownStabilization in seconds; default 300.
	ScaleDownStabilization Int
	// Cooldown is KEDA's cooldownPeriod, in seconds; default 300. It goes before the step to
	// zero replicas and no other. 0 for a HorizontalPodAutoscaler.
	Cooldown Int
	// Workload is nil where the input does not hold the target.
	Workload *Workload
}

// Selector is a label selector with expressions.
type Selector struct {
	Labels      map[string]string
	Expressions []Requirement
	// Set is false where no selector is written at all: it matches nothing. An empty one
	// that is written matches everything (policy/v1).
	Set bool
}

// Requirement is one expression of a selector.
type Requirement struct {
	Key, Operator string // In, NotIn, Exists, DoesNotExist
	Values        []string
}
