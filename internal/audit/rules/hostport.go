package rules

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var hostPortRules = []Rule{
	{
		ID: "DP821", Topic: finding.HostPort, Severity: finding.Warning,
		Title: "A node's port and a rolling update that wants both Pods at once",
		Physics: "Only one Pod on a node can take a given host port; with hostNetwork every declared port is one. A rolling update with maxUnavailable 0 makes the new Pod first, and the scheduler must find a node where the port is free. " +
			"In a cluster with as many eligible nodes as replicas there is none: the update stands still. Freed by maxUnavailable, the old Pod goes first, and whoever talks to that node's port meets nothing until the new one listens: " +
			"no endpoint list and no proxy stands between such a client and the dying Pod.",
		Sources: []string{"kubernetes.io: Configuration Best Practices (hostPort)", "kubernetes/kubernetes#106417 (surge and hostPort)"},
		Remedy:  "Reach the Pods through a Service and drop hostPort; or keep spare nodes and a load balancer that checks each node before the port.", Workload: checkHostPortRollout,
	},
	{
		ID: "DP822", Topic: finding.HostPort, Severity: finding.Warning,
		Title: "Each update of the DaemonSet leaves the node's port without a listener",
		Physics: "Old and new Pod of one node cannot both hold a host port, so the old one is deleted and must be gone before the new one can start. Clients that use the node's address have a gap of termination and start on every node, " +
			"at every update, and nothing tells them: endpoints and readiness play no part on this path.",
		Sources: []string{"KEP-1591 (DaemonSet maxSurge)", "kubernetes/kubernetes#106417", "kubernetes/kubernetes#52973"},
		Remedy:  "Put a load balancer with health checks before the nodes and update in small steps; make the Pod exit promptly once it is drained.", Workload: checkHostPortDaemon,
	},
	{
		ID: "DP823", Topic: finding.HostPort, Severity: finding.Error,
		Title: "A DaemonSet that surges onto a port that is taken",
		Physics: "With maxSurge the DaemonSet controller wants the new Pod on the node while the old one still runs. Both ask for the same host port, so the scheduler never places the new one: the API accepts the object, " +
			"and every update stands still with a Pod that is pending.",
		Sources: []string{"kubernetes/kubernetes#106417", "KEP-1591 (DaemonSet maxSurge)"},
		Remedy:  "Set maxSurge: 0 and maxUnavailable: 1, or drop the host port.", Workload: checkHostPortSurge,
	},
}

// portsInWords lists ports once each: "port 80", "ports 80 and 443".
func portsInWords(ports []int64) string {
	var names []string
	for _, p := range ports {
		if s := strconv.FormatInt(p, 10); !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	if len(names) == 1 {
		return "port " + names[0]
	}
	return "ports " + inWords(names)
}

func hostPortFact(w *model.Workload) finding.Fact {
	f := finding.Fact{Name: "ports of the node", Value: portsInWords(hostPorts(w)), From: "hostPort of the containers"}
	if w.Pod.HostNetwork {
		f.From = w.SpecPath() + ".hostNetwork"
	}
	return f
}

// hostPortPlace is the field that takes the node's port.
func hostPortPlace(w *model.Workload) *Place {
	if w.Pod.HostNetwork {
		return At(w.PodObject, w.SpecPath()+".hostNetwork")
	}
	for _, k := range everyContainer(w) {
		for i, p := range k.Ports {
			if p.HostPort > 0 {
				return At(w.PodObject, fmt.Sprintf("%s.ports[%d].hostPort", k.Path, i))
			}
		}
	}
	return At(w.PodObject, w.SpecPath())
}

func checkHostPortRollout(c *Context, w *model.Workload) {
	if !carries(w) || w.Object.Kind != "Deployment" && w.Object.Kind != "Rollout" || !rolls(w) {
		return
	}
	ports := hostPorts(w)
	pods, known := leastPods(w)
	if len(ports) == 0 || !known || pods.n < 1 {
		return
	}
	surge, unavailable := w.RollingUpdate(pods.n)
	facts := []finding.Fact{hostPortFact(w), pods.fact, shareFact("maxUnavailable", w.MaxUnavailable, strategyPath(w)+".maxUnavailable"), shareFact("maxSurge", w.MaxSurge, strategyPath(w)+".maxSurge")}
	if unavailable == 0 {
		c.Report(hostPortPlace(w), finding.Finding{
			Message: fmt.Sprintf("the Pods take %s of their node, and a rolling update makes %s before an old one goes (maxUnavailable %s of %d comes to 0): with fewer than %d eligible nodes it stands still",
				portsInWords(ports), plural(surge, "new Pod"), written(w.MaxUnavailable), pods.n, pods.n+1),
			Facts:  facts,
			Remedy: fmt.Sprintf("drop the host port and use a Service; or keep at least %d eligible nodes", pods.n+1),
		})
		return
	}
	if len(w.Services) > 0 {
		return // then the Service's endpoints route around the Pod that goes
	}
	h := handOver(c, w, false)
	c.Report(hostPortPlace(w), finding.Finding{
		Message: fmt.Sprintf("clients reach the Pods at %s of their node, and no Service does: when an update deletes a Pod (%d of %d at a time), nothing tells them, and that node refuses connections until another Pod is there; %s",
			portsInWords(ports), unavailable, pods.n, h.words()),
		Facts:  append(facts, h.facts...),
		Remedy: "put a Service, or a load balancer that checks each node's port, before the Pods",
	})
}

func checkHostPortDaemon(c *Context, w *model.Workload) {
	if !carries(w) || w.Object.Kind != "DaemonSet" || len(hostPorts(w)) == 0 || w.MaxSurge.N != 0 {
		return
	}
	h := handOver(c, w, false)
	f := finding.Finding{
		Message: fmt.Sprintf("the Pods take %s of their node, so an update deletes each node's Pod before the new one can start: whoever uses the node's address is refused in between; %s",
			portsInWords(hostPorts(w)), h.words()),
		Facts:  append([]finding.Fact{hostPortFact(w), shareFact("maxUnavailable", w.MaxUnavailable, strategyPath(w)+".maxUnavailable")}, h.facts...),
		Remedy: "let a load balancer check each node's port before it sends, and update few nodes at a time (maxUnavailable 1)",
	}
	if len(w.Services) > 0 {
		f.Severity = finding.Info
		f.Ask = fmt.Sprintf("does anything use the nodes' addresses, or only %s?", namesOf(w.Services))
	}
	c.Report(hostPortPlace(w), f)
}

func checkHostPortSurge(c *Context, w *model.Workload) {
	if !carries(w) || w.Object.Kind != "DaemonSet" || len(hostPorts(w)) == 0 || w.Strategy != "RollingUpdate" || w.MaxSurge.N == 0 {
		return
	}
	c.Report(At(w.Object, "spec.updateStrategy.rollingUpdate.maxSurge"), finding.Finding{
		Message: fmt.Sprintf("an update wants a second Pod on the node (maxSurge %s), but both need %s of it: the new Pod is never scheduled and the update stands still", written(w.MaxSurge), portsInWords(hostPorts(w))),
		Facts:   []finding.Fact{shareFact("maxSurge", w.MaxSurge, "spec.updateStrategy.rollingUpdate.maxSurge"), hostPortFact(w)},
		Remedy:  "set maxSurge: 0 and maxUnavailable: 1",
	})
}
