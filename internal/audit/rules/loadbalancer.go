package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var loadBalancerRules = []Rule{
	{
		ID: "DP601", Topic: finding.LoadBalancer, Severity: finding.Warning,
		Title: "externalTrafficPolicy Local: a node without a ready Pod is still sent traffic",
		Physics: "With externalTrafficPolicy Local a node answers only with its own Pods. When the last ready Pod of a node is deleted, the node's health check (healthCheckNodePort) fails at once, but the load " +
			"balancer believes it only after several checks: interval x threshold. Until then it goes on sending new connections to that node, and no Pod of another node helps. " +
			"kube-proxy gives them to the terminating Pod as long as this one passes its readiness probe (KEP-1669), so a preStop hook bridges the time, if it lasts as long. " +
			"It happens wherever no second ready Pod stands on the node: one Pod per node, a DaemonSet, no surge. The AWS providers check every 10 s and believe 2 failures with this policy, " +
			"GCP every 8 s and 3, Azure every 5 s and 2; 3 checks of 30 s have been reported for an older AWS provider.",
		Sources: []string{
			"KEP-1669 (ProxyTerminatingEndpoints)", "kubernetes.io: Virtual IPs and Service Proxies", "kubernetes/kubernetes#73362", "kubernetes/kubernetes#85643", "kubernetes/ingress-nginx#6281",
			"kubernetes/cloud-provider-aws aws.go (buildNLBHealthCheckConfiguration)", "kubernetes-sigs/cloud-provider-azure (HealthProbeDefaultNumOfProbe)", "kubernetes/legacy-cloud-providers gce.go (gceHcUnhealthyThreshold)",
		},
		Remedy: "Let a preStop sleep last as long as the load balancer needs to notice, inside the grace period, with readiness kept; or shorten the checks; or use externalTrafficPolicy Cluster where the clients' addresses are not needed.",

		Workload: checkLocalPolicy,
	},
	{
		ID: "DP602", Topic: finding.LoadBalancer, Severity: finding.Info,
		Title: "Pods are targets of an AWS load balancer, and no readiness gate is in sight",
		Physics: "With IP targets each new Pod must be registered and pass the load balancer's own health checks before it is sent anything. A rollout does not wait for that: it goes by the Pod's readiness, and deletes old Pods " +
			"as soon as new ones are ready. In between, the target group may hold only targets that are initial or draining, and clients get errors. The controller's readiness gate (target-health.elbv2.k8s.aws/...) makes a Pod " +
			"ready only when its target is healthy. Network Load Balancers have been reported as very slow to take new targets in. The gate is injected where the namespace carries a label, which no workload's manifest shows. It covers the start, not the end: see the preStop hook for that.",
		Sources: []string{"kubernetes-sigs/aws-load-balancer-controller docs: Pod readiness gate", "kubernetes-sigs/aws-load-balancer-controller#1719", "kubernetes-sigs/aws-load-balancer-controller#1834"},
		Remedy:  "Label the namespace elbv2.k8s.aws/pod-readiness-gate-inject=enabled before the Pods are made, or set minReadySeconds to at least the time of the target's health checks.",

		Workload: checkReadinessGate,
	},
	{
		ID: "DP603", Topic: finding.LoadBalancer, Severity: finding.Warning,
		Title: "The deregistration delay and the Pod's own times contradict each other",
		Physics: "The deregistration delay of an AWS target group (300 s if nobody sets it) is how long requests and connections that are already under way to a target may go on after it is deregistered. It is not " +
			"the time for which new ones arrive. A delay shorter than the application's drain makes the load balancer cut requests that the application would have finished. A delay longer than the grace period promises time that the Pod does not have: SIGKILL cuts what the load balancer still waits for. " +
			"Only IP targets are meant: with instance targets it is the node that is deregistered, not the Pod.",
		Sources: []string{"AWS documentation: Target groups, deregistration delay", "kubernetes-sigs/aws-load-balancer-controller#3270", "kubernetes-sigs/aws-load-balancer-controller#2366"},
		Remedy:  "Choose the longest request that must survive a release; give the deregistration delay that time, and the grace period that time plus the preStop hook.",

		Workload: checkDeregistration,
	},
	{
		ID: "DP604", Topic: finding.LoadBalancer, Severity: finding.Info,
		Title: "Network endpoint group: a rollout goes by a readiness gate that may open early",
		Physics: "Behind a GCP network endpoint group a Pod carries the readiness gate cloud.google.com/load-balancer-neg-ready, which GKE injects. The rollout waits for it, but reports show it opening before the load balancer " +
			"sends to the new endpoints, with 15 to 20 s of 502 per rollout. Where the group is one of its own (exposed_ports) the controller does not know the load balancer at all. minReadySeconds delays each step of the rollout by a time that the gate cannot shorten.",
		Sources: []string{"kubernetes/ingress-gce#1718", "kubernetes/ingress-gce#2222", "kubernetes/ingress-gce#769"},
		Remedy:  "Set minReadySeconds to what the load balancer needs for a new endpoint, and measure a rollout.",

		Workload: checkEndpointGroup,
	},
}

