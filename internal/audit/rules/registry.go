package rules

import (
	"fmt"
	"time"

	"github.com/drainproof/drainproof/internal/audit/budget"
	"github.com/drainproof/drainproof/internal/audit/finding"
	"github.com/drainproof/drainproof/internal/audit/model"
)

var registryRules = []Rule{
	{
		ID: "DP781", Topic: finding.Registry, Severity: finding.Warning,
		Title: "Registered with a service registry, and nothing deregisters it in time",
		Physics: "Clients that find their servers in Nacos, Eureka or Consul do not look at EndpointSlices: deleting the Pod tells them nothing. They learn of it when the instance is deregistered and their own list is renewed, which takes 30 s to 1 minute in reports. " +
			"An application that deregisters in its own shutdown does so in the moment in which it closes. A preStop hook that only sleeps does not help: the instance stays registered all the while. The order that loses nothing is: deregister, wait out the clients' lists, then stop. " +
			"ZooKeeper and Dubbo push changes to the clients; Dubbo's own shutdown deregisters and then waits 10 s by default (dubbo.service.shutdown.wait).",
		Sources: []string{"alibaba/nacos#14096", "alibaba/spring-cloud-alibaba#3665", "spring-cloud/spring-cloud-kubernetes#180", "apache/dubbo#13081"},
		Remedy:  "Let the preStop hook deregister the instance (the registry's API, the framework's endpoint, Dubbo's QoS command offline) and then sleep for the time of the clients' lists, inside the grace period.",

		Workload: checkRegistry,
	},
}

// lists is for how long clients go on using what they know of a registry.
type lists struct {
	short, long time.Duration
	fact        finding.Fact
}

func (l lists) words() string {
	if l.short == l.long {
		return spell(l.long)
	}
	return spell(l.short) + " to " + spell(l.long)
}

// listsOf gives the times of the registries that clients poll; known is false for those that push.
func listsOf(c *Context, r budget.Registration) (l lists, known bool) {
	const name = "clients use their list for"
	if m, ok := c.Floors.Measured[budget.Registry]; ok {
		return lists{m.Least, m.Least, finding.Fact{Name: name, Value: spell(m.Least), From: m.Source}}, true
	}
	f := budget.Default(budget.Registry, r.Variant())
	return lists{f.Least, 2 * f.Least, finding.Fact{Name: name, Value: "30 s to 1 minute", From: "field report alibaba/nacos#14096"}}, f.Least > 0
}

func checkRegistry(c *Context, w *model.Workload) {
	switch w.Object.Kind {
	case "Job", "CronJob":
		if !w.ReceivesTraffic() {
			return
		}
	}
	for _, r := range budget.Registrations(w) {
		if l, known := listsOf(c, r); known {
			checkPolled(c, w, r, l)
		} else if r.Sure {
			checkPushed(c, w, r)
		}
	}
}

// checkPolled is for registries whose clients renew their list from time to time.
func checkPolled(c *Context, w *model.Workload, r budget.Registration, l lists) {
	hook := r.Container.PreStop
	f := finding.Finding{
		Facts: []finding.Fact{{Name: "registry", Value: r.Registry, From: settingFrom(r)}, l.fact, periodFact(w), registryHook(r)},
		Remedy: fmt.Sprintf("Let preStop deregister the instance from %s and then sleep %s, and set terminationGracePeriodSeconds to at least %d plus the application's drain.",
			r.Registry, spell(l.long), wholeSeconds(l.long)),
	}
	find := "clients find"
	if !r.Sure {
		find = "clients may find"
		f.Severity = finding.Info
		f.Ask = fmt.Sprintf("Does the application register itself with %s as a server, or does it only read from it? In the latter case there is nothing to do.", r.Registry)
	}
	switch {
	case onlySleeps(hook):
		f.Message = fmt.Sprintf("%s this workload in %s, which the Pod's delete does not tell: the preStop hook sleeps %s and the instance stays registered all the while; it is deregistered when it shuts down, and clients go on calling it for %s after it has closed",
			find, r.Registry, spell(hook.Took), l.words())
	case nothing(hook):
		f.Message = fmt.Sprintf("%s this workload in %s, which the Pod's delete does not tell: with no preStop hook it is deregistered in its own shutdown at the earliest, and clients go on calling it for %s after it has closed", find, r.Registry, l.words())
	case hook.AtLeast >= l.short || !r.Sure:
		return // it does something and waits: that is the order wanted
	default:
		f.Severity = finding.Info
		f.Message = fmt.Sprintf("%s this workload in %s and use their list for %s after an instance is deregistered; the preStop hook surely waits for %s, and what else it does cannot be read", find, r.Registry, l.words(), spell(hook.AtLeast))
		f.Ask = fmt.Sprintf("Does the hook deregister the instance and then wait for %s? %s shows what a release costs.", spell(l.long), askTest(w, "rollout"))
	}
	c.Report(registryPlace(w, r), f)
}

