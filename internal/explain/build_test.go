package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/drainproof/drainproof/internal/record"
)

const ms = 1_000_000

// test is a record in the making: Deployment web behind a Service, its hook 0 s.
type test struct{ r record.Record }

func newTest() *test {
	return &test{record.Record{
		Config:   record.Config{Path: "clusterip"},
		Workload: &record.Workload{Kind: "Deployment", Name: "web", Service: "web", PreStopSleepNs: new(int64(0))},
		Sources:  []record.Source{{Name: "kube-watch", Gaps: []record.Gap{}}},
	}}
}

// kube adds what the API told of a Pod, its UID uid-NAME.
func (b *test) kube(atMs float64, kind record.EventKind, pod string) *test {
	return b.event(atMs, record.FromKube, kind, pod, "uid-"+pod, record.Upper, nil)
}

// probe adds a line of the bundled probe's log.
func (b *test) probe(atMs float64, kind record.EventKind, pod string) *test {
	return b.event(atMs, record.FromProbe, kind, pod, "uid-"+pod, record.Exact, nil)
}

// endpoint adds what the slices said of a Pod's endpoint.
func (b *test) endpoint(atMs float64, kind record.EventKind, pod string, ready, serving bool) *test {
	return b.event(atMs, record.FromKube, kind, pod, "uid-"+pod, record.Upper, map[string]any{"ready": ready, "serving": serving, "family": "IPv4"})
}

func (b *test) event(atMs float64, from record.EventFrom, kind record.EventKind, pod, uid string, bound record.Bound, detail map[string]any) *test {
	subject := map[bool]string{true: "container/" + pod + "/web", false: "pod/" + pod}[kind == record.ContainerExited]
	switch kind {
	case record.EndpointAdded, record.EndpointReady, record.EndpointNotReady, record.EndpointServing, record.EndpointNotServing, record.EndpointRemoved, record.EndpointTerminating:
		subject = "endpoint/" + pod
	}
	b.r.Events = append(b.r.Events, record.Event{
		TNs: int64(atMs * ms), Source: from, Kind: kind, Subject: subject, PodUID: uid, Bound: bound, UncertaintyNs: new(int64(0)), Detail: detail,
	})
	return b
}

// deleted adds the end of a Pod, deleted at a time.
func (b *test) deleted(atMs float64, pod string) *test {
	return b.kube(atMs, record.PodTerminating, pod).
		kube(atMs+41, record.EndpointNotReady, pod).
		kube(atMs+50, record.KubeletKilling, pod).
		kube(atMs+290, record.ContainerExited, pod).
		kube(atMs+340, record.EndpointRemoved, pod).
		kube(atMs+345, record.PodRemoved, pod)
}

// fails adds failures and orders the events.
func (b *test) fails(failures ...record.Failure) record.Record {
	r := b.r
	slices.SortStableFunc(r.Events, func(x, y record.Event) int { return cmp.Compare(x.TNs, y.TNs) })
	for i := range r.Events {
		r.Events[i].ID = i + 1
	}
	r.Failures = failures
	return r
}

// failed is a request that left at one time and was known to be lost at another, on the harness's clock.
func failed(o record.RequestOutcome, sentMs, knownMs float64) record.Failure {
	return record.Failure{
		Outcome: o, Phase: record.PhaseConnect, Connection: record.NewConnection, UncertaintyNs: new(int64(0)),
		PlannedTNs: int64(sentMs * ms), SentTNs: new(int64(sentMs * ms)), TNs: int64(knownMs * ms),
	}
}

func (b *test) cause(f record.Failure) record.Cause {
	r := b.fails(f)
	Attribute(&r)
	return *r.Failures[0].Cause
}

// kinds gives the kinds of the events that a cause names.
func kinds(r record.Record, ids []int) []record.EventKind {
	list := []record.EventKind{}
	for _, id := range ids {
		list = append(list, r.Events[id-1].Kind)
	}
	return list
}

// Where the agents' evidence is about: two nodes, a Service, its Pods, and a client.
const (
	podNode, clientNode = "worker-1", "worker-2"
	client, front       = "198.18.0.1:40000", "198.18.64.10:80"
	web1, web2          = "198.18.65.11:8080", "198.18.66.12:8080"
)

// addressOf gives where a Pod listens.
func addressOf(pod string) string { return map[string]string{"web-1": web1, "web-2": web2}[pod] }

// newWatched is a record with an agent on each node that sees everything, and two Pods whose addresses the API told.
func newWatched() *test {
	b := newTest()
	for _, node := range []string{podNode, clientNode} {
		a := record.Agent{Node: node, Lost: map[string]uint64{}}
		for _, s := range []string{signals, exits, listeners, sockets, resets, icmp, conntrack, deleters, ruleSight} {
			a.Sights = append(a.Sights, record.Sight{Name: s, Seen: true, How: "test"})
		}
		b.r.Agents = append(b.r.Agents, a)
	}
	for _, s := range []record.EventFrom{record.FromKernel, record.FromConntrack, record.FromDataplane} {
		b.r.Sources = append(b.r.Sources, record.Source{Name: string(s), Gaps: []record.Gap{}})
	}
	b.r.Workload.Images, b.r.Workload.GraceNs = []string{"web"}, 30_000*ms
	for _, pod := range []string{"web-1", "web-2"} {
		host, _, _ := strings.Cut(addressOf(pod), ":")
		b.event(-9000, record.FromKube, record.EndpointAdded, pod, "uid-"+pod, record.Upper, map[string]any{"ready": true, "serving": true, "family": "IPv4", "addresses": host})
		b.r.Events[len(b.r.Events)-1].Node = podNode
	}
	return b
}

