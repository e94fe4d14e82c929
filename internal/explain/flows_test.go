package explain

import (
	"testing"

	"github.com/drainproof/drainproof/internal/record"
)

// held is a flow of the client to web-1, opened at -5 s.
func held(p record.Protocol, o record.Outcome, m record.Mechanism, aliveMs, endedMs float64) *record.Flow {
	f := &record.Flow{
		ID: string(p) + "-01", Protocol: p, Outcome: o, Mechanism: m, OpenedTNs: new(int64(-5000 * ms)), EndedTNs: new(int64(endedMs * ms)), EndedAfterTNs: new(int64(aliveMs * ms)),
		UncertaintyNs: new(int64(0)), FirstInstance: new("web-1"), LastInstance: new("web-1"), FirstPodUID: new("uid-web-1"), LastPodUID: new("uid-web-1"), Local: client, Remote: front,
	}
	if o == record.Rehomed {
		f.LastInstance, f.LastPodUID = new("web-2"), new("uid-web-2")
	}
	return f
}

// moved is a flow of datagrams whose entry kube-proxy deletes at 2.4 s.
func moved() *test {
	return newWatched().
		entry(-4999, record.ConntrackNew, "udp", "web-1", nil).
		entry(2400, record.ConntrackDeleted, "udp", "web-1", map[string]any{"by": "process", "by_comm": "kube-proxy", "by_pid": 4711}).
		entry(2410, record.ConntrackNew, "udp", "web-2", nil)
}

// astray is one that has an entry to the Service's own address before it has one to another Pod: its node rejected no more, and named nobody yet.
func astray() *test {
	return moved().entry(2405, record.ConntrackNew, "udp", "web-1", nil).change(record.ConntrackNew, func(e *record.Event) {
		if e.TNs == 2405*ms {
			e.Detail["reply_source"] = e.Detail["original_destination"]
		}
	})
}

// left is one whose Pod's process exits at 900 ms, and whose entry stays.
func left() *test {
	return newWatched().entry(-4999, record.ConntrackNew, "udp", "web-1", nil).exits(900, "web-1", 0)
}

// alone is a flow of datagrams whose entry kube-proxy deletes at 2.4 s, when its node's rules had no endpoint any more; its Pod serves on.
func alone() *test {
	udp := func(e *record.Event) { e.Detail["protocol"] = "udp" }
	return newWatched().
		entry(-4999, record.ConntrackNew, "udp", "web-1", nil).
		rule(-8000, record.RuleAdded, "web-1").rule(2300, record.RuleRemoved, "web-1").rejects(2300, record.RuleRejects, "reject").
		change(record.RuleAdded, udp).change(record.RuleRemoved, udp).change(record.RuleRejects, udp).
		entry(2400, record.ConntrackDeleted, "udp", "web-1", map[string]any{"by": "process", "by_comm": "kube-proxy", "by_pid": 4711}).
		exits(25_000, "web-1", 0)
}

