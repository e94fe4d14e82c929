package kube

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drainproof/drainproof/internal/fault"
)

// kindName is a kind of workload by all the names that kubectl knows for it.
type kindName struct {
	// kind is as the API writes it, such as Deployment.
	kind string
	// plural is the resource, group its API group ("" for the core), short kubectl's abbreviation.
	plural, group, short string
}

var (
	deploymentKind  = kindName{"Deployment", "deployments", "apps", "deploy"}
	statefulSetKind = kindName{"StatefulSet", "statefulsets", "apps", "sts"}
	daemonSetKind   = kindName{"DaemonSet", "daemonsets", "apps", "ds"}
	podKind         = kindName{kindPod, "pods", "", "po"}
)

// singular is the resource's other name, such as deployment.
func (k kindName) singular() string { return strings.ToLower(k.kind) }

// called reports whether s, in lower case, is one of the names: deployment, deployments, deploy, each also
// with its group (deployments.apps) or its version and group (deployments.v1.apps).
func (k kindName) called(s string) bool {
	name, of, _ := strings.Cut(s, ".")
	return slices.Contains([]string{k.singular(), k.plural, k.short}, name) &&
		slices.Contains([]string{"", k.group, strings.TrimSuffix("v1."+k.group, ".")}, of)
}

// ParseRef reads TYPE/NAME as kubectl does: full, plural, short and dotted names (deploy/web,
// statefulsets.apps/db, ds/agent, po/x). Its errors are wrong use and say what is understood.
func ParseRef(s, namespace string) (Ref, error) {
	next := "name it as kubectl does: deployment/web, sts/db, daemonset/agent or pod/one"
	kind, name, _ := strings.Cut(s, "/")
	if kind == "" || name == "" {
		return Ref{}, fault.Usagef(next, "%q is not TYPE/NAME", s)
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return Ref{}, fault.Usagef(next, "%q cannot be the name of an object: %s", name, wrong[0])
	}
	for _, k := range []kindName{deploymentKind, statefulSetKind, daemonSetKind, podKind} {
		if k.called(strings.ToLower(kind)) {
			return Ref{Kind: k.kind, Namespace: namespace, Name: name}, nil
		}
	}
	switch strings.ToLower(kind) {
	case "service", "services", "svc", "ingress", "ingresses", "ing":
		next = "name the workload behind it: deployment/NAME, statefulset/NAME, daemonset/NAME or pod/NAME"
	case "replicaset", "replicasets", "rs":
		next = "name the Deployment that owns it: deployment/NAME"
	}
	return Ref{}, fault.Usagef(next, "a %s cannot be tested: only a Deployment, a StatefulSet, a DaemonSet or a Pod can", kind)
}
