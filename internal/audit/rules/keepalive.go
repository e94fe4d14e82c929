package rules

import (
	"fmt"
	"strconv"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/cmdline"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var keepAliveRules = []Rule{
	{
		ID: "DP741", Topic: finding.KeepAlive, Severity: finding.Warning,
		Title: "The server closes idle connections before its proxy does",
		Physics: "A proxy keeps connections to the Pods open and reuses them. If the server gives up an idle connection first, its FIN and the proxy's next request may cross on the way: the request meets a closed connection and is answered by a reset. The proxy cannot know whether " +
			"the request was acted on, so it does not try again unless the request is idempotent, and many do not try again at all: a 502. The cure is an order: the side that sends requests must be the first to close, " +
			"so the server's idle timeout must be longer than the proxy's. It happens all day long, and most at a termination, when every idle connection is closed at once.",
		Sources: []string{
			"RFC 9112 section 9.3.1 (retrying requests)", "Google Cloud documentation: backend keepalive timeout, 600 s", "AWS documentation: Application Load Balancers, connection idle timeout, 60 s",
			"ingress-nginx documentation: upstream-keepalive-timeout, 60 s", "golang/go#23829", "benoitc/gunicorn#1236",
		},
		Remedy: "Set the server's keep-alive timeout above the idle timeout of whatever stands before it, and let it answer with Connection: close while it drains.",

		Workload: checkKeepAlive,
	},
}

// idle is how long a server keeps an idle connection.
type idle struct {
	took   time.Duration
	server string // its name, for the message
	from   string
	on     *Place
	set    string // what to set, e.g. --keep-alive
}

// serverIdle reads the timeout of the servers whose documentation gives the setting that
// meaning. Where nothing is written only uvicorn's default counts: the others may have it from a file.
func serverIdle(w *model.Workload, k *model.Container) (idle, bool) {
	line := cmdline.Of(k.Command, k.Args)
	gunicorn := line.Runs("gunicorn")
	if gunicorn || k.Env["GUNICORN_CMD_ARGS"] != "" {
		return gunicornIdle(w, k, line)
	}
	if line.Runs("uvicorn") {
		const flag, variable = "--timeout-keep-alive", "UVICORN_TIMEOUT_KEEP_ALIVE"
		if text, ok := line.Flag(flag); ok {
			took, ok := cmdline.Duration(text, time.Second)
			return idle{took, "uvicorn", k.Path + ": " + flag, linePlace(w, k, flag), flag}, ok
		}
		if text, ok := k.Env[variable]; ok {
			took, ok := cmdline.Duration(text, time.Second)
			return idle{took, "uvicorn", "env " + variable, envPlace(w, k, variable), flag}, ok
		}
		return idle{5 * time.Second, "uvicorn", "default of uvicorn", linePlace(w, k, "uvicorn"), flag}, true
	}
	for _, p := range []struct {
		name, server string
		unit         time.Duration
	}{
		{"server.tomcat.keep-alive-timeout", "Tomcat", time.Millisecond},
		{"server.netty.idle-timeout", "Netty", time.Millisecond},
		{"server.jetty.connection-idle-timeout", "Jetty", time.Millisecond},
		{"server.undertow.no-request-timeout", "Undertow", time.Millisecond},
	} {
		s, ok := cmdline.Property(k.Env, line, p.name)
		if !ok {
			continue
		}
		took, ok := cmdline.Duration(s.Value, p.unit)
		if s.Env != "" {
			return idle{took, p.server, "env " + s.Env, envPlace(w, k, s.Env), p.name}, ok
		}
		return idle{took, p.server, k.Path + ": " + s.Flag, linePlace(w, k, s.Flag), p.name}, ok
	}
	return idle{}, false
}

// gunicornIdle: its sync workers keep no connection at all, so only the other kinds count.
func gunicornIdle(w *model.Workload, k *model.Container, line cmdline.Line) (idle, bool) {
	const flag, variable = "--keep-alive", "GUNICORN_CMD_ARGS"
	vars := cmdline.Words(k.Env[variable])
	either := func(names ...string) (string, bool) {
		if text, ok := line.Flag(names...); ok {
			return text, true
		}
		return vars.Flag(names...)
	}
	class, _ := either("-k", "--worker-class")
	threads, _ := either("--threads")
	many, _ := strconv.Atoi(threads)
	if (class == "" || class == "sync") && many < 2 {
		return idle{}, false
	}
	if text, ok := line.Flag(flag); ok {
		took, ok := cmdline.Duration(text, time.Second)
		return idle{took, "gunicorn", k.Path + ": " + flag, linePlace(w, k, flag), flag}, ok
	}
	if text, ok := vars.Flag(flag); ok {
		took, ok := cmdline.Duration(text, time.Second)
		return idle{took, "gunicorn", "env " + variable, envPlace(w, k, variable), flag}, ok
	}
	return idle{}, false
}

