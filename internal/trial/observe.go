package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/course"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/probelog"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/trigger"
	"github.com/drainproof/drainproof/internal/vantage"
)

// startWatch turns the API's facts into events.
func (r *running) startWatch(ctx context.Context) error {
	r.journal.Alive(record.FromKube)
	stop, err := r.deps.API.Watch(context.WithoutCancel(ctx), kube.WatchSpec{
		Namespace: r.namespace, Service: r.probe.Service, Deployment: r.probe.Deployment,
		PodSelector: kube.LabelApp + "=" + kube.NameProbe + "," + kube.LabelManaged + "=" + r.id,
		OnFact: func(f kube.Fact) {
			r.journal.Add(f.MonoNs, f.Event())
			r.nodes.See(f.Event())
		},
		OnHealth: func(h kube.WatchHealth) {
			r.journal.Down(record.FromKube, journal.Gap{FromMonoNs: h.FromMonoNs, ToMonoNs: h.ToMonoNs, What: h.Resource, Why: h.Why})
		},
	})
	if err != nil {
		return fault.Measuref(err, "this account must be able to list and watch pods, endpointslices, deployments and events", "preflight check watch: starting the watches")
	}
	r.stops = append(r.stops, stop)
	return nil
}

// startLog follows the first probe's log to its end.
func (r *running) startLog(ctx context.Context) {
	r.journal.Alive(record.FromProbe)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := r.deps.API.FollowLog(ctx, r.namespace, r.probe.Pod.Name, r.onProbeLine)
		if err != nil && ctx.Err() == nil {
			r.journal.Lost(record.FromProbe, err.Error())
		}
	}()
	r.stops = append(r.stops, func() {
		// The log ends by itself with its container; give its last lines a moment.
		if r.fired && r.exitSeen() {
			select {
			case <-done:
			case <-time.After(2 * time.Second):
				r.journal.Lost(record.FromProbe, "the log did not end with its container: its last lines may be missing")
			}
		}
		cancel()
		<-done
	})
}

func (r *running) onProbeLine(line []byte) {
	if monoNs, e, ok := probelog.Event(line, r.probe.Pod.Node, *r.probeOffset); ok {
		r.journal.Add(monoNs, e)
	}
}

// newSession starts a client at the vantage, without flows.
func (r *running) newSession(ctx context.Context) (s traffic.Session, err error) {
	if r.cfg.Vantage == "host" {
		s, err = r.deps.Local()
	} else {
		dial, cancel := context.WithTimeout(ctx, attachTimeout)
		defer cancel()
		s, err = r.dialPod(dial, r.worker.Name)
	}
	if err != nil {
		return nil, fault.Measuref(err, "look at the client's Pod, or use --vantage host where this machine can reach the Service", "preflight check client: starting the client at vantage %s", r.cfg.Vantage)
	}
	return s, nil
}

// startClient starts the client at its vantage and listens to its notes.
func (r *running) startClient(ctx context.Context) error {
	r.journal.Alive(record.FromClient)
	session, err := r.newSession(ctx)
	if err != nil {
		return err
	}
	r.session = session
	offset, reading := r.session.Clock()
	r.offset = offset
	r.rec.Clocks = append(r.rec.Clocks, vantage.ClockOf("client", offset, reading))
	r.notesDone = make(chan struct{})
	go func() {
		defer close(r.notesDone)
		for n := range r.session.Notes() {
			r.onNote(n)
		}
		r.flows.lose()
	}()
	return nil
}

var noteEvents = map[traffic.NoteKind]record.EventKind{
	traffic.NoteOpened: record.FlowOpened, traffic.NoteBye: record.FlowAnnounced,
	traffic.NoteRefused: record.FlowRefused, traffic.NoteRehomed: record.FlowRehomed, traffic.NoteEnded: record.FlowEnded,
}

// noteBound: the kernel tells the end of a TCP connection at once. All else is
// noticed later than it happened: another instance or an ICMP error at the next heartbeat, silence after the read timeout.
func noteBound(p record.Protocol, n traffic.Note) record.Bound {
	switch {
	case n.Kind == traffic.NoteRehomed, n.Kind == traffic.NoteRefused,
		n.Kind == traffic.NoteEnded && (p == record.UDP || n.End != nil && n.End.Kind == traffic.EndNoAnswer):
		return record.Upper
	default:
		return record.Exact
	}
}

func (r *running) onNote(n traffic.Note) {
	r.flows.note(n)
	kind, ok := noteEvents[n.Kind]
	if !ok || n.Flow == "" {
		return
	}
	e := record.Event{
		Source: record.FromClient, Kind: kind, Subject: "flow/" + n.Flow, PodUID: n.PodUID,
		Bound: noteBound(r.flows.protocol(n.Flow), n), UncertaintyNs: new(r.offset.UncertaintyNs), Detail: map[string]any{},
	}
	if n.Instance != "" {
		e.Detail["instance"] = n.Instance
	}
	if n.Local != "" {
		e.Detail["local_address"], e.Detail["remote_address"] = n.Local, n.Remote
	}
	if n.End != nil {
		e.Detail["end"] = string(n.End.Kind)
		if n.End.Errno != "" {
			e.Detail["errno"] = n.End.Errno
		}
		if n.End.ICMP != nil {
			e.Detail["icmp_from"], e.Detail["icmp_type"], e.Detail["icmp_code"] = n.End.ICMP.From, n.End.ICMP.Type, n.End.ICMP.Code
		}
	}
	r.journal.Add(n.MonoNs-r.offset.AheadNs, e)
}

