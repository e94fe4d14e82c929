package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// The From of a number that nobody wrote.
const (
	byDefault     = "default of Kubernetes"
	byKEDADefault = "default of KEDA"
)

// Annotations with which a user says what no manifest can show.
const (
	startupNote = "drainproof.dev/startup"
	onTermNote  = "drainproof.dev/readiness-on-term"
)

// spell writes a duration as messages have it: seconds, with a fraction only where there is one, of milliseconds
// at most. It divides once: Duration.Seconds adds two numbers and makes 1.3599999999999999 of 1.36.
func spell(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Round(time.Millisecond))/1e9, 'f', -1, 64) + " s"
}

// wholeSeconds is a duration for a field that takes whole seconds: rounded up, so that nothing is cut off.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// plural writes a count with its noun: "1 Pod", "3 Pods".
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(n, 10) + " " + noun + "s"
}

func ofSeconds(n model.Int) time.Duration { return time.Duration(n.N) * time.Second }

// origin names where a number stands, or that it is a default.
func origin(n model.Int, path string) string {
	if n.Set {
		return path
	}
	return byDefault
}

// secondsFact is a number of seconds with its origin.
func secondsFact(name string, n model.Int, path string) finding.Fact {
	return finding.Fact{Name: name, Value: spell(ofSeconds(n)), From: origin(n, path)}
}

// countFact is a plain number with its origin.
func countFact(name string, n model.Int, path string) finding.Fact {
	return finding.Fact{Name: name, Value: strconv.FormatInt(n.N, 10), From: origin(n, path)}
}

// probeFacts are the numbers that decide when a probe gives its verdict.
func probeFacts(name string, p *model.Probe, fields ...string) []finding.Fact {
	var facts []finding.Fact
	for _, f := range fields {
		at := p.At + "." + f
		switch f {
		case "initialDelaySeconds":
			facts = append(facts, secondsFact(name+" "+f, p.InitialDelay, at))
		case "periodSeconds":
			facts = append(facts, secondsFact(name+" "+f, p.Period, at))
		case "timeoutSeconds":
			facts = append(facts, secondsFact(name+" "+f, p.Timeout, at))
		case "failureThreshold":
			facts = append(facts, countFact(name+" "+f, p.Failure, at))
		case "successThreshold":
			facts = append(facts, countFact(name+" "+f, p.Success, at))
		}
	}
	return facts
}

// fails gives the bounds of the time from the instant at which a check begins to fail to the
// probe's verdict. Soonest: the next probe comes at once. Latest: the last one has just
// passed, and each that fails runs into its timeout.
func fails(p *model.Probe) (soonest, latest time.Duration) {
	period := ofSeconds(p.Period)
	return time.Duration(p.Failure.N-1) * period, time.Duration(p.Failure.N)*period + ofSeconds(p.Timeout)
}

// givesUp gives the bounds of the time from a container's start to the verdict of a probe that
// has never passed: liveness and startup probes then have the container restarted.
// The first probe falls on the first tick after the initial delay.
func givesUp(p *model.Probe) (soonest, latest time.Duration) {
	soonest, latest = fails(p)
	return ofSeconds(p.InitialDelay) + soonest, ofSeconds(p.InitialDelay) + latest
}

// checks describes what a probe asks, for comparison and for people.
func checks(p *model.Probe) string {
	switch p.How {
	case "exec":
		return "exec " + strings.Join(p.Exec, " ")
	case "http":
		return "GET " + p.Path + " on port " + p.Port
	case "tcp":
		return "a TCP connection to port " + p.Port
	case "grpc":
		return strings.TrimRight("a gRPC health check on port "+p.Port+" "+p.Path, " ")
	}
	return ""
}

// soonestReady gives the least time from the start of a Pod's containers to the Pod's being
// ready, as its probes allow it. A fast application cannot beat it, a slow one takes longer.
func soonestReady(w *model.Workload) (after time.Duration, facts []finding.Fact) {
	for _, k := range everyContainer(w) {
		var at time.Duration
		var from []finding.Fact
		if p := k.Startup; p != nil {
			at, from = ofSeconds(p.InitialDelay), probeFacts("startup", p, "initialDelaySeconds")
		}
		if p := k.Readiness; p != nil {
			if d := ofSeconds(p.InitialDelay); d >= at {
				at, from = d, probeFacts("readiness", p, "initialDelaySeconds")
			}
			if p.Success.N > 1 {
				at += time.Duration(p.Success.N-1) * ofSeconds(p.Period)
				from = append(from, probeFacts("readiness", p, "successThreshold", "periodSeconds")...)
			}
		}
		if at > after {
			after, facts = at, from
		}
	}
	return after, facts
}

