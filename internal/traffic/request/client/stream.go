package client

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// streamSender holds one gRPC stream for each user.
type streamSender struct {
	dialer   *dialer
	plan     request.Plan
	fields   []hpack.HeaderField
	message  []byte
	users    []holder
	replaced func()
	result   func(request.Result) // of a stream that ended while no exchange was under way
	// requestEnds is what the first answer showed of the method.
	requestEnds atomic.Int32
	closing     atomic.Bool
	// waiting are the readers, those that wait for streams to end, and those that tell servers of streams given up.
	waiting sync.WaitGroup
}

// What is known of whether the request must end before the method begins.
const (
	unknown int32 = iota
	endsNot
	ends
)

// holder is one user.
type holder struct {
	gone gone
	mu   sync.Mutex
	now  *heldStream // open or being opened; nil where the next exchange opens one
}

// heldStream is one stream on a connection of its own.
type heldStream struct {
	// opened is closed when it is open, or has ended before. failed is valid then: how it ended, where that was a loss.
	opened chan struct{}
	failed request.Result
	conn   *h2Conn
	stream *h2Stream

	mu      sync.Mutex
	over    bool
	retired bool // an exchange ran out of time on it
	carried int  // exchanges, the opening included
	asked   map[*question]bool
}

// question is an exchange on an open stream. It ends once: with an answer, with the stream, or when its time is over.
type question struct {
	done chan struct{}
	// answeredNs is 0 where the stream ended first. Valid, like what follows, when done is closed.
	answeredNs int64
	inOrder    bool
	lost       request.Result
}

func newStreams(p request.Plan, d *dialer, replaced func(), result func(request.Result)) *streamSender {
	return &streamSender{
		dialer: d, plan: p, fields: grpcFields(p), message: grpcMessage(p.Target.Body),
		users: make([]holder, p.Users), replaced: replaced, result: result,
	}
}

func (s *streamSender) send(a *attempt) {
	u := &s.users[a.User]
	for {
		h, mine := u.current()
		switch {
		case mine:
			s.open(a, u, h)
			return
		case !a.wait(a.until, h.opened, nil):
			a.end(a.overdue(record.PhaseSend))
			return
		case h.failed.End.Kind != "":
			a.as(h.failed)
			return
		case s.ask(a, u, h):
			return
		}
	}
}

// current gives the user's stream; mine is for the caller to open.
func (u *holder) current() (h *heldStream, mine bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now == nil {
		u.now, mine = &heldStream{opened: make(chan struct{}), asked: map[*question]bool{}, carried: 1}, true
	}
	return u.now, mine
}

// drop makes the next exchange open a stream anew.
func (u *holder) drop(h *heldStream) {
	u.mu.Lock()
	if u.now == h {
		u.now = nil
	}
	u.mu.Unlock()
}

// open opens h, which answers a.
func (s *streamSender) open(a *attempt, u *holder, h *heldStream) {
	defer close(h.opened)
	link := s.dialer.dial(a)
	if link == nil {
		u.drop(h)
		h.failed = a.Result
		return
	}
	if u.gone.replace() {
		s.replaced()
	}
	h.conn = newH2(link, s.plan, h2Events{settled: func() {}, ended: func(bool) {}})
	h.stream = h.conn.reserve(true)
	s.waiting.Go(h.conn.read)
	if s.begin(a, h) {
		s.waiting.Go(func() { s.watch(u, h, a.User) })
		return
	}
	u.drop(h)
	h.conn.close()
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	if a.End.Kind == request.EndAnswered && request.Expected(s.plan.Expect, a.Status) {
		u.gone.add()
		return
	}
	h.failed = a.Result
}

// begin opens the stream on the wire and ends a with what comes of it; true where the stream is open then.
func (s *streamSender) begin(a *attempt, h *heldStream) bool {
	c, st := h.conn, h.stream
	if !c.open(a, st, s.fields, false) {
		return false
	}
	inTime := c.send(a, st, s.message, s.requestEnds.Load() == ends) && s.first(a, c, st)
	if !inTime {
		s.waiting.Go(c.abandon(st, a.overdue("")))
	}
	c.mu.Lock()
	ended, r, shown := st.end.Kind != "", st.reply, endsNot
	if st.closing {
		shown = ends
	}
	c.mu.Unlock()
	switch {
	case ended:
		a.took(st)
		if a.End.Kind == request.EndAnswered {
			judgeStatus(a, &st.reply)
		}
		return false
	case r.status != 200:
		a.end(request.End{Kind: request.EndAnswered})
		judgeStatus(a, &r)
		return false
	}
	s.requestEnds.CompareAndSwap(unknown, shown)
	a.BytesReceived, a.Status = r.bytes, 0
	if r.instance != "" {
		a.Instance = r.instance
	}
	a.end(request.End{Kind: request.EndAnswered, Phase: record.PhaseDone})
	return true
}

