package release

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/course"
	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/journal"
	"github.com/drainproof/drainproof/internal/kube"
	"github.com/drainproof/drainproof/internal/probelog"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/vantage"
)

// client is one sender and how its clock stands to ours.
type client struct {
	name   string
	sender traffic.Sender
	offset clock.Offset
	// names are the instances that its batches named so far, as the counter numbers them.
	names []int32
}

// attach starts every observer and client, sees that one request is answered, and starts the traffic.
func (r *running) attach(ctx context.Context) error {
	r.enter(Attach, "watching %s", r.workload.Ref)
	if err := r.startAgents(ctx); err != nil {
		return err
	}
	if err := r.startWatch(ctx); err != nil {
		return err
	}
	if err := r.startClients(ctx); err != nil {
		return err
	}
	if err := r.tryOnce(ctx); err != nil {
		return err
	}
	return r.startTraffic(ctx)
}

// startWatch turns the API's facts into events, and follows the logs of the bundled workload's Pods as they start.
func (r *running) startWatch(ctx context.Context) error {
	r.journal.Alive(record.FromKube)
	if r.rec.Workload.Service == "" {
		r.note("No Service leads to the workload: there are no endpoints to watch, and no event tells when it was withdrawn.")
	}
	ctx = context.WithoutCancel(ctx)
	logs, cancel := context.WithCancel(ctx)
	w, nodes := r.workload, r.nodes
	spec := kube.WatchSpec{
		Namespace: w.Namespace, Service: r.rec.Workload.Service, PodSelector: w.Selector,
		OnFact: func(f kube.Fact) {
			r.journal.Add(f.MonoNs, f.Event())
			nodes.See(f.Event())
			r.pods.take(f)
			if r.bundled() && f.Kind == record.ContainerStarted {
				r.followLog(logs, record.PodOf(f.Subject), f.Node)
			}
		},
		OnHealth: func(h kube.WatchHealth) {
			r.journal.Down(record.FromKube, journal.Gap{FromMonoNs: h.FromMonoNs, ToMonoNs: h.ToMonoNs, What: h.Resource, Why: h.Why})
		},
	}
	switch w.Kind {
	case "Deployment":
		spec.Deployment = w.Name
	case "StatefulSet":
		spec.StatefulSet = w.Name
	case "Pod":
		spec.PodName = w.Name
	}
	stop, err := r.deps.API.Watch(ctx, spec)
	if err != nil {
		cancel()
		return fault.Measuref(err, "this account must be able to list and watch pods, endpointslices, deployments and events", "preflight check watch: starting the watches")
	}
	r.stops = append(r.stops, func() {
		stop()
		// A log ends with its container; those of Pods that live on are let go of.
		ended := make(chan struct{})
		go func() { r.following.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(time.Second):
		}
		cancel()
		<-ended
	})
	return nil
}

// followLog reads one Pod's log to its end. Only where the node runs our kernel is the log's clock known without asking.
func (r *running) followLog(ctx context.Context, pod, node string) {
	if !r.sameKernel(node) {
		r.pods.onceNote("The probe's own account is not in the record: its clock on node "+node+" was not measured.", r.note)
		return
	}
	r.journal.Alive(record.FromProbe)
	r.following.Go(func() {
		slow := slowOnly{}
		err := r.deps.API.FollowLog(ctx, r.workload.Namespace, pod, func(line []byte) {
			if monoNs, e, ok := probelog.Event(line, node, clock.Offset{}); ok && slow.keeps(e) {
				r.journal.Add(monoNs, e)
			}
		})
		if err != nil && ctx.Err() == nil {
			r.journal.Lost(record.FromProbe, fmt.Sprintf("the log of pod %s: %v", pod, err))
		}
	})
}

// slowOnly keeps the server's account of slow requests, by number, out of that of many quick ones.
type slowOnly map[int64]bool

const slowFrom = time.Second

func (s slowOnly) keeps(e record.Event) bool {
	id, _ := record.Integer(e.Detail["id"])
	switch e.Kind {
	case record.ProbeRequestAccepted:
		takes, _ := record.Integer(e.Detail["for_ns"])
		s[id] = takes >= int64(slowFrom)
		return s[id]
	case record.ProbeRequestDone:
		return s[id]
	}
	return true
}

func (r *running) sameKernel(node string) bool {
	for _, n := range r.rec.Environment.Nodes {
		if n.Name == node {
			return n.BootID == r.bootID && r.bootID != ""
		}
	}
	return false
}

