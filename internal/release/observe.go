package release

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/course"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/trigger"
)

// before sends to the undisturbed workload, and demands that it answers.
func (r *running) before(ctx context.Context) error {
	t := r.cfg.Traffic
	r.enter(Before, "sending %g requests/s of %s for %v before anything is disturbed", t.Rate, plural(t.Users, "user"), time.Duration(t.BeforeNs))
	if err := course.Pause(ctx, time.Duration(t.BeforeNs)); err != nil {
		return err
	}
	failed, total, first := r.tally.failedSoFar()
	// Some noise is left to the verdict; a service that fails one request in ten by itself cannot be tested.
	if total > 0 && failed*10 >= total {
		return fault.Inconclusivef("find out why before testing a termination: the loss would not be the release's",
			"%d of %d requests failed before the trigger, the first with %s: nothing was disturbed", failed, total, first.Outcome)
	}
	return nil
}

// fire sends the trigger; its instant is the zero of the record.
func (r *running) fire(ctx context.Context) error {
	r.setPhase(Fire)
	if r.trigger == nil {
		var err error
		if r.trigger, err = r.newKill(ctx, r.target); err != nil {
			return err
		}
	}
	t := r.trigger
	r.undos.Push(course.Undo{What: t.Subject(), Do: r.undoTrigger, Users: true})
	r.enter(Fire, "%s %s", t.Kind(), t.Subject())
	zeroWall, zero := time.Now(), clock.MonoNs()
	r.setZero(zero)
	r.journal.HarnessAt(zero, record.TriggerSent, t.Subject(), map[string]any{"kind": string(t.Kind())})
	r.rec.Trigger = &record.Trigger{Kind: string(t.Kind()), Subject: t.Subject(), At: zeroWall.UTC(), AtMonoNs: zero}
	if err := t.Fire(ctx); err != nil {
		r.journal.Harness(record.TriggerFailed, t.Subject(), map[string]any{"error": err.Error()})
		return err
	}
	r.rec.Trigger.AcceptedNs = new(r.journal.Harness(record.TriggerAccepted, t.Subject(), nil) - zero)
	return nil
}

// aim says what the trigger acts on, and remembers whose end is to be waited for.
func (r *running) aim() (trigger.Target, error) {
	w, t := r.workload, r.cfg.Traffic
	pod, err := r.choose()
	if err != nil {
		return trigger.Target{}, err
	}
	r.victim = pod
	target := trigger.Target{
		Namespace: w.Namespace, WorkloadKind: w.Kind, Workload: w.Name, Pod: pod.Name, PodUID: pod.UID, Node: pod.Node, Trial: r.id,
	}
	switch trigger.Kind(r.cfg.Trigger) {
	case trigger.Rollout:
		// A StatefulSet's and a DaemonSet's status tells when no old Pod is left; a Deployment's does not count those that are ending.
		for _, p := range w.Facts.Pods {
			if w.Kind == "Deployment" {
				r.ended = append(r.ended, p.UID)
			}
		}
	case trigger.Drain:
		for _, p := range w.Facts.Pods {
			if p.Node == pod.Node {
				r.ended = append(r.ended, p.UID)
			}
		}
	case trigger.Scale:
		if t.TriggerCount > w.Facts.Replicas {
			return target, fault.Usagef(fmt.Sprintf("give --count at most %d, or leave it out to scale to zero", w.Facts.Replicas), "%s has %s, fewer than --count %d", w.Ref, plural(w.Facts.Replicas, "replica"), t.TriggerCount)
		}
		target.Replicas = w.Facts.Replicas - t.TriggerCount
		if t.TriggerCount == 0 {
			target.Replicas = 0
		}
	case trigger.Delete, trigger.Evict, trigger.ForceDelete:
		// The one that was named first, then the others in order.
		pods := []record.WorkloadPod{pod}
		for _, p := range w.Facts.Pods {
			if p.UID != pod.UID {
				pods = append(pods, p)
			}
		}
		if t.TriggerCount > len(pods) {
			return target, fault.Usagef(fmt.Sprintf("give --count at most %d", len(pods)), "%s has %s, fewer than --count %d", w.Ref, plural(len(pods), "Pod"), t.TriggerCount)
		}
		for _, p := range pods[:max(t.TriggerCount, 1)] {
			r.ended = append(r.ended, p.UID)
			target.Pods = append(target.Pods, trigger.PodID{Name: p.Name, UID: p.UID})
			target.Count++
		}
	}
	return target, nil
}