// patience is how long a method may say nothing before the end of its request is tried.
const patience = time.Second

// first waits for the response's header; false where the time was over before.
func (s *streamSender) first(a *attempt, c *h2Conn, st *h2Stream) bool {
	until := a.by(a.limits.FirstByteNs)
	if s.requestEnds.Load() == unknown {
		came := a.wait(a.by(min(int64(patience), a.limits.FirstByteNs/2)), st.first, nil)
		if !came && !c.send(a, st, nil, true) {
			return false
		}
	}
	return a.wait(until, st.first, nil)
}

// ask is an exchange on a stream that was open. It is false where the stream has ended in order, or took no exchange any more.
func (s *streamSender) ask(a *attempt, u *holder, h *heldStream) bool {
	q := &question{done: make(chan struct{})}
	before, ok := h.put(q)
	if !ok {
		return false
	}
	h.conn.mu.Lock()
	a.on(h.conn.connection, before, h.conn.instance)
	h.conn.mu.Unlock()
	phase := record.PhaseSend
	inTime := h.conn.ask(a, func() { h.answer(q) })
	if inTime {
		phase = record.PhaseFirstByte
		inTime = a.wait(a.by(a.limits.FirstByteNs), q.done, nil)
	}
	if !inTime && h.withdraw(q) {
		a.end(a.overdue(phase))
		u.drop(h)
		h.retire(true)
		return true
	}
	<-q.done
	switch {
	case q.answeredNs != 0:
		a.Status = 0
		a.endAt(request.End{Kind: request.EndAnswered, Phase: record.PhaseDone}, q.answeredNs)
	case q.inOrder:
		return false
	default:
		a.Status = q.lost.Status
		a.endAt(q.lost.End, q.lost.EndedNs)
	}
	return true
}

// put adds a question; before is how many exchanges the connection had carried. False where the stream has ended, or takes no more.
func (h *heldStream) put(q *question) (before int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.retired {
		return 0, false
	}
	h.asked[q] = true
	h.carried++
	return h.carried - 1, true
}

// answer is the acknowledgement of a question, which may come too late.
func (h *heldStream) answer(q *question) {
	if h.withdraw(q) {
		q.answeredNs = clock.MonoNs()
		close(q.done)
		h.retire(false)
	}
}

// retire closes the connection of a stream that takes no further exchanges, after the last one under way.
func (h *heldStream) retire(late bool) {
	h.mu.Lock()
	h.retired = h.retired || late
	idle := h.retired && len(h.asked) == 0
	h.mu.Unlock()
	if idle {
		h.conn.close()
	}
}

// withdraw takes a question out; false where it has ended already.
func (h *heldStream) withdraw(q *question) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	open := h.asked[q]
	delete(h.asked, q)
	return open
}

// watch waits for the end of an open stream, and says whose loss it is.
func (s *streamSender) watch(u *holder, h *heldStream, user int) {
	<-h.stream.done
	defer h.conn.close()
	if s.closing.Load() {
		return
	}
	u.drop(h)
	r, inOrder := s.endOf(h, user)
	h.mu.Lock()
	h.over = true
	asked, retired := h.asked, h.retired
	h.asked = nil
	h.mu.Unlock()
	if inOrder && !retired {
		u.gone.add() // before those wake that open the next
	}
	for q := range asked {
		q.inOrder, q.lost = inOrder, r
		close(q.done)
	}
	if !inOrder && !retired && len(asked) == 0 {
		s.result(r)
	}
}

// endOf is the end of a stream as a result of its own.
func (s *streamSender) endOf(h *heldStream, user int) (r request.Result, inOrder bool) {
	c, st := h.conn, h.stream
	a := newAttempt(s.plan, user, st.endedNs)
	h.mu.Lock()
	carried := h.carried
	h.mu.Unlock()
	c.mu.Lock()
	a.on(c.connection, carried, c.instance)
	inOrder = c.goaway && c.orderly
	c.mu.Unlock()
	a.took(st)
	a.SentNs = a.EndedNs
	if a.End.Kind == request.EndAnswered {
		judgeStatus(a, &st.reply)
	}
	if a.End.Kind == request.EndAnswered {
		return a.Result, inOrder || request.Expected(s.plan.Expect, a.Status)
	}
	a.End.Phase = record.PhaseFirstByte // of an exchange: the stream's own header came long ago
	return a.Result, inOrder
}

func (s *streamSender) close() {
	s.closing.Store(true)
	for i := range s.users {
		u := &s.users[i]
		u.mu.Lock()
		h := u.now
		u.mu.Unlock()
		if h != nil {
			h.conn.close()
		}
	}
	s.waiting.Wait()
}