// startClients opens a session with each client and measures its clock.
func (r *running) startClients(ctx context.Context) error {
	r.journal.Alive(record.FromClient)
	n := max(len(r.workers), 1)
	for i := range n {
		c := &client{name: "client"}
		if n > 1 {
			c.name = "client-" + strconv.Itoa(i)
		}
		var err error
		if r.cfg.Vantage == "host" {
			c.sender, err = r.deps.Local()
		} else {
			dial, cancel := context.WithTimeout(ctx, attachTimeout)
			c.sender, err = vantage.Send(dial, r.deps.API, r.namespace, r.workers[i].Name, r.spec.Tool.Version)
			cancel()
		}
		if err != nil {
			return fault.Measuref(err, "look at the client's Pod, or use --vantage host where this machine can reach the service", "preflight check client: starting %s at vantage %s", c.name, r.cfg.Vantage)
		}
		offset, reading := c.sender.Clock()
		c.offset = offset
		r.clients = append(r.clients, c)
		r.rec.Clocks = append(r.rec.Clocks, vantage.ClockOf(c.name, offset, reading))
		r.reading.Go(func() {
			for b := range c.sender.Batches() {
				r.tally.take(c, b)
			}
		})
	}
	return nil
}

// onceTries bounds how long a refused first request is asked again: the nodes' rules come after the API's word.
const onceTries = 10 * time.Second

// tryOnce sees that every client gets the expected answer before anything is disturbed.
func (r *running) tryOnce(ctx context.Context) error {
	for _, c := range r.clients {
		for deadline := time.Now().Add(onceTries); ; {
			once, cancel := context.WithTimeout(ctx, time.Duration(r.plan.Limits.WholeNs)+5*time.Second)
			a, err := c.sender.Once(once, r.plan)
			cancel()
			if err != nil {
				return err
			}
			if a.Outcome == record.OK {
				break
			}
			// What answers will not answer otherwise by waiting; a way that is not there yet may come.
			answered := a.Outcome == record.HTTPError || a.Outcome == record.GRPCError || a.Outcome == record.TLSFailure || a.Outcome == record.ProtocolError
			if answered && !r.bundled() || time.Now().After(deadline) {
				return r.wrongAnswer(c, a)
			}
			if err := course.Pause(ctx, 200*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *running) wrongAnswer(c *client, a request.Answer) error {
	seen, next := string(a.Outcome), "see that this is the address that its users use (--service, --port, --path, --url), and that nothing forbids this traffic (network policies)"
	switch a.Outcome {
	case record.HTTPError:
		if r.plan.Mode == request.WebSocket {
			seen, next = fmt.Sprintf("status %d: no WebSocket is spoken there", a.Status), "choose the path of its WebSocket with --http-path (the bundled probe's is /ws)"
			break
		}
		seen, next = fmt.Sprintf("status %d", a.Status), "choose what its users ask for with --http-path, or say with --expect that this is right"
	case record.GRPCError:
		seen, next = fmt.Sprintf("gRPC status %d %s", a.Status, a.Message), "choose the method with --http-path /SERVICE/METHOD, or say with --expect that this is right"
	case record.TLSFailure:
		seen, next = "the TLS handshake failed: "+a.Message, "give the authority with --ca, the name with --server-name, or check nothing with --insecure"
	case record.ProtocolError:
		seen, next = "what answers does not speak "+string(r.plan.Mode)+" ("+a.Message+")", "choose another --mode, --port or --tls"
	case record.ResponseTimeout:
		seen = fmt.Sprintf("no whole answer within %v", time.Duration(r.plan.Limits.WholeNs))
	default:
		if a.Errno != "" {
			seen += " (" + a.Errno + ")"
		} else if a.Message != "" {
			seen += " (" + a.Message + ")"
		}
	}
	return fault.Unmet("answer", fmt.Sprintf("%s %s must give the expected answer before it is disturbed", c.name, r.cfg.Traffic.URL), "it gave: "+seen, next)
}

// startTraffic shares the load among the clients, so that together they send as one would.
func (r *running) startTraffic(ctx context.Context) error {
	t := r.cfg.Traffic
	n := len(r.clients)
	first := 0
	for i, c := range r.clients {
		p := r.plan
		p.Rate = t.Rate / float64(n)
		p.Users = t.Users / n
		if i < t.Users%n {
			p.Users++
		}
		p.FirstUser = first
		first += p.Users
		p.PhaseNs = int64(float64(i) * 1e9 / t.Rate)
		if err := c.sender.Start(ctx, p); err != nil {
			return err
		}
	}
	r.requestsRan = true
	stop := r.startLive()
	r.stops = append(r.stops, stop)
	return nil
}
