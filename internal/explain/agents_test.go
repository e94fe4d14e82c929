package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drainproof/drainproof/internal/record"
)

// variant is a scenario with one thing changed, after which nothing may be claimed, and what the sentence must then say.
type variant struct {
	name string
	edit func(*test)
	says string
}

// scenario is a loss whose cause is proved.
type scenario struct {
	name     string
	make     func() *test
	f        record.Failure
	flow     *record.Flow
	kind     string
	evidence []record.EventKind
	// sentence is what it says, whole.
	sentence string
	// spoiled: a needed event missing, a source that did not see it, a contradiction, an order within the bounds.
	spoiled []variant
}

// drop takes all events of a kind away.
func drop(kind record.EventKind) func(*test) { return func(b *test) { b.without(kind, "") } }

// dead is web-1, which is deleted at 30 ms, closes its listener 8 ms later and lives on; the client's node names it until 310 ms.
func dead() *test {
	return newWatched().
		rule(-8000, record.RuleAdded, "web-1").rule(-8000, record.RuleAdded, "web-2").
		kube(25, record.PodTerminating, "web-1").
		endpoint(30, record.EndpointNotReady, "web-1", false, true).
		signal(33, "web-1", 15, "containerd-shim").
		listener(38, record.ListenerClosed, "web-1").
		entry(41.3, record.ConntrackNew, "tcp", "web-1", nil).
		rule(310, record.RuleRemoved, "web-1").
		exits(900, "web-1", 0)
}

// other adds that another connection from the client's address to the Service had an entry on the client's node.
func other(b *test, atMs float64, from string) *test {
	return b.entry(atMs, record.ConntrackNew, "tcp", "web-1", map[string]any{"original_source": from, "reply_destination": from})
}

// rejecting is a Service that has no endpoint from 45 ms on, on a node that tells nobody.
func rejecting() *test {
	return other(newWatched().rule(-8000, record.RuleAdded, "web-1"), -100, "198.18.0.1:40001").rule(45, record.RuleRemoved, "web-1").rejects(45, record.RuleRejects, "reject")
}

// errorFor adds an ICMP error of the client's node for a connection to the Service.
func errorFor(b *test, atMs float64, from string) *test {
	b.event(atMs, record.FromKernel, record.ICMPSent, "", "", record.Exact, map[string]any{"type": 3, "code": 3, "to": "198.18.0.1", "source": from, "destination": front})
	e := &b.r.Events[len(b.r.Events)-1]
	e.Node, e.Subject = clientNode, "node/"+clientNode
	return b
}

// early is web-1, which closes its listener at 38 ms and lives on, and nobody told it to.
func early() *test {
	return newWatched().
		listener(38, record.ListenerClosed, "web-1").
		entry(41.3, record.ConntrackNew, "tcp", "web-1", nil).
		endpoint(4000, record.EndpointNotReady, "web-1", false, false)
}

// cutOff is web-1, which exits at 140 ms while a request on a kept connection is under way.
func cutOff() *test {
	return newWatched().
		entry(-5000, record.ConntrackNew, "tcp", "web-1", nil).
		kube(100, record.PodTerminating, "web-1").
		exits(140, "web-1", 0).
		ends(140.2, record.SocketClosed, "web-1", map[string]any{"how": "reset"})
}

// killed is the same, but the runtime kills it at 30.12 s, when its grace period is used up.
func killed() *test {
	return newWatched().
		entry(-5000, record.ConntrackNew, "tcp", "web-1", nil).
		kube(100, record.PodTerminating, "web-1").
		signal(120, "web-1", 15, "containerd-shim").
		signal(30_120, "web-1", 9, "containerd-shim").
		exits(30_121, "web-1", 9).
		ends(30_121.3, record.SocketClosed, "web-1", map[string]any{"how": "fin"})
}

// race is web-1, which closes an idle connection at 99 ms; the request on it leaves at 100 ms.
func race() *test {
	b := newWatched().
		entry(-5000, record.ConntrackNew, "tcp", "web-1", nil).
		ends(99, record.SocketClosed, "web-1", map[string]any{"how": "fin"}).
		ends(100.2, record.ResetSent, "web-1", map[string]any{"socket": false})
	b.r.Config.Traffic = &record.Traffic{Mode: "keep-alive"}
	return b
}

// none is a Service whose endpoint goes at 40 ms; the client's node rejects from 45 ms on.
func none() *test {
	b := newWatched().
		endpoint(40, record.EndpointRemoved, "web-1", false, false).endpoint(40, record.EndpointRemoved, "web-2", false, false).
		rejects(45, record.RuleRejects, "reject")
	b.event(60.1, record.FromKernel, record.ICMPSent, "", "", record.Exact, map[string]any{
		"type": 3, "code": 3, "to": "198.18.0.1", "protocol": "tcp", "source": client, "destination": front,
	})
	e := &b.r.Events[len(b.r.Events)-1]
	e.Node, e.Subject = clientNode, "node/"+clientNode
	return b
}

// stale is a connection by an entry of a second ago, to a Pod that exited since.
func stale() *test {
	return newWatched().
		entry(1000, record.ConntrackNew, "tcp", "web-1", nil).
		exits(2000, "web-1", 0)
}

// datagram is the same of datagrams; kube-proxy deletes the entry at 4 s, while the client still waits, and the next one leads to web-2.
func datagram() *test {
	b := newWatched().
		entry(1000, record.ConntrackNew, "udp", "web-1", nil).
		exits(2000, "web-1", 0).
		entry(4000, record.ConntrackDeleted, "udp", "web-1", map[string]any{"by": "process", "by_comm": "kube-proxy"}).
		change(record.ConntrackDeleted, func(e *record.Event) { e.Bound = record.Exact }).
		entry(4300, record.ConntrackNew, "udp", "web-2", nil)
	b.r.Config.Traffic = &record.Traffic{Mode: "udp"}
	return b
}

