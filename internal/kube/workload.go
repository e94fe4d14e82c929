package kube

import (
	"context"
	"time"

	"github.com/drainproof/drainproof/internal/record"
)

// Ref names a workload.
type Ref struct {
	// Kind is Deployment, StatefulSet, DaemonSet or Pod.
	Kind, Namespace, Name string
}

func (r Ref) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// kindPod is the Kind of a workload that is one Pod.
const kindPod = "Pod"

// Workload is a workload as it stands before a test.
type Workload struct {
	Ref
	// Facts go into the record; Service and Port are left for the caller.
	Facts record.Workload
	// Selector finds its Pods; a bare Pod is found by name.
	Selector string
	// Services select at least one of its Pods, by name.
	Services []Service
	// ReadyPods names those of Facts.Pods that are ready, and Ready is how many they are. Pods that are ending already are in neither.
	ReadyPods []string
	Ready     int
}

// Service is a Service that leads to the workload.
type Service struct {
	Name, Type, ClusterIP string
	// Headless: there is no address of its own.
	Headless bool
	Ports    []ServicePort
	// ReadyEndpoints counts addresses that are ready, of any workload.
	ReadyEndpoints int
}

// ServicePort is one port of a Service.
type ServicePort struct {
	Name, Protocol, AppProtocol string
	Port, NodePort              int
	// PodPort is the number that it leads to on Pods of the workload; 0 where it could not be told.
	PodPort int
	// Container is the one that declares PodPort, or the only one of the Pods; empty where neither tells.
	Container string
}

// Claim is a mark on the workload that says who tests it, and what to put back if the tester dies.
type Claim struct {
	Trial string `json:"trial"`
	// Until is when the mark may be taken over by another.
	Until time.Time `json:"until"`
	// Replicas to put back; null where the trigger changes none.
	Replicas *int `json:"replicas,omitempty"`
}

// Condition is what a wait is for. A closed list.
type Condition string

const (
	// RolledOut: as `kubectl rollout status`: the workload's controller has updated and made available all replicas, and none of the old is left.
	RolledOut Condition = "rolled-out"
	// Gone: the Pods that the test ended are gone from the API.
	Gone Condition = "gone"
	// Ready: as many Pods are ready as are wanted, and none is terminating.
	Ready Condition = "ready"
	// Nothing is not waited for.
	Nothing Condition = "none"
)

// Conditions lists what --wait-for understands.
func Conditions() []Condition { return []Condition{RolledOut, Ready, Gone, Nothing} }

var _ Workloads = (*Cluster)(nil)

// Workloads is what a test of a user's workload needs of a cluster, beside API. *Cluster implements it.
type Workloads interface {
	// Resolve reads the workload, its Pods, budgets and Services. A name that is not there is wrong use; the error lists
	// those of its kind that are, nearest first.
	Resolve(ctx context.Context, r Ref) (*Workload, error)
	// Claim marks the workload for one trial; one that is taken is an error that names the other trial. release takes the mark away; safe to call twice.
	Claim(ctx context.Context, w *Workload, c Claim) (release func(context.Context) error, err error)
	// Await waits for a condition; gone are UIDs of the Pods that the trigger ended (for Gone; Ready and RolledOut wait for
	// them too). Its error says what is still missing, in the words of the controller where it gives some.
	Await(ctx context.Context, w *Workload, c Condition, gone []string) error
	// DeployWorkers makes n client Pods (an indexed Job) and waits until they are ready.
	DeployWorkers(ctx context.Context, s WorkerSpec, n int, timeout time.Duration) ([]PodRef, error)
	// MissingForWorkers asks which rights client Pods in a namespace of the test's own need and are lacking.
	MissingForWorkers(ctx context.Context) ([]string, error)
	// MissingForTest asks which rights a test with that trigger lacks in the workload's namespace.
	MissingForTest(ctx context.Context, w Ref, trigger string) ([]string, error)
}
