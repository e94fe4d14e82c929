// Package budget is the arithmetic of a termination: how long new traffic goes
// on arriving at a Pod after its delete, what its preStop hook and its
// application take, and whether that fits into the grace period.
//
// It knows workloads and numbers with their sources. It makes no findings.
package budget

import (
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// KubeletFloor is what the kubelet leaves between the stop signal and SIGKILL
// even when a hook has used the grace period up (killContainer in pkg/kubelet/kuberuntime).
const KubeletFloor = 2 * time.Second

// The paths. They are the values of finding.Workload.Paths.
const (
	ClusterIP    = "clusterip"
	NodePort     = "nodeport"
	LoadBalancer = "loadbalancer"
	Ingress      = "ingress"
	Gateway      = "gateway"
	Headless     = "headless"
	HostPort     = "hostport"
	Registry     = "registry"
)

// Floor is how long new traffic goes on arriving over one path after a Pod's delete.
type Floor struct {
	Path string
	// Variant narrows the path: aws-nlb, aws-alb-ip, gcp-neg, azure, nginx, traefik ...; "" for the general case.
	Variant string
	// Least is the time below which loss has been seen in the field, or the
	// longest that was measured on the user's own cluster.
	Least time.Duration
	// Measured says that it comes from records (--measured), not from reports of others.
	Measured bool
	// Source says where the number comes from, in a form that a person can look up.
	Source string
}

// Floors gives each path's floor, with measured values in place of the defaults.
type Floors struct {
	// Measured maps a path to what records show; see package audit.
	Measured map[string]Floor
}

// Drain is how long an application needs from SIGTERM to its exit, where its manifest says so.
type Drain struct {
	// Took is the longest that it gives itself: a server whose clients are done is gone sooner.
	Took time.Duration
	// From is the field that says so, e.g. the annotation or an argument of gunicorn.
	From  string
	Known bool
}

// Sum is one workload's budget, worked out.
type Sum struct {
	Grace time.Duration
	// GraceSet is false where Kubernetes' default of 30 s stands in; then GraceFrom is
	// "default", else the field's path.
	GraceSet  bool
	GraceFrom string
	// Hook is that of the serving container with the shortest known hook time: the
	// first to close its sockets. HookKnown is false where a hook's length cannot be read;
	// then Hook is how long it surely keeps the server from being stopped.
	Hook      time.Duration
	HookKnown bool
	// LongHook is the longest hook of a serving container, which is what the grace period
	// must hold. It is Hook where all hooks are alike, and the least that it takes where
	// LongHookKnown is false.
	LongHook      time.Duration
	LongHookKnown bool
	// Slowest is the path with the greatest floor; nil where nothing reaches the workload
	// of which a floor is known.
	Slowest *Floor
	All     []Floor
	Drain   Drain
}

// Fits gives what is left of the grace period after the longest hook and the drain, and whether
// that is known. Where it is less than nothing the least that a hook takes is enough to know it;
// left is then the most that it can be.
func (s Sum) Fits() (left time.Duration, known bool) {
	left = s.Grace - s.LongHook - s.Drain.Took
	return left, s.Drain.Known && (s.LongHookKnown || left < 0)
}

// Of works out a workload's budget.
func Of(w *model.Workload, floors Floors) Sum { return of(w, floors) }

// Document gives the sum as the report's document holds it.
func (s Sum) Document() finding.Budget { return s.document() }
