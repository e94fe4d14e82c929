package rules

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

const proberSource = "kubernetes/kubernetes pkg/kubelet/prober/worker.go"

var readinessRules = []Rule{
	{
		ID: "DP201", Topic: finding.Readiness, Severity: finding.Warning,
		Title: "No readiness probe: new Pods get traffic before they listen",
		Physics: "A container without a readiness probe counts as ready when its process starts, or when its startup probe has passed if it has one. " +
			"The Pod then enters the EndpointSlice, and new connections are sent to it while the application is still loading: they are refused. " +
			"Each rollout, scale-up and replacement after an eviction pays this once per Pod, and minReadySeconds does not help: it delays the rollout, not the traffic.",
		Sources: []string{proberSource, "kubernetes.io: Configure Liveness, Readiness and Startup Probes", "KEP-1672 (EndpointSlice conditions)"},
		Remedy:  "Give each container that a Service targets a readinessProbe that passes only once it can serve; a startupProbe guards the start alone.", Workload: checkNoReadiness,
	},
	{
		ID: "DP202", Topic: finding.Readiness, Severity: finding.Warning,
		Title: "The readiness probe cannot fail",
		Physics: "An exec probe passes when its command exits with 0. A command that always does (true, echo, exit 0) makes the container ready as soon as its process " +
			"runs, which is the same as no readiness probe: new Pods get traffic before they listen.",
		Sources: []string{proberSource, "kubernetes.io: Configure Liveness, Readiness and Startup Probes"},
		Remedy:  "Let the probe ask the application: an HTTP or gRPC health check, or at least a TCP connection to the port that the Service targets.", Workload: checkUselessReadiness,
	},
	{
		ID: "DP203", Topic: finding.Readiness, Severity: finding.Error,
		Title: "A probe names a port that its container does not declare",
		Physics: "The kubelet looks a probe's named port up among the ports of the probe's own container. Where the name is missing the probe ends in an internal error, and the " +
			"kubelet throws such results away. A readiness probe then stays at its initial value, failure; a startup probe never passes, so that readiness is never asked. " +
			"The Pod is never ready and no Service sends to it.",
		Sources: []string{proberSource, "kubernetes/kubernetes pkg/kubelet/prober/prober.go"},
		Remedy:  "Declare the port with that name in the same container, or write the port's number in the probe.", Workload: checkProbePort,
	},
	{
		ID: "DP204", Topic: finding.Readiness, Severity: finding.Info,
		Title: "Readiness flips too late to say anything",
		Physics: "Some applications fail their readiness check on SIGTERM, or in the preStop hook, so that clients go away. The kubelet asks only every periodSeconds and believes " +
			"failureThreshold failures in a row. If the process is gone before that, nobody ever sees the flip. For Pods that are deleted this costs little: the delete itself turns ready off. " +
			"It matters to whoever relies on the flip: data planes that go by the serving condition, and a shutdown that deletes no Pod (kubernetes/kubernetes#116965).",
		Sources: []string{"KEP-1669 (ProxyTerminatingEndpoints)", proberSource, "kubernetes/kubernetes#116965"},
		Remedy:  "Shorten periodSeconds x failureThreshold below the time that is left, or let the hook or the drain last longer than that.", Workload: checkLateFlip,
	},
	{
		ID: "DP205", Topic: finding.Readiness, Severity: finding.Warning,
		Title: "New Pods cannot be ready before the rollout's deadline",
		Physics: "A Pod is ready at the soonest after initialDelaySeconds and successThreshold probes, and available after minReadySeconds more. A rollout in which nothing becomes " +
			"available for progressDeadlineSeconds is reported as failed, and tools that watch it roll back: a termination of every new Pod, at each release.",
		Sources: []string{proberSource, "kubernetes.io: Deployments, progress deadline seconds"},
		Remedy:  "Lower the readiness probe's initialDelaySeconds (the probe itself waits for the application), or raise progressDeadlineSeconds above the sum.", Workload: checkSlowReady,
	},
	{
		ID: "DP206", Topic: finding.Readiness, Severity: finding.Warning,
		Title: "A readiness probe that hangs keeps a dead Pod in service",
		Physics: "The kubelet runs a container's readiness probes one after the other. With timeoutSeconds above periodSeconds a probe of an application that hangs delays the next, so that " +
			"the Pod stays ready for failureThreshold x timeoutSeconds instead of failureThreshold x periodSeconds. The same hang at the start delays the first pass.",
		Sources: []string{proberSource, "kubernetes/kubernetes#86280 (refused connections in an upgrade, readiness timeoutSeconds 300)"},
		Remedy:  "Set timeoutSeconds to what a healthy answer takes (1 s to 5 s), below periodSeconds.", Workload: checkLongTimeout,
	},
	{
		ID: "DP207", Topic: finding.Readiness, Severity: finding.Info,
		Title: "A Pod that failed readiness once is slow to come back",
		Physics: "A Pod that has become unready is ready again after successThreshold passes in a row, one each periodSeconds. Until then the other Pods carry its share, " +
			"or, where every Pod failed for the same reason, the Service has no endpoint.",
		Sources: []string{proberSource},
		Remedy:  "Probe more often (periodSeconds 5 or 10) with successThreshold 1; let failureThreshold absorb the blips.", Workload: checkSlowReturn,
	},
}

