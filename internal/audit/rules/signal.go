package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/images"
	"github.com/drainproof/drainproof/internal/audit/model"
)

const (
	fromPID1       = "pid_namespaces(7): process 1 gets no signal for which it has no handler"
	fromStopSignal = "KEP-4960 (lifecycle.stopSignal: alpha since 1.33; spec over image over SIGTERM)"
	// Which shells give up their place was tried out: bash 5.2 and BusyBox ash 1.35 do
	// for a last simple command, dash 0.5.12 does not.
	fromShells = "tried with sh -c 'sleep 5': dash 0.5.12 (Debian 12) stays as the parent, BusyBox ash 1.35 and bash 5.2 do not"
)

var signalRules = []Rule{
	{
		ID: "DP321", Topic: finding.Signal, Severity: finding.Warning,
		Title: "The stop signal makes the server drop its requests",
		Physics: "The kubelet has the runtime send the signal of lifecycle.stopSignal, else the image's STOPSIGNAL, else SIGTERM. nginx, httpd, HAProxy and php-fpm take SIGTERM for a fast stop and end what they have; their gentle signals are SIGQUIT, SIGWINCH, SIGUSR1 and SIGQUIT. " +
			"The official images set them; copies and images of others may not. A preStop hook can send the signal too, but if it returns at once, the stop signal follows and ends the drain. " +
			"PostgreSQL has no signal that is gentle to all: SIGTERM waits for clients that may never go, SIGINT, which its official image sets, aborts their transactions.",
		Sources: []string{fromStopSignal, "nginx.org/en/docs/control.html", "nginx/docker-nginx#377", "sclorg/s2i-perl-container#83", "chainguard-images/images#403", "sclorg/nginx-container#243", "php/php-src sapi/fpm/fpm/fpm_process_ctl.c", "postgresql.org/docs/current/server-shutdown.html"},
		Remedy:  "Use an image that sets the gentle STOPSIGNAL, or send the signal in the preStop hook and wait there until the server is gone.", Workload: checkStopSignal,
	},
	{
		ID: "DP322", Topic: finding.Signal, Severity: finding.Error,
		Title: "Process 1 is a shell, and the stop signal never reaches the application",
		Physics: "The runtime sends the stop signal to process 1 of the container. The kernel gives process 1 only signals for which it has a handler, and a shell that waits for a child has none for SIGTERM: the signal is lost, the application serves on until the grace period is over, and SIGKILL cuts what it has then. " +
			"exec puts the application in the shell's place. Without it, it depends: in a pipeline, in the background, inside a compound command or with another command behind it, every shell stays. " +
			"For a last simple command bash and BusyBox ash give up their place by themselves, and dash, the sh of Debian and Ubuntu, does not.",
		Sources: []string{fromPID1, fromShells, "kubernetes/kubernetes#24695", "artsy/metaphysics#1192", "livekit/egress#1384"},
		Remedy:  "Write exec before the server's command, or use the exec form (command without a shell), or start an init such as tini that forwards signals.", Workload: checkShellAsPID1,
	},
	{
		ID: "DP323", Topic: finding.Signal, Severity: finding.Warning,
		Title: "A package manager is process 1 and stands between the stop signal and the application",
		Physics: "npm, yarn and pnpm start the application as a child of a shell of theirs. The stop signal reaches the package manager; whether and when the application sees it depends on the version and on that shell. It may never come, so that SIGKILL ends the requests, " +
			"or the package manager may exit first and take the application down at once.",
		Sources: []string{"nodejs/docker-node docs/BestPractices.md", "npm/rfcs#829", fromPID1},
		Remedy:  "Start the application itself: command: [\"node\", \"server.js\"].", Workload: checkPackageManager,
	},
	{
		ID: "DP324", Topic: finding.Signal, Severity: finding.Warning,
		Title: "lifecycle.stopSignal does not take effect by itself",
		Physics: "lifecycle.stopSignal is behind the feature gate ContainerStopSignals, which is alpha and off by default since 1.33, and it is only valid together with spec.os.name. " +
			"With the gate off the API server drops the field, and the image's STOPSIGNAL or SIGTERM is sent; with the gate on and no os name it refuses the Pod.",
		Sources: []string{fromStopSignal},
		Remedy:  "Set spec.os.name, make sure that the gate is on in API server and kubelets, or build the signal into the image (STOPSIGNAL) or the preStop hook.", Workload: checkStopSignalField,
	},
	{
		ID: "DP325", Topic: finding.Signal, Severity: finding.Warning,
		Title:   "uWSGI takes SIGTERM for a reload",
		Physics: "Without die-on-term uWSGI answers SIGTERM by killing and reloading its workers: the requests in flight are lost, the container does not end, and SIGKILL comes when the grace period is over.",
		Sources: []string{"uwsgi-docs.readthedocs.io/en/latest/Management.html", "unbit/uwsgi#1974"},
		Remedy:  "Set die-on-term (with hook-master-start = unix_signal:15 gracefully_kill_them_all, if requests may finish).", Workload: checkUWSGI,
	},
}