// detection is how a load balancer finds a node dead.
type detection struct {
	interval, threshold dial
}

func (d detection) time() time.Duration { return d.interval.seconds() * time.Duration(d.threshold.n) }

func (d detection) facts() []finding.Fact {
	return []finding.Fact{
		{Name: "interval of the health checks", Value: spell(d.interval.seconds()), From: d.interval.from},
		{Name: "failed checks until a node is left out", Value: strconv.FormatInt(d.threshold.n, 10), From: d.threshold.from},
	}
}

// detects gives the checks of a Service's load balancer; known is false where neither
// provider nor annotations tell them.
func detects(s *model.Service, provider string) (d detection, known bool) {
	read := func(standard [2]int64, origin, interval, threshold string) detection {
		return detection{
			annotated(s.Annotations, standard[0], origin, interval),
			annotated(s.Annotations, standard[1], origin, threshold),
		}
	}
	switch provider {
	case budget.AWS, budget.AWSNLB:
		const prefix = "service.beta.kubernetes.io/aws-load-balancer-healthcheck-"
		return read([2]int64{10, 2}, "default of the AWS providers with externalTrafficPolicy Local", prefix+"interval", prefix+"unhealthy-threshold"), true
	case budget.Azure:
		const prefix = "service.beta.kubernetes.io/azure-load-balancer-health-probe-"
		return read([2]int64{5, 2}, "default of cloud-provider-azure", prefix+"interval", prefix+"num-of-probe"), true
	case budget.GCP:
		const origin = "fixed in the GCE provider"
		return detection{dial{8, origin}, dial{3, origin}}, true
	case budget.DigitalOcean:
		const prefix = "service.beta.kubernetes.io/do-loadbalancer-healthcheck-"
		d = read([2]int64{}, "", prefix+"check-interval-seconds", prefix+"unhealthy-threshold")
	case budget.Hetzner:
		const prefix = "load-balancer.hetzner.cloud/health-check-"
		d = read([2]int64{}, "", prefix+"interval", prefix+"retries")
	}
	return d, d.interval.n > 0 && d.threshold.n > 0
}

// slowestSeen is the longest detection that field reports name, 3 checks of 30 s.
const slowestSeen = 90 * time.Second

func checkLocalPolicy(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, s := range w.Services {
		if s.Headless || s.ExternalTrafficPolicy != "Local" {
			continue
		}
		switch s.Type {
		case budget.LoadBalancerType:
			checkLocalLoadBalancer(c, w, s)
		case budget.NodePortType:
			checkLocalNodePort(c, w, s)
		}
	}
}

