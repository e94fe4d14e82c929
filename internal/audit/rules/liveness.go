package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var livenessRules = []Rule{
	{
		ID: "DP251", Topic: finding.Liveness, Severity: finding.Error,
		Title: "The container is restarted before it can have started",
		Physics: "A liveness probe runs from the start of the container unless a startup probe holds it back; it does not wait for readiness. After initialDelaySeconds and failureThreshold failures, one each " +
			"periodSeconds, the kubelet restarts the container. An application that needs longer than that never gets to serve: each release replaces good Pods by Pods in a restart loop, or the rollout stands still.",
		Sources: []string{proberSource, "kubernetes.io: Liveness, Readiness, and Startup Probes"},
		Remedy:  "Add a startupProbe with the same check whose periodSeconds x failureThreshold exceeds the slowest start; the liveness probe then begins after it.", Workload: checkRestartedStarter,
	},
	{
		ID: "DP252", Topic: finding.Liveness, Severity: finding.Info,
		Title: "A slow starter without a startup probe",
		Physics: "Some programs are known to start slowly and unevenly: Java servers under a CPU limit, search engines and databases that replay logs, model servers that load weights. " +
			"A liveness probe that is short enough to be useful later is then too short for a bad start, and the kubelet restarts the container in the middle of it, most likely when " +
			"many Pods start at once, as in a rollout or after a node was drained.",
		Sources: []string{proberSource, "kubernetes.io: Configure Liveness, Readiness and Startup Probes"},
		Remedy:  "Add a startupProbe with a generous failureThreshold, and keep the liveness probe strict.", Workload: checkSlowStarter,
	},
	{
		ID: "DP253", Topic: finding.Liveness, Severity: finding.Warning,
		Title: "Liveness restarts what readiness would take out",
		Physics: "Where both probes ask the same question and liveness gives up no later than readiness, an overloaded Pod is restarted instead of being taken out for a while. The restart ends every connection it holds, " +
			"and its load falls on the others, whose probes fail next. A TCP check is not meant: the kernel answers it however busy the application is. (While a Pod terminates liveness does not run, so this is not about draining: kubernetes/kubernetes#52817.)",
		Sources: []string{"kubernetes.io: Configure Liveness, Readiness and Startup Probes (same endpoint, higher failureThreshold)", proberSource, "kubernetes/kubernetes#52817"},
		Remedy:  "Give liveness a higher failureThreshold than readiness, so that a Pod is out of service for a while before it is restarted, or a check that overload does not fail.", Workload: checkSameProbes,
	},
}

func checkRestartedStarter(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	start, startFact, declared := declaredStart(w)
	for _, k := range w.Serving() {
		p, name := k.Liveness, "liveness"
		if k.Startup != nil {
			p, name = k.Startup, "startup"
		}
		if p == nil {
			continue
		}
		soonest, latest := givesUp(p)
		facts := probeFacts(name, p, "initialDelaySeconds", "periodSeconds", "failureThreshold", "timeoutSeconds")
		f := finding.Finding{Remedy: patient(k, start)}
		// A check of its own may pass before the application serves.
		own := k.Readiness != nil && checks(k.Readiness) != checks(p)
		switch {
		case declared && start >= latest:
			f.Message = fmt.Sprintf("container %s needs %s to start, but its %s probe has it restarted after %s at the latest (initialDelaySeconds %d + periodSeconds %d x failureThreshold %d + timeoutSeconds %d): ",
				k.Name, spell(start), name, spell(latest), p.InitialDelay.N, p.Period.N, p.Failure.N, p.Timeout.N)
			if own {
				f.Severity = finding.Warning
				f.Message += fmt.Sprintf("unless that check (%s) passes well before readiness does, it never serves", checks(p))
			} else {
				f.Message += "it never serves"
			}
			f.Facts = append(facts, startFact)
		case declared && start > soonest:
			f.Severity = finding.Warning
			f.Message = fmt.Sprintf("container %s needs %s to start, but its %s probe may have it restarted after %s (initialDelaySeconds %d + periodSeconds %d x (failureThreshold %d - 1)): a slow start ends in a restart",
				k.Name, spell(start), name, spell(soonest), p.InitialDelay.N, p.Period.N, p.Failure.N)
			f.Facts = append(facts, startFact)
		case !declared && name == "liveness" && k.Readiness != nil && ofSeconds(k.Readiness.InitialDelay) > soonest:
			delay := ofSeconds(k.Readiness.InitialDelay)
			f.Severity = finding.Warning
			f.Message = fmt.Sprintf("readiness of container %s is not even asked for %s, as if it started no sooner, but liveness may have it restarted after %s (initialDelaySeconds %d + periodSeconds %d x (failureThreshold %d - 1))",
				k.Name, spell(delay), spell(soonest), p.InitialDelay.N, p.Period.N, p.Failure.N)
			f.Facts = append(facts, probeFacts("readiness", k.Readiness, "initialDelaySeconds")...)
			f.Remedy = patient(k, delay) + ", and drop both initial delays"
		default:
			continue
		}
		c.Report(At(w.PodObject, p.At), f)
	}
}

// patient says how a startup probe gives a container half as much time again as its start takes.
func patient(k *model.Container, start time.Duration) string {
	if p := k.Startup; p != nil {
		period := max(ofSeconds(p.Period), time.Second)
		threshold := (start*3/2 + period - 1) / period
		return fmt.Sprintf("set failureThreshold of container %s's startupProbe to %d (%s)", k.Name, threshold, spell(time.Duration(threshold)*period))
	}
	threshold := (start*3/2 + 5*time.Second - 1) / (5 * time.Second)
	return fmt.Sprintf("give container %s a startupProbe with the check of its liveness probe, periodSeconds 5 and failureThreshold %d (%d s)", k.Name, threshold, threshold*5)
}

