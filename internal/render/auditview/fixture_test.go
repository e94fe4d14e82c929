package auditview

import (
	"fmt"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
)

func ns(d time.Duration) *int64 { return new(int64(d)) }

func deployment(name string) finding.Object {
	return finding.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name}
}

// budgets are the pictures that a reader meets, by name.
var budgets = []struct {
	name string
	finding.Budget
}{
	{"nothing holds it", finding.Budget{GraceNs: 30e9, GraceFrom: "default", HookNs: ns(0), PropagationNs: ns(3e9), PropagationPath: "clusterip", PropagationFrom: "kubernetes/kubernetes#43576"}},
	{"fits", finding.Budget{GraceNs: 30e9, GraceFrom: "spec.template.spec.terminationGracePeriodSeconds", HookNs: ns(5e9), PropagationNs: ns(3e9), PropagationPath: "clusterip", DrainNs: ns(20e9), DrainFrom: "drainproof.dev/drain", LeftNs: ns(5e9)}},
	{"hook takes all", finding.Budget{GraceNs: 30e9, GraceFrom: "default", HookNs: ns(30e9), PropagationNs: ns(3e9), PropagationPath: "clusterip"}},
	{"hook takes all, drain known", finding.Budget{GraceNs: 30e9, GraceFrom: "default", HookNs: ns(30e9), PropagationNs: ns(3e9), PropagationPath: "clusterip", DrainNs: ns(5e9), LeftNs: ns(-5e9)}},
	{"hook is cut off", finding.Budget{GraceNs: 30e9, GraceFrom: "default", HookNs: ns(40e9), PropagationNs: ns(3e9), PropagationPath: "clusterip"}},
	{"drain sticks out", finding.Budget{GraceNs: 30e9, GraceFrom: "default", HookNs: ns(10e9), PropagationNs: ns(15e9), PropagationPath: "ingress", DrainNs: ns(25e9), DrainFrom: "gunicorn --graceful-timeout", LeftNs: ns(-5e9)}},
	{"exits before the news is out", finding.Budget{GraceNs: 30e9, GraceFrom: "default", HookNs: ns(2e9), PropagationNs: ns(15e9), PropagationPath: "ingress", DrainNs: ns(5e9), LeftNs: ns(23e9)}},
	{"unknown drain", finding.Budget{GraceNs: 60e9, GraceFrom: "spec.template.spec.terminationGracePeriodSeconds", HookNs: ns(15e9), PropagationNs: ns(3e9), PropagationPath: "clusterip"}},
	{"NLB", finding.Budget{GraceNs: 30e9, GraceFrom: "default", HookNs: ns(0), PropagationNs: ns(120e9), PropagationPath: "loadbalancer aws-nlb", PropagationFrom: "kubernetes-sigs/aws-load-balancer-controller#3270"}},
	{"NLB and a short grace period", finding.Budget{GraceNs: 5e9, GraceFrom: "default", HookNs: ns(3e9), PropagationNs: ns(120e9), PropagationPath: "loadbalancer aws-nlb"}},
	{"hook unknown", finding.Budget{GraceNs: 30e9, GraceFrom: "default", PropagationNs: ns(3e9), PropagationPath: "clusterip", DrainNs: ns(20e9)}},
	{"nothing known", finding.Budget{GraceNs: 30e9, GraceFrom: "default"}},
	{"drain takes no time", finding.Budget{GraceNs: 30e9, GraceFrom: "default", HookNs: ns(500 * time.Millisecond), PropagationNs: ns(0), PropagationPath: "hostport", DrainNs: ns(0), LeftNs: ns(29500 * time.Millisecond)}},
	{"long grace", finding.Budget{GraceNs: 3600e9, GraceFrom: "spec.template.spec.terminationGracePeriodSeconds", HookNs: ns(5e9), PropagationNs: ns(3e9), PropagationPath: "clusterip", DrainNs: ns(3595e9), LeftNs: ns(0)}},
	{"no grace", finding.Budget{GraceNs: 0, GraceFrom: "spec.template.spec.terminationGracePeriodSeconds", HookNs: ns(0), PropagationNs: ns(3e9), PropagationPath: "clusterip"}},
	{"no grace, nothing known", finding.Budget{}},
}

