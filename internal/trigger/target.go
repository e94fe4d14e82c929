package trigger

import (
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
)

// kindPod is the WorkloadKind of a Pod that stands for itself.
const kindPod = "Pod"

// ref is a workload as requests and sentences name it: deployment, deployments, shop, web.
type ref struct{ kind, resource, namespace, name string }

// workload is what Target names, be it a workload under test or the probe's Deployment.
func (t Target) workload() ref {
	kind, name := t.WorkloadKind, t.Workload
	if t.Deployment != "" {
		kind, name = "Deployment", t.Deployment
	}
	kind = strings.ToLower(kind)
	return ref{kind: kind, resource: kind + "s", namespace: t.Namespace, name: name}
}

// String is the workload as kubectl takes it, object as a sentence does.
func (r ref) String() string { return r.kind + "/" + r.name }
func (r ref) object() string { return r.kind + " " + r.namespace + "/" + r.name }

// subject names what is tested in a record: the workload, or the Pod where that is all.
func (t Target) subject() string {
	if t.Workload == "" {
		return "pod/" + t.Pod
	}
	return t.workload().String()
}

// victims are the Pods that are ended one by one.
func (t Target) victims() ([]PodID, error) {
	have := t.Pods
	if len(have) == 0 {
		have = []PodID{{t.Pod, t.PodUID}}
	}
	n := max(1, t.Count)
	if n > len(have) {
		return nil, fault.Usagef("ask for no more than there are", "%d Pods are to be ended, but %s has %d", n, t.subject(), len(have))
	}
	return have[:n], nil
}
