package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/cmdline"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

const nginxPrefix = "nginx.ingress.kubernetes.io/"

var ingressRules = []Rule{
	{
		ID: "DP651", Topic: finding.Ingress, Severity: finding.Info,
		Title: "service-upstream: nginx sends to the Service instead of the Pods",
		Physics: "With service-upstream nginx knows one upstream, the cluster IP, and kube-proxy picks the Pod. That saves nginx from following each change of the endpoints, which is why it is switched on against 5xx in releases. " +
			"It also takes things away: cookies that bind a client to a Pod no longer work; a failed connection cannot be tried on another Pod, because there is no other upstream; and a kept-alive connection to the cluster IP stays with one Pod until it ends, " +
			"so that nginx goes on using a Pod that is terminating. Neither setting is right for everyone.",
		Sources: []string{"kubernetes/ingress-nginx#981", "kubernetes/ingress-nginx#1586", "kubernetes/ingress-nginx#8973", "PostHog/charts-clickhouse#532"},
		Remedy:  "Keep it if the application closes its kept-alive connections while it drains and no client needs a Pod of its own; else drop it and let the preStop hook cover the controller's delay.",

		Workload: checkServiceUpstream,
	},
	{
		ID: "DP652", Topic: finding.Ingress, Severity: finding.Warning,
		Title: "Retries are off, and the hook is shorter than the controller's delay",
		Physics: "An ingress controller learns of a Pod's delete after a delay. Until then it opens connections to a Pod that may have closed its listener. By default ingress-nginx tries a request that failed to connect on the next Pod (proxy-next-upstream \"error timeout\", 3 tries), " +
			"and the client sees nothing. With \"off\", without \"error\", or with one try, each of them becomes a 502. Requests that are not idempotent are never tried again once they were sent, whatever the setting, unless non_idempotent is added.",
		Sources: []string{"ingress-nginx documentation: proxy-next-upstream", "nginx.org: ngx_http_proxy_module, proxy_next_upstream", "traefik/traefik#4452", "zalando/skipper#652"},
		Remedy:  "Give the serving container a preStop sleep that covers the controller's delay; and allow retries at least for \"error\", which are connections that failed.",

		Workload: checkRetries,
	},
	{
		ID: "DP653", Topic: finding.Ingress, Severity: finding.Info,
		Title: "ingress-nginx is retired",
		Physics: "The retirement of ingress-nginx was announced on 11 November 2025: best effort until March 2026, then no releases and no fixes. Its artifacts stay, so nothing breaks at once. Whatever comes next treats terminating Pods in its own way: " +
			"some implementations send to them as long as they serve, some answer 503, and there is no common rule (kubernetes-sigs/gateway-api#5014). A move is thus a change of what a release costs.",
		Sources: []string{"kubernetes.io blog: Ingress NGINX Retirement, 11 November 2025", "kubernetes-sigs/gateway-api#5014", "traefik/traefik#12417", "envoyproxy/gateway#6277"},
		Remedy:  "Plan the move (ingress2gateway maps many of the annotations), and measure a release of a service behind the old and the new controller.",

		Set: checkRetired,
	},
	{
		ID: "DP654", Topic: finding.Ingress, Severity: finding.Info,
		Title: "The ingress-nginx controller may need longer than its grace period",
		Physics: "When the controller is stopped, nginx lets its workers finish what they have: up to worker-shutdown-timeout, 240 s unless the controller's ConfigMap says otherwise, after --shutdown-grace-period. The project's own manifests allow 300 s for it. " +
			"With a shorter grace period the kubelet kills nginx first, and connections that live long (downloads, WebSockets, streams) are cut without a word.",
		Sources: []string{"ingress-nginx documentation: ConfigMap, worker-shutdown-timeout", "kubernetes/ingress-nginx#11515", "kubernetes/ingress-nginx#11145"},
		Remedy:  "Set terminationGracePeriodSeconds to 300, or worker-shutdown-timeout below the grace period so that the cut is at least nginx's own.",

		Workload: checkController,
	},
}

func checkServiceUpstream(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	const key = nginxPrefix + "service-upstream"
	reported := map[*model.Front]bool{}
	for _, s := range w.Services {
		for _, f := range s.Fronts {
			if reported[f] || budget.Controller(f, s) != budget.NginxService {
				continue
			}
			reported[f] = true
			c.Report(At(f.Object, budget.AnnotationPath(key)), finding.Finding{
				Message: fmt.Sprintf("nginx has one upstream for this workload, the cluster IP of Service %s: a connection that fails is not tried on another Pod, and one that is kept alive stays with its Pod while this terminates (grace period %s), for as long as nginx reuses it",
					s.Object.Name, spell(c.Sum(w).Grace)),
				Facts: []finding.Fact{
					{Name: "service-upstream", Value: "true", From: budget.AnnotationPath(key)},
					{Name: "upstreams that nginx can choose from", Value: "1", From: "kubernetes/ingress-nginx#1586"},
					periodFact(w),
				},
				Remedy: "Keep it if the application answers with Connection: close while it drains and no client is bound to a Pod by a cookie; else remove it.",
				Ask:    "Does the application close its kept-alive connections once SIGTERM has come? " + askTest(w, "rollout") + " shows what a release costs.",
			})
		}
	}
}