func budgetOf(name string) finding.Budget {
	for _, b := range budgets {
		if b.name == name {
			return b.Budget
		}
	}
	panic("no budget " + name)
}

// fits is a report with one workload, a clean one.
func fits() *finding.Report {
	w := finding.Workload{Object: deployment("quiet"), File: "quiet.yaml", Line: 1, Paths: []string{"clusterip"}, Budget: budgetOf("fits"), Verdict: "no loss found; 5 s of the grace period are left"}
	return &finding.Report{Schema: finding.Schema, Kubernetes: "v1.37.2", Objects: 2, Workloads: []finding.Workload{w}}
}

// settled is a report with one workload, all of whose findings are suppressed.
func settled() *finding.Report {
	r := sample()
	r.Workloads, r.Findings, r.Suppressed, r.Notes = r.Workloads[:1], nil, r.Suppressed[:1], nil
	return r
}

// sample is a report with one of each: errors, warnings and info on a workload, findings on
// objects around it and on objects of nobody, a workload whose findings are suppressed, and every way to suppress.
func sample() *finding.Report {
	web, worker, edge, quiet := deployment("web"), deployment("worker"), deployment("edge"), deployment("quiet")
	service := finding.Object{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "edge"}
	pdb := finding.Object{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Namespace: "shop", Name: "nobody"}
	r := &finding.Report{
		Schema: finding.Schema, Kubernetes: "v1.37.2", Objects: 9,
		Workloads: []finding.Workload{
			{Object: quiet, File: "quiet.yaml", Line: 1, Paths: []string{"clusterip"}, Budget: budgetOf("fits"), Verdict: "can lose traffic when it is terminated; 1 finding suppressed"},
			{Object: worker, File: "worker.yaml", Line: 1, Paths: []string{}, Budget: budgetOf("nothing known"), Verdict: "depends on the application: see the questions"},
			{Object: web, File: "web.yaml", Line: 1, Paths: []string{"clusterip"}, Budget: budgetOf("nothing holds it"), Verdict: "loses traffic when it is terminated; 1 finding suppressed"},
			{Object: edge, File: "edge.yaml", Line: 20, Paths: []string{"loadbalancer", "nodeport", "clusterip"}, Budget: budgetOf("NLB"), Verdict: "can lose traffic when it is terminated"},
		},
		Findings: []finding.Finding{
			{
				Rule: "DP301", Topic: finding.Listener, Severity: finding.Info, Object: web, Path: "spec.template.spec.containers[0]", File: "web.yaml", Line: 24,
				Message: "the image shop/web:1.4 is not known: whether it goes on accepting connections after SIGTERM cannot be read from the manifest",
				Facts:   []finding.Fact{}, Remedy: "keep accepting until the endpoint is withdrawn, or hold SIGTERM back with a preStop sleep",
				Ask: "drainproof test deploy/web -n shop --trigger rollout",
			},
			{
				Rule: "DP101", Topic: finding.Grace, Severity: finding.Error, Object: web, Path: "spec.template.spec.containers[0].lifecycle.preStop", File: "web.yaml", Line: 31,
				Message: "new connections go on arriving for about 3 s after the delete (clusterip), the hook holds the container for 0 s and nginx closes its listener at once: up to 3 s of refused connections per Pod",
				Facts: []finding.Fact{
					{Name: "grace period", Value: "30 s", From: "default"},
					{Name: "propagation", Value: "3 s", From: "kubernetes/kubernetes#43576"},
				},
				Remedy: "add lifecycle.preStop.sleep.seconds: 5 to container nginx",
			},
			{
				Rule: "DP401", Topic: finding.Rollout, Severity: finding.Warning, Object: web, Path: "spec.strategy.rollingUpdate.maxUnavailable", File: "web.yaml", Line: 8,
				Message: "with 2 replicas and maxUnavailable 50% one Pod serves while a rollout runs", Facts: []finding.Fact{{Name: "replicas", Value: "2", From: "spec.replicas"}},
				Remedy: "set maxUnavailable: 0 and maxSurge: 1",
			},
			{
				Rule: "DP301", Topic: finding.Listener, Severity: finding.Info, Object: worker, Path: "spec.template.spec.containers[0]", File: "worker.yaml", Line: 14,
				Message: "the container declares port 9090, and nothing in the input sends it traffic", Facts: []finding.Fact{}, Remedy: "none, if nobody connects to it",
				Ask: "who connects to port 9090 of worker?",
			},
			{
				Rule: "DP601", Topic: finding.LoadBalancer, Severity: finding.Warning, Object: service, Workload: &edge, Path: "spec.externalTrafficPolicy", File: "edge.yaml", Line: 12,
				Message: "the load balancer goes on sending to a deregistered target for about 120 s, and the Pod is gone after 30 s at the latest",
				Facts:   []finding.Fact{{Name: "deregistration", Value: "about 120 s", From: "kubernetes-sigs/aws-load-balancer-controller#3270"}},
				Remedy:  "set terminationGracePeriodSeconds: 150 and a preStop sleep of 120 s",
			},
			{
				Rule: "DP501", Topic: finding.PDB, Severity: finding.Warning, Object: pdb, Path: "spec.selector", Line: 0,
				Message: "the selector app=nobody matches no workload", Facts: []finding.Fact{}, Remedy: "correct the selector, or delete the PodDisruptionBudget",
			},
		},
		Notes: []string{"2 objects of kinds that the audit does not know were skipped."},
	}
	r.Tool.Version = "v0.2.0"
	old := r.Findings[2]
	old.Rule, old.Topic, old.Object, old.File = "DP451", finding.Replicas, quiet, "quiet.yaml"
	kept := r.Findings[2]
	kept.Path, kept.Line = "spec.strategy.rollingUpdate.maxSurge", 9
	r.Suppressed = []finding.Suppressed{
		{Finding: old, By: "annotation", Reason: "one replica is enough at night"},
		{Finding: kept, By: "baseline", Reason: "known before"},
		{Finding: r.Findings[5], By: "config"},
	}
	return r
}

