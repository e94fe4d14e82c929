// Package finding is the document that an audit leaves: findings, the
// workloads that were judged with their time budgets, and what was suppressed.
// Its JSON Schema is schema/audit-v1.json.
//
// It must not know how a finding is made nor how it is printed.
package finding

import "time"

// Schema is the value of Report.Schema.
const Schema = "drainproof.dev/audit/v1"

// Severity says how bad a finding is.
type Severity string

// The severities, worst first. An error loses traffic whenever the workload is
// terminated (or never starts to serve), a warning loses it under a condition that is
// common, info depends on the application and names the question that settles it.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Rank orders severities: 3 for an error down to 1 for info, 0 for anything else.
func (s Severity) Rank() int {
	switch s {
	case Error:
		return 3
	case Warning:
		return 2
	case Info:
		return 1
	}
	return 0
}

// Topic is what a rule is about: a closed set.
type Topic string

// The topics.
const (
	Grace           Topic = "grace"
	Readiness       Topic = "readiness"
	Liveness        Topic = "liveness"
	Listener        Topic = "listener"
	Signal          Topic = "signal"
	Rollout         Topic = "rollout"
	PDB             Topic = "pdb"
	LoadBalancer    Topic = "loadbalancer"
	Ingress         Topic = "ingress"
	PublishNotReady Topic = "publish-not-ready"
	UDP             Topic = "udp"
	Replicas        Topic = "replicas"
	KeepAlive       Topic = "keepalive"
	DNS             Topic = "dns"
	Registry        Topic = "registry"
	GRPC            Topic = "grpc"
	Autoscaling     Topic = "autoscaling"
	HostPort        Topic = "hostport"
	Sidecar         Topic = "sidecar"
	Selector        Topic = "selector"
)

// Topics lists the topics in the order of the documentation.
var Topics = []Topic{
	Grace, Readiness, Liveness, Listener, Signal, Rollout, Replicas, PDB, LoadBalancer, Ingress,
	PublishNotReady, UDP, KeepAlive, DNS, Registry, GRPC, Autoscaling, HostPort, Sidecar, Selector,
}

// Object names a Kubernetes object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Fact is one number or word that a finding was computed from.
type Fact struct {
	// Name says what it is, in a few words, e.g. "grace period".
	Name string `json:"name"`
	// Value is it with its unit, as a person reads it, e.g. "30 s".
	Value string `json:"value"`
	// From is where it comes from: a field path, a default of Kubernetes, a
	// measured record, a field report.
	From string `json:"from"`
}

// Finding is one thing that loses traffic, or may.
type Finding struct {
	Rule     string   `json:"rule"`
	Topic    Topic    `json:"topic"`
	Severity Severity `json:"severity"`
	Object   Object   `json:"object"`
	// Workload is the workload that loses the traffic, where it is not Object itself.
	Workload *Object `json:"workload,omitempty"`
	// Path is the field, e.g. spec.template.spec.terminationGracePeriodSeconds. It
	// may be absent from the manifest: then File and Line give its nearest parent.
	Path string `json:"path"`
	File string `json:"file,omitempty"`
	// Line starts at 1; 0 where it is not known (a live object).
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	Facts   []Fact `json:"facts"`
	Remedy  string `json:"remedy"`
	// Ask is the question, or the command, that would settle an info finding.
	Ask string `json:"ask,omitempty"`
}

// Suppressed is a finding that someone chose to live with.
type Suppressed struct {
	Finding
	// By is annotation, config or baseline.
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// Budget is the arithmetic of one workload's termination. A null duration was
// not known; it is not zero.
type Budget struct {
	GraceNs int64 `json:"grace_ns"`
	// GraceFrom says where the grace period comes from: a field path or "default".
	GraceFrom string `json:"grace_from"`
	// HookNs is how long the longest preStop hook of a serving container takes.
	HookNs *int64 `json:"hook_ns"`
	// PropagationNs is the floor of the slowest path to the workload: how long
	// new traffic goes on arriving after the delete.
	PropagationNs   *int64 `json:"propagation_ns"`
	PropagationPath string `json:"propagation_path,omitempty"`
	PropagationFrom string `json:"propagation_from,omitempty"`
	// DrainNs is how long the application takes from SIGTERM to its exit.
	DrainNs   *int64 `json:"drain_ns"`
	DrainFrom string `json:"drain_from,omitempty"`
	// LeftNs is grace less hook and drain; null where one of them is not known.
	LeftNs *int64 `json:"left_ns"`
}

// Workload is one workload that was judged.
type Workload struct {
	Object Object `json:"object"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	// Paths are the ways that traffic takes to it: clusterip, nodeport,
	// loadbalancer, ingress, gateway, headless, hostport, registry. Empty: nothing known reaches it.
	Paths  []string `json:"paths"`
	Budget Budget   `json:"budget"`
	// Verdict is one line that a person reads first.
	Verdict string `json:"verdict"`
}

// Report is the whole document.
type Report struct {
	Schema string `json:"schema"`
	Tool   struct {
		Version string `json:"version"`
	} `json:"tool"`
	// At is when the audit was made; zero in tests and golden files.
	At time.Time `json:"at,omitzero"`
	// Kubernetes is the server version that the audit assumed, e.g. v1.37.2.
	Kubernetes string       `json:"kubernetes"`
	Objects    int          `json:"objects"`
	Workloads  []Workload   `json:"workloads"`
	Findings   []Finding    `json:"findings"`
	Suppressed []Suppressed `json:"suppressed"`
	// Notes are what was skipped or assumed, and why.
	Notes []string `json:"notes"`
}

// Worst gives the highest severity among the findings, or "".
func (r *Report) Worst() Severity {
	var worst Severity
	for _, f := range r.Findings {
		if f.Severity.Rank() > worst.Rank() {
			worst = f.Severity
		}
	}
	return worst
}
