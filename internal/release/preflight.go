package release

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/course"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/trigger"
)

// bundled reports whether the trial deploys its own workload.
func (r *running) bundled() bool { return r.cfg.Probe != nil }

// ownNamespace reports whether the trial needs a namespace for Pods of its own.
func (r *running) ownNamespace() bool {
	return r.bundled() || r.cfg.Vantage == "pod" || r.cfg.Trigger == string(trigger.Kill)
}

// preflight looks, and touches nothing.
func (r *running) preflight(ctx context.Context) error {
	r.enter(Preflight, "checking the cluster and this account's rights")
	if r.bundled() {
		r.spec.Ref = kube.Ref{Kind: "Deployment", Namespace: "drainproof-" + r.id, Name: kube.NameProbe}
	}
	if err := r.rights(ctx); err != nil {
		return err
	}
	env, err := r.deps.API.Environment(ctx)
	if err != nil {
		return fault.Measuref(err, "check that the API server answers and that this account may list nodes", "preflight check api-reachable: the API server must describe the cluster")
	}
	e := &r.rec.Environment
	e.Kubernetes, e.ProxyMode, e.ProxyModeFrom, e.ClusterUID, e.Nodes = env.Kubernetes, env.ProxyMode, env.ProxyModeFrom, env.ClusterUID, env.Nodes
	if e.ProxyMode == nil {
		r.note("The data plane's mode could not be read (%s); do not compare this record with others by mode.", e.ProxyModeFrom)
	}
	if r.bundled() {
		return nil
	}
	return r.resolve(ctx)
}

func (r *running) rights(ctx context.Context) error {
	missing, err := r.deps.API.MissingForTest(ctx, r.spec.Ref, r.cfg.Trigger)
	if err == nil && r.cfg.Vantage == "pod" {
		var more []string
		more, err = r.deps.API.MissingForWorkers(ctx)
		missing = append(missing, more...)
	}
	if err == nil && r.bundled() {
		var more []string
		more, err = r.deps.API.Missing(ctx, "", string(trigger.None))
		missing = append(missing, more...)
	}
	if err != nil {
		return fault.Measuref(err, "check that the API server answers and that this account may ask for its own rights (selfsubjectaccessreviews)", "preflight check rights: asking the API server")
	}
	if len(missing) > 0 {
		return fault.Unmet("rights", "this account must have every right that the test needs", "it lacks: "+strings.Join(missing, ", "),
			"grant them (docs/permissions.md lists the least that works) or use another account")
	}
	return nil
}

// resolve reads the workload and finds the way to it.
func (r *running) resolve(ctx context.Context) error {
	w, err := r.deps.API.Resolve(ctx, r.spec.Ref)
	if err != nil {
		return err
	}
	r.workload = w
	if w.Ready == 0 && r.cfg.Trigger != string(trigger.None) {
		return fault.Unmet("ready", w.Ref.String()+" must have a ready Pod before it is disturbed", fmt.Sprintf("none of its %d is", len(w.Facts.Pods)),
			"see `kubectl describe pods`, and test it once it serves")
	}
	if r.target, err = r.aim(); err != nil {
		return err
	}
	facts := w.Facts
	if kind := trigger.Kind(r.cfg.Trigger); kind != trigger.Kill {
		// Made now: what it refuses is refused before anything is touched.
		if r.trigger, err = r.deps.NewTrigger(ctx, kind, r.target); err != nil {
			return err
		}
	}
	service, port, err := r.way(w)
	if err != nil {
		return err
	}
	facts.Service, facts.Port = service.Name, port.Port
	r.rec.Workload, r.serving, r.podPort = &facts, port.Container, port.PodPort
	r.plan = r.spec.Plan
	if r.cfg.Traffic.URL == "" {
		if err := r.address(w, service, port); err != nil {
			return err
		}
	}
	return nil
}