// target is a container to which Services send, with one of the ports they send to.
type target struct {
	container *model.Container
	port      int64
	services  []*model.Service
}

// judgedTargets are the containers to which a Service sends that goes by readiness:
// one with publishNotReadyAddresses does not.
func judgedTargets(w *model.Workload) []target {
	var targets []target
	add := func(k *model.Container, port int64, s *model.Service) {
		for i := range targets {
			if t := &targets[i]; t.container == k {
				if t.services[len(t.services)-1] != s { // Services come in order
					t.services = append(t.services, s)
				}
				return
			}
		}
		targets = append(targets, target{k, port, []*model.Service{s}})
	}
	for _, s := range w.Services {
		if s.PublishNotReady || isJob(w) && len(s.Workloads) > 1 { // the latter is DP863's business
			continue
		}
		for _, t := range s.TargetsOf(w) {
			add(t.Container, t.Port.Number, s)
		}
	}
	return targets
}

// unguarded are the targets that become ready with their process: nothing asks them whether
// they serve, neither their own probes nor another container's on the same port.
func unguarded(w *model.Workload) []target {
	if len(w.Pod.ReadinessGates) > 0 {
		return nil
	}
	var bare []target
	for _, t := range judgedTargets(w) {
		if t.container.Readiness == nil && t.container.Startup == nil && !portIsProbed(w, t.port) {
			bare = append(bare, t)
		}
	}
	return bare
}

// portIsProbed says that some container's readiness or startup probe asks the port: all
// containers of a Pod share its addresses, and all must be ready.
func portIsProbed(w *model.Workload, port int64) bool {
	for _, k := range everyContainer(w) {
		for _, p := range []*model.Probe{k.Readiness, k.Startup} {
			if p == nil || p.Port == "" {
				continue
			}
			for _, declared := range k.Ports {
				if declared.Name == p.Port && declared.Number == port {
					return true
				}
			}
			if p.Port == strconv.FormatInt(port, 10) {
				return true
			}
		}
	}
	return false
}

func checkNoReadiness(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, t := range unguarded(w) {
		f := finding.Finding{
			Remedy: fmt.Sprintf("give container %s a readinessProbe that passes only once it serves port %d; tcpSocket is the least, an HTTP or gRPC health check knows more", t.container.Name, t.port),
		}
		f.Message = fmt.Sprintf("container %s has no readiness probe: its Pod gets traffic from %s as soon as the process runs", t.container.Name, namesOf(t.services))
		if took, fact, ok := declaredStart(w); ok {
			f.Message += fmt.Sprintf(", but it needs %s to start: up to %s of refused connections per new Pod", spell(took), spell(took))
			f.Facts = append(f.Facts, fact)
		} else if p := t.container.Liveness; p != nil && p.InitialDelay.N > 0 {
			f.Message += fmt.Sprintf("; its liveness probe allows it %s to start: up to that long, connections to a new Pod are refused", spell(ofSeconds(p.InitialDelay)))
			f.Facts = append(f.Facts, probeFacts("liveness", p, "initialDelaySeconds")...)
		} else {
			f.Message += "; until it listens, connections to a new Pod are refused"
		}
		if pods, known := leastPods(w); known && pods.n > 0 {
			f.Facts = append(f.Facts, pods.fact)
			if pods.n > 1 {
				f.Message += fmt.Sprintf(" (about 1 connection in %d)", pods.n)
			}
		}
		f.Facts = append(f.Facts, finding.Fact{Name: "readiness probe", Value: "none", From: t.container.Path + ".readinessProbe"})
		if onlyHeadless(w) {
			f.Severity = finding.Info
			f.Ask = "do clients of the headless name tolerate an address that refuses connections until the process listens? " + askTell(w, "rollout")
		}
		c.Report(At(w.PodObject, t.container.Path+".readinessProbe"), f)
	}
}

