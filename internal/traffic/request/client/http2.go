package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2/hpack"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// http2Sender sends requests or unary gRPC calls over HTTP/2.
type http2Sender struct {
	dialer   *dialer
	plan     request.Plan
	fields   []hpack.HeaderField // the same every time
	body     []byte
	judge    func(a *attempt, r *reply) // a response that is whole
	users    []group                    // of connections
	replaced func()
	// waiting are the readers, and those that tell servers of requests given up.
	waiting sync.WaitGroup
}

// group is what one user has: one connection, and more where a server allows few streams on each.
type group struct {
	gone    gone
	mu      sync.Mutex
	conns   []*h2Conn
	opening *opening
}

// opening is a connection to be; until its server's SETTINGS are known, only the request that opens it is sent.
type opening struct {
	done chan struct{}
	// failed is how it ended where it came to nothing; valid when done is closed.
	failed request.Result
}

func newHTTP2(p request.Plan, d *dialer, replaced func()) *http2Sender {
	s := &http2Sender{dialer: d, plan: p, users: make([]group, p.Users), replaced: replaced}
	if overGRPC(p.Mode) {
		s.fields, s.body, s.judge = grpcFields(p), grpcMessage(p.Target.Body), judgeUnary
		return s
	}
	s.fields, s.body, s.judge = pseudoFields(p, p.Target.Method), p.Target.Body, judgeHTTP(p.Target.Method)
	s.fields = appendHeaders(s.fields, p.Target.Headers)
	if len(s.body) > 0 {
		s.fields = append(s.fields, hpack.HeaderField{Name: "content-length", Value: strconv.Itoa(len(s.body))})
	}
	return s
}

func pseudoFields(p request.Plan, method string) []hpack.HeaderField {
	return []hpack.HeaderField{
		{Name: ":method", Value: method}, {Name: ":scheme", Value: p.Target.Scheme},
		{Name: ":authority", Value: authority(p.Target)}, {Name: ":path", Value: p.Target.Path},
	}
}

// appendHeaders writes names in lower case, as HTTP/2 demands (RFC 9113, 8.2.1).
func appendHeaders(fields []hpack.HeaderField, headers []request.Header) []hpack.HeaderField {
	for _, h := range headers {
		fields = append(fields, hpack.HeaderField{Name: strings.ToLower(h.Name), Value: h.Value})
	}
	return fields
}

// judgeHTTP takes the status, and refuses a body that is shorter or longer than announced (RFC 9113, 8.1.1).
func judgeHTTP(method string) func(a *attempt, r *reply) {
	return func(a *attempt, r *reply) {
		bodiless := method == "HEAD" || r.status == 204 || r.status == 304
		switch {
		case bodiless || r.length < 0 || r.data == r.length:
			a.Status = r.status
		case r.data < r.length:
			a.End = request.End{Kind: request.EndEOF, Phase: record.PhaseBody, Message: fmt.Sprintf("%d of %d bytes", r.data, r.length)}
		default:
			a.End = badAnswer(record.PhaseBody, fmt.Sprintf("%d bytes where %d were announced", r.data, r.length))
		}
	}
}

func (s *http2Sender) send(a *attempt) {
	for {
		c, st := s.stream(a)
		if st == nil {
			return
		}
		if c.open(a, st, s.fields, len(s.body) == 0) {
			s.exchange(a, c, st)
			return
		}
		if a.End.Kind != "" {
			return
		}
	}
}

// exchange sends the body of an open stream and waits for its end.
func (s *http2Sender) exchange(a *attempt, c *h2Conn, st *h2Stream) {
	inTime := len(s.body) == 0 || c.send(a, st, s.body, true)
	inTime = inTime && a.wait(a.by(a.limits.FirstByteNs), st.first, nil)
	inTime = inTime && a.wait(a.until, st.done, nil)
	if !inTime {
		s.waiting.Go(c.abandon(st, a.overdue("")))
		c.dieUnborn() // what has never said a word is no connection that a library would keep
	}
	a.took(st)
	if a.End.Kind == request.EndAnswered {
		s.judge(a, &st.reply)
	}
}

// took ends a as its stream ended.
func (a *attempt) took(st *h2Stream) {
	a.BytesReceived = st.reply.bytes
	if st.reply.instance != "" || st.end.Kind == request.EndAnswered {
		a.Instance = st.reply.instance // an answer without the header is nobody's: a proxy gave it
	}
	a.endAt(st.end, st.endedNs)
}

// stream gives a stream to be opened on one of the user's connections, or on a new one. It is nil where a has ended.
func (s *http2Sender) stream(a *attempt) (*h2Conn, *h2Stream) {
	g := &s.users[a.User]
	for {
		c, st, o, mine := g.find()
		switch {
		case st != nil:
			return c, st
		case mine:
			return s.connect(a, g, o)
		case !a.wait(a.until, o.done, nil):
			a.end(a.overdue(record.PhaseSend))
			return nil, nil
		case o.failed.End.Kind != "":
			a.as(o.failed)
			return nil, nil
		}
	}
}

// find gives a stream, or else an opening: mine is for the caller to do.
func (g *group) find() (c *h2Conn, st *h2Stream, o *opening, mine bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.conns {
		if st := c.reserve(false); st != nil {
			return c, st, nil, false
		}
	}
	if g.opening == nil {
		g.opening, mine = &opening{done: make(chan struct{})}, true
	}
	return nil, nil, g.opening, mine
}

// connect opens a connection with a as its first request.
func (s *http2Sender) connect(a *attempt, g *group, o *opening) (*h2Conn, *h2Stream) {
	link := s.dialer.dial(a)
	if link == nil {
		g.settle(o, a.Result)
		return nil, nil
	}
	if g.gone.replace() {
		s.replaced()
	}
	var c *h2Conn
	c = newH2(link, s.plan, h2Events{
		settled: func() { g.settle(o, request.Result{}) },
		ended:   func(inOrder bool) { g.lose(o, c, inOrder) },
	})
	st := c.reserve(true)
	g.mu.Lock()
	g.conns = append(g.conns, c)
	g.mu.Unlock()
	s.waiting.Go(c.read)
	return c, st
}

// settle ends an opening, for better or worse.
func (g *group) settle(o *opening, failed request.Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opening != o {
		return // settled already
	}
	g.opening = nil
	o.failed = failed
	close(o.done)
}

// lose takes out a connection that takes no streams any more.
func (g *group) lose(o *opening, c *h2Conn, inOrder bool) {
	c.mu.Lock()
	failed := request.Result{Local: c.local, Remote: c.remote, ConnOpenedNs: c.openedNs, End: c.unborn()}
	c.mu.Unlock()
	g.settle(o, failed)
	if inOrder {
		g.gone.add()
	}
	g.mu.Lock()
	g.conns = slices.DeleteFunc(g.conns, func(other *h2Conn) bool { return other == c })
	g.mu.Unlock()
}

func (s *http2Sender) close() {
	for i := range s.users {
		g := &s.users[i]
		g.mu.Lock()
		conns := slices.Clone(g.conns)
		g.mu.Unlock()
		for _, c := range conns {
			c.close()
		}
	}
	s.waiting.Wait()
}