func flowScenarios() []scenario {
	deleter := func(by, comm any) func(*test) {
		return func(b *test) {
			b.change(record.ConntrackDeleted, func(e *record.Event) {
				delete(e.Detail, "by")
				delete(e.Detail, "by_comm")
				if by != nil {
					e.Detail["by"] = by
				}
				if comm != nil {
					e.Detail["by_comm"] = comm
				}
			})
		}
	}
	icmpEnd := held(record.UDP, record.Severed, record.ICMPPort, 880, 4000)
	const unknown = ", and node worker-2's rules, which knew no endpoint of the Service since +2.300 s, rejected its next datagram "
	return []scenario{
		{
			"a flow whose entry was deleted when there was no endpoint", alone, record.Failure{}, held(record.UDP, record.ReadTimeout, record.Silence, 2390, 7400), "no-endpoints",
			[]record.EventKind{record.ConntrackNew, record.RuleRejects, record.ConntrackDeleted},
			"not answered any more: kube-proxy on node worker-2 deleted its conntrack entry to web-1 at +2.400 s" + unknown + "and no error told its client",
			[]variant{
				{"no deletion", drop(record.ConntrackDeleted), "missing"},
				{"the rules named another", func(b *test) {
					b.rule(2450, record.RuleAdded, "web-2").change(record.RuleAdded, func(e *record.Event) { e.Detail["protocol"] = "udp" })
				},
					"whether node worker-2's rules rejected its next datagram"},
				{"no rule", drop(record.RuleRejects), "whether node worker-2's rules rejected its next datagram"},
				{"nobody saw whether its Pod lived", func(b *test) { b.blind(podNode, exits) }, "whether web-1's process lived when its conntrack entry was deleted"},
				{"it came back", func(b *test) { b.entry(2450, record.ConntrackNew, "udp", "web-1", nil) }, "missing"},
			},
		},
		{
			"a flow whose node told its client", func() *test {
				return errorFor(alone(), 2410, client).change(record.ICMPSent, func(e *record.Event) { e.Detail["protocol"] = "udp" })
			},
			record.Failure{}, held(record.UDP, record.Severed, record.ICMPPort, 2390, 2411), "no-endpoints",
			[]record.EventKind{record.ConntrackNew, record.RuleRejects, record.ConntrackDeleted, record.ICMPSent},
			"refused by an ICMP error: kube-proxy on node worker-2 deleted its conntrack entry to web-1 at +2.400 s" + unknown + "by an ICMP error of its own", nil,
		},
		{
			"a flow whose entry was deleted", moved, record.Failure{}, held(record.UDP, record.Rehomed, record.OtherInstance, 2300, 2450), "rehomed-by-dataplane",
			[]record.EventKind{record.ConntrackNew, record.ConntrackDeleted, record.ConntrackNew},
			"taken over by another instance: kube-proxy on node worker-2 deleted its conntrack entry to web-1 at +2.400 s, and its next datagram was sent to web-2",
			[]variant{
				{"no entry at all", func(b *test) { b.without(record.ConntrackNew, "").without(record.ConntrackDeleted, "") }, "its conntrack entry"},
				{"no deletion", drop(record.ConntrackDeleted), "the end of the conntrack entry that led it to web-1"},
				{"no deletion, as there was a gap", func(b *test) {
					b.without(record.ConntrackDeleted, "").gap(record.FromConntrack, clientNode, 2390, 2405)
				}, "the end of the conntrack entry that led it to web-1 (source conntrack of node worker-2 had a gap"},
				{"no new entry", func(b *test) {
					b.change(record.ConntrackNew, func(e *record.Event) { e.Detail["reply_source"] = web1 })
				}, "the conntrack entry that led it to another Pod"},
				{"nobody knows who deleted it", func(b *test) { deleter(nil, nil)(b); b.blind(clientNode, deleters) }, "who deleted its conntrack entry (node worker-2 cannot show conntrack-deleters"},
				{"it came back to the same Pod first", func(b *test) { b.entry(2405, record.ConntrackNew, "udp", "web-1", nil) }, "the end of the conntrack entry that led it to web-1"},
				{"it had expired", deleter("timeout", nil), "but its conntrack entry was not deleted by a process: timeout"},
				{"another process deleted it", deleter("process", "conntrack"), "but its conntrack entry was deleted by conntrack, which is not kube-proxy"},
				{"the entry leads elsewhere", func(b *test) {
					b.event(-9000, record.FromKube, record.EndpointAdded, "web-3", "uid-web-3", record.Upper, map[string]any{"addresses": "198.18.66.13"})
					b.change(record.ConntrackNew, func(e *record.Event) {
						if e.TNs > 0 {
							e.Detail["reply_source"] = "198.18.66.13:8080"
						}
					})
				}, "but its conntrack entry leads to web-3, and web-2 answered"},
			},
		},
		{
			"a flow that had an entry to nobody meanwhile", astray, record.Failure{}, held(record.UDP, record.Rehomed, record.OtherInstance, 2300, 2450), "rehomed-by-dataplane",
			[]record.EventKind{record.ConntrackNew, record.ConntrackDeleted, record.ConntrackNew},
			"taken over by another instance: kube-proxy on node worker-2 deleted its conntrack entry to web-1 at +2.400 s, and its next datagram that was sent to a Pod went to web-2", nil,
		},
		{
			"a flow that nothing else could take", func() *test { return left().without(record.EndpointAdded, "web-2") }, record.Failure{}, icmpEnd, "cut-by-exit",
			[]record.EventKind{record.ConntrackNew, record.ProcessExited},
			"refused by an ICMP error while it was under way: web-1's process exited at +900 ms, and no other endpoint was there to take it over",
			[]variant{
				{"no exit", drop(record.ProcessExited), "missing"},
				{"the watch was broken", func(b *test) { b.gap(record.FromKube, "", 950, 960) }, "whether another endpoint was there to take it over"},
				{"it answered after that exit", func(b *test) { b.change(record.ProcessExited, func(e *record.Event) { e.TNs = 500 * ms }) }, "missing"},
			},
		},
		{
			"a flow that its entry held", left, record.Failure{}, icmpEnd, "stale-conntrack",
			[]record.EventKind{record.EndpointAdded, record.ConntrackNew, record.ProcessExited},
			"refused by an ICMP error: node worker-2 still sent it to web-1, whose process had exited 3.100 s before, by a conntrack entry from before; web-2 was there to take it",
			[]variant{
				{"nobody looked at the entry", func(b *test) { b.blind(clientNode, conntrack) }, "whether its conntrack entry was deleted or made again (node worker-2 cannot show conntrack"},
				{"the entry was deleted", func(b *test) {
					b.entry(1000, record.ConntrackDeleted, "udp", "web-1", map[string]any{"by": "process", "by_comm": "kube-proxy"})
				}, "but the conntrack entry that led it to web-1 was not left as it was (conntrack-deleted at +1.000 s)"},
				{"the order does not tell", func(b *test) { b.rough(4000) }, "missing"},
			},
		},
		{
			"a flow of TCP", cutOff, record.Failure{}, held(record.TCP, record.Severed, record.RST, 100, 141), "cut-by-exit",
			[]record.EventKind{record.ConntrackNew, record.ProcessExited, record.SocketClosed},
			"reset while it was under way: web-1's process exited at +140 ms, and its connection ended with it",
			[]variant{{"it lived on", drop(record.ProcessExited), "but web-1's process lived on when it ended this connection"}},
		},
		{
			"a flow of TCP that was killed", killed, record.Failure{}, held(record.TCP, record.Severed, record.FINMidMessage, 29_000, 30_122), "cut-by-sigkill",
			[]record.EventKind{record.ConntrackNew, record.PodTerminating, record.SignalSent, record.ProcessExited, record.SocketClosed},
			"closed in the middle of a message while it was under way: the runtime sent SIGKILL to web-1 30.0 s after its end began, its grace period of 30 s used up", nil,
		},
		{
			"a flow of datagrams to a Pod that was killed", func() *test {
				return killed().without(record.SocketClosed, "").without(record.EndpointAdded, "web-2").change(record.ConntrackNew, func(e *record.Event) { e.Detail["protocol"] = "udp" })
			}, record.Failure{}, held(record.UDP, record.Severed, record.ICMPPort, 29_900, 30_400), "cut-by-sigkill",
			[]record.EventKind{record.ConntrackNew, record.PodTerminating, record.SignalSent, record.ProcessExited},
			"refused by an ICMP error while it was under way: the runtime sent SIGKILL to web-1 30.0 s after its end began, its grace period of 30 s used up",
			[]variant{{"its exit was not seen", drop(record.ProcessExited), "missing"}},
		},
		{
			"a flow of datagrams to a Pod's own address", func() *test { return left() }, record.Failure{},
			func() *record.Flow {
				f := held(record.UDP, record.Severed, record.ICMPPort, 880, 4000)
				f.Remote = web1
				return f
			}(), "cut-by-exit", []record.EventKind{record.ProcessExited},
			"refused by an ICMP error while it was under way: web-1's process exited at +900 ms, and its client went to that Pod's own address", nil,
		},
		{
			"a client's limit", newWatched, record.Failure{}, held(record.TCP, record.NotMeasured, record.ClientLimit, 100, 141), "client-limit", []record.EventKind{},
			"the client itself could not go on (its own end): nothing that the workload did", nil,
		},
	}
}