// soon is web-2, which is sent a connection at 1 s and listens from 1.2 s on.
func soon() *test {
	return newWatched().
		entry(1000.4, record.ConntrackNew, "tcp", "web-2", nil).
		listener(1200, record.ListenerOpened, "web-2")
}

func scenarios() []scenario {
	return []scenario{
		{
			"a node that is late", dead, through(record.Refused, 41, 42), nil, "dead-endpoint",
			[]record.EventKind{record.SignalSent, record.ListenerClosed, record.ConntrackNew, record.RuleRemoved},
			"refused: node worker-2 sent it to web-1, which had closed its listener 4 ms before; that node's rules named it until +310 ms",
			[]variant{
				{"no entry", drop(record.ConntrackNew), "which Pod the node sent it to: its connection's conntrack entry was not seen"},
				{"no entry, as nobody looked", func(b *test) { b.without(record.ConntrackNew, "").blind(clientNode, conntrack) },
					"its connection's conntrack entry was not seen (node worker-2 cannot show conntrack: the kernel has no BTF)"},
				{"no entry, as there is no agent", func(b *test) { b.without(record.ConntrackNew, ""); b.r.Agents[1].Ended = "it was not installed" }, "the agent of node worker-2: it was not installed"},
				{"no entry, as there was a gap", func(b *test) {
					b.without(record.ConntrackNew, "").gap(record.FromConntrack, clientNode, 20, 60)
				}, "source conntrack of node worker-2 had a gap from +20 ms to +60 ms"},
				{"no closing", func(b *test) { b.without(record.ListenerClosed, "") }, "when web-1 ceased to listen: no listener of that port was seen to close before"},
				{"no closing, as nobody looked", func(b *test) { b.without(record.ListenerClosed, "").blind(podNode, listeners) }, "node worker-1 cannot show listeners: the kernel has no BTF"},
				{"it may listen again", func(b *test) { b.gap(record.FromKernel, podNode, 39, 40) }, "whether web-1 listened again after +38 ms (source kernel of node worker-1 had a gap from +39 ms to +40 ms)"},
				{"an exit may have been missed", func(b *test) { b.blind(podNode, exits) }, "whether web-1's process closed its listener or exited (node worker-1 cannot show exits"},
				{"the kernel lost events", func(b *test) { b.r.Agents[0].Lost["listener-opened"] = 3 }, "node worker-1's kernel lost 3 events"},
				{"no end of the rules, as nobody looked", func(b *test) { b.without(record.RuleRemoved, "").blind(clientNode, ruleSight) }, "when the rules of node worker-2 ceased to name web-1 (node worker-2 cannot show rules"},
				{"the rules were gone before", func(b *test) {
					b.without(record.RuleRemoved, "").rule(20, record.RuleRemoved, "web-1")
				}, "but node worker-2's rules had ceased to name web-1 at +20 ms, before the connection"},
				{"it still listened", func(b *test) { b.without(record.ListenerClosed, "").listener(600, record.ListenerClosed, "web-1") }, "but web-1 listened until +600 ms"},
				{"another listener of the port", func(b *test) { b.listener(500, record.ListenerClosed, "web-1") }, "but web-1 listened until +500 ms"},
				{"it listened again", func(b *test) { b.listener(39, record.ListenerOpened, "web-1") }, "but web-1 had been listening since +39 ms"},
				{"the clocks do not tell", func(b *test) { b.rough(5) }, "their order lies within the bounds of the clocks"},
				{"the clock is not tied", func(b *test) {
					b.change(record.ListenerClosed, func(e *record.Event) { e.UncertaintyNs = nil })
				}, "their order lies within the bounds of the clocks"},
				{"it closed while the connection was under way", func(b *test) {
					b.change(record.ListenerClosed, func(e *record.Event) { e.TNs = int64(41.5 * ms) })
				}, "their order lies within the bounds"},
				{"its choice or the API's", func(b *test) {
					b.without(record.SignalSent, "").without(record.PodTerminating, "").change(record.EndpointNotReady, func(e *record.Event) { e.TNs = 500 * ms })
				}, "whether the API still advertised web-1 when it closed its listener at +38 ms"},
				{"two entries", func(b *test) { b.entry(41.8, record.ConntrackNew, "tcp", "web-2", nil) }, "its connection has two conntrack entries"},
				{"an unknown address", func(b *test) {
					b.change(record.ConntrackNew, func(e *record.Event) { e.Detail["reply_source"] = "198.18.77.1:8080" })
				}, "which Pod had the address 198.18.77.1 then (the API told of none)"},
			},
		},
		{
			"a process that exited", func() *test {
				return newWatched().exits(38, "web-1", 0).listener(38.1, record.ListenerClosed, "web-1").entry(41.3, record.ConntrackNew, "tcp", "web-1", nil)
			}, through(record.Refused, 41, 42), nil, "dead-endpoint",
			[]record.EventKind{record.ProcessExited, record.ListenerClosed, record.ConntrackNew},
			"refused: node worker-2 sent it to web-1, which had exited, and closed its listener with it, 4 ms before; that node's rules named it to the end",
			[]variant{
				{"the rules were not watched to the end", func(b *test) { b.gap(record.FromDataplane, clientNode, 41, 45) }, "when the rules of node worker-2 ceased to name web-1 (source dataplane of node worker-2 had a gap"},
			},
		},
		{
			"a listener that was closed on the way out", func() *test {
				return early().exits(90, "web-1", 0)
			}, through(record.Refused, 41, 42), nil, "dead-endpoint",
			[]record.EventKind{record.ListenerClosed, record.ConntrackNew, record.ProcessExited},
			"refused: node worker-2 sent it to web-1, which had closed its listener 4 ms before, on the way to its exit; that node's rules named it to the end", nil,
		},
		{
			"an exit that only the API told", func() *test {
				return newWatched().kube(30, record.ContainerExited, "web-1").entry(41.3, record.ConntrackNew, "tcp", "web-1", nil)
			}, through(record.Refused, 41, 42), nil, "dead-endpoint",
			[]record.EventKind{record.ContainerExited, record.ConntrackNew},
			"refused: node worker-2 sent it to web-1, which had exited 12 ms before at the latest; that node's rules named it to the end",
			[]variant{
				{"several containers", func(b *test) { b.r.Workload.Images = []string{"web", "mesh"} }, "when web-1 ceased to listen"},
				{"it was started again", func(b *test) { b.kube(35, record.ContainerStarted, "web-1") }, "when web-1 ceased to listen"},
			},
		},
		{
			"the probe's own word", func() *test {
				return newWatched().probe(38, record.ProbeListenClosed, "web-1").entry(41.3, record.ConntrackNew, "tcp", "web-1", nil)
			}, through(record.Refused, 41, 42), nil, "listener-closed-early",
			[]record.EventKind{record.ProbeListenClosed, record.ConntrackNew},
			"refused: web-1 had closed its listener 4 ms before by its own choice, while the API advertised it (to the end)", nil,
		},
		{
			"the reset of the Pod's kernel is on its clock", func() *test {
				return dead().rough(50).ends(41.4, record.ResetSent, "web-1", map[string]any{"socket": false})
			}, through(record.Refused, 41, 42), nil, "dead-endpoint",
			[]record.EventKind{record.SignalSent, record.ListenerClosed, record.ConntrackNew, record.ResetSent, record.RuleRemoved},
			"refused: node worker-2 sent it to web-1, which had closed its listener 4 ms before; that node's rules named it until +310 ms", nil,
		},
		{
			"a queue that was reset with its listener", func() *test {
				return dead().ends(38.1, record.ResetSent, "web-1", map[string]any{"socket": true}).change(record.ConntrackNew, func(e *record.Event) { e.TNs = 37 * ms })
			}, through(record.ResetBeforeResponse, 36, 39), nil, "dead-endpoint",
			[]record.EventKind{record.SignalSent, record.ConntrackNew, record.ListenerClosed, record.ResetSent, record.RuleRemoved},
			"reset before a response: node worker-2 sent it to web-1, which had closed its listener 1 ms before; that node's rules named it until +310 ms",
			[]variant{{"no reset", drop(record.ResetSent), "how its connection ended at web-1"}},
		},
		{
			"a Pod that is gone", func() *test {
				return newWatched().kube(20, record.PodRemoved, "web-1").entry(41.3, record.ConntrackNew, "tcp", "web-1", nil)
			}, through(record.ConnectTimeout, 41, 2041), nil, "dead-endpoint",
			[]record.EventKind{record.PodRemoved, record.ConntrackNew},
			"not connected in time: node worker-2 sent it to web-1, which was gone 2.021 s before at the latest; that node's rules named it to the end",
			[]variant{{"its object was removed by force", func(b *test) { b.r.Config.Trigger = "force-delete" }, "when web-1 ceased to listen"}},
		},
		{
			"a Pod's own address", func() *test { return dead().without(record.ConntrackNew, "") },
			func() record.Failure { f := through(record.Refused, 41, 42); f.Remote = web1; return f }(), nil, "dead-endpoint",
			[]record.EventKind{record.SignalSent, record.ListenerClosed},
			"refused: its client went to the address of web-1, which had closed its listener 4 ms before", nil,
		},
		{
			"by its own choice", early, through(record.Refused, 41, 42), nil, "listener-closed-early",
			[]record.EventKind{record.ListenerClosed, record.ConntrackNew, record.EndpointNotReady},
			"refused: web-1 had closed its listener 4 ms before by its own choice, while the API advertised it (until +4.000 s at most)",
			[]variant{
				{"no entry", drop(record.ConntrackNew), "which Pod the node sent it to"},
				{"no closing", drop(record.ListenerClosed), "when web-1 ceased to listen"},
				{"the watch was broken", func(b *test) { b.gap(record.FromKube, "", 500, 600) }, "whether the API still advertised web-1"},
				{"another process exited then", func(b *test) {
					b.kernel(37, record.ProcessExited, "web-1", map[string]any{"first_process": false, "signal": 0})
				}, "whether web-1's listener was closed by choice or by the end of the process that exited at +37 ms"},
				{"the news came soon after", func(b *test) {
					b.change(record.EndpointNotReady, func(e *record.Event) { e.TNs = 900 * ms })
				}, "whether the API still advertised web-1"},
				{"the clocks do not tell", func(b *test) { b.rough(5) }, "their order lies within the bounds"},
			},
		},
		{
			"the last one that serves", func() *test {
				return newWatched().without(record.EndpointAdded, "web-2").
					endpoint(20, record.EndpointNotReady, "web-1", false, true).
					signal(33, "web-1", 15, "containerd-shim").
					listener(38, record.ListenerClosed, "web-1").
					entry(41.3, record.ConntrackNew, "tcp", "web-1", nil)
			}, through(record.Refused, 41, 42), nil, "listener-closed-early",
			[]record.EventKind{record.ListenerClosed, record.ConntrackNew},
			"refused: web-1 had closed its listener 4 ms before by its own choice, while the API advertised it (to the end)", nil,
		},
		{
			"a listener closed on SIGTERM, before the API had told of it", func() *test {
				return newWatched().signal(33, "web-1", 15, "containerd-shim").listener(38, record.ListenerClosed, "web-1").
					entry(41.3, record.ConntrackNew, "tcp", "web-1", nil).rule(-8000, record.RuleAdded, "web-1").rule(310, record.RuleRemoved, "web-1")
			}, through(record.Refused, 41, 42), nil, "dead-endpoint",
			[]record.EventKind{record.SignalSent, record.ListenerClosed, record.ConntrackNew, record.RuleRemoved},
			"refused: node worker-2 sent it to web-1, which had closed its listener 4 ms before; that node's rules named it until +310 ms", nil,
		},
		{
			"an application on its way out", func() *test {
				return cutOff().signal(133, "web-1", 15, "runc").change(record.SignalSent, func(e *record.Event) { e.Detail["signal_name"] = "SIGTERM" }).change(record.ProcessExited, func(e *record.Event) { e.TNs = 290 * ms })
			}, kept(record.Truncated, 90, 141), nil, "cut-by-exit",
			[]record.EventKind{record.ConntrackNew, record.SignalSent, record.SocketClosed, record.ProcessExited},
			"closed in the middle of its response while it was under way: web-1's process exited at +290 ms, and had ended its connection 150 ms before, 7 ms after SIGTERM",
			[]variant{
				{"nobody had asked it to end", drop(record.SignalSent), "lived on"},
				{"it was asked later", func(b *test) { b.change(record.SignalSent, func(e *record.Event) { e.TNs = 150 * ms }) }, "lived on"},
				{"it lived on for long", func(b *test) { b.change(record.ProcessExited, func(e *record.Event) { e.TNs = 1200 * ms }) }, "lived on"},
				{"it was killed", func(b *test) { b.change(record.ProcessExited, func(e *record.Event) { e.Detail["signal"] = 9 }) }, "lived on"},
				{"it may have been another container's", func(b *test) { b.r.Workload.Images = []string{"web", "mesh"} }, "lived on"},
			},
		},
		{
			"an exit under a request", cutOff, kept(record.ResetBeforeResponse, 90, 141), nil, "cut-by-exit",
			[]record.EventKind{record.ConntrackNew, record.ProcessExited, record.SocketClosed},
			"reset before a response while it was under way: web-1's process exited at +140 ms, and its connection ended with it",
			[]variant{
				{"no entry", drop(record.ConntrackNew), "which Pod the node sent it to"},
				{"no end", drop(record.SocketClosed), "how its connection ended at web-1: no socket-closed or reset-sent of it was seen"},
				{"no end, as nobody looked", func(b *test) { b.without(record.SocketClosed, "").blind(podNode, sockets) }, "node worker-1 cannot show sockets"},
				{"it lived on", drop(record.ProcessExited), "but web-1's process lived on when it ended this connection at +140 ms"},
				{"its exit may have been missed", func(b *test) { b.without(record.ProcessExited, "").blind(podNode, exits) }, "whether web-1's process exited then (node worker-1 cannot show exits"},
				{"it may have been another container's", func(b *test) {
					b.r.Workload.Images = []string{"web", "mesh"}
					b.change(record.ProcessExited, func(e *record.Event) { e.TNs = 120 * ms })
				}, "lived on"},
				{"another process exited", func(b *test) {
					b.change(record.ProcessExited, func(e *record.Event) { e.Detail["first_process"] = false })
				}, "lived on"},
				{"it exited long after", func(b *test) { b.change(record.ProcessExited, func(e *record.Event) { e.TNs = 400 * ms }) }, "lived on"},
				{"the clocks do not tell", func(b *test) { b.rough(60) }, "the order lies within the bounds of the clocks"},
				{"an entry of another connection, long before", func(b *test) {
					b.change(record.ConntrackNew, func(e *record.Event) { e.TNs = -8000 * ms })
				}, "which Pod the node sent it to"},
				{"another Pod had answered", func(b *test) {
					b.change(record.ConntrackNew, func(e *record.Event) { e.Detail["reply_source"] = web2 })
				}, "how its connection ended at web-2"},
			},
		},
		{
			"a kill by the test", func() *test {
				b := cutOff().change(record.ProcessExited, func(e *record.Event) { e.Detail["signal"] = 9 }).signal(139.9, "web-1", 9, "drainproof")
				return b.event(139.9, record.FromHarness, record.ProcessKilled, "c0ffee", "", record.Exact, map[string]any{"node": podNode})
			}, kept(record.ResetBeforeResponse, 90, 141), nil, "cut-by-exit",
			[]record.EventKind{record.ConntrackNew, record.SignalSent, record.ProcessKilled, record.ProcessExited, record.SocketClosed},
			"reset before a response while it was under way: web-1's process was killed by the test itself at +140 ms, and its connection ended with it", nil,
		},
		{
			"a kill by the kernel", func() *test {
				return cutOff().change(record.ProcessExited, func(e *record.Event) { e.Detail["signal"] = 9 }).signal(139.9, "web-1", 9, "")
			}, kept(record.ResetBeforeResponse, 90, 141), nil, "cut-by-exit",
			[]record.EventKind{record.ConntrackNew, record.SignalSent, record.ProcessExited, record.SocketClosed},
			"reset before a response while it was under way: web-1's process was killed by the kernel at +140 ms, and its connection ended with it", nil,
		},
		{
			"a kill that the kernel sends after the runtime's to what is left", func() *test {
				return killed().change(record.SignalSent, func(e *record.Event) { e.Detail["result"] = "delivered" }).signal(30_120.5, "web-1", 9, "").change(record.SignalSent, func(e *record.Event) {
					if e.TNs > 30_120*ms {
						e.Detail["result"], e.Detail["from_kernel"] = "ignored", true
					}
				})
			}, kept(record.EOFBeforeResponse, 29_000, 30_122), nil, "cut-by-sigkill",
			[]record.EventKind{record.ConntrackNew, record.PodTerminating, record.SignalSent, record.ProcessExited, record.SocketClosed},
			"closed without a response while it was under way: the runtime sent SIGKILL to web-1 30.0 s after its end began, its grace period of 30 s used up", nil,
		},
		{
			"a grace period that is used up", killed, kept(record.EOFBeforeResponse, 29_000, 30_122), nil, "cut-by-sigkill",
			[]record.EventKind{record.ConntrackNew, record.PodTerminating, record.SignalSent, record.ProcessExited, record.SocketClosed},
			"closed without a response while it was under way: the runtime sent SIGKILL to web-1 30.0 s after its end began, its grace period of 30 s used up",
			[]variant{
				{"no signal", drop(record.SignalSent), "who sent the SIGKILL that ended web-1"},
				{"no signal, as nobody looked", func(b *test) { b.without(record.SignalSent, "").blind(podNode, signals) }, "node worker-1 cannot show signals"},
				{"no end", drop(record.SocketClosed), "how its connection ended at web-1"},
				{"its end did not begin", func(b *test) {
					b.without(record.PodTerminating, "").change(record.SignalSent, func(e *record.Event) { e.Detail["signal"] = 9 })
				}, "when the end of web-1 began"},
				{"before the grace period was over", func(b *test) { b.r.Workload.GraceNs = 60_000 * ms }, "but SIGKILL came 30.0 s after its end began, and its grace period of 60 s was not used up"},
				{"the clocks do not tell", func(b *test) { b.r.Workload.GraceNs = 31_010 * ms; b.rough(50) }, "whether the grace period was used up: it lies within the bounds of the clocks"},
			},
		},
		{
			"a grace period that is used up, from the first signal", func() *test { return killed().without(record.PodTerminating, "") },
			kept(record.EOFBeforeResponse, 29_000, 30_122), nil, "cut-by-sigkill",
			[]record.EventKind{record.ConntrackNew, record.SignalSent, record.SignalSent, record.ProcessExited, record.SocketClosed},
			"closed without a response while it was under way: the runtime sent SIGKILL to web-1 30.0 s after its end began, its grace period of 30 s used up", nil,
		},
		{
			"closed before it was sent", race, kept(record.ResetBeforeResponse, 100, 101), nil, "keepalive-race",
			[]record.EventKind{record.ConntrackNew, record.SocketClosed, record.ResetSent},
			"reset before a response: web-1 had closed this kept connection 1 ms before the request was sent on it",
			[]variant{
				{"no entry", drop(record.ConntrackNew), "which Pod the node sent it to"},
				{"no FIN", drop(record.SocketClosed), "lived on when it ended this connection at +100 ms"},
				{"it answered a FIN", func(b *test) {
					b.change(record.SocketClosed, func(e *record.Event) { e.Detail["how"] = "answered-fin" })
				}, "but its connection had ended at web-1 (socket-closed) at +99 ms, before it was sent"},
				{"the order does not tell", func(b *test) { b.without(record.ResetSent, "").rough(5) }, "whether the request had reached web-1 when that closed its connection at +99 ms"},
				{"several requests at a time", func(b *test) { b.rough(5); b.r.Config.Traffic.Mode = "http2" }, "whether the request had reached web-1"},
			},
		},
		{
			"met on the way", func() *test {
				return race().change(record.SocketClosed, func(e *record.Event) { e.TNs = int64(100.1 * ms) })
			}, kept(record.ResetBeforeResponse, 100, 101), nil, "keepalive-race",
			[]record.EventKind{record.ConntrackNew, record.SocketClosed, record.ResetSent},
			"reset before a response: the request met the close of its kept connection: web-1 closed it at +100 ms and answered what came after with a reset at +100 ms", nil,
		},
		{
			"a node that rejects", none, through(record.Refused, 60, 61), nil, "no-endpoints",
			[]record.EventKind{record.RuleRejects, record.ICMPSent},
			"refused: node worker-2 turned it away, as its rules rejected it: they knew no endpoint of the Service since +45 ms",
			[]variant{
				{"no error", drop(record.ICMPSent), "which Pod the node sent it to"},
				{"no rule", drop(record.RuleRejects), "why node worker-2 turned it away: its rules were not seen to reject that address"},
				{"no rule, as nobody looked", func(b *test) { b.without(record.RuleRejects, "").blind(clientNode, ruleSight) }, "node worker-2 cannot show rules"},
				{"a rule that drops sends nothing", func(b *test) {
					b.change(record.RuleRejects, func(e *record.Event) { e.Detail["verdict"] = "drop" })
				}, "but node worker-2's rules dropped it, yet it answered with an error"},
				{"it rejected no more", func(b *test) { b.rejects(50, record.RuleRejectRemoved, "reject") }, "its rules were not seen to reject that address"},
				{"it ceased meanwhile", func(b *test) { b.rejects(60.5, record.RuleRejectRemoved, "reject") }, "whether node worker-2's rules rejected it all the time"},
				{"the clocks do not tell", func(b *test) {
					b.change(record.RuleRejects, func(e *record.Event) { e.UncertaintyNs = new(int64(20 * ms)) })
				}, "whether node worker-2's rules rejected it all the time"},
			},
		},
		{
			"a node that drops", func() *test {
				b := none().without(record.ICMPSent, "").change(record.RuleRejects, func(e *record.Event) { e.Detail["verdict"] = "drop" })
				b.r.Workload.Pods = []record.WorkloadPod{{Name: "web-1", UID: "uid-web-1", IP: "198.18.65.11", Node: clientNode, NodeIP: "198.18.64.10"}}
				return b
			}, through(record.ConnectTimeout, 60, 2060), nil, "no-endpoints", []record.EventKind{record.RuleRejects},
			"not connected in time: node worker-2 dropped it, as its rules say: they knew no endpoint of the Service since +45 ms",
			[]variant{{"a rule that rejects sends an error", func(b *test) {
				b.change(record.RuleRejects, func(e *record.Event) { e.Detail["verdict"] = "reject" })
			}, "the error by which node worker-2 rejected it"}},
		},
		{
			"rules that reject, and an error that is not heard", rejecting, through(record.ConnectTimeout, 60, 2060), nil, "no-endpoints", []record.EventKind{record.RuleRejects},
			"not connected in time: node worker-2's rules rejected it, and no error of that node was seen to answer it: they knew no endpoint of the Service since +45 ms",
			[]variant{
				{"no rule", drop(record.RuleRejects), "which Pod the node sent it to"},
				{"no other connection tells its node", drop(record.ConntrackNew), "which Pod the node sent it to"},
				{"two nodes tell", func(b *test) { other(b, 20, "198.18.0.1:40002").r.Events[len(b.r.Events)-1].Node = podNode }, "which Pod the node sent it to"},
				{"it was sent again to a Pod", func(b *test) { b.rejects(800, record.RuleRejectRemoved, "reject").rule(810, record.RuleAdded, "web-2") },
					"what became of its SYN of +1.060 s: node worker-2's rules did not reject it any more"},
				{"nobody saw the rules all the time", func(b *test) { b.gap(record.FromDataplane, clientNode, 1000, 1010) }, "source dataplane of node worker-2 had a gap"},
				{"it rejected a moment later", func(b *test) {
					b.change(record.RuleRejects, func(e *record.Event) { e.TNs = int64(62 * ms) })
				}, "which Pod the node sent it to"},
			},
		},
		{
			"an error that did not end its waiting", func() *test {
				return errorFor(rejecting(), 60.4, client).change(record.RuleRejects, func(e *record.Event) {
					e.TNs, e.Bound, e.Detail["not_before_t_ns"] = int64(62*ms), record.Upper, int64(50*ms)
				})
			}, through(record.ConnectTimeout, 60, 2060), nil, "no-endpoints", []record.EventKind{record.ICMPSent, record.RuleRejects},
			"not connected in time: node worker-2's rules rejected it, and the error that the node sent did not end the client's waiting: they knew no endpoint of the Service since +62 ms", nil,
		},
		{
			"a Service's address that nothing translates", func() *test {
				return newWatched().entry(61, record.ConntrackNew, "tcp", "web-1", map[string]any{"reply_source": front})
			}, through(record.ConnectTimeout, 60, 2060), nil, "no-endpoints", []record.EventKind{record.ConntrackNew},
			"not connected in time: node worker-2 sent it on to the Service's own address, where nobody is: its rules named no Pod at +61 ms, and a connection keeps its way",
			[]variant{{"no entry", drop(record.ConntrackNew), "which Pod the node sent it to"}},
		},
		{
			"the only Pod that its node's rules named", func() *test {
				return other(dead().without(record.ConntrackNew, "").without(record.RuleAdded, "web-2"), -100, "198.18.0.1:40001")
			}, through(record.ConnectTimeout, 60, 2060), nil, "dead-endpoint",
			[]record.EventKind{record.RuleAdded, record.SignalSent, record.ListenerClosed, record.RuleRemoved},
			"not connected in time: node worker-2 sent it to web-1, which had closed its listener 2.022 s before; that node's rules named it until +310 ms",
			[]variant{
				{"an entry from before led it", func(b *test) { b.entry(-200, record.ConntrackNew, "tcp", "web-2", nil) }, "which Pod the node sent it to"},
				{"they named two", func(b *test) { b.rule(-10, record.RuleAdded, "web-2") }, "which Pod the node sent it to"},
				{"they named it no more", func(b *test) { b.rule(50, record.RuleRemoved, "web-1") }, "which Pod the node sent it to"},
				{"they changed at that moment", func(b *test) { b.rule(61, record.RuleAdded, "web-2") }, "which Pod the node sent it to"},
				{"no other connection tells its node", drop(record.ConntrackNew), "which Pod the node sent it to"},
				{"nobody saw the rules before", func(b *test) { b.gap(record.FromDataplane, clientNode, 10, 20) }, "which Pod the node sent it to"},
			},
		},
		{
			"an old entry that its SYN put an end to", func() *test {
				return rejecting().entry(-3000, record.ConntrackNew, "tcp", "web-1", nil).entry(60.2, record.ConntrackDeleted, "tcp", "web-1", map[string]any{"by": "kernel"})
			}, through(record.ConnectTimeout, 60, 2060), nil, "no-endpoints", []record.EventKind{record.RuleRejects},
			"not connected in time: node worker-2's rules rejected it, and no error of that node was seen to answer it: they knew no endpoint of the Service since +45 ms",
			[]variant{
				{"it stayed", drop(record.ConntrackDeleted), "which Pod the node sent it to"},
				{"it expired", func(b *test) {
					b.change(record.ConntrackDeleted, func(e *record.Event) { e.Detail["by"] = "timeout" })
				}, "which Pod the node sent it to"},
				{"it ended later", func(b *test) { b.change(record.ConntrackDeleted, func(e *record.Event) { e.TNs = 1500 * ms }) }, "which Pod the node sent it to"},
			},
		},
		{
			"an entry of a SYN that was sent again", func() *test { return rejecting().entry(2059, record.ConntrackNew, "tcp", "web-2", nil) },
			through(record.ConnectTimeout, 60, 2060), nil, "no-endpoints", []record.EventKind{record.RuleRejects},
			"not connected in time: node worker-2's rules rejected it, and no error of that node was seen to answer it: they knew no endpoint of the Service since +45 ms", nil,
		},
		{
			"an entry from before", stale, through(record.ConnectTimeout, 3500, 4500), nil, "stale-conntrack",
			[]record.EventKind{record.EndpointAdded, record.ConntrackNew, record.ProcessExited},
			"not connected in time: node worker-2 still sent it to web-1, whose process had exited 2.500 s before, by a conntrack entry from before; web-2 was there to take it",
			[]variant{
				{"no entry", drop(record.ConntrackNew), "which Pod the node sent it to"},
				{"no exit", drop(record.ProcessExited), "which Pod the node sent it to"},
				{"it was deleted", func(b *test) { b.entry(3000, record.ConntrackDeleted, "tcp", "web-1", map[string]any{"by": "timeout"}) }, "which Pod the node sent it to"},
				{"nobody looked whether it was", func(b *test) { b.gap(record.FromConntrack, clientNode, 3000, 3100) }, "whether its conntrack entry was deleted or made again (source conntrack of node worker-2 had a gap"},
				{"nothing else was there", func(b *test) { b.without(record.EndpointAdded, "web-2") }, "another endpoint that it could have been sent to"},
			},
		},
		{
			"a datagram that was sent before its entry was deleted", datagram, kept(record.ResponseTimeout, 3500, 8500), nil, "stale-conntrack",
			[]record.EventKind{record.EndpointAdded, record.ConntrackNew, record.ProcessExited},
			"not answered in time: node worker-2 still sent it to web-1, whose process had exited 1.500 s before, by a conntrack entry from before; web-2 was there to take it",
			[]variant{
				{"no exit", drop(record.ProcessExited), "missing"},
				{"it was sent after that", func(b *test) { b.change(record.ConntrackDeleted, func(e *record.Event) { e.TNs = 3400 * ms }) }, "missing"},
				{"nobody looked whether it was deleted before", func(b *test) { b.gap(record.FromConntrack, clientNode, 3000, 3100) }, "whether its conntrack entry was deleted or made again (source conntrack of node worker-2 had a gap"},
			},
		},
		{
			"before it listened", soon, through(record.Refused, 1000, 1001), nil, "not-ready-yet",
			[]record.EventKind{record.ConntrackNew, record.ListenerOpened},
			"refused: it was sent to web-2, which began to listen only 199 ms later",
			[]variant{
				{"no entry", drop(record.ConntrackNew), "which Pod the node sent it to"},
				{"no listener", drop(record.ListenerOpened), "when web-2 ceased to listen"},
				{"it may have listened before", func(b *test) { b.gap(record.FromKernel, podNode, 1050, 1060) }, "whether web-2 had listened before"},
				{"it had been ready", func(b *test) { b.kube(500, record.PodReady, "web-2") }, "but web-2 had no listener before +1.200 s, and the API had called web-2 ready before it listened"},
				{"the clocks do not tell", func(b *test) { b.rough(300) }, "their order lies within the bounds"},
			},
		},
	}
}

