package traffic

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/wire"
)

// errProtocol is the errno of a peer that does not speak the wire's language.
const errProtocol = unix.EPROTO

// lost are the flags by which epoll says that the peer is gone.
const lost = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR

// handle deals with one readiness report, which epoll gave at now.
func (e *engine) handle(f *flow, events uint32, now int64) {
	if f.state == waiting || f.state == ended {
		return
	}
	if f.state == connecting {
		if events&(unix.EPOLLOUT|lost) == 0 {
			return
		}
		if err := socketError(int(f.fd)); err != nil {
			e.finish(f, f.raw(EndReadError, request.Symbol(err)), now, err)
			return
		}
		e.connected(f)
	}
	if f.state == ended || events&(unix.EPOLLIN|lost) == 0 {
		return
	}
	if f.protocol == record.UDP {
		e.readDatagrams(f, now)
		return
	}
	e.readStream(f, events, now)
}

// readStream reads what is there. The end of a flow is stamped with the time at
// which epoll told of it, or, where only the read revealed it, with the time just after that read.
func (e *engine) readStream(f *flow, events uint32, now int64) {
	for {
		n, err := unix.Read(int(f.fd), e.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case err != nil || n == 0:
			if events&lost == 0 {
				now = e.clock.MonoNs()
			}
			if err != nil {
				e.finish(f, f.raw(EndReadError, request.Symbol(err)), now, err)
			} else {
				e.finish(f, f.raw(EndEOF, ""), now, nil)
			}
			return
		}
		if !e.feed(f, e.buf[:n], now) {
			return
		}
		// Edge-triggered: a later arrival raises a new edge, but an end that was already told of does not.
		if n < len(e.buf) && events&lost == 0 {
			return
		}
	}
}

// feed takes the stream's next bytes; false when that ended the flow.
func (e *engine) feed(f *flow, b []byte, now int64) bool {
	if len(f.partial) > 0 {
		b = append(f.partial, b...)
		f.partial = nil
	}
	for {
		line, rest, found := bytes.Cut(b, []byte{'\n'})
		if !found {
			break
		}
		if !e.message(f, line, now) {
			return false
		}
		b = rest
	}
	if len(b) > 0 {
		f.partial = bytes.Clone(b)
		if len(b) >= wire.MaxMessageBytes {
			return e.violation(f, now)
		}
	}
	return true
}

// readDatagrams takes the errors first: a queued ICMP error says more than the errno that the read would give.
func (e *engine) readDatagrams(f *flow, now int64) {
	e.icmpErrors(f, now)
	for f.state != ended {
		n, err := unix.Read(int(f.fd), e.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case err != nil:
			e.datagramError(f, EndReadError, err, now)
			continue // the read took the error away; what was sent to the socket is still there
		}
		line := bytes.TrimSuffix(e.buf[:n], []byte{'\n'})
		if !e.message(f, line, now) {
			return
		}
	}
}

// datagramError deals with an error that a read or write of a datagram gave.
// An ICMP error's errno refuses the flow, its message is in the error queue; any other errno ends it.
func (e *engine) datagramError(f *flow, kind EndKind, err error, now int64) {
	if e.icmpErrors(f, now) || f.state == ended {
		return
	}
	end := f.raw(kind, request.Symbol(err))
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH) {
		e.refuse(f, end, now, err)
		return
	}
	e.finish(f, end, now, err)
}

// icmpErrors empties the error queue; true when it said that the peer is unreachable.
func (e *engine) icmpErrors(f *flow, now int64) (refused bool) {
	for f.state != ended {
		m, errno, ok := icmpError(int(f.fd))
		if !ok {
			break
		}
		if m != nil && unreachable(m) {
			end := f.raw(EndReadError, request.Symbol(errno))
			end.ICMP = m
			e.refuse(f, end, now, errno)
			refused = true
		}
	}
	return refused
}

// refuse notes an ICMP error. It ends no open flow by itself: datagrams need no
// connection, and one that a node rejects while it has no endpoint may be answered a moment later. The flow
// goes on being held; it has ended here if nothing answers for the read timeout (sweep) or until the client
// is closed (conclude).
func (e *engine) refuse(f *flow, end RawEnd, now int64, cause error) {
	if f.state != open {
		e.finish(f, end, now, cause)
		return
	}
	if f.refusal != nil {
		return
	}
	f.refusedNs, f.refusal = now, &end
	e.note(Note{Kind: NoteRefused, MonoNs: now, Flow: f.id, End: &end})
}