// What was not lost has no cause, and neither has that whose fate is not known.
func TestFlowsThatWereNotLost(t *testing.T) {
	r := left().fails()
	for _, f := range []*record.Flow{
		held(record.TCP, record.Drained, record.AnnouncedFIN, 100, 141), held(record.TCP, record.Closed, record.FIN, 100, 141),
		held(record.UDP, record.Survived, record.WindowClosed, 100, 141), held(record.UDP, record.NotMeasured, record.WindowClosed, 100, 141),
	} {
		if c := Flow(&r, *f); c != nil {
			t.Errorf("%s: %+v", f.Outcome, c)
		}
	}
}

// Every way in which a flow ends has words of its own, and one that nothing explains is placed among what the API told.
func TestFlowsThatNothingExplains(t *testing.T) {
	r := newTest().deleted(100, "web-1").fails()
	for _, c := range []struct {
		f    *record.Flow
		want string
	}{
		{held(record.TCP, record.Severed, record.BrokenPipe, 100, 200), "reset, from web-1, 100 ms after it was seen to be deleted"},
		{held(record.TCP, record.Severed, record.FINMidMessage, 100, 200), "closed in the middle of a message, from web-1, 100 ms after"},
		{held(record.UDP, record.Severed, record.ICMPHost, 100, 200), "made unreachable by an ICMP error, from web-1, 100 ms after"},
		{held(record.UDP, record.Severed, record.Silence, 150, 3200), "not answered any more, from web-1, last heard of 50 ms after"},
		{held(record.TCP, record.ReadTimeout, record.Silence, 150, 3200), "not answered any more, from web-1, last heard of 50 ms after"},
		{held(record.UDP, record.Rehomed, record.OtherInstance, 150, 200), "taken over by another instance, from web-1, 100 ms after"},
	} {
		got := Flow(&r, *c.f)
		if got == nil || got.Kind != unattributed || len(got.Sentence) < len(c.want) || got.Sentence[:len(c.want)] != c.want {
			t.Errorf("%s %s: %+v", c.f.Outcome, c.f.Mechanism, got)
		}
	}
}