func checkUselessReadiness(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, t := range judgedTargets(w) {
		p := t.container.Readiness
		if p == nil || p.How != "exec" || !alwaysPasses(p.Exec) || t.container.Startup != nil || portIsProbed(w, t.port) {
			continue
		}
		c.Report(At(w.PodObject, p.At), finding.Finding{
			Message: fmt.Sprintf("the readiness probe of container %s runs %q, which never fails: the Pod gets traffic from %s as soon as the process runs, whether it listens or not",
				t.container.Name, strings.Join(p.Exec, " "), namesOf(t.services)),
			Facts:  []finding.Fact{{Name: "readiness command", Value: strings.Join(p.Exec, " "), From: p.At + ".exec.command"}},
			Remedy: fmt.Sprintf("let it ask the application: tcpSocket on port %d is the least, an HTTP or gRPC health check knows more", t.port),
		})
	}
}

// alwaysPasses says that a command exits with 0 whatever the application does. It knows
// a handful of commands and is silent about any redirection: bash opens connections with them.
func alwaysPasses(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	switch path.Base(argv[0]) {
	case "true", "echo", "printf":
		return true
	case "busybox":
		return alwaysPasses(argv[1:])
	case "sh", "bash", "ash", "dash":
	default:
		return false
	}
	if len(argv) != 3 || argv[1] != "-c" || strings.ContainsAny(argv[2], "<>|&`$(){}") {
		return false
	}
	steps := strings.FieldsFunc(argv[2], func(r rune) bool { return r == ';' || r == '\n' })
	ran := false
	for _, step := range steps {
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		ran = true
		switch path.Base(words[0]) {
		case "true", "echo", "printf", ":":
		case "exit":
			return len(words) > 1 && words[1] == "0"
		default:
			return false
		}
	}
	return ran
}

func checkProbePort(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, k := range everyContainer(w) {
		for _, probe := range []struct {
			name, effect string
			p            *model.Probe
		}{
			{"readiness", "it never passes", k.Readiness},
			{"startup", "the container never counts as started, so readiness is never asked", k.Startup},
		} {
			p := probe.p
			if p == nil || p.Port == "" || p.How == "exec" || isNumber(p.Port) || slices.ContainsFunc(k.Ports, func(d model.Port) bool { return d.Name == p.Port }) {
				continue
			}
			f := finding.Finding{
				Message: fmt.Sprintf("the %s probe of container %s asks port %q, which that container does not declare: %s, and no Pod is ever ready", probe.name, k.Name, p.Port, probe.effect),
				Facts: []finding.Fact{
					{Name: "port of the probe", Value: p.Port, From: p.At},
					{Name: "declared ports", Value: portNames(k), From: k.Path + ".ports"},
				},
				Remedy: fmt.Sprintf("name the port %q in container %s, or write the port's number in the probe", p.Port, k.Name),
			}
			for _, other := range everyContainer(w) {
				if slices.ContainsFunc(other.Ports, func(d model.Port) bool { return d.Name == p.Port }) {
					f.Message += fmt.Sprintf(" (container %s declares it, but a probe looks in its own container only)", other.Name)
				}
			}
			c.Report(At(w.PodObject, p.At), f)
		}
	}
}

