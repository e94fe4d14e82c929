package rules

import (
	"fmt"
	"slices"

	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var listenerRules = []Rule{
	{
		ID: "DP301", Topic: finding.Listener, Severity: finding.Error,
		Title: "The server closes its listener while new connections still arrive",
		Physics: "The server in this image stops accepting as soon as it gets its stop signal, gentle or not: a drain is for the connections that it has. The Pod's address stays in the rules of every node and in the lists of proxies and load balancers until they have learnt of the delete, " +
			"and until then new connections are answered with RST: connection refused. Only a preStop hook that sleeps, before anything tells the server to stop, keeps the listener open for that long. A hook that itself tells the server to quit closes the listener at the delete.",
		Sources: []string{fromLostRequests, "nginx.org/en/docs/control.html", "benoitc/gunicorn#3397", "kubernetes/ingress-nginx#11145", "encode/uvicorn#2414", "golang/go#65802"},
		Remedy:  "Sleep in the preStop hook for longer than the slowest path takes, before anything that stops the server, and raise the grace period by as much.", Workload: checkListener,
	},
	{
		ID: "DP302", Topic: finding.Listener, Severity: finding.Info,
		Title: "What the application does on its stop signal is decided by its code",
		Physics: "A runtime has no drain of its own. The usual calls (server.close() of Node.js, the graceful shutdown of Spring Boot and of ASP.NET Core) close the listener first and then wait for the requests in flight; idle keep-alive connections are closed under the client or hold the exit up. " +
			"Without a handler for SIGTERM, Node.js, Python and PHP as process 1 never see the signal and are cut by SIGKILL at the end of the grace period.",
		Sources: []string{"nodejs/node#2642", "nodejs/node#60617", "derive-to/derive#124", "spring-projects/spring-boot#24617", "golang/go#23829", fromPID1},
		Remedy:  "Handle the stop signal: finish the requests in flight, close idle connections, exit. Then say how long that takes with the annotation drainproof.dev/drain.", Workload: checkFramework,
	},
}

func checkListener(c *Context, w *model.Workload) {
	containers, floor := exposed(c, w)
	for _, k := range containers {
		s := knownOf(k).Server
		if s == nil || !s.ClosesListener {
			continue
		}
		h := holdOf(k, s)
		if !h.known {
			continue // DP104 asks
		}
		gap := floor.Least - h.took
		f := finding.Finding{
			Message: fmt.Sprintf("%s, %s and %s closes its listener at once: up to %s of refused connections per Pod", arriving(floor), h.words, s.Name, spell(gap)),
			Facts: append([]finding.Fact{
				floorFact(floor),
				{Name: "server", Value: s.Name, From: k.Path + ".image or command; " + s.Sources[0]},
			}, append(h.facts, graceFact(w, c.Sum(w).Grace))...),
			Remedy: holdRemedy(c, w, k, floor, h),
		}
		if s.ConfigDelay != "" {
			f.Severity = finding.Info
			f.Message = fmt.Sprintf("%s, %s, and %s stops accepting at once unless %s says otherwise: up to %s of refused connections per Pod", arriving(floor), h.words, s.Name, s.ConfigDelay, spell(gap))
			f.Ask = fmt.Sprintf("is %s at least %s?", s.ConfigDelay, spell(floor.Least))
			f.Remedy += fmt.Sprintf("; or set %s to %s", s.ConfigDelay, spell(sleepFor(floor)))
		}
		if _, drains := s.Drains(hookText(k.PreStop)); drains && s.DelayFlag == "" {
			f.Remedy = fmt.Sprintf("sleep for %s in the hook before it tells %s to stop, and %s", spell(sleepFor(floor)), s.Name, graceText(c.Sum(w), sleepFor(floor)-h.took))
		} else if s.DelayFlag != "" {
			f.Remedy = fmt.Sprintf("set %s to %s (or %s), and %s", s.DelayFlag, spell(sleepFor(floor)), sleepText(c, k, sleepFor(floor)), graceText(c.Sum(w), sleepFor(floor)-h.took))
		}
		c.Report(At(w.PodObject, k.Path+".lifecycle.preStop"), f)
	}
}

func checkFramework(c *Context, w *model.Workload) {
	if !carries(w) || w.Pod.Grace.N == 0 || c.Sum(w).Drain.Known {
		return
	}
	for _, k := range clientsOf(c, w) {
		s := knownOf(k).Server
		if s == nil || !s.CodeDecides || losesSignal(w, k) {
			continue
		}
		from := k.Path + ".command"
		switch {
		case len(k.Command) == 0 && len(k.Args) > 0:
			from = k.Path + ".args"
		case len(k.Command) == 0:
			from = k.Path + ".image"
		}
		f := finding.Finding{
			Message: fmt.Sprintf("container %s runs %s, which on SIGTERM %s", k.Name, s.Name, s.OnTERM),
			Facts:   []finding.Fact{{Name: "runtime", Value: s.Name, From: from}, {Name: "its shutdown", Value: "decided by the code", From: lastOf(s.Sources)}},
			Remedy:  "finish the requests in flight on SIGTERM, close idle keep-alive connections, exit; then write how long that takes: drainproof.dev/drain",
			Ask:     "does the code handle SIGTERM, and what does it cost? " + askTell(w, "rollout"),
		}
		if containers, floor := exposed(c, w); floor != nil && slices.Contains(containers, k) {
			f.Message += fmt.Sprintf("; if it closes its listener first, %s of new connections are refused, because %s", spell(floor.Least-holdOf(k, s).took), holdOf(k, s).words)
			f.Facts = append(f.Facts, floorFact(floor))
		}
		c.Report(At(w.PodObject, from), f)
	}
}
