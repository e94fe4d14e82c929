package traffic

import (
	"net/netip"

	"github.com/drainproof/drainproof/internal/wire"
)

type flowState uint8

const (
	waiting    flowState = iota // not begun
	connecting                  // SYN sent
	greeting                    // no answer yet: TCP waits for hello and the first beat
	open                        // answered
	ended
)

// flow is one conversation. Flows lie in one slice and hold few pointers, so
// that many cost little memory and less of the collector's time.
type flow struct {
	target
	local netip.AddrPort
	fd    int32
	state flowState
	// helloSeen, promised and announced are the server's words; drainingSaid keeps notes to one.
	helloSeen, promised, announced, drainingSaid bool

	startedNs, openedNs, endedNs, lastAnswerNs int64
	// sentNs and plannedNs are of the last ping.
	sentNs, plannedNs int64
	sent, answered    uint64
	// last is the highest seq answered.
	last uint64

	// first answered first; current answered last, and is what the fast path compares with.
	first, current *wire.Identity
	// partial is an unfinished message; nil almost always.
	partial []byte

	// refusal is an ICMP error since the last answer, of the time refusedNs; nil almost always.
	refusedNs int64
	refusal   *RawEnd

	rehomedNs int64
	rehomeEnd *RawEnd
	// end is set once the flow has ended, and kept in place: many ends at once must not cost many allocations.
	end RawEnd
}

// oldestUnansweredNs is when the oldest ping after the last answered one was
// sent; ok is false when none waits. Only the last send time is kept: pings before it left a heartbeat apart.
func (f *flow) oldestUnansweredNs(heartbeatNs int64) (ns int64, ok bool) {
	if f.sent <= f.last {
		return 0, false
	}
	return f.sentNs - int64(f.sent-f.last-1)*heartbeatNs, true
}

// raw is an end with the facts that the flow knows now.
func (f *flow) raw(kind EndKind, errno string) RawEnd {
	return RawEnd{
		Kind: kind, Errno: errno, LastAnswerMonoNs: f.lastAnswerNs, PartialBytes: len(f.partial),
		Promised: f.promised, Announced: f.announced, Unanswered: f.sent - f.answered,
	}
}

func addrString(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func (f *flow) report() FlowReport {
	r := FlowReport{
		ID: f.id, Protocol: f.protocol, Local: addrString(f.local), Remote: f.remote.String(), OpenedMonoNs: f.openedNs,
		LastSeq: f.last, Sent: f.sent, Answered: f.answered, RehomedMonoNs: f.rehomedNs, RehomeEnd: f.rehomeEnd, EndedMonoNs: f.endedNs, End: f.end,
	}
	if f.first != nil && f.openedNs != 0 {
		r.FirstInstance, r.FirstPodUID = f.first.Instance, f.first.PodUID
		r.LastInstance, r.LastPodUID = f.current.Instance, f.current.PodUID
	}
	return r
}
