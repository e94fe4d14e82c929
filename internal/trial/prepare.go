package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/course"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/trigger"
	"github.com/drainproof/drainproof/internal/vantage"
)

// preflight looks, and touches nothing.
func (r *running) preflight(ctx context.Context) error {
	r.enter(Preflight, "checking the cluster and this account's rights")
	r.namespace = "drainproof-" + r.id
	ask := "" // a namespace that is not there yet
	if r.cfg.Namespace != nil {
		r.namespace = *r.cfg.Namespace
		ask = r.namespace
	}
	missing, err := r.deps.API.Missing(ctx, ask, r.cfg.Trigger)
	if err != nil {
		return fault.Measuref(err, "check that the API server answers and that this account may ask for its own rights (selfsubjectaccessreviews)", "preflight check rights: asking the API server")
	}
	if len(missing) > 0 {
		return fault.Unmet("rights", "this account must have every right that the trial needs", "it lacks: "+strings.Join(missing, ", "),
			"grant them (docs/permissions.md lists the least that works) or use another account")
	}
	env, err := r.deps.API.Environment(ctx)
	if err != nil {
		return fault.Measuref(err, "check that the API server answers and that this account may list nodes", "preflight check api-reachable: the API server must describe the cluster")
	}
	e := &r.rec.Environment
	e.Kubernetes, e.ProxyMode, e.ProxyModeFrom, e.ClusterUID, e.Nodes = env.Kubernetes, env.ProxyMode, env.ProxyModeFrom, env.ClusterUID, env.Nodes
	if e.ProxyMode == nil {
		r.rec.Notes = append(r.rec.Notes, "The data plane's mode could not be read ("+e.ProxyModeFrom+"); do not compare this record with others by mode.")
	}
	if r.cfg.PreStopSleepNs > 0 {
		if minor, ok := minorOf(env.Kubernetes); ok && minor < 30 {
			return fault.Unmet("pre-stop-sleep", "the native preStop sleep needs Kubernetes 1.30 or later", "this is "+env.Kubernetes, "leave --pre-stop-sleep out")
		}
	}
	return nil
}

func minorOf(version string) (int, bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimRight(parts[1], "+"))
	return n, err == nil
}

// deploy makes the namespace, the probe and, for vantage pod, the worker.
func (r *running) deploy(ctx context.Context) error {
	r.enter(Deploy, "creating the probe in namespace %s", r.namespace)
	r.rec.Environment.Namespace = r.namespace
	r.undos.Push(course.Undo{What: "namespace " + r.namespace, Do: func(ctx context.Context) error { return r.deps.API.Undo(ctx, r.namespace, r.id) }})
	uid, err := r.deps.API.EnsureNamespace(ctx, r.namespace, r.id, r.cfg.Namespace == nil)
	if err != nil {
		return err
	}
	r.rec.Environment.NamespaceUID = uid
	r.probe, err = r.deps.API.DeployProbe(ctx, kube.ProbeSpec{
		Namespace: r.namespace, Trial: r.id, Image: r.cfg.Image, Args: ProbeArgs(r.cfg),
		Grace: time.Duration(r.cfg.GraceNs), PreStopSleep: time.Duration(r.cfg.PreStopSleepNs),
		ReadinessEvery: time.Duration(r.cfg.ReadinessEveryNs), NodePort: r.cfg.Path == "nodeport",
		PortTCP: probe.PortTCP, PortUDP: probe.PortUDP, PortHTTP: probe.PortHTTP, PathReady: probe.PathReady,
	}, deployTimeout)
	if err != nil {
		return err
	}
	r.rec.Environment.ImageID = new(r.probe.Pod.ImageID)
	r.say("probe %s is ready on node %s", r.probe.Pod.Name, r.probe.Pod.Node)
	if r.cfg.Vantage != "pod" {
		return nil
	}
	r.worker, err = r.deps.API.DeployWorker(ctx, kube.WorkerSpec{
		Namespace: r.namespace, Trial: r.id, Image: r.cfg.Image, Args: []string{"worker", "--idle=1h"}, AwayFrom: r.probe.Pod.Node,
	}, deployTimeout)
	if err != nil {
		return err
	}
	r.say("client Pod %s is ready on node %s", r.worker.Name, r.worker.Node)
	if r.worker.Node == r.probe.Pod.Node {
		r.rec.Notes = append(r.rec.Notes, "The client's Pod ran on the probe's own node ("+r.worker.Node+"): no other node took it.")
	}
	return nil
}

