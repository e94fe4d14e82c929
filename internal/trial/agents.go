package trial

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/drainproof/drainproof/internal/agent"
	"github.com/drainproof/drainproof/internal/evidence"
	"github.com/drainproof/drainproof/internal/probe"
	"github.com/drainproof/drainproof/internal/record"
)

// startAgents opens a session with the agent of each node, where agents are installed. It is an addition: a trial without it is
// complete, and says in its causes what it could not see.
func (r *running) startAgents(ctx context.Context, t targets) error {
	var err error
	if r.nodes, err = evidence.Open(ctx, r.deps.Agents, r.journal, r.spec.Tool.Version); err != nil {
		r.rec.Notes = append(r.rec.Notes, fmt.Sprintf("No agent was asked for evidence: %v.", err))
	}
	if r.deps.RequireAgents {
		if err := r.nodes.Demand(); err != nil {
			return err
		}
	}
	ports := []agent.Port{{Protocol: agent.TCP, Port: probe.PortTCP}, {Protocol: agent.UDP, Port: probe.PortUDP}}
	var fronts []agent.Front
	for protocol, address := range map[uint8]string{agent.TCP: t.tcp, agent.UDP: t.udp} {
		front, err := netip.ParseAddrPort(address)
		if err != nil || r.cfg.Path == "pod" {
			continue
		}
		if r.cfg.Path == "nodeport" {
			front = netip.AddrPortFrom(evidence.AnyAddress(front.Addr()), front.Port()) // every node has it
		}
		fronts = append(fronts, agent.Front{Protocol: protocol, Addr: front})
	}
	p := r.probe.Pod
	ip, _ := netip.ParseAddr(p.IP)
	r.nodes.Watch(ctx, fronts, ports, []evidence.Pod{{Name: p.Name, UID: p.UID, Node: p.Node, IP: ip}})
	return nil
}

// askAgents asks what became of every flow's connection, and ends the sessions.
func (r *running) askAgents(ctx context.Context) {
	if r.nodes == nil {
		return
	}
	var pairs []agent.Pair
	if r.report != nil {
		for _, f := range r.report.Flows {
			protocol := agent.TCP
			if f.Protocol == record.UDP {
				protocol = agent.UDP
			}
			if p, ok := evidence.Connection(protocol, f.Local, f.Remote); ok {
				pairs = append(pairs, p)
			}
		}
	}
	if left := r.nodes.Find(ctx, pairs); left > 0 {
		r.rec.Notes = append(r.rec.Notes, fmt.Sprintf("Of %d flows %d were not asked for at the nodes.", len(pairs), left))
	}
	var clocks []record.Clock
	r.rec.Agents, clocks = r.nodes.End(ctx, r.zero())
	r.rec.Clocks = append(r.rec.Clocks, clocks...)
	r.nodes = nil
}
