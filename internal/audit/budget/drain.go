package budget

import (
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/audit/cmdline"
	"github.com/drainproof/drainproof/internal/audit/model"
)

// The annotations by which a user says what the manifest cannot, on the Pod template or
// the workload.
const (
	DrainAnnotation     = "drainproof.dev/drain"
	ReadinessAnnotation = "drainproof.dev/readiness-on-term"
)

// Annotation gives an annotation of the Pod template, or else of the workload, with the
// path of the field that it stands in.
func Annotation(w *model.Workload, key string) (value, at string) {
	if value, ok := w.Annotations[key]; ok {
		prefix := ""
		if w.PodPath != "" {
			prefix = w.PodPath + "."
		}
		return value, prefix + AnnotationPath(key)
	}
	if value, ok := w.OwnAnnotations[key]; ok {
		return value, AnnotationPath(key)
	}
	return "", ""
}

// AnnotationPath writes the path of an object's annotation.
func AnnotationPath(key string) string { return `metadata.annotations["` + key + `"]` }

// drain reads how long the application gives itself after SIGTERM. The user's own word
// counts before the servers' settings; of several containers the one that takes longest counts.
func drain(w *model.Workload) Drain {
	if text, at := Annotation(w, DrainAnnotation); at != "" {
		if d, ok := cmdline.Duration(text, 0); ok {
			return Drain{Took: d, From: at, Known: true}
		}
	}
	var longest Drain
	containers, _ := serving(w)
	for _, c := range containers {
		if d := serverDrain(c); d.Known && (!longest.Known || d.Took > longest.Took) {
			d.From = c.Path + ": " + d.From
			longest = d
		}
	}
	return longest
}

// serverDrain knows the servers whose own documentation says that the setting bounds the
// time from SIGTERM to the exit. Envoy's --drain-time-s is not one: it is for hot restarts
// and listener changes, SIGTERM does not wait for it.
func serverDrain(c *model.Container) Drain {
	line := cmdline.Of(c.Command, c.Args)
	for _, server := range []func(*model.Container, cmdline.Line) Drain{gunicorn, uvicorn, spring, traefik} {
		if d := server(c, line); d.Known {
			return d
		}
	}
	return Drain{}
}

// gunicorn kills the workers that are not done after its graceful timeout. Without the flag
// a configuration file may say anything.
func gunicorn(c *model.Container, line cmdline.Line) Drain {
	const flag = "--graceful-timeout"
	if line.Runs("gunicorn") {
		if text, ok := line.Flag(flag); ok {
			return drained(text, time.Second, flag+" of gunicorn")
		}
	}
	if text, ok := cmdline.Words(c.Env["GUNICORN_CMD_ARGS"]).Flag(flag); ok {
		return drained(text, time.Second, flag+" in GUNICORN_CMD_ARGS")
	}
	return Drain{}
}

// uvicorn waits without limit where this is not set.
func uvicorn(c *model.Container, line cmdline.Line) Drain {
	const flag, variable = "--timeout-graceful-shutdown", "UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN"
	if !line.Runs("uvicorn") || line.Runs("gunicorn") {
		return Drain{}
	}
	if text, ok := line.Flag(flag); ok {
		return drained(text, time.Second, flag+" of uvicorn")
	}
	return drained(c.Env[variable], time.Second, "env "+variable)
}

// spring has a timeout for each phase of its shutdown; draining the web server is one. It
// counts where graceful shutdown is switched on in plain sight.
func spring(c *model.Container, line cmdline.Line) Drain {
	const timeout = "spring.lifecycle.timeout-per-shutdown-phase"
	mode, ok := cmdline.Property(c.Env, line, "server.shutdown")
	if !ok || !strings.EqualFold(mode.Value, "graceful") {
		return Drain{}
	}
	text, ok := cmdline.Property(c.Env, line, timeout)
	if !ok {
		return Drain{}
	}
	from := timeout
	if text.Env != "" {
		from = "env " + text.Env
	}
	return drained(text.Value, time.Millisecond, from)
}

// traefik first goes on accepting for requestAcceptGraceTimeout (default 0), then lets what
// it has finish for graceTimeOut (default 10 s), for each entry point.
func traefik(c *model.Container, line cmdline.Line) Drain {
	const accept, grace = "requestacceptgracetimeout", "gracetimeout"
	type times struct{ accept, grace time.Duration }
	points := map[string]times{}
	set := func(name, text string) {
		parts := strings.Split(strings.ToLower(name), ".")
		if len(parts) != 5 || parts[0] != "entrypoints" || parts[2] != "transport" || parts[3] != "lifecycle" {
			return
		}
		d, ok := cmdline.Duration(text, time.Second)
		if !ok {
			return
		}
		t, seen := points[parts[1]]
		if !seen {
			t.grace = 10 * time.Second
		}
		switch parts[4] {
		case accept:
			t.accept = d
		case grace:
			t.grace = d
		default:
			return
		}
		points[parts[1]] = t
	}
	for key, text := range c.Env {
		if name, ok := strings.CutPrefix(key, "TRAEFIK_"); ok {
			set(strings.ReplaceAll(name, "_", "."), text)
		}
	}
	for _, word := range line {
		if name, text, ok := strings.Cut(word, "="); ok {
			set(strings.TrimLeft(name, "-"), text)
		}
	}
	var d Drain
	for _, t := range points {
		d.Known, d.Took = true, max(d.Took, t.accept+t.grace)
	}
	d.From = "transport.lifeCycle of Traefik's entry points"
	return d
}

func drained(text string, unit time.Duration, from string) Drain {
	d, ok := cmdline.Duration(text, unit)
	if !ok {
		return Drain{}
	}
	return Drain{Took: d, From: from, Known: true}
}