// judged gives the scenario's record with its cause.
func (s scenario) judged(b *test) (record.Record, record.Cause) {
	if s.flow == nil {
		r := b.fails(s.f)
		Attribute(&r)
		return r, *r.Failures[0].Cause
	}
	r := b.fails()
	r.Flows = []record.Flow{*s.flow}
	Attribute(&r)
	return r, *r.Flows[0].Cause
}

func TestScenarios(t *testing.T) {
	for _, s := range append(scenarios(), flowScenarios()...) {
		t.Run(s.kind+" "+s.name, func(t *testing.T) {
			r, c := s.judged(s.make())
			if c.Kind != s.kind || c.Sentence != s.sentence {
				t.Errorf("%s, and the sentence (-want +got):\n%s", c.Kind, cmp.Diff(s.sentence, c.Sentence))
			}
			if diff := cmp.Diff(s.evidence, kinds(r, c.Evidence)); diff != "" {
				t.Errorf("evidence (-want +got):\n%s", diff)
			}
			for _, x := range s.spoiled {
				t.Run(x.name, func(t *testing.T) {
					b := s.make()
					x.edit(b)
					if _, c := s.judged(b); c.Kind != unattributed || !strings.Contains(c.Sentence, x.says) {
						t.Errorf("%s; it does not say %q:\n%s", c.Kind, x.says, c.Sentence)
					}
				})
			}
		})
	}
}