// way finds the Service and port that the clients go through. With a URL, the Service is only watched, where there is one.
func (r *running) way(w *kube.Workload) (kube.Service, kube.ServicePort, error) {
	none := kube.ServicePort{}
	var found []kube.Service
	var names []string
	for _, s := range w.Services {
		names = append(names, s.Name)
		if r.spec.Service == "" || r.spec.Service == s.Name {
			found = append(found, s)
		}
	}
	hasURL := r.cfg.Traffic.URL != ""
	switch {
	case r.spec.Service != "" && len(found) == 0:
		return kube.Service{}, none, fault.Usagef("name one that selects its Pods: "+orNone(names), "Service %s does not lead to %s", r.spec.Service, w.Ref)
	case len(found) == 0 && hasURL:
		return kube.Service{}, none, nil
	case len(found) == 0:
		return kube.Service{}, none, fault.Usagef("give the address that its users use with --url", "no Service selects the Pods of %s", w.Ref)
	case len(found) > 1 && hasURL:
		return found[0], none, nil
	case len(found) > 1:
		return kube.Service{}, none, fault.Usagef("choose one with --service: "+strings.Join(names, ", "), "%d Services lead to %s", len(found), w.Ref)
	}
	s := found[0]
	if hasURL {
		return s, none, nil
	}
	if s.ReadyEndpoints == 0 {
		return s, none, fault.Unmet("endpoints", "Service "+s.Name+" must have a ready endpoint", "it has none", "see `kubectl get endpointslices -l kubernetes.io/service-name="+s.Name+"`, and test it once it serves")
	}
	port, err := r.choosePort(s)
	return s, port, err
}

// choosePort finds the port by name or number; without one, the only one that fits the mode.
func (r *running) choosePort(s kube.Service) (kube.ServicePort, error) {
	protocol := "TCP"
	if r.spec.Plan.Mode == "udp" {
		protocol = "UDP"
	}
	var fit []kube.ServicePort
	var names []string
	for _, p := range s.Ports {
		if p.Protocol != protocol {
			continue
		}
		names = append(names, strings.TrimPrefix(fmt.Sprintf("%s/%d", p.Name, p.Port), "/"))
		if r.spec.Port == "" || r.spec.Port == p.Name || r.spec.Port == fmt.Sprint(p.Port) {
			fit = append(fit, p)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) == 0 && r.spec.Port != "":
		return kube.ServicePort{}, fault.Usagef("choose one of "+orNone(names), "Service %s has no %s port %s", s.Name, protocol, r.spec.Port)
	case len(fit) == 0:
		return kube.ServicePort{}, fault.Usagef("choose another --mode or --service", "Service %s has no %s port", s.Name, protocol)
	default:
		return kube.ServicePort{}, fault.Usagef("choose one with --port: "+strings.Join(names, ", "), "Service %s has %d %s ports", s.Name, len(fit), protocol)
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "there is none"
	}
	return strings.Join(names, ", ")
}

// address puts where the requests go into the plan, by the path.
func (r *running) address(w *kube.Workload, s kube.Service, p kube.ServicePort) error {
	t := &r.plan.Target
	switch r.cfg.Path {
	case "pod":
		if p.PodPort == 0 {
			return fault.Unmet("path", "the container port behind port "+fmt.Sprint(p.Port)+" must be known", "it is not", "give the address with --url")
		}
		t.Host, t.Port = r.victim.IP, uint16(p.PodPort)
	case "nodeport":
		// Through the node of the Pod that is ended: that it serves is certain.
		node := r.victim.NodeIP
		if node == "" {
			return fault.Unmet("path", "the node of pod "+r.victim.Name+" must have an address", "none is known", "use --path clusterip")
		}
		if p.NodePort == 0 {
			return fault.Usagef("use --path clusterip", "Service %s has no node port for port %d (it is of type %s)", s.Name, p.Port, s.Type)
		}
		t.Host, t.Port = node, uint16(p.NodePort)
	default:
		if s.Headless {
			return fault.Usagef("use --path pod, or give the address with --url and --vantage pod", "Service %s is headless: there is no cluster IP to send to", s.Name)
		}
		t.Host, t.Port = s.ClusterIP, uint16(p.Port)
	}
	if t.Authority == "" {
		t.Authority = fmt.Sprintf("%s.%s.svc:%d", s.Name, w.Namespace, p.Port)
	}
	path, _, _ := strings.Cut(t.Path, "?") // a query may hold what is secret
	r.cfg.Traffic.URL = fmt.Sprintf("%s://%s%s", t.Scheme, hostPort(t.Host, int(t.Port)), path)
	return nil
}

