// Package kube is the cluster: it connects, deploys the probe and the worker,
// watches, and turns what it sees into facts. Beside trigger it is the only home of client-go.
//
// It must not know how traffic is sent, how a trial is ordered, or what an
// observation means. Everything that it creates carries LabelManaged, so that
// Cleanup finds it again from another process.
package kube

import (
	"context"
	"io"
	"time"

	"github.com/drainproof/drainproof/internal/record"
)

const (
	// LabelManaged marks every object that the tool created; its value is the trial's id.
	LabelManaged = "drainproof.dev/trial"
	// LabelApp tells the probe and the worker apart.
	LabelApp = "app.kubernetes.io/name"

	// NameProbe and NameWorker name the objects of one trial in its namespace.
	NameProbe  = "probe"
	NameWorker = "worker"
)

// Options say which cluster. Kubeconfig holds a file's content and wins over
// KubeconfigPath; with neither, client-go's usual rules ($KUBECONFIG, ~/.kube/config) hold.
type Options struct {
	Kubeconfig     []byte
	KubeconfigPath string
	Context        string
	// UserAgent is sent with every request.
	UserAgent string
	// Confirm, where set, is asked before the first request is sent; its error ends Connect.
	Confirm func(context, server string) error
}

// ProbeSpec is the workload of one trial: one Deployment and one Service. The fields after
// PathReady are for trials of requests; with none of them set there is one replica, replaced as soon as it is deleted.
type ProbeSpec struct {
	Namespace, Trial, Image string
	// Args follow the image's entrypoint: probe --on-term ... (built by the trial).
	Args []string
	// Grace is terminationGracePeriodSeconds; whole seconds, at least 0.
	Grace time.Duration
	// PreStopSleep is a native preStop sleep; 0 leaves the hook out.
	PreStopSleep time.Duration
	// ReadinessEvery is the readiness probe's period (failureThreshold 1), whole seconds, at least 1.
	ReadinessEvery time.Duration
	// NodePort asks for a Service of type NodePort in place of ClusterIP.
	NodePort bool
	// PortTCP, PortUDP and PortHTTP are container ports, and the Service's ports too; PathReady is asked for readiness.
	PortTCP, PortUDP, PortHTTP int
	PathReady                  string

	// Replicas of the Deployment; 0 means 1.
	Replicas int
	// Strategy is RollingUpdate or Recreate; MaxUnavailable and MaxSurge, of a rolling update, are a
	// number or a share such as 25%. What is empty is left to Kubernetes.
	Strategy, MaxUnavailable, MaxSurge string
	// BudgetMinAvailable makes a PodDisruptionBudget; nil makes none.
	BudgetMinAvailable *int
	// StartDelay is how long Args tell the probe to wait before it listens: the wait for readiness may be so much longer.
	StartDelay time.Duration
	// NoReadiness leaves the readiness probe out: ready then says only that the container runs.
	NoReadiness bool
	// DrainHook makes a preStop exec hook that asks the probe to drain and then sleeps so long; nil makes none. It
	// excludes PreStopSleep: Kubernetes takes one hook.
	DrainHook *time.Duration
	// PortHealth is where the readiness probe asks in place of PortHTTP; 0 for none.
	PortHealth int
	// Spread prefers different nodes for several replicas, Together prefers one node for all of them: it wins.
	Spread, Together bool
}

// Probe is a deployed, ready probe.
type Probe struct {
	Namespace, Deployment, Service string
	// Pods are all replicas in order of name; Pod is the first.
	Pods      []PodRef
	Pod       PodRef
	ClusterIP string
	// NodePortTCP, -UDP and -HTTP are 0 without a NodePort Service.
	NodePortTCP, NodePortUDP, NodePortHTTP int
}

// PodRef is one Pod and where it runs.
type PodRef struct {
	Name, UID, IP, Node, NodeIP, ImageID string
}

// WorkerSpec is a client in a Pod, restricted, preferably on another node than the probe.
type WorkerSpec struct {
	Namespace, Trial, Image string
	// Args keep the Pod idle; the session itself is an exec of Command.
	Args []string
	// AwayFrom is the node to avoid if there is another.
	AwayFrom string
}