// shutdownWait is the default of dubbo.service.shutdown.wait.
const shutdownWait = 10 * time.Second

// checkPushed is for registries that tell their clients. How fast these act is a question.
func checkPushed(c *Context, w *model.Workload, r budget.Registration) {
	if hook := r.Container.PreStop; !nothing(hook) && !onlySleeps(hook) {
		return
	}
	f := finding.Finding{
		Severity: finding.Info,
		Message:  fmt.Sprintf("clients find this workload in the registry of %s, which the Pod's delete does not tell: they learn of it when the instance is deregistered in its own shutdown, and no preStop hook does that before", r.Registry),
		Facts:    []finding.Fact{{Name: "registry", Value: r.Registry, From: settingFrom(r)}, periodFact(w), registryHook(r)},
		Remedy:   "Let preStop deregister the instance and then sleep until the clients have acted on it, inside the grace period.",
		Ask:      "Does the application deregister first, and go on serving until its clients have acted on that? " + askTest(w, "rollout") + " shows it.",
	}
	if r.Registry == budget.Dubbo {
		f.Message += fmt.Sprintf("; Dubbo then waits %s unless dubbo.service.shutdown.wait says otherwise", spell(shutdownWait))
		f.Facts = append(f.Facts, finding.Fact{Name: "dubbo.service.shutdown.wait", Value: spell(shutdownWait), From: "default of Dubbo"})
		f.Remedy = "Let preStop send offline to Dubbo's QoS port (22222) and then sleep until the consumers have acted on it, inside the grace period."
	}
	c.Report(registryPlace(w, r), f)
}

// nothing says that a hook holds its container for no time.
func nothing(h *model.Hook) bool { return h == nil || h.How == "" || h.Broken != "" }

// onlySleeps says that all of a hook's time is known, which is so of a plain sleep alone.
func onlySleeps(h *model.Hook) bool { return !nothing(h) && h.Known }

func registryHook(r budget.Registration) finding.Fact {
	h := r.Container.PreStop
	switch {
	case nothing(h):
		return finding.Fact{Name: "preStop hook", Value: "none", From: r.Container.Path + ".lifecycle.preStop"}
	case h.Known:
		return finding.Fact{Name: "preStop hook", Value: spell(h.Took) + ", sleeps only", From: h.At}
	}
	return finding.Fact{Name: "preStop hook", Value: "at least " + spell(h.AtLeast), From: h.At}
}

func settingFrom(r budget.Registration) string {
	if r.Env {
		return "env " + r.Setting
	}
	return r.Container.Path + ": " + r.Setting
}

func registryPlace(w *model.Workload, r budget.Registration) *Place {
	if r.Env {
		return envPlace(w, r.Container, r.Setting)
	}
	on := linePlace(w, r.Container, "--"+r.Setting)
	if on.Path == r.Container.Path {
		on = linePlace(w, r.Container, "-D"+r.Setting)
	}
	return on
}