// Records without an agent are judged by the API and the client alone: what their kinds of events would prove is not even asked for.
func TestNoAgents(t *testing.T) {
	b := dead()
	b.r.Agents = nil
	for _, k := range []record.EventKind{record.ListenerClosed, record.ConntrackNew, record.RuleRemoved, record.RuleAdded, record.SignalSent, record.ProcessExited} {
		b.without(k, "")
	}
	c := b.cause(through(record.Refused, 41, 42))
	if c.Kind != unattributed || !strings.HasSuffix(c.Sentence, node) {
		t.Errorf("%s: %s", c.Kind, c.Sentence)
	}
}

func TestBackend(t *testing.T) {
	r := dead().fails(through(record.Refused, 41, 42))
	want := Target{Pod: "web-1", PodUID: "uid-web-1", Node: podNode, Chooser: clientNode, By: "conntrack"}
	got := Backend(&r, r.Failures[0])
	if ks := kinds(r, got.Evidence); !slices.Equal(ks, []record.EventKind{record.ConntrackNew}) {
		t.Errorf("evidence %v", ks)
	}
	got.Evidence = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by its entry (-want +got):\n%s", diff)
	}
	direct := r.Failures[0]
	direct.Local, direct.Remote = "198.18.0.1:41000", web2
	if got := Backend(&r, direct); got.Pod != "web-2" || got.By != "address" || got.Chooser != "" {
		t.Errorf("by its address: %+v", got)
	}
	answered := through(record.HTTPError, 41, 42)
	answered.Local, answered.Instance = "198.18.0.1:41001", new("web-2")
	if got := Backend(&r, answered); got.Pod != "web-2" || got.By != "instance" {
		t.Errorf("by who answered: %+v", got)
	}
	unknown := through(record.Refused, 41, 42)
	unknown.Local = "198.18.0.1:41002"
	if got := Backend(&r, unknown); got.Pod != "" || got.Missing == "" || len(got.Evidence) > 0 {
		t.Errorf("by nothing: %+v", got)
	}
}