func hostPort(host string, port int) string {
	if strings.Contains(host, ":") {
		return fmt.Sprintf("[%s]:%d", host, port)
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// deploy makes what the trial needs in the cluster, and claims the workload.
func (r *running) deploy(ctx context.Context) error {
	if r.ownNamespace() {
		if err := r.makeNamespace(ctx); err != nil {
			return err
		}
	}
	if r.bundled() {
		if err := r.deployProbe(ctx); err != nil {
			return err
		}
	}
	if r.cfg.Vantage == "pod" {
		n := r.cfg.Traffic.Workers
		r.say("starting %s", plural(n, "client Pod"))
		workers, err := r.deps.API.DeployWorkers(ctx, kube.WorkerSpec{
			Namespace: r.namespace, Trial: r.id, Image: r.cfg.Image, Args: []string{"worker", "--idle=3h"}, AwayFrom: r.victim.Node,
		}, n, deployTimeout)
		if err != nil {
			return err
		}
		r.workers = workers
	}
	return r.claim(ctx)
}

func (r *running) makeNamespace(ctx context.Context) error {
	r.namespace = "drainproof-" + r.id
	r.enter(Deploy, "creating namespace %s", r.namespace)
	r.rec.Environment.Namespace = r.namespace
	r.undos.Push(course.Undo{What: "namespace " + r.namespace, Do: func(ctx context.Context) error { return r.deps.API.Undo(ctx, r.namespace, r.id) }})
	uid, err := r.deps.API.EnsureNamespace(ctx, r.namespace, r.id, true)
	r.rec.Environment.NamespaceUID = uid
	return err
}

// deployProbe makes the bundled workload, and then treats it as if it were a user's.
func (r *running) deployProbe(ctx context.Context) error {
	p := r.cfg.Probe
	r.say("creating %s of the probe", plural(p.Replicas, "replica"))
	spec := kube.ProbeSpec{
		Namespace: r.namespace, Trial: r.id, Image: r.cfg.Image, Args: probeArgs(r.cfg),
		Grace: time.Duration(r.cfg.GraceNs), PreStopSleep: time.Duration(r.cfg.PreStopSleepNs),
		ReadinessEvery: time.Duration(r.cfg.ReadinessEveryNs), NodePort: r.cfg.Path == "nodeport",
		PortTCP: probe.PortTCP, PortUDP: probe.PortUDP, PortHTTP: probe.PortHTTP, PathReady: probe.PathReady,
	}
	extendProbe(&spec, r.cfg)
	deployed, err := r.deps.API.DeployProbe(ctx, spec, deployTimeout)
	if err != nil {
		return err
	}
	r.rec.Environment.ImageID = new(deployed.Pod.ImageID)
	if p.NoReadinessProbe && p.StartDelayNs > 0 {
		// Kubernetes takes such a Pod for ready at once: it is for us to wait until the first ones listen.
		if err := course.Pause(ctx, time.Duration(p.StartDelayNs)+time.Second); err != nil {
			return err
		}
	}
	r.spec.Service, r.spec.Port = deployed.Service, fmt.Sprint(probe.PortHTTP)
	return r.resolve(ctx)
}

// claim marks the workload, so that two tests do not disturb each other.
func (r *running) claim(ctx context.Context) error {
	t := r.cfg.Traffic
	lasts := time.Duration(t.BeforeNs+t.WaitNs+t.AfterNs) + attachTimeout + claimSlack
	c := kube.Claim{Trial: r.id, Until: time.Now().Add(lasts).UTC()}
	if r.cfg.Trigger == string(trigger.Scale) {
		c.Replicas = new(r.workload.Facts.Replicas)
	}
	release, err := r.deps.API.Claim(ctx, r.workload, c)
	if release != nil {
		r.undos.Push(course.Undo{What: "the mark on " + r.workload.Ref.String(), Do: release, Mark: true})
	}
	return err
}

func plural(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// choose finds the Pod that the trigger acts on, or the first of them: a ready one, since the end of no other would be felt.
func (r *running) choose() (record.WorkloadPod, error) {
	var names []string
	for _, p := range r.workload.Facts.Pods {
		ready := slices.Contains(r.workload.ReadyPods, p.Name)
		switch {
		case r.spec.Pod == "" && (ready || r.workload.Ready == 0):
			return p, nil
		case r.spec.Pod == p.Name && !ready:
			return p, fault.Unmet("pod", "pod "+p.Name+" must be ready before it is ended", "it is not", "choose another with --pod")
		case r.spec.Pod == p.Name:
			return p, nil
		}
		names = append(names, p.Name)
	}
	return record.WorkloadPod{}, fault.Usagef("name one of its Pods: "+strings.Join(names, ", "), "%s has no Pod %s", r.workload.Ref, r.spec.Pod)
}