// Fact is one observation of the API, not yet tied to a trial's zero.
type Fact struct {
	Kind record.EventKind
	// MonoNs is the time of receipt in this process (clock.MonoNs): an upper bound.
	MonoNs  int64
	Subject string
	PodUID  string
	Node    string
	Detail  map[string]any
}

// Event is the fact as a record keeps it, but for its time.
func (f Fact) Event() record.Event {
	return record.Event{
		Source: record.FromKube, Kind: f.Kind, Subject: f.Subject, PodUID: f.PodUID, Node: f.Node,
		Bound: record.Upper, UncertaintyNs: new(int64), Detail: f.Detail,
	}
}

// WatchHealth tells of a watch's interruptions; a trial writes them into its record.
type WatchHealth struct {
	Resource string
	// FromMonoNs is when it was noticed that the watch was down; ToMonoNs when it ran again, 0
	// while it does not. Each gap is told twice, at its begin and with the same FromMonoNs at its end.
	FromMonoNs, ToMonoNs int64
	Why                  string
}

// WatchSpec is what to watch: Pods and EndpointSlices of a workload, the
// kubelet's Events on its Pods, and its scale.
type WatchSpec struct {
	Namespace string
	// Service, Deployment and StatefulSet are watched where they are named.
	Service, Deployment, StatefulSet string
	// PodSelector is a label selector; PodName chooses one Pod, in place of it.
	PodSelector, PodName string
	// OnFact and OnHealth are called from one goroutine at a time, in order of receipt.
	OnFact   func(Fact)
	OnHealth func(WatchHealth)
}

// API is what a trial needs of a cluster. *Cluster implements it; it is an
// interface so that a trial's order and undo can be tested where a real API cannot fail on demand.
type API interface {
	// Environment fills what the cluster knows of itself (kubernetes, proxy mode, nodes, cluster_uid).
	Environment(ctx context.Context) (record.Environment, error)
	// Missing asks the API server which of the rights a trial needs are missing, as "verb
	// resource". A namespace that does not exist yet, or "", means that the trial makes its own.
	Missing(ctx context.Context, namespace string, trigger string) ([]string, error)
	// EnsureNamespace creates a namespace of the trial's own, with Pod Security
	// restricted enforced, and returns its UID. With create false it only looks up an existing one.
	EnsureNamespace(ctx context.Context, name, trial string, create bool) (uid string, err error)
	// DeployProbe creates the objects and waits until every replica is ready, its
	// endpoint is in the Service's slices, there is no other Pod, and the budget counts them all. Errors say what
	// the kubelet, the quota or the admission said (image cannot be pulled, forbidden by ...), within timeout.
	DeployProbe(ctx context.Context, s ProbeSpec, timeout time.Duration) (*Probe, error)
	// DeployWorker creates the client's Pod and waits until it is ready.
	DeployWorker(ctx context.Context, s WorkerSpec, timeout time.Duration) (PodRef, error)
	// Watch starts watching and returns when the first lists are in, with their objects
	// already reported as facts. stop ends it and waits for its goroutines.
	Watch(ctx context.Context, s WatchSpec) (stop func(), err error)
	// FollowLog calls onLine for each complete line of the container's log, from its start, until
	// the log ends (nil), ctx is cancelled (its error) or the stream breaks (another error).
	FollowLog(ctx context.Context, namespace, pod string, onLine func(line []byte)) error
	// Exec runs a command in the Pod's only container with streams attached; it returns when the command ends.
	Exec(ctx context.Context, namespace, pod string, command []string, stdin io.Reader, stdout, stderr io.Writer) error
	// Undo deletes everything of the trial (its namespace, if it is the trial's own,
	// else its objects by label) and waits until it is gone or ctx ends.
	Undo(ctx context.Context, namespace, trial string) error
}

// Leftover is what an earlier, interrupted trial left.
type Leftover struct {
	Trial, Kind, Namespace, Name string
	Created                      time.Time
}
