package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// What the client lets a server send before it must wait: enough that no
// window delays a response. Credit goes back when half of it is used.
const (
	streamWindow     = 1 << 20
	connectionWindow = 1 << 24
)

// maxHeader bounds a response's header, uncompressed: what HTTP/1.1's may have here as well.
const maxHeader = 64 << 10

// The values of RFC 9113, 6.5.2 and 6.9.2, until the server's SETTINGS say otherwise, and the highest stream (5.1.1).
const (
	defaultWindow = 65_535
	defaultFrame  = 16_384
	lastStream    = math.MaxInt32
)

// h2Conn is one HTTP/2 connection (RFC 9113). One goroutine reads it; whoever opens a stream writes.
type h2Conn struct {
	*connection
	limits         request.Limits
	instanceHeader string // in lower case
	events         h2Events

	// writing is held by who writes, in it or in out, block and encoder.
	writing chan struct{}
	framer  *http2.Framer // reading frames is the reader's alone
	out     *bufio.Writer
	block   bytes.Buffer
	encoder *hpack.Encoder

	mu      sync.Mutex
	streams map[uint32]*h2Stream
	// active are the streams, and those that will be.
	active int
	// carried is how many were begun, and next the id of the one to come.
	carried  int
	next     uint32
	instance string // that answered last
	// settled: the server's SETTINGS have come. most, initial and frame are from them.
	settled       bool
	most          uint32
	initial       int64
	frame         int64
	window        int64
	room          chan struct{} // closed and made anew when a window has grown
	uncredited    int64
	acks          []func() // one for each SETTINGS that the server has not acknowledged; it may be nil
	goaway        bool     // announced to end
	orderly       bool     // by NO_ERROR
	over          bool     // events.ended was called
	end           *request.End
	refusedToSend string // the errno with which a write failed; what that means, reading tells
}

// h2Events tell a connection's owner; they are called without its lock.
type h2Events struct {
	// settled: the server's SETTINGS have come. Called at most once, by the reader.
	settled func()
	// ended: no stream can be opened any more. Called once, at a GOAWAY or at the end.
	ended func(inOrder bool)
}

// newH2 begins to speak HTTP/2; the caller runs read.
func newH2(c *connection, p request.Plan, events h2Events) *h2Conn {
	h := &h2Conn{
		connection: c, limits: p.Limits, instanceHeader: strings.ToLower(p.InstanceHeader), events: events, writing: make(chan struct{}, 1), out: bufio.NewWriter(c),
		streams: map[uint32]*h2Stream{}, next: 1, most: math.MaxUint32, initial: defaultWindow, frame: defaultFrame, window: defaultWindow,
		room: make(chan struct{}), acks: []func(){nil},
	}
	h.encoder = hpack.NewEncoder(&h.block)
	h.framer = http2.NewFramer(h.out, bufio.NewReader(c))
	h.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.framer.MaxHeaderListSize = maxHeader
	h.framer.SetMaxReadFrameSize(defaultFrame)
	h.framer.SetReuseFrames()
	// Into the buffer, and out with the first request. Nothing of it can fail before the buffer is full.
	_, _ = h.out.WriteString(http2.ClientPreface)
	_ = h.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow})
	_ = h.framer.WriteWindowUpdate(0, connectionWindow-defaultWindow)
	return h
}

// reserve gives a stream to be opened, or nil where the connection takes none now. Before the server's SETTINGS only the first is given.
func (c *h2Conn) reserve(first bool) *h2Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil || c.goaway || !c.settled && !first || uint64(c.active) >= uint64(c.most) || c.next > lastStream-2*uint32(c.active) {
		return nil
	}
	c.active++
	return &h2Stream{first: make(chan struct{}), done: make(chan struct{}), reply: reply{length: -1}}
}

// write lets f write frames, of st if that is not nil, and sends them; false where others wrote until the time was
// over, or ctx ended. What comes of an error, the streams show.
func (c *h2Conn) write(ctx context.Context, until time.Time, st *h2Stream, f func() error) bool {
	select {
	case c.writing <- struct{}{}:
	default:
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case c.writing <- struct{}{}:
		case <-timer.C:
			c.unsent(st, "")
			return false
		case <-ctx.Done():
			c.unsent(st, "")
			return false
		}
	}
	defer func() { <-c.writing }()
	_ = c.SetWriteDeadline(until)
	err := f()
	if err == nil {
		err = c.out.Flush()
	}
	if err == nil {
		return true
	}
	errno, refused := errors.AsType[syscall.Errno](err)
	name := ""
	if refused {
		name = request.Symbol(errno)
	}
	c.unsent(st, name)
	if !refused {
		c.die(endOf(err, record.PhaseSend)) // half a frame is out, and nothing can follow it
	}
	// Otherwise the reader ends the connection: the server may have answered and said goodbye before it closed.
	return true
}

// unsent takes back that st was sent, and notes the errno of the first write that was refused.
func (c *h2Conn) unsent(st *h2Stream, errno string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st != nil {
		st.sent = false
	}
	if c.refusedToSend == "" {
		c.refusedToSend = errno
	}
}

// control writes what the protocol demands of the reader.
func (c *h2Conn) control(f func() error) {
	if !c.write(context.Background(), time.Now().Add(time.Duration(c.limits.WholeNs)), nil, f) {
		c.die(request.End{Kind: request.EndTimeout})
	}
}