// newKill makes the trigger that needs a Pod on the node.
func (r *running) newKill(ctx context.Context, t trigger.Target) (trigger.Trigger, error) {
	container, id, err := r.containerToKill(t.Pod)
	if err != nil {
		return nil, err
	}
	t.Container, t.ContainerID = container, id
	r.exitsBefore = r.pods.exits(t.Pod)
	r.say("starting a privileged Pod on node %s, from which the process can be killed", t.Node)
	killer, err := r.deps.API.DeployKiller(ctx, r.namespace, r.id, r.cfg.Image, t.Node, deployTimeout)
	if err != nil {
		return nil, err
	}
	r.note("A privileged Pod of the test ran on node %s, to send SIGKILL to the container's first process from outside, as asked (--trigger kill).", t.Node)
	return trigger.NewKill(t, func(ctx context.Context) error {
		return r.kill(ctx, killer, id)
	}), nil
}

// containerToKill is the one that was asked for, or that serves, or the only one.
func (r *running) containerToKill(pod string) (name, id string, err error) {
	running := r.pods.running(pod)
	there := orNone(slices.Sorted(maps.Keys(running)))
	name = cmp.Or(r.spec.Container, r.serving)
	if name == "" && len(running) == 1 {
		name = slices.Collect(maps.Keys(running))[0]
	}
	if name == "" {
		return "", "", fault.Usagef("choose one with --container: "+there, "it is not known which container of pod %s listens on the Service's port", pod)
	}
	if id = running[name]; id == "" {
		return "", "", fault.Unmet("kill", "the id of the running container "+name+" of pod "+pod+" must be known", "running are: "+there,
			"choose one of them with --container, or see `kubectl describe pod "+pod+"`")
	}
	return name, id, nil
}

// observe waits until the disruption is over: what the trigger has left to do, and then what the workload's controller has.
func (r *running) observe(ctx context.Context) error {
	t := r.cfg.Traffic
	limit := time.Duration(t.WaitNs)
	condition := kube.Condition(t.WaitFor)
	if r.cfg.Trigger == string(trigger.None) {
		r.enter(Observe, "control: nothing is disturbed")
		r.overMonoNs = r.zeroMonoNs
		return nil
	}
	r.enter(Observe, "waiting until %s, for at most %v", conditionText(condition), limit)
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := r.awaitKilled(wait)
	if more, ok := r.trigger.(trigger.Lengthy); ok && err == nil {
		err = more.Finish(wait)
	}
	if err == nil {
		err = r.deps.API.Await(wait, r.workload, condition, r.ended)
	}
	switch {
	case err == nil:
		r.overMonoNs = r.journal.Harness(record.ObserveEnded, r.workload.Kind+"/"+r.workload.Name, map[string]any{"waited_for": t.WaitFor})
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() == nil && fault.CodeOf(err) != fault.Unmeasurable:
		return err
	}
	// It was measured, but it did not come to its end: the verdict says so, and everything is put back.
	what := "the disruption did not come to its end"
	if wait.Err() != nil {
		what = fmt.Sprintf("the disruption did not end within %v (%s)", limit, limitFrom(r.rec))
	}
	r.rec.Missing = append(r.rec.Missing, fmt.Sprintf("%s: %v", what, err))
	r.say("%s: %v", what, err)
	return nil
}

// limitFrom names where the limit of the wait is set.
func limitFrom(r *record.Record) string {
	if r.Set != nil {
		return "requests.waitTimeout of the experiment"
	}
	return "--timeout"
}

// awaitKilled waits until the API has told that a killed container ended: until then all looks well to it.
func (r *running) awaitKilled(ctx context.Context) error {
	if r.cfg.Trigger != string(trigger.Kill) {
		return nil
	}
	for r.pods.exits(r.victim.Name) == r.exitsBefore {
		if err := course.Pause(ctx, 50*time.Millisecond); err != nil {
			return fault.Measuref(err, "", "the kubelet has not told that the killed container of pod %s ended", r.victim.Name)
		}
	}
	return nil
}