// An address that is given again is that of the Pod that had it then.
func TestAddressesAreGivenAgain(t *testing.T) {
	b := dead()
	b.event(5000, record.FromKube, record.PodRemoved, "web-1", "uid-web-1", record.Upper, nil).
		event(8000, record.FromKube, record.PodAdded, "web-3", "uid-web-3", record.Upper, nil).
		event(9000, record.FromKube, record.EndpointReady, "web-3", "uid-web-3", record.Upper, map[string]any{"addresses": "198.18.65.11", "ready": true, "serving": true})
	f := through(record.Refused, 41, 42)
	f.Remote = web1
	r := b.fails(f)
	if got := Backend(&r, f); got.Pod != "web-1" {
		t.Errorf("at first: %+v", got)
	}
	later := through(record.Refused, 20_000, 20_001)
	later.Local, later.Remote = "198.18.0.1:41003", web1
	if got := Backend(&r, later); got.Pod != "web-3" {
		t.Errorf("later: %+v", got)
	}
	both := through(record.Refused, 8500, 8501)
	both.Local, both.Remote = "198.18.0.1:41004", web1
	b.without(record.PodRemoved, "")
	r = b.fails(both)
	if got := Backend(&r, both); got.Pod != "" || !strings.Contains(got.Missing, "web-1 and web-3 both did") {
		t.Errorf("both: %+v", got)
	}
}