// stopSignal is the signal that the runtime sends to a container, and where that is written.
// It is "" where it cannot be known.
func stopSignal(k *model.Container, known images.Known) (signal, from string) {
	switch {
	case k.StopSignal != "":
		return k.StopSignal, k.Path + ".lifecycle.stopSignal"
	case !known.Official || known.Server == nil:
		return "", ""
	case known.Server.ImageStop == "":
		return "SIGTERM", "the image sets no STOPSIGNAL: " + lastOf(known.Server.Sources)
	}
	return known.Server.ImageStop, "STOPSIGNAL of the image: " + lastOf(known.Server.Sources)
}

func lastOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// askImage is the command that shows an image's stop signal.
func askImage(image string) string {
	return fmt.Sprintf("which STOPSIGNAL does the image set? docker image inspect -f '{{.Config.StopSignal}}' %s", image)
}

func checkStopSignal(c *Context, w *model.Workload) {
	if !carries(w) || w.Pod.Grace.N == 0 {
		return
	}
	for _, k := range clientsOf(c, w) {
		known := knownOf(k)
		s := known.Server
		if s != nil && s.Sessions != nil && !losesSignal(w, k) {
			checkSessions(c, w, k, known)
			continue
		}
		if s == nil || !s.TERMDropsRequests || s.Gentle == "" && !s.CanDrain() || losesSignal(w, k) {
			continue
		}
		signal, from := stopSignal(k, known)
		f := finding.Finding{Facts: []finding.Fact{{Name: "server", Value: s.Name, From: k.Path + ".image or command"}}}
		if signal != "" {
			f.Facts = append(f.Facts, finding.Fact{Name: "stop signal", Value: signal, From: from})
		}
		at := k.Path + ".lifecycle"
		switch how, waits := gentleHook(k, s); {
		case signal != "" && signal == s.Gentle:
			if s.Needs == "" {
				continue
			}
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("container %s is stopped with %s, which is gentle for %s only with %s", k.Name, signal, s.Name, s.Needs)
			f.Remedy = "set it in the server's configuration, as long as the longest request"
			f.Ask = "is it set? The manifest does not show the server's configuration"
		case how == "sure" && (waits || s.Gentle == ""):
			continue
		case how == "sure":
			f.Message = fmt.Sprintf("the preStop hook of container %s tells %s to finish and returns at once; then the stop signal follows, and on SIGTERM %s %s", k.Name, s.Name, s.Name, s.OnTERM)
			f.Remedy = fmt.Sprintf("let the hook wait until %s is gone, e.g. %s", s.Name, waitingHook(s))
			f.Facts = append(f.Facts, finding.Fact{Name: "preStop hook", Value: shorten(hookText(k.PreStop)), From: k.PreStop.At})
			if signal == "" {
				f.Severity, f.Ask = finding.Info, askImage(k.Image)
			}
			at = k.PreStop.At
		case how == "perhaps":
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("on SIGTERM %s %s; whether the preStop hook of container %s lets it finish first cannot be read from here", s.Name, s.OnTERM, k.Name)
			f.Remedy = gentleRemedy(s)
			f.Ask = fmt.Sprintf("does the hook wait until %s has finished its requests? %s", s.Name, askTell(w, "rollout"))
			at = k.PreStop.At
		case s.Gentle == "":
			f.Message = fmt.Sprintf("on its stop signal %s %s, and no preStop hook of container %s drains it first", s.Name, s.OnTERM, k.Name)
			f.Remedy = gentleRemedy(s)
		case signal != "":
			f.Message = fmt.Sprintf("container %s is stopped with %s, on which %s %s; %s would let it finish", k.Name, signal, s.Name, s.OnTERM, s.Gentle)
			if signal != "SIGTERM" {
				f.Message = fmt.Sprintf("container %s is stopped with %s, but %s finishes its requests only on %s", k.Name, signal, s.Name, s.Gentle)
			}
			f.Remedy = gentleRemedy(s)
		default:
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("on SIGTERM %s %s, on %s it finishes its requests; whether the image %s sets that as its STOPSIGNAL is not known", s.Name, s.OnTERM, s.Gentle, k.Image)
			f.Remedy = gentleRemedy(s)
			f.Ask = askImage(k.Image)
		}
		c.Report(At(w.PodObject, at), f)
	}
}