// attach starts every observer, and the flows.
func (r *running) attach(ctx context.Context) error {
	r.enter(Attach, "watching, following the probe's log, opening %d TCP and %d UDP flows", r.cfg.TCP, r.cfg.UDP)
	if err := r.measureProbeClock(ctx); err != nil {
		return err
	}
	targets, err := r.targets()
	if err != nil {
		return err
	}
	if err := r.startAgents(ctx, targets); err != nil {
		return err
	}
	if err := r.startWatch(ctx); err != nil {
		return err
	}
	r.startLog(ctx)
	if err := r.waitFor(ctx, attachTimeout, func() bool {
		return r.journal.Saw(func(e record.Event) bool { return e.Kind == record.ProbeStarted }) &&
			r.journal.Saw(func(e record.Event) bool { return e.Kind == record.EndpointReady && e.PodUID == r.probe.Pod.UID })
	}); err != nil {
		return fault.Unmet("observers", "the probe's log and its ready endpoint must have been seen before the trigger", "they were not within "+attachTimeout.String(),
			"look at the Pod's log and the Service's EndpointSlice, then try again")
	}
	if err := r.awaitPath(ctx, targets); err != nil {
		return err
	}
	if err := r.startClient(ctx); err != nil {
		return err
	}
	plan := traffic.Plan{HeartbeatNs: r.cfg.HeartbeatNs, ReadTimeoutNs: r.cfg.ReadTimeoutNs, ConnectTimeoutNs: int64(connectTimeout)}
	for i := range r.cfg.TCP {
		plan.Flows = append(plan.Flows, traffic.FlowPlan{ID: fmt.Sprintf("tcp-%d", i+1), Protocol: record.TCP, Address: targets.tcp})
	}
	for i := range r.cfg.UDP {
		plan.Flows = append(plan.Flows, traffic.FlowPlan{ID: fmt.Sprintf("udp-%d", i+1), Protocol: record.UDP, Address: targets.udp})
	}
	r.flows.plan(plan)
	open, cancel := context.WithTimeout(ctx, connectTimeout+5*time.Second)
	defer cancel()
	if err := r.session.Open(open, plan); err != nil {
		return fault.Measuref(err, "check that "+r.cfg.Vantage+" can reach "+targets.tcp+" (network policies, routes, --path, --vantage)",
			"preflight check flows-open: every flow must get a first answer through path %s", r.cfg.Path)
	}
	if err := r.waitFor(ctx, attachTimeout, func() bool { return r.flows.opened() == len(plan.Flows) }); err != nil {
		return fmt.Errorf("waiting for the flows' first answers to be told: %w", err)
	}
	if other := r.flows.strangers(r.probe.Pod.UID); len(other) > 0 {
		return fault.Unmet("one-instance", "every flow must be answered by the probe's one Pod "+r.probe.Pod.Name, "these were not: "+strings.Join(other, ", "),
			"use a namespace of its own (leave --namespace out), so that no other Pod matches the Service")
	}
	return nil
}

