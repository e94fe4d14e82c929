package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/images"
	"github.com/drainproof/drainproof/internal/audit/model"
)

const fromNativeSidecars = "KEP-753 (native sidecars: on by default since 1.29, GA 1.33)"

var sidecarRules = []Rule{
	{
		ID: "DP841", Topic: finding.Sidecar, Severity: finding.Warning,
		Title: "A proxy beside the application ends before it",
		Physics: "Ordinary containers of a Pod are stopped in parallel: hooks and signals of all of them run at once. A mesh or database proxy that ends on its stop signal takes the application's network away while the application still drains, or while the application's own hook still holds it: its requests fail although it is there to answer them. " +
			"A native sidecar (an init container with restartPolicy Always) is stopped after the ordinary containers have exited.",
		Sources: []string{fromNativeSidecars, fromKillContainer, "istio/istio#36640", "istio/istio#34855", "hashicorp/consul-k8s#650", "GoogleCloudPlatform/cloud-sql-proxy#86", "linkerd/linkerd2#10379"},
		Remedy:  "Make the proxy a native sidecar, or give it a preStop sleep or a drain time as long as the application's hook and drain.", Workload: checkLegacySidecar,
	},
	{
		ID: "DP842", Topic: finding.Sidecar, Severity: finding.Warning,
		Title: "The preStop hook of a native sidecar runs at the delete, not when its turn comes",
		Physics: "Only the stop signal of a native sidecar waits for the ordinary containers to exit. The kubelet runs its preStop hook before that wait, so the hook starts at the delete together with the application's own. A hook that drains or stops the sidecar does so while the application still serves through it; " +
			"what the hook takes is charged to the same grace period.",
		Sources: []string{fromKillContainer + " (the hook comes before waitForTurn)", fromNativeSidecars},
		Remedy:  "Drop the hook: the ordering does what it was for. If it must stay, let it only sleep, or wait for the application's exit itself.", Workload: checkSidecarHook,
	},
	{
		ID: "DP843", Topic: finding.Sidecar, Severity: finding.Warning,
		Title:   "One serving container has a preStop hook and another has none",
		Physics: "A hook holds its own container only. The others get their stop signal at the delete, while the Pod's address still receives new connections for all of its ports: those for the container without a hook are refused.",
		Sources: []string{fromKillContainer, fromLostRequests},
		Remedy:  "Give every container that serves the same preStop sleep.", Workload: checkUnevenHooks,
	},
}

// istioDrains is terminationDrainDuration where nothing else is set.
const istioDrains = 5 * time.Second

// stays is how long a proxy goes on after the delete: its hook, and what its settings add.
// known is false where they cannot be read.
func stays(w *model.Workload, k *model.Container, s *images.Server) (d time.Duration, facts []finding.Fact, known bool) {
	d, known = budget.HookOf(k)
	if !known {
		return d, nil, false
	}
	facts = []finding.Fact{{Name: "preStop hook of " + k.Name, Value: spell(d), From: k.Path + ".lifecycle.preStop"}}
	if k.PreStop == nil {
		facts[0].From += " (absent)"
	}
	if delay, set := s.Delay(k.Command, k.Args); set {
		d += delay
		facts = append(facts, finding.Fact{Name: k.Name + " after its stop signal", Value: spell(delay), From: k.Path + ".args"})
	}
	if s.Name == "istio-proxy" {
		for _, text := range []string{w.Annotations["proxy.istio.io/config"], k.Env["PROXY_CONFIG"]} {
			if strings.Contains(text, "terminationDrainDuration") || strings.Contains(text, "EXIT_ON_ZERO_ACTIVE_CONNECTIONS") {
				return d, nil, false
			}
		}
		if _, set := k.Env["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"]; set {
			return d, nil, false
		}
		d += istioDrains
		facts = append(facts, finding.Fact{Name: k.Name + " after its stop signal", Value: spell(istioDrains), From: "default of terminationDrainDuration, istio/istio#34855"})
	}
	return d, facts, true
}

// legacyProxies are the known proxies among the ordinary containers, where another container serves.
func legacyProxies(w *model.Workload) (proxies, applications []*model.Container) {
	serving := w.Serving()
	for _, k := range w.Pod.Containers {
		switch s := knownOf(k).Server; {
		case s != nil && s.Sidecar:
			proxies = append(proxies, k)
		case slices.Contains(serving, k):
			applications = append(applications, k)
		}
	}
	if len(applications) == 0 {
		return nil, nil
	}
	return proxies, applications
}

func checkLegacySidecar(c *Context, w *model.Workload) {
	if !carries(w) || w.Pod.Grace.N == 0 {
		return
	}
	proxies, applications := legacyProxies(w)
	sum := c.Sum(w)
	for _, k := range proxies {
		s := knownOf(k).Server
		proxy, facts, known := stays(w, k, s)
		if !known {
			continue
		}
		// The application that goes on the longest needs its proxy the longest.
		var app *model.Container
		var longest time.Duration
		for _, a := range applications {
			if took, _ := budget.HookOf(a); app == nil || took > longest {
				app, longest = a, took
			}
		}
		appFrom := app.Path + ".lifecycle.preStop"
		if app.PreStop == nil {
			appFrom += " (absent)"
		}
		facts = append(facts, finding.Fact{Name: "preStop hook of " + app.Name, Value: spell(longest), From: appFrom})
		goesOn := longest
		if sum.Drain.Known {
			goesOn += sum.Drain.Took
			facts = append(facts, finding.Fact{Name: "drain", Value: spell(sum.Drain.Took), From: sum.Drain.From})
		}
		goesOn = min(goesOn, max(sum.Grace, longest))
		f := finding.Finding{Facts: facts, Remedy: nativeRemedy(c, k)}
		if s.DelayFlag != "" {
			f.Remedy += fmt.Sprintf("; or set %s to %s", s.DelayFlag, spell(max(goesOn, 5*time.Second)))
		}
		switch {
		case goesOn > proxy:
			f.Message = fmt.Sprintf("container %s goes on for %s after the delete, and %s beside it only for %s: on SIGTERM it %s, so the application has no proxy for %s",
				app.Name, spell(goesOn), s.Name, spell(proxy), s.OnTERM, spell(goesOn-proxy))
		case sum.Drain.Known || proxy > 0:
			continue
		default:
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("%s is an ordinary container beside %s and gets SIGTERM at the same time: it %s, and requests that %s finishes after that are without it", s.Name, app.Name, s.OnTERM, app.Name)
			f.Ask = fmt.Sprintf("does %s need %s to finish its requests after SIGTERM? %s", app.Name, s.Name, askTell(w, "rollout"))
		}
		c.Report(At(w.PodObject, k.Path), f)
	}
}