// checkSessions asks about a server whose clients stay connected: the stop signal either cuts them or waits
// for them until SIGKILL.
func checkSessions(c *Context, w *model.Workload, k *model.Container, known images.Known) {
	s := known.Server
	if how, _ := gentleHook(k, s); how != "" {
		return // the hook ends the server itself, or DP104 asks what it does
	}
	signal, from := stopSignal(k, known)
	assumed := signal == ""
	if assumed {
		signal, from = "SIGTERM", "the default; the image may set another STOPSIGNAL"
	}
	means := s.Sessions[signal]
	if means == "" {
		return
	}
	f := finding.Finding{
		Severity: finding.Info,
		Message:  fmt.Sprintf("container %s is stopped with %s, which is for %s %s", k.Name, signal, s.Name, means),
		Facts: []finding.Fact{{Name: "server", Value: s.Name, From: k.Path + ".image or command; " + s.Sources[0]},
			{Name: "stop signal", Value: signal, From: from}, graceFact(w, c.Sum(w).Grace)},
		Remedy: "put a connection pooler before it that holds its clients back meanwhile, let the clients repeat aborted transactions, or let a preStop hook wait until the open transactions have ended",
		Ask:    "may sessions be cut at a termination, and do the clients connect again and repeat what was aborted? " + askTell(w, "delete"),
	}
	if assumed {
		f.Message = fmt.Sprintf("container %s is stopped with SIGTERM unless its image sets another STOPSIGNAL, and that is for %s %s", k.Name, s.Name, means)
	}
	if signal == "SIGTERM" {
		f.Message += fmt.Sprintf(" after %s", spell(max(c.Sum(w).Grace-c.Sum(w).LongHook, budget.KubeletFloor)))
		f.Remedy = "where sessions may be cut, run pg_ctl stop -m fast -w in the preStop hook, as the server's user, after a sleep for new connections; else put a connection pooler before it, or let the hook wait until the open transactions have ended"
		f.Ask = "do the clients go by themselves within the grace period, or may their sessions be cut? " + askTell(w, "delete")
	}
	c.Report(At(w.PodObject, k.Path+".lifecycle"), f)
}

// gentleHook says whether a preStop hook makes the server finish: sure, perhaps (its command
// cannot be read), or "" for no; and whether it waits for it.
func gentleHook(k *model.Container, s *images.Server) (how string, waits bool) {
	h := k.PreStop
	if h == nil || h.Broken != "" {
		return "", false
	}
	if d, ok := s.Drains(hookText(h)); ok {
		return "sure", d.Waits()
	}
	if h.Known {
		return "", false // it only sleeps
	}
	return "perhaps", false
}

// waitingHook is a command that makes a server finish and waits for it. It needs nothing but a shell: kill is built in.
func waitingHook(s *images.Server) string {
	quit := "kill -" + strings.TrimPrefix(s.Gentle, "SIG") + " 1"
	if s.Name == "nginx" || s.Name == "openresty" {
		quit = s.Name + " -s quit"
	}
	return fmt.Sprintf(`["/bin/sh", "-c", "sleep 5; %s; while kill -0 1; do sleep 1; done"]`, quit)
}

func gentleRemedy(s *images.Server) string {
	if s.Gentle == "" {
		return "let the preStop hook start the drain (POST /drain_listeners?graceful on the admin port) and sleep while it lasts"
	}
	return fmt.Sprintf("use an image with STOPSIGNAL %s, or a preStop hook that sends it and waits: %s", s.Gentle, waitingHook(s))
}

// shellStays says what becomes of the shell that starts a container's server, as a severity:
// Error where it surely stays, Warning where the usual shell does, Info where
// that cannot be told, "" where it does not. why ends a sentence.
func shellStays(w *model.Workload, k *model.Container) (severity finding.Severity, why string) {
	p := images.Started(k.Command, k.Args)
	if w.Pod.ShareProcessNamespace || p.Init != "" || sendsSignal(k.PreStop) {
		return "", ""
	}
	switch {
	case p.File != "" && !slices.Contains([]string{"docker-entrypoint.sh", "catalina.sh"}, path.Base(p.File)):
		if p.Assumed {
			return "", ""
		}
		return finding.Info, fmt.Sprintf("the script %s is process 1, and whether it ends in exec cannot be read from here", p.File)
	case p.Shell == "" || p.Script == "":
		return "", ""
	}
	sh := p.Shell
	if sh == "sh" {
		sh = knownOf(k).Sh
	}
	switch p.Ending {
	case images.Kept:
		severity, why = finding.Error, p.Why+", so the shell stays as process 1"
	case images.Single, images.Last:
		switch {
		case sh == "dash":
			severity, why = finding.Error, "the last command is not exec'ed, and dash, the sh of this image, stays as process 1"
		case sh == "busybox" || sh == "ash", sh == "bash" && p.Ending == images.Single && !p.Redirects:
			return "", ""
		case sh == "bash":
			severity, why = finding.Info, "the last command is not exec'ed; newer versions of bash give up their place to it, older ones stay as process 1"
		default:
			severity, why = finding.Warning, "the last command is not exec'ed; dash, the sh of Debian and Ubuntu, then stays as process 1 (bash and BusyBox do not)"
		}
	default:
		return "", ""
	}
	if p.Assumed {
		// The arguments go to the image's entrypoint, which is not known.
		return finding.Info, why + " if the image's entrypoint runs the arguments as they stand"
	}
	return severity, why
}