// backUp scales up again under traffic: a new Pod may lose requests, too.
func (r *running) backUp(ctx context.Context) error {
	if r.cfg.Trigger != string(trigger.Scale) || r.overMonoNs == 0 {
		return nil
	}
	r.enter(Observe, "scaling up again")
	if err := r.undoTrigger(ctx); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, time.Duration(r.cfg.Traffic.WaitNs))
	defer cancel()
	if err := r.deps.API.Await(wait, r.workload, kube.Ready, nil); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.rec.Missing = append(r.rec.Missing, fmt.Sprintf("it was not ready again within %v (%s) after scaling up: %v", time.Duration(r.cfg.Traffic.WaitNs), limitFrom(r.rec), err))
		return nil
	}
	r.overMonoNs = r.journal.Harness(record.ObserveEnded, r.workload.Kind+"/"+r.workload.Name, map[string]any{"waited_for": "ready again"})
	return nil
}

// undoTrigger puts back what the trigger changed. A bare Pod that was made again is waited for: the next trial finds it serving.
func (r *running) undoTrigger(ctx context.Context) error {
	if err := r.trigger.Undo(ctx); err != nil {
		return err
	}
	if r.workload.Kind == "Pod" && r.cfg.Trigger != string(trigger.None) {
		wait, cancel := context.WithTimeout(ctx, attachTimeout)
		defer cancel()
		_ = r.deps.API.Await(wait, r.workload, kube.Ready, nil) // it is there; whether it serves, the next trial asks
	}
	return nil
}

func conditionText(c kube.Condition) string {
	switch c {
	case kube.RolledOut:
		return "the rollout is complete"
	case kube.Ready:
		return "all replicas are ready and none is terminating"
	case kube.Gone:
		return "the Pods are gone"
	default:
		return "the trigger is done"
	}
}

// after goes on sending: what comes late is seen too.
func (r *running) after(ctx context.Context) error {
	d := time.Duration(r.cfg.Traffic.AfterNs)
	said := "the disruption is over"
	if r.overMonoNs == 0 {
		said = "the wait is over"
	}
	r.enter(After, "%s; sending for another %v", said, d)
	return course.Pause(ctx, d)
}

// collect ends the traffic and every observer.
func (r *running) collect(ctx context.Context) {
	phase := r.phase
	if len(r.clients) > 0 {
		r.enter(Collect, "waiting for the last answers")
		limit, cancel := context.WithTimeout(ctx, time.Duration(r.plan.Limits.WholeNs)+attachTimeout)
		defer cancel()
		r.stopClients(limit)
	}
	for i := len(r.stops) - 1; i >= 0; i-- {
		r.stops[i]()
	}
	r.stops = nil
	r.askAgents(ctx)
	r.setPhase(phase)
}

// stopClients stops all clients side by side; each waits for what is under way.
func (r *running) stopClients(ctx context.Context) {
	type ending struct {
		health record.ClientHealth
		err    error
	}
	ends := make([]ending, len(r.clients))
	done := make(chan struct{})
	for i, c := range r.clients {
		go func() {
			ends[i].health, ends[i].err = c.sender.Stop(ctx)
			done <- struct{}{}
		}()
	}
	for range r.clients {
		<-done
	}
	r.reading.Wait()
	var all record.ClientHealth
	all.Limits = map[string]int{}
	for i, e := range ends {
		if e.err != nil {
			r.rec.Missing = append(r.rec.Missing, fmt.Sprintf("%s: %v", r.clients[i].name, e.err))
			r.journal.Lost(record.FromClient, e.err.Error())
		}
		all.HeartbeatsSent += e.health.HeartbeatsSent
		all.HeartbeatsAnswered += e.health.HeartbeatsAnswered
		all.LateP999Ns = max(all.LateP999Ns, e.health.LateP999Ns)
		all.LateMaxNs = max(all.LateMaxNs, e.health.LateMaxNs)
		all.FellBehind = all.FellBehind || e.health.FellBehind
		for k, v := range e.health.Limits {
			all.Limits[k] += v
		}
	}
	if r.requestsRan {
		r.rec.Client = &all
	}
	r.clients = nil
}
