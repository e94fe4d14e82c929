package rules

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var publishNotReadyRules = []Rule{
	{
		ID: "DP701", Topic: finding.PublishNotReady, Severity: finding.Warning,
		Title: "publishNotReadyAddresses on a Service that carries traffic",
		Physics: "publishNotReadyAddresses makes the endpoints of a Service ready whatever their Pods are, terminating ones included: the API allows ready on a terminating endpoint for this case alone. " +
			"So a Pod that is deleted goes on getting new connections until its endpoint is removed, which is after its process has ended; no preStop hook is long enough, because the traffic only stops when the Pod is gone. " +
			"At the other end, new Pods get traffic before they listen. The field is meant for peers that must find each other before they are ready, through a headless Service.",
		Sources: []string{"k8s.io/api/discovery/v1 EndpointConditions", "k8s.io/api/core/v1 ServiceSpec.publishNotReadyAddresses", "KEP-1672"},
		Remedy:  "Remove the field from the Service that clients use; keep a headless Service with it for the peers, if they need one.",

		Workload: checkPublishNotReady,
	},
}

func checkPublishNotReady(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, s := range w.Services {
		// A headless Service with an Ingress or a route before it carries traffic as well.
		if !s.PublishNotReady || s.Headless && len(s.Fronts) == 0 {
			continue
		}
		sum := c.Sum(w)
		c.Report(At(s.Object, "spec.publishNotReadyAddresses"), finding.Finding{
			Message: fmt.Sprintf("the Pods of this Service stay ready while they terminate: each gets new connections from its delete until its endpoint is removed after its end, for up to %s of grace period; once the server closes its listener they are all refused, and a longer hook only moves that moment",
				spell(sum.Grace)),
			Facts: []finding.Fact{
				{Name: "publishNotReadyAddresses", Value: "true", From: "spec.publishNotReadyAddresses"},
				periodFact(w),
				holdFact(c, w),
			},
			Remedy: fmt.Sprintf("Remove publishNotReadyAddresses from Service %s; if peers need it, give them a headless Service of their own with the same selector.", s.Object.Name),
		})
	}
}