func checkLocalLoadBalancer(c *Context, w *model.Workload, s *model.Service) {
	provider := budget.Provider(s)
	switch provider {
	case budget.AWSNLBIP, budget.MetalLB:
		return // the one sends to Pods, the other watches endpoints instead of asking nodes
	}
	sum := c.Sum(w)
	// What surely goes on accepting: the hook, and the drain where the user says that
	// readiness is kept through it.
	serves := sum.Hook
	if v, _ := note(w, onTermNote); v == "keep" && sum.Drain.Known {
		serves += sum.Drain.Took
	}
	d, known := detects(s, provider)
	var facts []finding.Fact
	if known {
		facts = append(facts, d.facts()...)
	}
	facts = append(facts, holdFact(c, w), periodFact(w), takesOver(w))
	on := At(s.Object, "spec.externalTrafficPolicy")
	remedy := "set externalTrafficPolicy Cluster where the clients' addresses are not needed."

	switch {
	case known && serves >= d.time(), !known && serves >= slowestSeen:
		return
	case known && sum.HookKnown:
		c.Report(on, finding.Finding{
			Message: fmt.Sprintf("when the last ready Pod on a node is deleted, the load balancer goes on sending new connections to that node for up to %s (%s failed checks, one every %s), and only this Pod may answer them; %s: "+
				"up to %s of refused or lost connections for each such Pod", spell(d.time()), strconv.FormatInt(d.threshold.n, 10), spell(d.interval.seconds()), holds(sum), spell(d.time()-serves)),
			Facts:  facts,
			Remedy: fmt.Sprintf("Give the serving container a preStop sleep of at least %s and a grace period of that plus the application's drain; or %s", spell(d.time()), remedy),
		})
	case known:
		c.Report(on, finding.Finding{
			Severity: finding.Info,
			Message: fmt.Sprintf("when the last ready Pod on a node is deleted, the load balancer goes on sending new connections to that node for up to %s (%s failed checks, one every %s), and only this Pod may answer them; "+
				"how long its preStop hook keeps the server accepting cannot be read", spell(d.time()), strconv.FormatInt(d.threshold.n, 10), spell(d.interval.seconds())),
			Facts:  facts,
			Remedy: fmt.Sprintf("Let the hook keep the server accepting for at least %s before it stops it, inside the grace period; or %s", spell(d.time()), remedy),
			Ask:    fmt.Sprintf("Does the hook keep the server accepting new connections for %s? %s shows it.", spell(d.time()), askTest(w, "rollout")),
		})
	case sum.HookKnown && serves == 0:
		c.Report(on, finding.Finding{
			Message: "when the last ready Pod on a node is deleted, the load balancer goes on sending new connections to that node until its health checks have failed often enough (interval x threshold), and only this Pod may answer them; " +
				"no preStop hook holds it: for all of that time they are refused or lost",
			Facts:  facts,
			Remedy: "Look up the interval and the threshold of the load balancer's health checks, give the serving container a preStop sleep of at least their product, and a grace period of that plus the application's drain; or " + remedy,
		})
	default:
		c.Report(on, finding.Finding{
			Severity: finding.Info,
			Message: fmt.Sprintf("when the last ready Pod on a node is deleted, the load balancer goes on sending new connections to that node until its health checks have failed often enough, and only this Pod may answer them; "+
				"it surely accepts for %s, and how often this load balancer checks the manifest does not say", spell(serves)),
			Facts:  facts,
			Remedy: "Let the preStop hook keep the server accepting for the interval x the threshold of the load balancer's health checks; or " + remedy,
			Ask:    fmt.Sprintf("Is interval x threshold of the load balancer's health checks more than %s? (20 s and 90 s have been seen on AWS)", spell(serves)),
		})
	}
}

func checkLocalNodePort(c *Context, w *model.Workload, s *model.Service) {
	sum := c.Sum(w)
	if !sum.HookKnown || sum.Hook > 0 {
		return
	}
	c.Report(At(s.Object, "spec.externalTrafficPolicy"), finding.Finding{
		Severity: finding.Info,
		Message: "when the last Pod on a node goes, that node drops new connections to the node port, because no Pod of another node may answer; a Service of type NodePort has no health check port that would tell whoever picks the nodes, " +
			"and no preStop hook (0 s) gives them time",
		Facts:  []finding.Fact{holdFact(c, w), periodFact(w), takesOver(w)},
		Remedy: "Give the serving container a preStop sleep of at least the time in which the nodes' clients notice a dead node; or set externalTrafficPolicy Cluster where the clients' addresses are not needed.",
		Ask:    "What picks the node for the clients, and how long does it take to leave out a node that stops answering?",
	})
}