func TestListensOn(t *testing.T) {
	for _, c := range []struct {
		on, to string
		want   bool
	}{
		{"[::]:8080", web1, true},
		{"0.0.0.0:8080", web1, true},
		{web1, web1, true},
		{"[::ffff:198.18.65.11]:8080", web1, true},
		{"127.0.0.1:8080", web1, false},
		{"[::]:9090", web1, false},
		{"[::]:9090", "", true}, // which port it was is not known: any
		{"", web1, false},
	} {
		if got := listensOn(&record.Event{Detail: map[string]any{"address": c.on}}, endpointOf(c.to)); got != c.want {
			t.Errorf("%q takes connections to %q: %t", c.on, c.to, got)
		}
	}
}

func TestRuns(t *testing.T) {
	l := &life{}
	if !l.runs("c0ffee") {
		t.Error("a Pod of which no container was told may run any")
	}
	l.starts = []*record.Event{{Detail: map[string]any{"container_id": "containerd://c0ffee"}}}
	if !l.runs("c0ffee") || l.runs("decaf") {
		t.Error("a container is its Pod's by its id")
	}
}

// The order of two times is sure on one clock, and on two where they lie further apart than both bounds.
func TestBefore(t *testing.T) {
	at := func(ns int64, bound record.Bound, doubt *int64, node string) instant {
		return timeOf(&record.Event{TNs: ns, Bound: bound, UncertaintyNs: doubt, Node: node, Source: record.FromKernel})
	}
	five := new(int64(5))
	for _, c := range []struct {
		name string
		a, b instant
		want bool
	}{
		{"one clock", at(1, record.Exact, five, "a"), at(2, record.Exact, five, "a"), true},
		{"one clock that is not tied", at(1, record.Exact, nil, "a"), at(2, record.Exact, nil, "a"), true},
		{"at the same time", at(1, record.Exact, five, "a"), at(1, record.Exact, five, "a"), false},
		{"two clocks, within their bounds", at(1, record.Exact, five, "a"), at(11, record.Exact, five, "b"), false},
		{"two clocks, beyond them", at(1, record.Exact, five, "a"), at(12, record.Exact, five, "b"), true},
		{"a clock that is not tied", at(1, record.Exact, nil, "a"), at(1000, record.Exact, five, "b"), false},
		{"a receipt is late", at(1, record.Upper, five, "a"), at(2, record.Exact, five, "a"), true},
		{"nothing is before a receipt", at(1, record.Exact, five, "a"), at(2, record.Upper, five, "a"), false},
		{"nothing is after what may be later", at(1, record.Lower, five, "a"), at(2, record.Exact, five, "a"), false},
	} {
		if got := c.a.before(c.b); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	looked := timeOf(&record.Event{TNs: 20, Bound: record.Upper, UncertaintyNs: five, Node: "a", Source: record.FromDataplane, Detail: map[string]any{"not_before_t_ns": int64(10)}})
	if !at(9, record.Exact, five, "a").before(looked) || at(10, record.Exact, five, "a").before(looked) {
		t.Error("what a look found happened after the look before")
	}
}

func TestUnseen(t *testing.T) {
	b := newWatched().gap(record.FromConntrack, podNode, 10, 20).blind(podNode, resets)
	b.r.Sources = append(b.r.Sources, record.Source{Name: "agent", Gaps: []record.Gap{}})
	r := b.fails()
	v := newView(&r)
	for _, c := range []struct {
		sight, node  string
		fromMs, toMs int64
		want         string
	}{
		{conntrack, clientNode, 0, 100, ""},
		{conntrack, podNode, 0, 100, "source conntrack of node worker-1 had a gap from +10 ms to +20 ms"},
		{conntrack, podNode, -100, 9, ""},
		{conntrack, podNode, 21, 100, ""},
		{conntrack, "", 0, 100, "source conntrack of node worker-1 had a gap from +10 ms to +20 ms"},
		{deleters, podNode, 15, 15, "source conntrack of node worker-1 had a gap from +10 ms to +20 ms"},
		{listeners, podNode, 0, 100, ""},
		{resets, podNode, 0, 100, "node worker-1 cannot show resets: the kernel has no BTF"},
		{"tea leaves", podNode, 0, 100, "node worker-1 cannot show tea leaves: its agent did not say why"},
		{listeners, "worker-3", 0, 100, "no agent on node worker-3"},
	} {
		if got := v.unseen(c.sight, c.node, c.fromMs*ms, c.toMs*ms); got != c.want {
			t.Errorf("%s of %q from %d to %d: %q, want %q", c.sight, c.node, c.fromMs, c.toMs, got, c.want)
		}
	}
	if got := clockTime(-5 * ms); got != "-5 ms" {
		t.Errorf("a time before the trigger: %q", got)
	}
}