// losesSignal: the stop signal surely never reaches the server, so it serves on until SIGKILL. Rules
// about what it does on the signal have nothing to say then.
func losesSignal(w *model.Workload, k *model.Container) bool {
	severity, _ := shellStays(w, k)
	return severity == finding.Error
}

// sendsSignal: the hook signals the application itself.
func sendsSignal(h *model.Hook) bool {
	if h == nil {
		return false
	}
	text := hookText(h)
	return strings.Contains(text, "kill ") || strings.Contains(text, "killall ")
}

func checkShellAsPID1(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	sum := c.Sum(w)
	for _, k := range clientsOf(c, w) {
		severity, why := shellStays(w, k)
		if severity == "" {
			continue
		}
		p := images.Started(k.Command, k.Args)
		field := k.Path + ".command"
		if p.Assumed {
			field = k.Path + ".args"
		}
		text := p.Script
		if text == "" {
			text = p.File
		}
		took, _ := budget.HookOf(k)
		left := max(sum.Grace-took, budget.KubeletFloor)
		f := finding.Finding{
			Severity: severity,
			Facts: []finding.Fact{
				{Name: "script", Value: shorten(text), From: field},
				{Name: "from stop signal to SIGKILL", Value: spell(left), From: "grace period - hook: " + gracePath(w)},
			},
		}
		switch severity {
		case finding.Error:
			f.Message = fmt.Sprintf("container %s: %s and never hands the stop signal on to %s, which serves on for %s and is then cut by SIGKILL", k.Name, why, programName(p), spell(left))
		default:
			f.Message = fmt.Sprintf("container %s: %s; a shell as process 1 never hands the stop signal on, and SIGKILL cuts the requests %s later", k.Name, why, spell(left))
			f.Ask = fmt.Sprintf("what is process 1? kubectl exec POD -c %s -- cat /proc/1/cmdline", k.Name)
		}
		if s := shellFact(k, p); s.Value != "" {
			f.Facts = append(f.Facts, s)
		}
		f.Remedy = "end the script with exec: " + execRemedy(p)
		c.Report(At(w.PodObject, field), f)
	}
}

func shellFact(k *model.Container, p images.Process) finding.Fact {
	if p.Shell != "sh" || p.Ending == images.Kept {
		return finding.Fact{}
	}
	if sh := knownOf(k).Sh; sh != "" {
		return finding.Fact{Name: "sh of the image", Value: sh, From: k.Path + ".image; " + fromShells}
	}
	return finding.Fact{Name: "sh of the image", Value: "not known", From: fromShells}
}

// starters start a server in the background and end.
var starters = []string{"service", "systemctl", "rc-service", "initctl", "start-stop-daemon"}

// programName names the server for a sentence.
func programName(p images.Process) string {
	if name := p.Name(); name != "" && !strings.HasPrefix(name, "$") && !slices.Contains(starters, name) {
		return name
	}
	return "the application"
}

