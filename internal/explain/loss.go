package explain

import (
	"net/netip"

	"github.com/drainproof/drainproof/internal/record"
)

// loss is a request or a flow that was lost. A flow is judged like a request that was under way on its connection ever since that was opened.
type loss struct {
	record.Failure
	// flow is nil for a request.
	flow *record.Flow
	// held: it is no request but a connection that its user held, and that was cut while nothing was being exchanged.
	held bool
	// udp: it was no connection of TCP.
	udp bool
	// local and remote are the client's two ends; zero where they are not known.
	local, remote netip.AddrPort
	// to is where it led.
	to target
}

func (v *view) lossOf(f record.Failure) loss {
	t := v.r.Config.Traffic
	l := loss{Failure: f, held: cutWhileHeld(f, t), udp: t != nil && t.Mode == "udp", local: endpointOf(f.Local), remote: endpointOf(f.Remote)}
	l.to = v.targetOf(l)
	return l
}

// cutWhileHeld reports whether a failure is the end of a connection that was held: it was due, and sent, when that was cut.
func cutWhileHeld(f record.Failure, t *record.Traffic) bool {
	if t == nil || t.Mode != "websocket" && t.Mode != "grpc-stream" && t.Mode != "tcp" {
		return false
	}
	return f.Connection == record.ReusedConnection && f.SentTNs != nil && *f.SentTNs == f.PlannedTNs && f.TNs == f.PlannedTNs
}

// flowLost gives a flow that ended in a loss; ok is false for one that did not, or of which that is not known.
func (v *view) flowLost(f *record.Flow) (l loss, ok bool) {
	if f.EndedTNs == nil && f.Mechanism != record.ClientLimit {
		return loss{}, false
	}
	l = loss{
		Failure: record.Failure{
			Phase: record.PhaseBody, Connection: record.ReusedConnection, Instance: f.FirstInstance, SentTNs: f.OpenedTNs,
			Errno: f.Detail.Errno, Local: f.Local, Remote: f.Remote, UncertaintyNs: f.UncertaintyNs,
		},
		flow: f, udp: f.Protocol == record.UDP, local: endpointOf(f.Local), remote: endpointOf(f.Remote),
	}
	if f.OpenedTNs != nil {
		l.PlannedTNs = *f.OpenedTNs
	}
	if f.EndedTNs != nil {
		l.TNs = *f.EndedTNs
	}
	switch {
	case f.Mechanism == record.ClientLimit:
		l.Outcome = record.ClientLimited
	case f.Outcome == record.Rehomed:
	case f.Outcome == record.ReadTimeout:
		l.Outcome = record.ResponseTimeout
	case f.Outcome != record.Severed:
		return loss{}, false
	default:
		l.Outcome = severedAs(f.Mechanism)
	}
	l.to = v.targetOf(l)
	return l, true
}

// severedAs is the outcome of a request that would have been cut in that way.
func severedAs(m record.Mechanism) record.RequestOutcome {
	switch m {
	case record.RST, record.BrokenPipe:
		return record.ResetMidResponse
	case record.FIN, record.FINMidMessage, record.AnnouncedFIN:
		return record.Truncated
	case record.ICMPPort:
		return record.Refused
	case record.ICMPHost:
		return record.Unreachable
	default:
		return record.ResponseTimeout
	}
}

// rehomed reports whether another instance took a flow over.
func (l loss) rehomed() bool { return l.flow != nil && l.flow.Outcome == record.Rehomed }

// sent is when a request left, or a flow or held connection was opened; ok is false where that is not known.
func (l loss) sent() (instant, bool) {
	if l.SentTNs == nil {
		return instant{}, false
	}
	if l.held {
		t := l.opened()
		t.hi = t.lo
		return t, true
	}
	return instant{lo: *l.SentTNs, hi: *l.SentTNs, doubt: l.UncertaintyNs}, true
}

// known is when the client knew.
func (l loss) known() instant { return instant{lo: l.TNs, hi: l.TNs, doubt: l.UncertaintyNs} }

// decided is until when its way could be chosen anew: a request of one datagram is sent once, all else until the client knew.
func (l loss) decided() instant {
	if sent, ok := l.sent(); ok && l.udp && l.flow == nil {
		return sent
	}
	return l.known()
}

// underway is the time in which it was lost: from when a request left, or a flow last gave proof of life, until the client knew.
func (l loss) underway() instant {
	from := began(l.Failure)
	if l.flow != nil && l.flow.EndedAfterTNs != nil {
		from = *l.flow.EndedAfterTNs
	}
	if l.held {
		from = l.opened().lo
	}
	return instant{lo: from, hi: l.TNs, doubt: l.UncertaintyNs}
}

// opened is when its connection was opened, at the earliest.
func (l loss) opened() instant {
	t := began(l.Failure)
	return instant{lo: t - l.ConnectionAgeNs, hi: t, doubt: l.UncertaintyNs}
}

// isNew reports whether the connection itself was under test: it was made for this.
func (l loss) isNew() bool { return l.flow == nil && l.Connection == record.NewConnection }

// when is the time at which it is placed among the events.
func (l loss) when() int64 {
	if l.flow != nil && l.Outcome == record.ResponseTimeout {
		return l.underway().lo
	}
	return when(l.Failure)
}

// what tells in words how it ended.
func (l loss) what() string {
	switch {
	case l.held && l.Outcome == record.ResetBeforeResponse:
		return "a held connection reset"
	case l.held && l.Outcome == record.EOFBeforeResponse:
		return "a held connection closed"
	case l.flow == nil:
		return happened(l.Failure)
	}
	switch m := l.flow.Mechanism; {
	case l.rehomed():
		return "taken over by another instance"
	case m == record.ICMPPort:
		return "refused by an ICMP error"
	case m == record.ICMPHost:
		return "made unreachable by an ICMP error"
	case m == record.RST || m == record.BrokenPipe:
		return "reset"
	case m == record.FINMidMessage:
		return "closed in the middle of a message"
	case m == record.FIN || m == record.AnnouncedFIN:
		return "closed"
	default:
		return "not answered any more"
	}
}

// endpointOf reads an address with its port; zero where it is none. IPv4 in IPv6's clothes is IPv4.
func endpointOf(v any) netip.AddrPort {
	text, _ := v.(string)
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