func isNumber(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// portNames lists a container's ports as "http 8080, 9090".
func portNames(k *model.Container) string {
	var names []string
	for _, p := range k.Ports {
		names = append(names, strings.TrimSpace(p.Name+" "+strconv.FormatInt(p.Number, 10)))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// checkLateFlip looks at workloads that mean to fail readiness as they stop: their annotation
// says so, or their hook takes away the file that readiness looks for.
func checkLateFlip(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	sum := c.Sum(w)
	for _, t := range judgedTargets(w) {
		p := t.container.Readiness
		if p == nil {
			continue
		}
		var left time.Duration
		var from, leftWords string
		var facts []finding.Fact
		hook := t.container.PreStop
		switch at, onTerm := failsOnTerm(w); {
		case onTerm && sum.Drain.Known:
			left, from, leftWords = sum.Drain.Took, "SIGTERM", "the application exits after "+spell(sum.Drain.Took)
			facts = []finding.Fact{{Name: "readiness after SIGTERM", Value: "fails", From: at}, {Name: "drain", Value: spell(left), From: sum.Drain.From}}
		case onTerm && sum.HookKnown:
			left, from = max(sum.Grace-sum.Hook, 0), "SIGTERM"
			leftWords = fmt.Sprintf("the grace period leaves %s after the hook", spell(left))
			facts = []finding.Fact{{Name: "readiness after SIGTERM", Value: "fails", From: at}, graceFact(w, sum.Grace), {Name: "preStop hook", Value: spell(sum.Hook), From: hookPath(w)}}
		case hook != nil && takesAway(hook.Exec, p.Exec):
			held := max(hook.Took, hook.AtLeast)
			left, from, leftWords = held, "the start of the preStop hook", "the hook lasts "+spell(held)
			facts = []finding.Fact{{Name: "preStop hook", Value: spell(held), From: hook.At}}
			if sum.Drain.Known {
				left += sum.Drain.Took
				leftWords = fmt.Sprintf("hook and drain last %s", spell(left))
				facts = append(facts, finding.Fact{Name: "drain", Value: spell(sum.Drain.Took), From: sum.Drain.From})
			}
		default:
			continue
		}
		soonest, latest := fails(p)
		if latest <= left {
			continue
		}
		how := fmt.Sprintf("may flip too late: %s to %s", spell(soonest), spell(latest))
		if soonest >= left {
			how = fmt.Sprintf("cannot flip in time: %s at the soonest, %s at the latest", spell(soonest), spell(latest))
		}
		remedy := "drop the flip and hold the Pod with a preStop sleep"
		if left > 0 {
			remedy = fmt.Sprintf("keep periodSeconds x failureThreshold + timeoutSeconds below %s, or %s", spell(left), remedy)
		}
		c.Report(At(w.PodObject, p.At), finding.Finding{
			Message: fmt.Sprintf("readiness of container %s begins to fail at %s and %s (periodSeconds %d x failureThreshold %d, timeout %s), but %s. The delete itself turns ready off; the flip is lost on whoever waits for it",
				t.container.Name, from, how, p.Period.N, p.Failure.N, spell(ofSeconds(p.Timeout)), leftWords),
			Facts:  append(probeFacts("readiness", p, "periodSeconds", "failureThreshold", "timeoutSeconds"), facts...),
			Remedy: remedy,
			Ask:    "does anything but Kubernetes' own endpoints go by this readiness check: a load balancer's health check, a gateway that reads the serving condition? If not, this costs nothing",
		})
	}
}

func graceFact(w *model.Workload, grace time.Duration) finding.Fact {
	return finding.Fact{Name: "grace period", Value: spell(grace), From: origin(w.Pod.Grace, w.SpecPath()+".terminationGracePeriodSeconds")}
}

// takesAway says that a hook removes the file that a readiness command looks for.
func takesAway(hook, readiness []string) bool {
	if len(readiness) == 0 || !strings.Contains(strings.Join(hook, " "), "rm ") && !slices.Contains(hook, "rm") {
		return false
	}
	asked := strings.Fields(strings.Join(readiness, " "))
	file := strings.Trim(asked[len(asked)-1], `"']`)
	return path.IsAbs(file) && slices.Contains(strings.FieldsFunc(strings.Join(hook, " "), func(r rune) bool { return strings.ContainsRune(" ;&\"'\n", r) }), file)
}

func checkSlowReady(c *Context, w *model.Workload) {
	if !carries(w) || w.Object.Kind != "Deployment" && w.Object.Kind != "Rollout" {
		return
	}
	ready, facts := soonestReady(w)
	deadline := model.Int{N: 600}
	if n, ok := w.Object.Find("spec.progressDeadlineSeconds").Int(); ok {
		deadline = model.Int{N: n, Set: true}
	}
	sum := ready + ofSeconds(w.MinReady)
	deadlineFacts := append(facts, secondsFact("minReadySeconds", w.MinReady, "spec.minReadySeconds"),
		secondsFact("progressDeadlineSeconds", deadline, "spec.progressDeadlineSeconds"))
	if w.MinReady.N >= deadline.N && w.Object.Kind == "Deployment" {
		c.Report(At(w.Object, "spec.minReadySeconds"), finding.Finding{
			Message: fmt.Sprintf("minReadySeconds %d is not below progressDeadlineSeconds %d: the API server refuses such a Deployment, because no new Pod could be available before the rollout counts as failed",
				w.MinReady.N, deadline.N),
			Facts:  deadlineFacts,
			Remedy: fmt.Sprintf("lower minReadySeconds, or set progressDeadlineSeconds to at least %d", wholeSeconds(sum+sum/2)),
		})
		return
	}
	if sum <= ofSeconds(deadline) {
		return
	}
	slow := "the readiness delay"
	if ready < ofSeconds(w.MinReady) {
		slow = "minReadySeconds"
	}
	c.Report(At(w.Object, "spec.progressDeadlineSeconds"), finding.Finding{
		Message: fmt.Sprintf("a new Pod is available %s after its containers' start at the soonest (readiness %s + minReadySeconds %s), but the rollout counts as failed after %s without progress: every release is reported as failed and may be rolled back",
			spell(sum), spell(ready), spell(ofSeconds(w.MinReady)), spell(ofSeconds(deadline))),
		Facts:  deadlineFacts,
		Remedy: fmt.Sprintf("lower %s, or set progressDeadlineSeconds to at least %d", slow, wholeSeconds(sum+sum/2)),
	})
}

// A minute is far beyond what any retry of a client bridges.
const tooLong = time.Minute

func checkLongTimeout(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, t := range judgedTargets(w) {
		p := t.container.Readiness
		if p == nil || p.Timeout.N <= p.Period.N {
			continue
		}
		hung, meant := ofSeconds(p.Timeout)*time.Duration(p.Failure.N), ofSeconds(p.Period)*time.Duration(p.Failure.N)
		if hung < tooLong {
			continue
		}
		c.Report(At(w.PodObject, p.At+".timeoutSeconds"), finding.Finding{
			Message: fmt.Sprintf("readiness of container %s waits up to %s for each answer but asks every %s: a Pod that hangs stays in %s for %s (timeoutSeconds x failureThreshold), not %s",
				t.container.Name, spell(ofSeconds(p.Timeout)), spell(ofSeconds(p.Period)), namesOf(t.services), spell(hung), spell(meant)),
			Facts:  probeFacts("readiness", p, "timeoutSeconds", "periodSeconds", "failureThreshold"),
			Remedy: fmt.Sprintf("set timeoutSeconds to what a healthy answer takes, at most %d", min(p.Period.N, 5)),
		})
	}
}

func checkSlowReturn(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, t := range judgedTargets(w) {
		p := t.container.Readiness
		if p == nil {
			continue
		}
		back := ofSeconds(p.Period) * time.Duration(p.Success.N)
		if back < tooLong {
			continue
		}
		c.Report(At(w.PodObject, p.At), finding.Finding{
			Message: fmt.Sprintf("a Pod that fails readiness %s is out of %s for at least %s (periodSeconds %d x successThreshold %d)",
				times(p.Failure.N), namesOf(t.services), spell(back), p.Period.N, p.Success.N),
			Facts:  probeFacts("readiness", p, "periodSeconds", "successThreshold", "failureThreshold"),
			Remedy: "ask more often: periodSeconds 10 with successThreshold 1 brings a Pod back within 10 s",
			Ask:    "can the check fail on all Pods at once, for example because it asks a shared database? Then the Service has no endpoint for that long",
		})
	}
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return strconv.FormatInt(n, 10) + " times in a row"
}