// patience is the start that a slow starter should be allowed; the documentation of
// Kubernetes gives its example 300 s, and a minute is what even small Java servers take under a CPU limit.
const patience = time.Minute

func checkSlowStarter(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	if _, _, declared := declaredStart(w); declared {
		return
	}
	for _, k := range w.Serving() {
		p := k.Liveness
		if p == nil || k.Startup != nil {
			continue
		}
		why, where := slowStarter(k)
		soonest, _ := givesUp(p)
		if why == "" || soonest >= patience {
			continue
		}
		c.Report(At(w.PodObject, p.At), finding.Finding{
			Message: fmt.Sprintf("container %s looks like a slow starter (%s), has no startup probe, and may be restarted %s after its start (initialDelaySeconds %d + periodSeconds %d x (failureThreshold %d - 1))",
				k.Name, why, spell(soonest), p.InitialDelay.N, p.Period.N, p.Failure.N),
			Facts:  append(probeFacts("liveness", p, "initialDelaySeconds", "periodSeconds", "failureThreshold"), finding.Fact{Name: "slow starter", Value: why, From: where}),
			Remedy: "add a startupProbe with the same check, periodSeconds 5 and failureThreshold 60 (300 s)",
			Ask:    fmt.Sprintf("how long does its slowest start take, many at once and under the CPU limit? Say so with the annotation %s", startupNote),
		})
	}
}

// slowNames are parts of image names of programs that start slowly.
var slowNames = []string{
	"elasticsearch", "opensearch", "solr", "kafka", "cassandra", "neo4j", "logstash", "keycloak", "jenkins", "sonarqube", "nexus3",
	"tomcat", "wildfly", "jboss", "weblogic", "websphere", "liberty", "activemq", "artemis", "pulsar", "trino", "hbase", "nacos",
	"openjdk", "temurin", "corretto", "jdk", "jre", "java", "spring", "vllm", "tritonserver",
}

// slowEnv are variables that only a Java process or a Spring application reads.
var slowEnv = []string{"JAVA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "JVM_OPTS", "ES_JAVA_OPTS", "CATALINA_OPTS", "KAFKA_HEAP_OPTS", "SPRING_PROFILES_ACTIVE", "SPRING_APPLICATION_JSON"}

// slowStarter says why a container is taken for one, and where that stands; "" where nothing says so.
func slowStarter(k *model.Container) (why, where string) {
	words := append(slices.Clone(k.Command), k.Args...)
	for _, word := range words {
		for _, w := range strings.Fields(word) {
			if path.Base(w) == "java" || strings.HasSuffix(w, ".jar") {
				return "it runs " + path.Base(w), k.Path + ".command"
			}
		}
	}
	for _, name := range slowEnv {
		if _, ok := k.Env[name]; ok || slices.Contains(k.EnvFrom, name) {
			return "it reads " + name, k.Path + ".env"
		}
	}
	image := k.Image
	if at := strings.IndexByte(image, '@'); at >= 0 {
		image = image[:at]
	}
	name, tag, _ := strings.Cut(path.Base(image), ":")
	parts := strings.FieldsFunc(name+"-"+tag, func(r rune) bool { return strings.ContainsRune("-_.", r) })
	for _, slow := range slowNames {
		// An exporter or operator for such a program is none.
		if slices.Contains(parts, slow) && !slices.ContainsFunc(parts, func(p string) bool {
			return slices.Contains([]string{"exporter", "operator", "ui", "proxy", "client", "manager", "init"}, p)
		}) {
			return "image " + name, k.Path + ".image"
		}
	}
	return "", ""
}

func checkSameProbes(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, t := range judgedTargets(w) {
		k := t.container
		live, ready := k.Liveness, k.Readiness
		if live == nil || ready == nil || live.How == "" || checks(live) != checks(ready) {
			continue
		}
		if live.How == "tcp" {
			continue // the kernel answers it: load does not fail it, a lost listener is worth a restart
		}
		restart, out := ofSeconds(live.Period)*time.Duration(live.Failure.N), ofSeconds(ready.Period)*time.Duration(ready.Failure.N)
		if restart > out {
			continue
		}
		threshold := max((3*ready.Period.N*ready.Failure.N+live.Period.N-1)/live.Period.N, live.Failure.N+1)
		c.Report(At(w.PodObject, live.At+".failureThreshold"), finding.Finding{
			Message: fmt.Sprintf("liveness and readiness of container %s are the same check (%s), and liveness gives up after %s (periodSeconds %d x failureThreshold %d), no later than readiness after %s (%d x %d): overload restarts Pods instead of taking them out, and each restart ends all of the Pod's connections",
				k.Name, checks(live), spell(restart), live.Period.N, live.Failure.N, spell(out), ready.Period.N, ready.Failure.N),
			Facts: append(probeFacts("liveness", live, "periodSeconds", "failureThreshold"), probeFacts("readiness", ready, "periodSeconds", "failureThreshold")...),
			Remedy: fmt.Sprintf("set the liveness failureThreshold to %d (%s, three times what readiness takes), or let liveness ask something that overload does not fail",
				threshold, spell(time.Duration(threshold*live.Period.N)*time.Second)),
		})
	}
}