// settle holds the flows and demands that nothing happens.
func (r *running) settle(ctx context.Context) error {
	d := time.Duration(r.cfg.SettleNs)
	r.enter(Settle, "all flows answered by %s; holding them for %v", r.probe.Pod.Name, d)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
	}
	return r.undisturbed()
}

func (r *running) undisturbed() error {
	if r.flows.clientLost() {
		return fault.Measuref(nil, "look at the client's Pod and its node, then run it again", "the client was lost before the trigger")
	}
	if ended := r.flows.endedEarly(); ended != "" {
		return fault.Measuref(nil, "find out what ended it (the network, the probe's log, a node under pressure) before measuring a termination",
			"a flow ended before the trigger, so that the trial would blame the wrong thing: %s", ended)
	}
	if r.exitSeen() {
		return fault.Measuref(nil, "look at the probe's log", "the probe's container ended before the trigger")
	}
	return nil
}

// fire sends the trigger; its instant is the zero of the record.
func (r *running) fire(ctx context.Context) error {
	t, err := r.deps.NewTrigger(ctx, trigger.Kind(r.cfg.Trigger), r.target())
	if err != nil {
		return err
	}
	if err := r.undisturbed(); err != nil {
		return err
	}
	r.undos.Push(course.Undo{What: t.Subject(), Do: t.Undo})
	r.enter(Fire, "%s %s", t.Kind(), t.Subject())
	detail := map[string]any{"kind": string(t.Kind())}
	r.zeroWall, r.zeroMonoNs = time.Now(), clock.MonoNs()
	r.journal.HarnessAt(r.zeroMonoNs, record.TriggerSent, t.Subject(), detail)
	r.fired = true
	r.rec.Trigger = &record.Trigger{Kind: string(t.Kind()), Subject: t.Subject(), At: r.zeroWall.UTC(), AtMonoNs: r.zeroMonoNs}
	if err := t.Fire(ctx); err != nil {
		r.journal.Harness(record.TriggerFailed, t.Subject(), map[string]any{"error": err.Error()})
		return err
	}
	r.rec.Trigger.AcceptedNs = new(r.journal.Harness(record.TriggerAccepted, t.Subject(), nil) - r.zeroMonoNs)
	return nil
}

// observe waits until everything expected has been seen, and a little longer, or until the time is up.
func (r *running) observe(ctx context.Context) error {
	limit := time.Duration(r.cfg.ObserveNs)
	control := r.cfg.Trigger == string(trigger.None)
	if control {
		r.enter(Observe, "control: watching %d flows for %v", r.cfg.TCP+r.cfg.UDP, limit)
	} else {
		r.enter(Observe, "watching until every flow has ended and the Pod is gone, for at most %v", limit)
	}
	err := r.waitFor(ctx, limit, func() bool {
		return r.flows.clientLost() || (!control && r.flows.allDecided() && r.exitSeen() && r.goneSeen())
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.flows.clientLost() {
		return fault.Measuref(nil, "run it again; if it happens again, look at the client's Pod and the API server's connection", "the client was lost while observing")
	}
	if err == nil && !control {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(tail):
		}
	}
	if err != nil && !errors.Is(err, errTimeUp) {
		return err
	}
	r.journal.Harness(record.ObserveEnded, "trial/"+r.id, map[string]any{"time_up": err != nil})
	switch {
	case control:
		return nil
	case !r.exitSeen():
		return fault.Measuref(nil, "see whether the API server answered all the time, or raise --observe", "the probe's container was not seen to end within %v", limit)
	case !r.goneSeen():
		return fault.Measuref(nil, "see whether the API server answered all the time, or raise --observe", "the probe's endpoint was not seen to go within %v", limit)
	}
	return nil
}

func (r *running) exitSeen() bool {
	return r.journal.Saw(func(e record.Event) bool { return e.Kind == record.ContainerExited && e.PodUID == r.probe.Pod.UID })
}

func (r *running) goneSeen() bool {
	gone := func(k record.EventKind) bool {
		return r.journal.Saw(func(e record.Event) bool { return e.Kind == k && e.PodUID == r.probe.Pod.UID })
	}
	return gone(record.EndpointRemoved) && gone(record.PodRemoved)
}

var errTimeUp = errors.New("time is up")

// waitFor returns nil when ok does, checked at each change of the journal and now and then.
func (r *running) waitFor(ctx context.Context, limit time.Duration, ok func() bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fmt.Errorf("after %v: %w", limit, errTimeUp)
		case <-tick.C:
		case <-r.journal.Changed():
		}
	}
	return nil
}

// collect ends every observer and takes the client's last word.
func (r *running) collect(ctx context.Context) {
	phase := r.phase
	if r.session != nil {
		r.enter(Collect, "closing the flows and reading the last lines")
		ctx, cancel := context.WithTimeout(ctx, attachTimeout)
		defer cancel()
		report, err := r.session.Close(ctx)
		r.report = report
		if err != nil {
			r.rec.Missing = append(r.rec.Missing, "client: "+err.Error())
			r.journal.Lost(record.FromClient, err.Error())
		}
		if r.notesDone != nil {
			<-r.notesDone
		}
	}
	for i := len(r.stops) - 1; i >= 0; i-- {
		r.stops[i]()
	}
	r.stops = nil
	r.askAgents(ctx)
	r.phase = phase
}