// takesOver says whether a new Pod may be there before the old one goes.
func takesOver(w *model.Workload) finding.Fact {
	f := finding.Fact{Name: "new Pod before the old one goes", Value: "no"}
	switch {
	case w.Object.Kind == "Pod":
		f.From = "a bare Pod"
	case w.Strategy == "Recreate" || w.Strategy == "OnDelete":
		f.From = "strategy " + w.Strategy
	case w.MaxSurge.N == 0:
		f.From = "no maxSurge"
	default:
		f.Value, f.From = "in a rollout, on any node", "maxSurge "+written(w.MaxSurge)
	}
	return f
}

// ipTarget is one way by which an AWS load balancer sends to the Pods themselves.
type ipTarget struct {
	service *model.Service
	front   *model.Front // nil for a Service of type LoadBalancer
	variant string
}

func (t ipTarget) at(key string) *Place {
	if t.front != nil && t.service.Annotations[key] == "" {
		return At(t.front.Object, budget.AnnotationPath(key))
	}
	return At(t.service.Object, budget.AnnotationPath(key))
}

// annotation reads from the Service first, which is the controller's order.
func (t ipTarget) annotation(key string) string {
	if v := t.service.Annotations[key]; v != "" || t.front == nil {
		return v
	}
	return t.front.Annotations[key]
}

func ipTargets(w *model.Workload) []ipTarget {
	var targets []ipTarget
	for _, s := range w.Services {
		if s.Type == budget.LoadBalancerType && budget.Provider(s) == budget.AWSNLBIP {
			targets = append(targets, ipTarget{service: s, variant: budget.AWSNLBIP})
		}
		for _, f := range s.Fronts {
			if budget.Controller(f, s) == budget.AWSALBIP {
				targets = append(targets, ipTarget{s, f, budget.AWSALBIP})
			}
		}
	}
	return targets
}

const (
	albPrefix = "alb.ingress.kubernetes.io/"
	nlbPrefix = "service.beta.kubernetes.io/aws-load-balancer-"
)

func checkReadinessGate(c *Context, w *model.Workload) {
	if !carries(w) || w.Strategy != "RollingUpdate" {
		return
	}
	for _, gate := range w.Pod.ReadinessGates {
		if strings.HasPrefix(gate, "target-health.") {
			return
		}
	}
	for _, t := range ipTargets(w) {
		keys := []string{nlbPrefix + "healthcheck-interval", nlbPrefix + "healthcheck-healthy-threshold"}
		standard, key := []int64{10, 3}, nlbPrefix+"nlb-target-type"
		if t.front != nil {
			keys = []string{albPrefix + "healthcheck-interval-seconds", albPrefix + "healthy-threshold-count"}
			standard, key = []int64{15, 2}, albPrefix+"target-type"
		}
		const origin = "default of the AWS Load Balancer Controller"
		interval := annotated(map[string]string{keys[0]: t.annotation(keys[0])}, standard[0], origin, keys[0])
		threshold := annotated(map[string]string{keys[1]: t.annotation(keys[1])}, standard[1], origin, keys[1])
		healthy := interval.seconds() * time.Duration(threshold.n)
		if ofSeconds(w.MinReady) >= healthy {
			continue
		}
		if t.front == nil && t.service.Annotations[key] == "" {
			key = nlbPrefix + "type"
		}
		in := w.Object.Namespace
		if in == "" {
			in = "default"
		}
		c.Report(t.at(key), finding.Finding{
			Message: fmt.Sprintf("Pods are the targets themselves: a new one is sent traffic only after it is registered and has passed the load balancer's own checks, one every %s, up to %d in a row (%s); a rollout goes on %s after the Pod's readiness and may delete the old ones before that",
				spell(interval.seconds()), threshold.n, spell(healthy), spell(ofSeconds(w.MinReady))),
			Facts: []finding.Fact{
				{Name: "interval of the health checks", Value: spell(interval.seconds()), From: interval.from},
				{Name: "passed checks until a target is healthy", Value: strconv.FormatInt(threshold.n, 10), From: threshold.from},
				secondsFact("minReadySeconds", w.MinReady, "spec.minReadySeconds"),
				{Name: "readiness gate target-health.*", Value: "none in the Pod template", From: w.SpecPath() + ".readinessGates"},
			},
			Remedy: fmt.Sprintf("Label the namespace elbv2.k8s.aws/pod-readiness-gate-inject=enabled, so that a rollout waits for healthy targets; or set minReadySeconds to at least %d.", wholeSeconds(healthy)),
			Ask:    fmt.Sprintf("Does the namespace carry that label? kubectl get namespace %s --show-labels", in),
		})
		return // one question for the workload
	}
}

