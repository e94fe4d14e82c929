package release

import (
	"context"
	"net/netip"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/evidence"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// startAgents opens a session with the agent of each node, where agents are installed. It is an addition: a trial without it is
// complete, and says in its causes what it could not see.
func (r *running) startAgents(ctx context.Context) error {
	var err error
	if r.nodes, err = evidence.Open(ctx, r.deps.Agents, r.journal, r.spec.Tool.Version); err != nil {
		r.note("No agent was asked for evidence: %v.", err)
	}
	if r.deps.RequireAgents {
		if err := r.nodes.Demand(); err != nil {
			return err
		}
	}
	fronts, ports := r.underTest()
	var pods []evidence.Pod
	for _, p := range r.rec.Workload.Pods {
		ip, _ := netip.ParseAddr(p.IP)
		pods = append(pods, evidence.Pod{Name: p.Name, UID: p.UID, Node: p.Node, IP: ip})
	}
	r.nodes.Watch(ctx, fronts, ports, pods)
	return nil
}

func (r *running) protocol() uint8 {
	if r.plan.Mode == request.UDP {
		return agent.UDP
	}
	return agent.TCP
}

// underTest lists what the clients ask, and where the Pods listen.
func (r *running) underTest() (fronts []agent.Front, ports []agent.Port) {
	if r.podPort != 0 {
		ports = append(ports, agent.Port{Protocol: r.protocol(), Port: uint16(r.podPort)})
	}
	host, err := netip.ParseAddr(r.plan.Target.Host)
	switch {
	case err != nil || r.cfg.Path == "pod" || r.cfg.Path == "url":
		return nil, ports
	case r.cfg.Path == "nodeport":
		host = evidence.AnyAddress(host) // every node has it
	}
	return []agent.Front{{Protocol: r.protocol(), Addr: netip.AddrPortFrom(host, r.plan.Target.Port)}}, ports
}

// askAgents asks what became of the connections whose requests failed, and ends the sessions.
func (r *running) askAgents(ctx context.Context) {
	if r.nodes == nil {
		return
	}
	r.say("asking the nodes' agents what they saw of the failures")
	r.tally.mu.Lock()
	var pairs []agent.Pair
	for _, f := range r.tally.failures {
		if p, ok := evidence.Connection(r.protocol(), f.Local, f.Remote); ok {
			pairs = append(pairs, p)
		}
	}
	r.tally.mu.Unlock()
	if left := r.nodes.Find(ctx, pairs); left > 0 {
		r.note("Of %d lost connections %d were not asked for at the nodes: a record would be too large with what they saw of each.", len(pairs), left)
	}
	var clocks []record.Clock
	r.rec.Agents, clocks = r.nodes.End(ctx, r.zero())
	r.rec.Clocks = append(r.rec.Clocks, clocks...)
	r.nodes = nil
}