// message obeys one whole message; false when that ended the flow.
func (e *engine) message(f *flow, line []byte, now int64) bool {
	if f.current != nil {
		if seq, ok := f.current.Is(line); ok {
			return e.answered(f, f.current, seq, now)
		}
	}
	m, err := wire.Parse(line)
	if err != nil {
		return e.violation(f, now)
	}
	if f.protocol == record.TCP && f.helloSeen == (m.Type == wire.Hello) {
		return e.violation(f, now)
	}
	switch m.Type {
	case wire.Hello:
		f.helloSeen = true
		f.promised = m.Promises == wire.PromiseAnnounce
		f.first = e.identity(m)
		f.current = f.first
		return f.protocol == record.TCP || e.violation(f, now)
	case wire.Beat:
		return e.answered(f, e.identity(m), m.Seq, now)
	case wire.Tick:
		e.heard(f, e.identity(m), now)
	case wire.Draining:
		f.lastAnswerNs = now
		if !f.drainingSaid {
			f.drainingSaid = true
			e.note(Note{Kind: NoteDraining, MonoNs: now, Flow: f.id, Instance: m.Instance, PodUID: m.PodUID, ClosesInMs: m.ClosesInMs})
		}
	case wire.Bye:
		f.lastAnswerNs = now
		if !f.announced {
			f.announced = true
			e.note(Note{Kind: NoteBye, MonoNs: now, Flow: f.id, Instance: m.Instance, PodUID: m.PodUID})
		}
	default:
		return e.violation(f, now)
	}
	return true
}

// answered notes the answer to ping seq.
func (e *engine) answered(f *flow, by *wire.Identity, seq uint64, now int64) bool {
	if seq == 0 || seq > f.sent {
		return e.violation(f, now)
	}
	e.heard(f, by, now)
	if seq <= f.last && f.protocol == record.UDP {
		// Out of order, or a duplicate: never more answers than pings.
		f.answered = min(f.answered+1, f.sent)
		return true
	}
	if seq == f.sent {
		e.answers.Record(now - f.plannedNs)
	}
	f.answered = min(f.answered+1, f.sent)
	f.last = max(f.last, seq)
	if f.state == greeting {
		e.connectDone(f)
		f.state = open
		f.openedNs = now
		e.opening--
		e.note(Note{
			Kind: NoteOpened, MonoNs: now, Flow: f.id, Instance: by.Instance, PodUID: by.PodUID,
			Local: addrString(f.local), Remote: f.remote.String(),
		})
	}
	return true
}

// heard notes a proof of life and by whom it was given.
func (e *engine) heard(f *flow, by *wire.Identity, now int64) {
	if by != f.current {
		if f.first == nil {
			f.first = by
		} else if by != f.first && f.rehomedNs == 0 {
			// The end of the first instance's part lies between its last word and now.
			end := f.raw(EndOtherInstance, "")
			if f.refusal != nil {
				end.Errno, end.ICMP = f.refusal.Errno, f.refusal.ICMP
			}
			f.rehomedNs, f.rehomeEnd = max(now, 1), &end
			e.note(Note{Kind: NoteRehomed, MonoNs: now, Flow: f.id, Instance: by.Instance, PodUID: by.PodUID})
		}
		f.current = by
	}
	f.lastAnswerNs, f.refusal = now, nil
}

// violation ends a flow whose peer broke the protocol. Always false.
func (e *engine) violation(f *flow, now int64) bool {
	e.finish(f, f.raw(EndReadError, request.Symbol(errProtocol)), now, errProtocol)
	return false
}

// identity gives the one Identity of an instance, so that flows share it.
func (e *engine) identity(m wire.Message) *wire.Identity {
	key := [2]string{m.Instance, m.PodUID}
	id := e.identities[key]
	if id == nil {
		id = wire.NewIdentity(m.Instance, m.PodUID)
		e.identities[key] = id
	}
	return id
}

// send sends the next ping, planned for plannedNs. A full buffer or a want of memory leaves it unsent: the flow's
// other pings tell whether it lives, and waiting here would make all flows late.
func (e *engine) send(f *flow, plannedNs int64) {
	e.out = wire.AppendPing(e.out[:0], f.sent+1)
	if f.protocol == record.TCP {
		e.out = append(e.out, '\n')
	}
	now := e.clock.MonoNs()
	n, err := unix.Write(int(f.fd), e.out)
	switch {
	case err == nil && n == len(e.out):
		e.late.Record(now - plannedNs)
		f.sent++
		f.sentNs, f.plannedNs = now, plannedNs
		e.sent++
		return
	case err == nil:
		// A part of a ping in the stream would garble all that follows.
		e.finish(f, f.raw(EndWriteError, "EAGAIN"), e.clock.MonoNs(), unix.EAGAIN)
		return
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		e.unsent++
		return
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		e.unsent++
		e.limits[request.Symbol(err)]++
		return
	}
	now = e.clock.MonoNs()
	if f.protocol == record.UDP {
		// The write gave an earlier datagram's error and sent nothing; the next ping is due soon.
		e.unsent++
		e.datagramError(f, EndWriteError, err, now)
		return
	}
	e.lastWords(f, now)
	if f.state != ended {
		e.finish(f, f.raw(EndWriteError, request.Symbol(err)), now, err)
	}
}

// lastWords reads what had arrived before a write failed: a bye may be among it.
// The write took the socket's error, so an end of stream here says nothing more.
func (e *engine) lastWords(f *flow, now int64) {
	for {
		n, err := unix.Read(int(f.fd), e.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 || !e.feed(f, e.buf[:n], now) {
			return
		}
	}
}