func execRemedy(p images.Process) string {
	if programName(p) == "the application" || p.File != "" {
		return "exec and the server's command, in the foreground"
	}
	words := []string{"exec"}
	for _, word := range p.Argv {
		if strings.ContainsAny(word, " \t\n;&|<>()") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	return shorten(strings.Join(words, " "))
}

var packageManagers = []string{"npm", "npx", "yarn", "yarnpkg", "pnpm", "pnpx"}

func checkPackageManager(c *Context, w *model.Workload) {
	if !carries(w) || w.Pod.ShareProcessNamespace {
		return
	}
	for _, k := range clientsOf(c, w) {
		p := images.Started(k.Command, k.Args)
		if severity, _ := shellStays(w, k); severity != "" || p.Init != "" || !slices.Contains(packageManagers, p.Name()) || sendsSignal(k.PreStop) {
			continue
		}
		field := k.Path + ".command"
		if p.Assumed {
			field = k.Path + ".args"
		}
		c.Report(At(w.PodObject, field), finding.Finding{
			Message: fmt.Sprintf("process 1 of container %s is %s: whether SIGTERM reaches the application behind it depends on its version, and without it SIGKILL ends the requests after %s",
				k.Name, p.Name(), spell(c.Sum(w).Grace)),
			Facts: []finding.Fact{
				{Name: "process 1", Value: shorten(strings.Join(p.Argv, " ")), From: field},
				graceFact(w, c.Sum(w).Grace),
			},
			Remedy: `start the application itself, e.g. command: ["node", "server.js"], with what the package's script runs`,
			Ask:    "does a release lose requests? " + askTell(w, "rollout"),
		})
	}
}

func checkStopSignalField(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, k := range everyContainer(w) {
		if k.StopSignal == "" {
			continue
		}
		at := k.Path + ".lifecycle.stopSignal"
		f := finding.Finding{
			Facts: []finding.Fact{
				{Name: "stop signal", Value: k.StopSignal, From: at},
				{Name: "server", Value: fmt.Sprintf("1.%d", c.Server), From: "the version that the audit assumes"},
			},
			Remedy: "set spec.os.name: linux and the feature gate ContainerStopSignals, or let the image's STOPSIGNAL or the preStop hook do it",
		}
		switch {
		case c.Server < 33:
			f.Message = fmt.Sprintf("container %s asks for %s, but Kubernetes 1.%d has no lifecycle.stopSignal (alpha since 1.33): the field is dropped", k.Name, k.StopSignal, c.Server)
		case w.Pod.OSName == "":
			f.Message = fmt.Sprintf("container %s asks for %s, but the Pod has no os.name, without which the field is not valid", k.Name, k.StopSignal)
		case c.Model.Live:
			continue // the API server kept the field, so the gate is on
		default:
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("container %s asks for %s, which takes effect only with the feature gate ContainerStopSignals (alpha, off by default): without it the field is dropped", k.Name, k.StopSignal)
			f.Ask = "is the gate on in the API server and the kubelets? kubectl get --raw /metrics | grep ContainerStopSignals"
		}
		c.Report(At(w.PodObject, at), f)
	}
}

func checkUWSGI(c *Context, w *model.Workload) {
	if !carries(w) {
		return
	}
	for _, k := range clientsOf(c, w) {
		s := knownOf(k).Server
		if s == nil || s.Name != "uwsgi" || losesSignal(w, k) || sendsSignal(k.PreStop) || k.StopSignal != "" {
			continue
		}
		words := strings.Join(append(slices.Concat(k.Command, k.Args), k.Env["UWSGI_DIE_ON_TERM"]), " ")
		if strings.Contains(words, "die-on-term") || strings.Contains(words, "unix_signal:15") || k.Env["UWSGI_DIE_ON_TERM"] != "" {
			continue
		}
		f := finding.Finding{
			Message: fmt.Sprintf("container %s runs uWSGI without die-on-term: on SIGTERM it %s, and SIGKILL ends it after %s", k.Name, s.OnTERM, spell(c.Sum(w).Grace)),
			Facts: []finding.Fact{
				{Name: "server", Value: s.Name, From: k.Path + ".image or command"},
				graceFact(w, c.Sum(w).Grace),
			},
			Remedy: "add --die-on-term to uWSGI's arguments",
		}
		if uwsgiConfigured(k) {
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("container %s runs uWSGI with a configuration that is not seen here: without die-on-term in it, SIGTERM kills and reloads the workers, and SIGKILL ends it after %s", k.Name, spell(c.Sum(w).Grace))
			f.Ask = "does the configuration set die-on-term?"
		}
		c.Report(At(w.PodObject, k.Path+".args"), f)
	}
}

// uwsgiConfigured: a file that is not seen may hold the setting, or the image starts uWSGI by itself.
func uwsgiConfigured(k *model.Container) bool {
	if len(k.Command)+len(k.Args) == 0 {
		return true
	}
	for _, a := range slices.Concat(k.Command, k.Args) {
		for _, word := range strings.Fields(a) {
			switch path.Ext(word) {
			case ".ini", ".xml", ".yaml", ".yml", ".json", ".cfg":
				return true
			}
			switch strings.TrimLeft(strings.SplitN(word, "=", 2)[0], "-") {
			case "ini", "xml", "yaml", "yml", "json", "emperor":
				return true
			}
		}
	}
	return false
}
