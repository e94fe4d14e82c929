package records

import (
	"fmt"

	"github.com/drainproof/drainproof/internal/record"
)

// RolloutWatched is RolloutLossy with an agent on each node: what their kernels, rules and connection tracking told. Causes and
// terminations are for its reader to derive.
func RolloutWatched() record.Record {
	b := newTest("20261129T173000Z-rollout-watched", "rollout")
	b.rollout(0)
	b.requests(losses())
	b.watched()
	const front = "198.18.64.40:80"
	for _, p := range b.pods {
		backend := p.ip + ":8080"
		for i, node := range b.r.Environment.Nodes {
			if p.fromMs > 0 {
				b.rule(p.fromMs+30+float64(20*i), record.RuleAdded, node.Name, p.name, p.uid, front, backend, "tcp")
				continue
			}
			b.rule(-2900, record.RuleAdded, node.Name, p.name, p.uid, front, backend, "tcp")
			b.rule(p.toMs+60+float64(30*i), record.RuleRemoved, node.Name, p.name, p.uid, front, backend, "tcp")
		}
		if p.fromMs < 0 {
			b.dies(p.name, p.uid, "web", p.toMs+2.1, p.toMs+4, p.toMs+230)
			b.closes(p.toMs+3.2, p.name, p.uid, 8080)
		}
	}
	for i, l := range losses() {
		if l.outcome == record.Refused {
			f := b.r.Failures[i]
			b.entry(float64(*f.SentTNs)/1e6+0.3, record.ConntrackNew, oldNode, f.Local, f.Remote, b.pods[l.pod].ip+":8080", "tcp")
		}
	}
	for i := range b.r.Failures {
		b.r.Failures[i].Cause = nil
	}
	b.r.Verdict = b.missed()
	return b.builder.done(testAfterMs + 12)
}

// ScaleWatched is Scale with an agent on each node.
func ScaleWatched() record.Record {
	b := newBuilder("20261129T160600Z-scale-watched", 0)
	b.scaled()
	b.watched()
	const ip = "198.18.65.7"
	for i, node := range b.r.Environment.Nodes {
		for _, p := range []struct{ protocol, port string }{{"tcp", ":7001"}, {"udp", ":7002"}} {
			front, backend := "198.18.64.17"+p.port, ip+p.port
			b.rule(-7000, record.RuleAdded, node.Name, oldPod, oldUID, front, backend, p.protocol)
			b.rule(25_300+float64(40*i), record.RuleRemoved, node.Name, oldPod, oldUID, front, backend, p.protocol)
		}
	}
	b.dies(oldPod, oldUID, "probe", 51.8, 25_056, 25_400)
	b.closes(52.2, oldPod, oldUID, 7001)
	b.closes(25_055, oldPod, oldUID, 7080)
	b.kube(-5990, record.EndpointAdded, "endpoint/"+oldPod, oldUID, map[string]any{"addresses": ip, "ready": true, "serving": true, "family": "IPv4"})
	for _, f := range b.r.Flows {
		if f.Protocol == record.UDP {
			b.entry(float64(*f.OpenedTNs)/1e6+0.4, record.ConntrackNew, newNode, f.Local, f.Remote, ip+":7002", "udp")
			b.entry(25_610, record.ConntrackDeleted, newNode, f.Local, f.Remote, ip+":7002", "udp")
		}
	}
	return b.done(31_000)
}

// watched adds an agent on each node that sees everything.
func (b *builder) watched() {
	for _, n := range b.r.Environment.Nodes {
		a := record.Agent{Node: n.Name, Version: b.r.Tool.Version, Lost: map[string]uint64{}, CPUNs: new(int64(41e6)), RSSBytes: new(int64(24 << 20))}
		for _, sight := range []string{"signals", "exits", "listeners", "sockets", "resets", "icmp", "conntrack", "conntrack-deleters", "rules"} {
			a.Sights = append(a.Sights, record.Sight{Name: sight, Seen: true, How: "a test"})
		}
		b.r.Agents = append(b.r.Agents, a)
	}
}

// at adds what a node's agent told.
func (b *builder) at(node string, ms float64, from record.EventFrom, kind record.EventKind, subject, uid string, bound record.Bound, detail map[string]any) {
	b.event(ms, from, kind, subject, bound, uid, detail)
	b.r.Events[len(b.r.Events)-1].Node = node
}

func (b *builder) rule(ms float64, kind record.EventKind, node, pod, uid, front, backend, protocol string) {
	b.at(node, ms, record.FromDataplane, kind, "endpoint/"+pod, uid, record.Upper, map[string]any{
		"front": front, "backend": backend, "protocol": protocol, "proxy": "kube-proxy-iptables-nft", "not_before_t_ns": ns(ms - 2),
	})
}

// dies adds SIGTERM to the first process of a container, its exit, and the exit of what held the sandbox.
func (b *builder) dies(pod, uid, container string, termMs, exitMs, sandboxMs float64) {
	node, subject := b.nodes[uid], "container/"+pod+"/"+container
	b.at(node, termMs, record.FromKernel, record.SignalSent, subject, uid, record.Exact, map[string]any{
		"signal": 15, "signal_name": "SIGTERM", "first_process": true, "sender_comm": "runc", "from_kernel": false, "result": "delivered",
	})
	b.at(node, exitMs, record.FromKernel, record.ProcessExited, subject, uid, record.Exact, map[string]any{"comm": container, "exit_code": 0, "first_process": true})
	b.at(node, sandboxMs, record.FromKernel, record.ProcessExited, "pod/"+pod, uid, record.Exact, map[string]any{
		"comm": "pause", "container_id": "5a4d", "exit_code": 0, "first_process": false, "signal": 9, "signal_name": "SIGKILL",
	})
}

func (b *builder) closes(ms float64, pod, uid string, port int) {
	b.at(b.nodes[uid], ms, record.FromKernel, record.ListenerClosed, "pod/"+pod, uid, record.Exact, map[string]any{"address": fmt.Sprintf("[::]:%d", port), "protocol": "tcp"})
}

func (b *builder) entry(ms float64, kind record.EventKind, node, local, remote, backend, protocol string) {
	bound := record.Upper
	detail := map[string]any{"protocol": protocol, "original_source": local, "original_destination": remote, "reply_source": backend, "reply_destination": local}
	if kind == record.ConntrackDeleted {
		bound = record.Exact
		detail["by"], detail["by_comm"] = "process", "kube-proxy"
	}
	b.at(node, ms, record.FromConntrack, kind, "node/"+node, "", bound, detail)
}