// holder is a proxy that keeps idle connections to the Pods.
type holder struct {
	name string
	keep dial
	// ask is what cannot be seen of it; then the finding is a question.
	ask string
}

func holderOf(c *Context, f *model.Front, s *model.Service) (holder, bool) {
	switch budget.Controller(f, s) {
	case budget.AWSALB, budget.AWSALBIP:
		return holder{name: "the Application Load Balancer", keep: albIdle(c.Model, f)}, true
	case budget.GCP, budget.GCPNEG:
		return holder{name: "the Google Cloud load balancer", keep: dial{600, "fixed, Google Cloud documentation"}}, true
	case budget.Nginx, budget.NginxService:
		return holder{
			name: "nginx", keep: dial{60, "default of upstream-keepalive-timeout in ingress-nginx"},
			ask: "Does the controller's ConfigMap set upstream-keepalive-timeout to less than %s? If it does, there is nothing to do here.",
		}, true
	}
	return holder{}, false
}

// albIdle reads the idle timeout from the Ingress, or from another of its group: they share the load balancer.
func albIdle(m *model.Model, f *model.Front) dial {
	const attributes, name = albPrefix + "load-balancer-attributes", "idle_timeout.timeout_seconds"
	group := f.Annotations[albPrefix+"group.name"]
	for _, other := range m.Fronts {
		if other != f && (group == "" || other.Annotations[albPrefix+"group.name"] != group) {
			continue
		}
		if text, ok := attribute(other.Annotations[attributes], name); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
				from := budget.AnnotationPath(attributes)
				if other != f {
					from = "Ingress " + other.Object.Name + ": " + from
				}
				return dial{n, from}
			}
		}
	}
	return dial{60, "default of AWS Application Load Balancers"}
}

func checkKeepAlive(c *Context, w *model.Workload) {
	if len(w.Fronts) == 0 || !carries(w) || meshed(w) {
		return
	}
	for _, k := range w.Serving() {
		server, ok := serverIdle(w, k)
		if !ok || server.took == 0 {
			continue // 0 closes every connection after its answer, and says so
		}
		worst, found := holder{}, false
		for _, s := range w.Services {
			if !targets(s, w, k) {
				continue
			}
			for _, f := range s.Fronts {
				h, ok := holderOf(c, f, s)
				if !ok || server.took > h.keep.seconds() {
					continue
				}
				// A sure finding before a question, then the longest.
				if !found || h.ask == "" && worst.ask != "" || (h.ask == "") == (worst.ask == "") && h.keep.n > worst.keep.n {
					worst, found = h, true
				}
			}
		}
		if !found {
			continue
		}
		above := worst.keep.n + 5
		if worst.keep.n == 600 {
			above = 620
		}
		f := finding.Finding{
			Message: fmt.Sprintf("%s closes a connection that has been idle for %s, %s keeps it for reuse for %s: between the two it may send a request just as the server closes, and the client gets a 502",
				server.server, spell(server.took), worst.name, spell(worst.keep.seconds())),
			Facts: []finding.Fact{
				{Name: "idle timeout of the server", Value: spell(server.took), From: server.from},
				{Name: "idle timeout of the proxy", Value: spell(worst.keep.seconds()), From: worst.keep.from},
			},
			Remedy: fmt.Sprintf("Set %s of %s above %s, e.g. %s.", server.set, server.server, spell(worst.keep.seconds()), spell(time.Duration(above)*time.Second)),
		}
		if worst.ask != "" {
			f.Severity, f.Ask = finding.Info, fmt.Sprintf(worst.ask, spell(server.took))
		}
		c.Report(server.on, f)
	}
}

// targets says whether a Service sends to a container of a workload.
func targets(s *model.Service, w *model.Workload, k *model.Container) bool {
	for _, t := range s.TargetsOf(w) {
		if t.Container == k {
			return true
		}
	}
	return false
}
