package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var udpRules = []Rule{
	{
		ID: "DP721", Topic: finding.UDP, Severity: finding.Warning,
		Title: "UDP flows leave a draining Pod when its readiness fails",
		Physics: "A UDP flow through a Service stays with its Pod by an entry in the node's conntrack table. kube-proxy (since 1.32) deletes the entries whose Pod is no longer serving, and serving is the Pod's readiness. " +
			"An application that fails its readiness on SIGTERM, as most guides advise, thus loses its UDP flows to another Pod while it is still there to answer them. This project measured it, five times in each of both proxy modes, with a readiness probe every second and a drain of 25 s: " +
			"with readiness failing, every flow moved to the replacement 2 to 4 s after the delete; with readiness kept, every flow stayed to the end of the drain. Without a readiness probe readiness is kept by itself. Cilium behaves differently: it holds UDP on terminating Pods (cilium/cilium#48714).",
		Sources: []string{"docs/results.md of this project, arms drain-delete and drain-ready-delete", "kubernetes/kubernetes pkg/proxy/conntrack/cleanup.go", "kubernetes/kubernetes#127318", "cilium/cilium#48714"},
		Remedy:  "Keep the readiness probe passing after SIGTERM for as long as the Pod answers UDP; say so with the annotation drainproof.dev/readiness-on-term: keep.",

		Workload: checkUDPReadiness,
	},
	{
		ID: "DP722", Topic: finding.UDP, Severity: finding.Warning,
		Title: "A UDP Service whose workload is scaled to zero",
		Physics: "When the last serving Pod of a Service goes, its UDP flows have nowhere to move to. This project measured: with readiness failing on SIGTERM the flows were cut 1 to 2 s after the scale-down although the Pod served for 23 s more; with readiness kept, at the end of the drain. " +
			"kube-proxy's clean-up of conntrack skips a Service that has no serving endpoint, so that a client that goes on sending may keep its entry alive: one report has a Service blackholed for 13 h, while new Pods ran.",
		Sources: []string{"docs/results.md of this project, arms drain-scale and drain-ready-scale", "kubernetes/kubernetes#139628", "kubernetes/kubernetes pkg/proxy/conntrack/cleanup.go"},
		Remedy:  "Keep at least one replica of a workload that clients reach by UDP.",

		Workload: checkUDPToZero,
	},
}

// udpPorts lists the UDP ports over which Services send flows to a workload. DNS is left out: a query
// is a flow of one packet each way, which nothing can move.
func udpPorts(w *model.Workload) []model.Target {
	var ports []model.Target
	for _, t := range w.UDP() {
		if t.Service == nil || t.Service.Headless || t.Service.Type == "ExternalName" {
			continue // no kube-proxy between
		}
		if t.ServicePort.Port == 53 || strings.HasPrefix(t.ServicePort.Name, "dns") {
			continue
		}
		ports = append(ports, t)
	}
	return ports
}

func udpNames(ports []model.Target) string {
	var names []string
	for _, t := range ports {
		name := fmt.Sprint(t.ServicePort.Port)
		if t.ServicePort.Name != "" {
			name += " (" + t.ServicePort.Name + ")"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return "UDP port " + names[0]
	}
	return "UDP ports " + inWords(names)
}

// flips gives the readiness probe that can turn a Pod unready first, and how soon after the
// application begins to fail it; nil where no container has one.
func flips(w *model.Workload) (first *model.Probe, soonest time.Duration) {
	for _, k := range everyContainer(w) {
		if k.Readiness == nil {
			continue
		}
		if at, _ := fails(k.Readiness); first == nil || at < soonest {
			first, soonest = k.Readiness, at
		}
	}
	return first, soonest
}

func checkUDPReadiness(c *Context, w *model.Workload) {
	ports := udpPorts(w)
	if !carries(w) || len(ports) == 0 || c.Server < 32 {
		return // before 1.32 kube-proxy cut flows by other rules
	}
	onTerm, path := note(w, onTermNote)
	probe, soonest := flips(w)
	if onTerm == "keep" || probe == nil {
		return
	}
	// The Pod lives on after SIGTERM for what the hook leaves of the grace period, and no longer than its drain.
	sum := c.Sum(w)
	lives := sum.Grace
	if sum.HookKnown {
		lives -= sum.LongHook
	}
	if sum.Drain.Known {
		lives = min(lives, sum.Drain.Took)
	}
	if soonest >= lives {
		return // gone before anybody can notice
	}
	facts := append(probeFacts("readiness", probe, "periodSeconds", "failureThreshold"),
		finding.Fact{Name: "flows moved after the delete, readiness failing", Value: "2 to 4 s", From: "measured, docs/results.md"},
		finding.Fact{Name: "flows moved, readiness kept", Value: "at the end of the drain", From: "measured, docs/results.md"},
		periodFact(w))
	on := At(ports[0].Service.Object, ports[0].ServicePort.At)
	message := fmt.Sprintf("flows to %s hang on the Pod's readiness: if it fails from SIGTERM on, the Pod is unready %s later at the soonest, and kube-proxy then moves every flow to another Pod, although this one may serve for up to %s after SIGTERM",
		udpNames(ports), spell(soonest), spell(lives))
	f := finding.Finding{
		Severity: finding.Info, Message: message, Facts: facts,
		Remedy: "Keep readiness passing after SIGTERM until the UDP port is closed, and say so: annotation drainproof.dev/readiness-on-term: keep.",
		Ask:    "Does the readiness check fail once SIGTERM has come, on purpose or because its own port closes? To see what that does to flows: drainproof run --arm drain --readiness-on-term keep --udp 10, and the same with fail.",
	}
	if onTerm == "fail" {
		f.Severity, f.Ask = finding.Warning, ""
		f.Message = fmt.Sprintf("readiness fails on SIGTERM, so the Pod is unready %s later at the soonest; kube-proxy then moves every flow to %s to another Pod, although this one serves for up to %s after SIGTERM", spell(soonest), udpNames(ports), spell(lives))
		f.Facts = append(f.Facts, finding.Fact{Name: "readiness after SIGTERM", Value: "fails", From: path})
		f.Remedy = "Keep readiness passing after SIGTERM until the UDP port is closed: the endpoint's ready turns false at the delete by itself, so new TCP connections go elsewhere all the same. To see it: drainproof run --arm drain --readiness-on-term keep --udp 10."
	}
	c.Report(on, f)
}

func checkUDPToZero(c *Context, w *model.Workload) {
	ports := udpPorts(w)
	if !w.ReceivesTraffic() || len(ports) == 0 {
		return
	}
	least, known := leastPods(w)
	if !known || least.scaler == nil || least.n != 0 {
		return
	}
	c.Report(least.at, finding.Finding{
		Message: fmt.Sprintf("the autoscaler may take the last Pod away: flows to %s then have no Pod to move to and are cut, 1 to 2 s after the scale-down if readiness fails on SIGTERM, and a client that goes on sending may find nothing even when Pods are back", udpNames(ports)),
		Facts: []finding.Fact{
			least.fact,
			{Name: "flows cut, readiness failing", Value: "1 to 2 s after the scale-down", From: "measured, docs/results.md"},
			{Name: "longest reported blackhole", Value: "13 h", From: "field report kubernetes/kubernetes#139628"},
		},
		Remedy: "Set the least number of replicas to 1 for as long as clients send UDP.",
	})
}