// note gives an annotation of the Pod template, or of the workload itself, and where it stands.
func note(w *model.Workload, key string) (value, path string) {
	if v := w.Annotations[key]; v != "" {
		at := "metadata"
		if w.PodPath != "" {
			at = w.PodPath + ".metadata"
		}
		return v, at + `.annotations["` + key + `"]`
	}
	return w.OwnAnnotations[key], `metadata.annotations["` + key + `"]`
}

// declaredStart is how long the application needs to start, where its annotation says so.
func declaredStart(w *model.Workload) (took time.Duration, fact finding.Fact, ok bool) {
	text, path := note(w, startupNote)
	took, err := time.ParseDuration(text)
	if err != nil || took <= 0 {
		return 0, finding.Fact{}, false
	}
	return took, finding.Fact{Name: "start of the application", Value: spell(took), From: path}, true
}

// failsOnTerm says whether the annotation says that readiness fails once SIGTERM has come.
func failsOnTerm(w *model.Workload) (path string, yes bool) {
	v, path := note(w, onTermNote)
	return path, v == "fail"
}

// handover is what lies between the last Pod that goes and the first that comes.
type handover struct {
	// ready is the least time until a new Pod can be ready.
	ready time.Duration
	// hold is how long the old Pod surely goes on after its delete; held says that it is known.
	hold time.Duration
	held bool
	// reason says in a phrase why the old Pod holds for no time; "" where the new one is only made later.
	reason string
	facts  []finding.Fact
}

// handOver works a handover out. together says that the new Pod starts when the old one's
// termination starts; false where it is only made after the old one is gone.
//
// While no Pod is ready, kube-proxy falls back on terminating Pods that still pass
// readiness (KEP-1669), so a preStop hook holds the old Pod in service until it ends.
func handOver(c *Context, w *model.Workload, together bool) handover {
	h := handover{held: true}
	h.ready, h.facts = soonestReady(w)
	sum := c.Sum(w)
	path, onTerm := failsOnTerm(w)
	switch {
	case !together:
		// Whatever the old Pod still does, the new one's start comes after it.
	case c.Server < 26:
		h.reason = fmt.Sprintf("kube-proxy of 1.%d does not fall back on terminating Pods", c.Server)
	case !sum.HookKnown:
		h.held, h.reason = false, "the length of the old one's preStop hook is not known"
	case sum.Hook == 0:
		h.reason = "no preStop hook holds the old one"
	case len(w.Fronts) > 0:
		h.reason = "not every ingress or gateway goes on sending to the old one while its hook holds it"
	default:
		h.hold = min(sum.Hook, sum.Grace) // a longer hook is cut there
		h.facts = append(h.facts, finding.Fact{Name: "preStop hook", Value: spell(h.hold), From: hookPath(w)})
	}
	if onTerm {
		h.facts = append(h.facts, finding.Fact{Name: "readiness after SIGTERM", Value: "fails", From: path})
	}
	return h
}

// covered says that the old Pod may well serve until the new one does.
func (h handover) covered() bool { return h.held && h.hold > 0 && h.hold >= h.ready }

// gap is the time without a ready Pod that is sure, if the old Pod stops accepting at SIGTERM.
func (h handover) gap() time.Duration {
	if !h.held {
		return 0
	}
	return max(0, h.ready-h.hold)
}

// words says how long the gap is, as the end of a sentence.
func (h handover) words() string {
	switch {
	case h.covered() && h.ready > 0:
		return fmt.Sprintf("the old Pod's hook holds it for %s and a new one can be ready after %s: lossless only if the new one is scheduled, started and ready within those %s",
			spell(h.hold), spell(h.ready), spell(h.hold))
	case h.covered():
		return fmt.Sprintf("the old Pod's hook holds it for %s: lossless only if a new one is scheduled, started and ready within them", spell(h.hold))
	case h.gap() > 0 && h.hold > 0:
		return fmt.Sprintf("a new Pod cannot be ready before %s after its start and the old one's hook holds it for %s: at least %s without a ready Pod",
			spell(h.ready), spell(h.hold), spell(h.gap()))
	}
	words, also := "the gap lasts as long as a new Pod takes to be scheduled, pulled and started", ""
	if h.ready > 0 {
		words = fmt.Sprintf("a new Pod cannot be ready before %s after its start", spell(h.ready))
	}
	if h.gap() > 0 {
		also = fmt.Sprintf(": at least %s without a ready Pod", spell(h.gap()))
	}
	if h.reason != "" {
		words += ", and " + h.reason
	}
	return words + also
}

// hookPath is the path of the first serving container's preStop hook.
func hookPath(w *model.Workload) string {
	for _, k := range w.Serving() {
		if k.PreStop != nil {
			return k.PreStop.At
		}
	}
	return w.SpecPath()
}
