package rules

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var replicaRules = []Rule{
	{
		ID: "DP451", Topic: finding.Replicas, Severity: finding.Warning,
		Title: "A single replica: every drain takes the only Pod",
		Physics: "An eviction deletes a Pod first; its controller makes the replacement afterwards, and that needs to be scheduled, pulled, started and made ready. With one replica the Service has no ready endpoint in between. " +
			"kube-proxy then falls back on terminating Pods whose readiness still passes (KEP-1669), so a preStop hook can bridge the gap, but an application that fails readiness on SIGTERM denies even that. " +
			"An ingress controller or load balancer need not fall back at all.",
		Sources: []string{"kubernetes/kubernetes#48307", "kubernetes/kubernetes#66811", "KEP-1669 (ProxyTerminatingEndpoints)", "kubernetes/kubernetes pkg/proxy/topology.go"},
		Remedy:  "Run two replicas on different nodes. Where only one may run, keep readiness passing after SIGTERM and hold the Pod with a preStop hook for longer than a new one takes to be ready.", Workload: checkSingle,
	},
	{
		ID: "DP452", Topic: finding.Replicas, Severity: finding.Warning,
		Title:   "A bare Pod serves: nothing replaces it",
		Physics: "A Pod without a controller is not made again. A drain refuses to touch it or, with --force, deletes it for good; so does a node that dies or is replaced. The Service behind it then has no endpoint until someone acts.",
		Sources: []string{"kubernetes.io: Safely Drain a Node", "Popeye code 208 (unmanaged Pod)"},
		Remedy:  "Let a Deployment or StatefulSet own the Pod.", Workload: checkBarePod,
	},
}

func checkSingle(c *Context, w *model.Workload) {
	if !carries(w) || w.Object.Kind == "Pod" {
		return
	}
	pods, known := leastPods(w)
	if !known || pods.n > 1 {
		return
	}
	together := w.Object.Kind != "StatefulSet"
	h := handOver(c, w, together)
	f := finding.Finding{
		Message: "a drain or eviction takes the only Pod: " + h.words(),
		Facts:   append([]finding.Fact{pods.fact}, h.facts...),
		Remedy:  "run 2 replicas on different nodes, if the application may run twice; else hold the old Pod with a preStop sleep for longer than a new one takes to be ready",
	}
	if !together {
		f.Message = "a drain or eviction takes the only Pod, and the new one is made when it is gone: " + h.words()
		f.Remedy = "run 2 replicas where the application can; else shorten the gap: a prompt exit on SIGTERM and a readiness probe without initialDelaySeconds"
	}
	if _, onTerm := failsOnTerm(w); onTerm {
		f.Message += ". Readiness that fails on SIGTERM denies the fallback on the terminating Pod from then on"
	}
	if pods.scaler != nil && pods.n == 0 {
		name := pods.scaler.Object.Kind + " " + pods.scaler.Object.Name
		f.Message = fmt.Sprintf("%s may leave the workload with one Pod, which a drain takes, and with none: %s", name, h.words())
		f.Remedy = fmt.Sprintf("set the minimum of %s to 2, if no request may wait for a start", name)
	} else if pods.scaler != nil {
		name := pods.scaler.Object.Kind + " " + pods.scaler.Object.Name
		f.Message += fmt.Sprintf(" (while %s holds it at its minimum of %d)", name, pods.n)
		f.Remedy = fmt.Sprintf("set the minimum of %s to 2", name)
	}
	switch {
	case pods.n == 0:
		f.Severity = finding.Info
		f.Ask = "does something hold requests while the workload is at zero, such as an interceptor or a queue?"
	case onlyHeadless(w):
		f.Severity = finding.Info
		f.Ask = "can the clients of the headless name do without it for that long? " + askTell(w, "drain")
	case h.covered():
		f.Severity = finding.Info
		f.Ask = "is a new Pod ready within the hook, and does readiness pass until then? " + askTell(w, "drain")
	}
	c.Report(pods.at, f)
}

func checkBarePod(c *Context, w *model.Workload) {
	if !carries(w) || w.Object.Kind != "Pod" {
		return
	}
	f := finding.Finding{
		Message: fmt.Sprintf("Pod %s has no controller: once deleted, or lost with its node, it is not made again", w.Object.Name),
		Facts:   []finding.Fact{{Name: "owner", Value: "none", From: "metadata.ownerReferences"}},
		Remedy:  "let a Deployment or StatefulSet own it",
	}
	if len(w.Services) > 0 {
		f.Message += fmt.Sprintf(", and %s loses it for good", namesOf(w.Services))
		// Other workloads may carry the Service on.
		for _, s := range w.Services {
			if len(s.Workloads) > 1 {
				f.Severity = finding.Info
				f.Ask = "is this Pod only a helper beside the workloads that serve?"
			}
		}
	}
	c.Report(At(w.Object, "metadata.ownerReferences"), f)
}