func checkDeregistration(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	sum := c.Sum(w)
	for _, t := range ipTargets(w) {
		key := nlbPrefix + "target-group-attributes"
		cuts := t.front != nil
		if cuts {
			key = albPrefix + "target-group-attributes"
		}
		text := t.annotation(key)
		value, _ := attribute(text, "deregistration_delay.timeout_seconds")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			continue // the default of 300 s promises nothing to anybody
		}
		if v, _ := attribute(text, "deregistration_delay.connection_termination.enabled"); v == "true" {
			cuts = true
		}
		delay := time.Duration(n) * time.Second
		stated := finding.Fact{Name: "deregistration delay", Value: spell(delay), From: budget.AnnotationPath(key)}
		switch {
		case delay > sum.Grace:
			c.Report(t.at(key), finding.Finding{
				Message: fmt.Sprintf("the load balancer lets requests under way to a deregistered Pod go on for %s, but the Pod is killed %s after its delete: what takes longer than that is cut, %s before the load balancer's own limit",
					spell(delay), spell(sum.Grace), spell(delay-sum.Grace)),
				Facts: []finding.Fact{stated, periodFact(w)},
				Remedy: fmt.Sprintf("Raise terminationGracePeriodSeconds to %d, if requests of that length must survive a release and the application drains that long; else lower the deregistration delay to the longest request.",
					wholeSeconds(delay+sum.LongHook)),
			})
		case cuts && sum.Drain.Known && delay < sum.Drain.Took:
			c.Report(t.at(key), finding.Finding{
				Message: fmt.Sprintf("the load balancer cuts requests that are still under way %s after the Pod is deregistered, although the application would go on for %s after SIGTERM to finish them",
					spell(delay), spell(sum.Drain.Took)),
				Facts:  []finding.Fact{stated, drainFact(sum), holdFact(c, w)},
				Remedy: fmt.Sprintf("Raise deregistration_delay.timeout_seconds to at least %d, the application's drain.", wholeSeconds(sum.Drain.Took)),
			})
		}
	}
}

func checkEndpointGroup(c *Context, w *model.Workload) {
	if !carries(w) || w.Strategy != "RollingUpdate" || w.MinReady.N > 0 {
		return
	}
	for _, s := range w.Services {
		grouped := budget.StandaloneNEG(s)
		for _, f := range s.Fronts {
			grouped = grouped || budget.Controller(f, s) == budget.GCPNEG
		}
		if !grouped {
			continue
		}
		c.Report(At(s.Object, budget.AnnotationPath("cloud.google.com/neg")), finding.Finding{
			Message: "the Pods are endpoints of a network endpoint group, and a rollout goes on 0 s after the readiness gate opens; reports show it opening before the load balancer sends to the new Pods, with 15 to 20 s of 502 for each rollout",
			Facts: []finding.Fact{
				secondsFact("minReadySeconds", w.MinReady, "spec.minReadySeconds"),
				{Name: "502 in a rollout", Value: "15 to 20 s", From: "field report kubernetes/ingress-gce#1718"},
			},
			Remedy: "Set minReadySeconds to at least 20, so that old Pods stay until the new endpoints are sent traffic.",
			Ask:    askTest(w, "rollout") + " shows whether this load balancer has such a gap.",
		})
		return
	}
}