// crowd is a report of n workloads, of which every tenth has a finding.
func crowd(n int) *finding.Report {
	r := &finding.Report{Schema: finding.Schema, Kubernetes: "v1.37.2", Objects: 2 * n}
	for i := range n {
		o := deployment(fmt.Sprintf("service-%03d", i))
		w := finding.Workload{Object: o, File: "all.yaml", Line: 40*i + 1, Paths: []string{"clusterip"}, Budget: budgetOf("fits"), Verdict: "no loss found"}
		if i%10 == 3 {
			w.Budget, w.Verdict = budgetOf("nothing holds it"), "loses traffic when it is terminated"
			f := sample().Findings[1]
			f.Object, f.File, f.Line = o, "all.yaml", 40*i+31
			r.Findings = append(r.Findings, f)
		}
		r.Workloads = append(r.Workloads, w)
	}
	return r
}

// docs are rules as their authors write them.
func docs() []finding.RuleDoc {
	return []finding.RuleDoc{
		{
			ID: "DP401", Topic: finding.Rollout, Severity: finding.Warning, Title: "A rollout may take half of the Pods away",
			Physics: "maxUnavailable is rounded down, maxSurge up. A rollout may have replicas - maxUnavailable Pods serving at its narrowest point.",
			Sources: []string{"kubernetes/kubernetes#86280"}, Remedy: "Set `maxUnavailable: 0` and let maxSurge carry the rollout.",
		},
		{
			ID: "DP102", Topic: finding.Grace, Severity: finding.Error, Title: "The preStop hook uses the grace period up",
			Physics: "The kubelet runs the hook first and takes its time off the grace period (killContainer in pkg/kubelet/kuberuntime). What is left, at least 2 s, is all that the application has after SIGTERM. See KEP-3960 for `sleep | true` hooks.",
			Sources: []string{"KEP-3960: the sleep action", "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/.", "linkerd/linkerd2#10276 (sleep 40 with a grace period of 30 s: exit 137)"},
			Remedy:  "Make the grace period longer than hook and drain together.",
		},
		{
			ID: "DP101", Topic: finding.Grace, Severity: finding.Error, Title: "SIGTERM comes while new connections still arrive",
			Physics: "The endpoint is withdrawn and SIGTERM is sent at the same time. Every node's rules follow later. A server that closes its listener at once refuses what arrives in between.",
			Sources: []string{"kubernetes/kubernetes#43576"}, Remedy: "Hold SIGTERM back with a preStop sleep that is longer than the slowest path needs.",
		},
	}
}