// awaitPath waits until the data plane at the client's vantage forwards to the
// probe. The API names an endpoint as ready before the nodes' rules do, and a node without the rule
// refuses: it would be the set-up's lag that is measured. One flow of each protocol is opened and closed again.
func (r *running) awaitPath(ctx context.Context, t targets) error {
	plan := traffic.Plan{HeartbeatNs: r.cfg.HeartbeatNs, ReadTimeoutNs: r.cfg.ReadTimeoutNs, ConnectTimeoutNs: int64(time.Second)}
	if r.cfg.TCP > 0 {
		plan.Flows = append(plan.Flows, traffic.FlowPlan{ID: "path-tcp", Protocol: record.TCP, Address: t.tcp})
	}
	if r.cfg.UDP > 0 {
		plan.Flows = append(plan.Flows, traffic.FlowPlan{ID: "path-udp", Protocol: record.UDP, Address: t.udp})
	}
	for deadline := time.Now().Add(attachTimeout); ; {
		s, err := r.newSession(ctx)
		if err != nil {
			return err
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for range s.Notes() { // must be read to the end, which Close brings
			}
		}()
		open, cancel := context.WithTimeout(ctx, 3*time.Second)
		err = s.Open(open, plan)
		cancel()
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), attachTimeout)
		_, closeErr := s.Close(done)
		cancel()
		<-read
		switch {
		case err == nil && closeErr == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fault.Measuref(errors.Join(err, closeErr), "check that "+r.cfg.Vantage+" can reach "+t.tcp+" (network policies, routes, --path, --vantage)",
				"preflight check path: the probe must answer through path %s within %v", r.cfg.Path, attachTimeout)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

type targets struct{ tcp, udp string }

func (r *running) targets() (targets, error) {
	at := func(ip string, tcp, udp int) targets {
		return targets{net.JoinHostPort(ip, strconv.Itoa(tcp)), net.JoinHostPort(ip, strconv.Itoa(udp))}
	}
	p := r.probe
	switch r.cfg.Path {
	case "pod":
		return at(p.Pod.IP, probe.PortTCP, probe.PortUDP), nil
	case "clusterip":
		return at(p.ClusterIP, probe.PortTCP, probe.PortUDP), nil
	default:
		// Through the probe's own node: that it has an address is certain, and
		// the one data plane on the way is the one next to the Pod.
		if p.Pod.NodeIP == "" || p.NodePortTCP == 0 || p.NodePortUDP == 0 {
			return targets{}, fault.Unmet("nodeport", "the Service must have node ports and the node an address", "they are not there", "look at the Service's spec.ports and the node's addresses")
		}
		return at(p.Pod.NodeIP, p.NodePortTCP, p.NodePortUDP), nil
	}
}

// measureProbeClock ties the probe's log to our clock: exactly, when its node runs our kernel.
func (r *running) measureProbeClock(ctx context.Context) error {
	name := "probe/" + r.probe.Pod.Name
	for _, n := range r.rec.Environment.Nodes {
		if n.Name == r.probe.Pod.Node && n.BootID == r.bootID && r.bootID != "" {
			r.probeOffset = &clock.Offset{}
			r.rec.Clocks = append(r.rec.Clocks, record.Clock{Name: name, BootID: n.BootID, OffsetNs: new(int64), UncertaintyNs: new(int64), Method: "same-kernel"})
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	s, err := r.dialPod(ctx, r.probe.Pod.Name)
	if err != nil {
		return fault.Measuref(err, "this account needs pods/exec in "+r.namespace, "preflight check clocks: the probe's clock must be measured")
	}
	o, reading := s.Clock()
	_, _ = s.Close(ctx) // it held no flows; there is nothing to lose
	r.probeOffset = &o
	r.rec.Clocks = append(r.rec.Clocks, vantage.ClockOf(name, o, reading))
	return nil
}

// dialPod opens a session with a worker that an exec starts in the Pod.
func (r *running) dialPod(ctx context.Context, pod string) (traffic.Session, error) {
	return vantage.Hold(ctx, r.deps.API, r.namespace, pod, r.spec.Tool.Version)
}

// target is what the trigger acts on.
func (r *running) target() trigger.Target {
	return trigger.Target{Namespace: r.namespace, Pod: r.probe.Pod.Name, PodUID: r.probe.Pod.UID, Deployment: r.probe.Deployment}
}