func nativeRemedy(c *Context, k *model.Container) string {
	if c.Server >= 29 {
		return fmt.Sprintf("move %s to initContainers with restartPolicy: Always: it is then stopped after the ordinary containers", k.Name)
	}
	return fmt.Sprintf("give %s a preStop sleep as long as the application's hook and drain (Kubernetes 1.%d has no native sidecars)", k.Name, c.Server)
}

// stopWords are what a hook says that drains or stops a sidecar.
var stopWords = []string{"kill", "quit", "drain", "healthcheck/fail", "shutdown", "stop", "exit"}

func checkSidecarHook(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, k := range w.Pod.Sidecars {
		h := k.PreStop
		if h == nil || h.Broken != "" || h.Known {
			continue // a sleep at the delete harms nothing: the sidecar goes on
		}
		text := hookText(h) + h.Path
		f := finding.Finding{
			Facts: []finding.Fact{
				{Name: "preStop hook", Value: shorten(text), From: h.At},
				{Name: "native sidecar", Value: "restartPolicy Always", From: k.Path + ".restartPolicy"},
			},
			Remedy: "drop the hook: the sidecar gets its stop signal only after the application's containers have exited",
		}
		if word := slices.IndexFunc(stopWords, func(word string) bool { return strings.Contains(strings.ToLower(text), word) }); word >= 0 {
			f.Message = fmt.Sprintf("the preStop hook of native sidecar %s drains or stops it (%s) and runs at the delete, 0 s after it, not after the application's exit: the application loses its sidecar while it still serves", k.Name, shorten(text))
		} else {
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("the preStop hook of native sidecar %s runs at the delete, together with the application's, and is charged to the same grace period of %s; it does not wait for its turn", k.Name, spell(c.Sum(w).Grace))
			f.Ask = "does the hook expect the application to be gone?"
		}
		c.Report(At(w.PodObject, h.At), f)
	}
}

// unevenHooks are the serving containers without a hook in a Pod where another
// serving container has one. Exporters of metrics do not count, nor known proxies that DP841 is about.
func unevenHooks(w *model.Workload) []*model.Container {
	if !carries(w) || w.Pod.Grace.N == 0 || neverRelieved(w) {
		return nil
	}
	var without []*model.Container
	with := false
	for _, k := range w.Serving() {
		s := knownOf(k).Server
		switch {
		case k.Sidecar || onlyMetrics(w, k):
		case k.PreStop != nil && k.PreStop.Broken == "":
			with = true
		case k.PreStop == nil && (s == nil || !s.Sidecar && !s.ClosesListener && !s.Clustered) && !losesSignal(w, k):
			without = append(without, k)
		}
	}
	if !with {
		return nil
	}
	return without
}

// onlyMetrics: all ports over which a container is reached are for metrics, by their names.
func onlyMetrics(w *model.Workload, k *model.Container) bool {
	named := func(s string) bool {
		s = strings.ToLower(s)
		return strings.Contains(s, "metric") || strings.Contains(s, "prometheus") || strings.Contains(s, "telemetry") || strings.Contains(s, "exporter")
	}
	if named(k.Name) {
		return true
	}
	reached := 0
	for _, s := range w.Services {
		for _, t := range s.TargetsOf(w) {
			if t.Container != k {
				continue
			}
			reached++
			if !named(t.ServicePort.Name) && !named(t.Port.Name) {
				return false
			}
		}
	}
	return reached > 0
}

func checkUnevenHooks(c *Context, w *model.Workload) {
	without := unevenHooks(w)
	if len(without) == 0 {
		return
	}
	var holder *model.Container
	for _, k := range w.Serving() {
		if k.PreStop != nil {
			holder = k
			break
		}
	}
	floor := arrival(c.Sum(w))
	for _, k := range without {
		took, known := budget.HookOf(holder)
		holds := "has a preStop hook"
		if known {
			holds = fmt.Sprintf("is held by a preStop hook for %s", spell(took))
		}
		f := finding.Finding{
			Message: fmt.Sprintf("container %s %s, but container %s, which serves too, has none and gets SIGTERM at the delete", holder.Name, holds, k.Name),
			Facts: []finding.Fact{
				{Name: "preStop hook of " + holder.Name, Value: spell(took), From: holder.PreStop.At},
				{Name: "preStop hook of " + k.Name, Value: "0 s", From: k.Path + ".lifecycle.preStop (absent)"},
			},
			Remedy: fmt.Sprintf("give container %s the same hook as %s", k.Name, holder.Name),
		}
		if floor != nil {
			f.Message += ", while " + arriving(floor)
			f.Facts = append(f.Facts, floorFact(floor))
		}
		c.Report(At(w.PodObject, k.Path+".lifecycle.preStop"), f)
	}
}