func checkRetries(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	sum := c.Sum(w)
	reported := map[*model.Front]bool{}
	for _, s := range w.Services {
		for _, f := range s.Fronts {
			variant := budget.Controller(f, s)
			key, why := retriesOff(f.Annotations)
			if reported[f] || variant != budget.Nginx || key == "" {
				continue
			}
			floor, ok := floorOf(sum, budget.Ingress, variant)
			if !ok || !sum.HookKnown || sum.Hook >= floor.Least {
				continue
			}
			reported[f] = true
			c.Report(At(f.Object, budget.AnnotationPath(key)), finding.Finding{
				Message: fmt.Sprintf("%s: for about %s after a Pod's delete the controller still opens connections to it, and %s; for up to %s each refused one is a 502 at the client instead of a second try on another Pod",
					why, spell(floor.Least), holds(sum), spell(floor.Least-sum.Hook)),
				Facts: []finding.Fact{
					{Name: strings.TrimPrefix(key, nginxPrefix), Value: f.Annotations[key], From: budget.AnnotationPath(key)},
					{Name: "the controller learns of the delete after", Value: spell(floor.Least), From: floor.Source},
					holdFact(c, w),
				},
				Remedy: fmt.Sprintf("Set proxy-next-upstream to \"error timeout\" with at least 2 tries, or give the serving container a preStop sleep of at least %s.", spell(floor.Least)),
			})
		}
	}
}

// retriesOff gives the annotation that keeps nginx from trying another Pod, and says why.
func retriesOff(annotations map[string]string) (key, why string) {
	key = nginxPrefix + "proxy-next-upstream"
	if text, set := annotations[key]; set {
		switch words := strings.Fields(text); {
		case slices.Contains(words, "off"):
			return key, "proxy-next-upstream is off"
		case len(words) > 0 && !slices.Contains(words, "error"):
			return key, "proxy-next-upstream does not name \"error\", which is a connection that failed"
		}
	}
	key = nginxPrefix + "proxy-next-upstream-tries"
	if annotations[key] == "1" {
		return key, "proxy-next-upstream-tries is 1"
	}
	return "", ""
}

// checkRetired reports once for the whole input, at the first Ingress that surely is for ingress-nginx.
func checkRetired(c *Context) {
	runs := slices.ContainsFunc(c.Model.Workloads, func(w *model.Workload) bool { return controller(w) != nil })
	var first *model.Front
	var sign string
	n := 0
	for _, f := range c.Model.Fronts {
		switch budget.Controller(f, &model.Service{}) {
		case budget.Nginx, budget.NginxService:
		default:
			continue
		}
		why := ""
		switch {
		// Another controller of the name of nginx has annotations of its own (nginx.org/...).
		case hasPrefix(f.Annotations, nginxPrefix):
			why = "metadata.annotations (" + nginxPrefix + "*)"
		case runs && f.Class == "nginx":
			why = "its class nginx, and a controller of that kind in the input"
		default:
			continue
		}
		if n++; first == nil {
			first, sign = f, why
		}
	}
	if first == nil {
		return
	}
	c.Report(At(first.Object, "metadata.annotations"), finding.Finding{
		Message: fmt.Sprintf("%s written for ingress-nginx, which gets no releases and no fixes since March 2026; how its successor treats terminating Pods differs from product to product", ingressesAre(n)),
		Facts: []finding.Fact{
			{Name: "Ingresses", Value: strconv.Itoa(n), From: sign},
			{Name: "end of support", Value: "March 2026", From: "announcement of 11 November 2025"},
		},
		Remedy: "Plan the move to a Gateway API implementation or another controller; ingress2gateway maps many of the annotations.",
		Ask:    "Measure a release of one service behind each candidate, under traffic.",
	})
}

func ingressesAre(n int) string {
	if n == 1 {
		return "this Ingress is"
	}
	return fmt.Sprintf("this Ingress and %s are", plural(int64(n-1), "other"))
}

func hasPrefix(annotations map[string]string, prefix string) bool {
	for key := range annotations {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// controller gives the container of a workload that is the ingress-nginx controller.
func controller(w *model.Workload) *model.Container {
	for _, k := range w.Pod.Containers {
		if strings.Contains(k.Image, "ingress-nginx/controller") || strings.Contains(k.Image, "nginx-ingress-controller") {
			return k
		}
	}
	return nil
}

// workerShutdown is the default of worker-shutdown-timeout.
const workerShutdown = 240 * time.Second

func checkController(c *Context, w *model.Workload) {
	k := controller(w)
	if k == nil || !carries(w) {
		return
	}
	sum := c.Sum(w)
	waits := dial{0, "default of the controller"}
	if text, ok := cmdline.Of(k.Command, k.Args).Flag("--shutdown-grace-period"); ok {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return
		}
		waits = dial{n, k.Path + ": --shutdown-grace-period"}
	}
	needs := waits.seconds() + workerShutdown
	if sum.Grace >= needs {
		return
	}
	c.Report(At(w.PodObject, w.SpecPath()+".terminationGracePeriodSeconds"), finding.Finding{
		Message: fmt.Sprintf("nginx waits %s and then lets its workers finish for up to %s, the grace period is %s: connections that would live longer are cut by SIGKILL, up to %s before nginx would have closed them",
			spell(waits.seconds()), spell(workerShutdown), spell(sum.Grace), spell(needs-sum.Grace)),
		Facts: []finding.Fact{
			{Name: "worker-shutdown-timeout", Value: spell(workerShutdown), From: "default of the controller; its ConfigMap is not read"},
			{Name: "--shutdown-grace-period", Value: spell(waits.seconds()), From: waits.from},
			periodFact(w),
		},
		Remedy: fmt.Sprintf("Set terminationGracePeriodSeconds to %d, or worker-shutdown-timeout in the controller's ConfigMap below %s.", wholeSeconds(needs)+60, spell(sum.Grace-waits.seconds())),
		Ask:    fmt.Sprintf("Does the controller's ConfigMap set worker-shutdown-timeout to less than %s?", spell(sum.Grace-waits.seconds())),
	})
}