// kernel adds what the kernel of the Pods' node told of a Pod: its process where it is about one, else its network namespace.
func (b *test) kernel(atMs float64, kind record.EventKind, pod string, detail map[string]any) *test {
	b.event(atMs, record.FromKernel, kind, pod, "uid-"+pod, record.Exact, detail)
	e := &b.r.Events[len(b.r.Events)-1]
	e.Node = podNode
	if kind == record.SignalSent || kind == record.ProcessExited {
		e.Subject = "container/" + pod + "/web"
	}
	return b
}

// exits adds the end of a Pod's first process.
func (b *test) exits(atMs float64, pod string, signal int) *test {
	return b.kernel(atMs, record.ProcessExited, pod, map[string]any{"first_process": true, "signal": signal, "exit_code": 0, "comm": "web"})
}

// signal adds one to a Pod's first process.
func (b *test) signal(atMs float64, pod string, signal int, comm string) *test {
	return b.kernel(atMs, record.SignalSent, pod, map[string]any{"first_process": true, "signal": signal, "sender_comm": comm, "from_kernel": comm == ""})
}

// listener adds that one of a Pod was opened or closed.
func (b *test) listener(atMs float64, kind record.EventKind, pod string) *test {
	return b.kernel(atMs, kind, pod, map[string]any{"address": "[::]:8080", "protocol": "tcp"})
}

// ends adds how a connection of the client ended at a Pod.
func (b *test) ends(atMs float64, kind record.EventKind, pod string, detail map[string]any) *test {
	detail["local"], detail["remote"] = addressOf(pod), client
	return b.kernel(atMs, kind, pod, detail)
}

// entry adds what the client's node's connection tracking told of the client's connection to the Service, which leads to a Pod.
func (b *test) entry(atMs float64, kind record.EventKind, protocol, pod string, detail map[string]any) *test {
	all := map[string]any{
		"protocol": protocol, "original_source": client, "original_destination": front, "reply_source": addressOf(pod), "reply_destination": client,
	}
	maps.Copy(all, detail)
	b.event(atMs, record.FromConntrack, kind, "", "", record.Upper, all)
	e := &b.r.Events[len(b.r.Events)-1]
	e.Node, e.Subject = clientNode, "node/"+clientNode
	return b
}

// rule adds what the rules of the client's node did.
func (b *test) rule(atMs float64, kind record.EventKind, pod string) *test {
	b.event(atMs, record.FromDataplane, kind, pod, "uid-"+pod, record.Upper, map[string]any{"front": front, "backend": addressOf(pod), "not_before_t_ns": int64((atMs - 1) * ms)})
	e := &b.r.Events[len(b.r.Events)-1]
	e.Node, e.Subject = clientNode, "endpoint/"+pod
	return b
}

// rejects adds that the client's node has no endpoint to send to, or has one again.
func (b *test) rejects(atMs float64, kind record.EventKind, verdict string) *test {
	b.event(atMs, record.FromDataplane, kind, "", "", record.Exact, map[string]any{"front": front, "verdict": verdict})
	e := &b.r.Events[len(b.r.Events)-1]
	e.Node, e.Subject = clientNode, "node/"+clientNode
	return b
}

// without takes away all events of a kind, about a Pod where one is named.
func (b *test) without(kind record.EventKind, pod string) *test {
	b.r.Events = slices.DeleteFunc(b.r.Events, func(e record.Event) bool { return e.Kind == kind && (pod == "" || record.PodOf(e.Subject) == pod) })
	return b
}

// change edits all events of a kind.
func (b *test) change(kind record.EventKind, edit func(*record.Event)) *test {
	for i := range b.r.Events {
		if b.r.Events[i].Kind == kind {
			edit(&b.r.Events[i])
		}
	}
	return b
}

// blind takes a sight from a node.
func (b *test) blind(node, sight string) *test {
	for i := range b.r.Agents {
		for k := range b.r.Agents[i].Sights {
			if s := &b.r.Agents[i].Sights[k]; b.r.Agents[i].Node == node && s.Name == sight {
				s.Seen, s.Why = false, "the kernel has no BTF"
			}
		}
	}
	return b
}

// gap makes a source of a node miss a time.
func (b *test) gap(source record.EventFrom, node string, fromMs, toMs float64) *test {
	for i := range b.r.Sources {
		if b.r.Sources[i].Name == string(source) {
			b.r.Sources[i].Gaps = append(b.r.Sources[i].Gaps, record.Gap{FromTNs: int64(fromMs * ms), ToTNs: new(int64(toMs * ms)), Why: "node " + node + ": its buffer ran over"})
		}
	}
	return b
}

// rough makes the clock of the Pods' node uncertain.
func (b *test) rough(boundMs float64) *test {
	for i := range b.r.Events {
		if b.r.Events[i].Source == record.FromKernel {
			b.r.Events[i].UncertaintyNs = new(int64(boundMs * ms))
		}
	}
	return b
}

// through is a failure on the client's connection to the Service.
func through(o record.RequestOutcome, sentMs, knownMs float64) record.Failure {
	f := failed(o, sentMs, knownMs)
	f.Local, f.Remote = client, front
	return f
}

// kept is one on a connection that had carried a request before, and had been opened at -5 s.
func kept(o record.RequestOutcome, sentMs, knownMs float64) record.Failure {
	f := through(o, sentMs, knownMs)
	f.Connection, f.ConnectionRequests, f.ConnectionAgeNs, f.Phase = record.ReusedConnection, 3, int64((sentMs+5000)*ms), record.PhaseFirstByte
	return f
}