// open begins st on the wire. It is false where a has ended, or where the connection has and nothing was sent: then another may be tried.
func (c *h2Conn) open(a *attempt, st *h2Stream, fields []hpack.HeaderField, last bool) bool {
	began := false
	written := c.write(a.ctx, a.until, st, func() error {
		if began = c.enter(a, st, last); !began {
			return nil
		}
		c.block.Reset()
		for _, f := range fields {
			if err := c.encoder.WriteField(f); err != nil {
				return err
			}
		}
		return c.headers(st.id, c.block.Bytes(), last)
	})
	if began {
		return true
	}
	c.mu.Lock()
	c.active--
	c.mu.Unlock()
	c.retire()
	if !written {
		a.end(a.overdue(record.PhaseSend))
	}
	return false
}

// enter gives st its number. Where the connection has ended before it carried anything, a ends with it: only a
// connection that was good once is worth a second try, or a server that closes each one at once would be asked for ever.
func (c *h2Conn) enter(a *attempt, st *h2Stream, last bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil || c.goaway {
		if c.carried == 0 {
			a.on(c.connection, 0, "")
			a.end(c.unborn())
		}
		return false
	}
	st.id, st.window, st.closing, st.sent = c.next, c.initial, last, last
	a.on(c.connection, c.carried, c.instance)
	c.next += 2
	c.carried++
	c.streams[st.id] = st
	return true
}

// unborn is the end of a request that waited for this connection; the caller holds mu.
func (c *h2Conn) unborn() request.End {
	if c.end == nil {
		return request.End{Kind: request.EndGoaway, Phase: record.PhaseSend, Message: "GOAWAY before any request"}
	}
	e := *c.end
	e.Phase = record.PhaseSend
	return e
}

// headers writes one header block in as many frames as it needs.
func (c *h2Conn) headers(id uint32, block []byte, last bool) error {
	c.mu.Lock()
	frame := int(c.frame)
	c.mu.Unlock()
	n := min(len(block), frame)
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:n], EndStream: last, EndHeaders: n == len(block)})
	for block = block[n:]; err == nil && len(block) > 0; block = block[n:] {
		n = min(len(block), frame)
		err = c.framer.WriteContinuation(id, n == len(block), block[:n])
	}
	return err
}

// send writes b as the server's windows allow; false where the time was over before.
func (c *h2Conn) send(a *attempt, st *h2Stream, b []byte, last bool) bool {
	for {
		c.mu.Lock()
		n := min(int64(len(b)), c.window, st.window, c.frame)
		room, ended := c.room, st.end.Kind != ""
		all := n == int64(len(b))
		if !ended && (n > 0 || all) {
			c.window -= n
			st.window -= n
			st.closing = st.closing || all && last
			st.sent = all // said before it is, or the answer might come first
		}
		c.mu.Unlock()
		switch {
		case ended:
			return true // early answers too
		case n <= 0 && !all:
			if !a.wait(a.until, room, st.done) {
				return false
			}
			continue
		}
		if !c.write(a.ctx, a.until, st, func() error { return c.framer.WriteData(st.id, all && last, b[:n]) }) {
			return false
		}
		if b = b[n:]; all {
			return true
		}
	}
}

// ask sends SETTINGS without content; acknowledged is called by the reader. False where the time was over before.
func (c *h2Conn) ask(a *attempt, acknowledged func()) bool {
	return c.write(a.ctx, a.until, nil, func() error {
		c.mu.Lock()
		c.acks = append(c.acks, acknowledged)
		c.mu.Unlock()
		return c.framer.WriteSettings()
	})
}

// abandon ends st by the client's will, unless it has ended; later tells the server, and may take a while.
func (c *h2Conn) abandon(st *h2Stream, e request.End) (later func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.end.Kind != "" {
		return func() {}
	}
	c.finish(st, e, clock.MonoNs())
	return func() {
		c.control(func() error { return c.framer.WriteRSTStream(st.id, http2.ErrCodeCancel) })
		c.retire()
	}
}

// finish ends one stream; the caller holds mu.
func (c *h2Conn) finish(st *h2Stream, e request.End, ns int64) {
	delete(c.streams, st.id)
	c.active--
	e.Phase = st.phase()
	if e.Kind == request.EndAnswered {
		e.Phase = record.PhaseDone
	}
	st.end, st.endedNs = e, ns
	st.answerBegan()
	close(st.done)
}

// retire closes a connection that was announced to end, once nothing is under way on it.
func (c *h2Conn) retire() {
	c.mu.Lock()
	idle := c.goaway && c.active == 0
	c.mu.Unlock()
	if idle {
		c.close()
	}
}

// close lets go of the connection by the client's will.
func (c *h2Conn) close() { c.die(limitEnd(record.PhaseSend, "closed by the client")) }

// dieUnborn ends a connection on which the server has not said a word yet.
func (c *h2Conn) dieUnborn() {
	c.mu.Lock()
	unborn := !c.settled
	c.mu.Unlock()
	if unborn {
		c.die(request.End{Kind: request.EndTimeout})
	}
}

// die ends the connection and every stream on it.
func (c *h2Conn) die(e request.End) {
	now := clock.MonoNs()
	c.mu.Lock()
	if c.end != nil {
		c.mu.Unlock()
		return
	}
	if e.Kind == request.EndEOF && c.refusedToSend != "" {
		e = request.End{Kind: request.EndErrno, Errno: c.refusedToSend}
	}
	c.end = &e
	inOrder := len(c.streams) == 0 && c.carried > 0
	for _, st := range c.streams {
		c.finish(st, e, now)
	}
	c.mu.Unlock()
	_ = c.tcp.Close()
	c.ended(inOrder)
}

// ended tells the owner, once.
func (c *h2Conn) ended(inOrder bool) {
	c.mu.Lock()
	told := c.over
	c.over = true
	c.mu.Unlock()
	if !told {
		c.events.ended(inOrder)
	}
}
