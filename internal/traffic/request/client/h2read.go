package client

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"golang.org/x/net/http2"

	"github.com/drainproof/drainproof/internal/clock"
	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// h2Stream is one request on an HTTP/2 connection, whose lock guards it until done is closed.
type h2Stream struct {
	id     uint32
	window int64 // of the server, for the request's body
	// closing: the request's end is written. sent: so is all there is to send until an answer comes.
	closing, sent bool
	// began: something of the response has come. headed: its header.
	began, headed bool
	uncredited    int64
	reply         reply
	// first is closed with the response's header, or at the end; done at the end. end and endedNs are valid then.
	first, done chan struct{}
	end         request.End
	endedNs     int64
}

// reply is what a response said.
type reply struct {
	status int
	// length is Content-Length, or -1; data the bytes of the body that came, and bytes those of frames with header and body.
	length, data, bytes int64
	instance            string
	// grpcStatus and grpcMessage are as written, in a trailer or a header that ends the stream.
	grpcStatus, grpcMessage string
	// prefix are the first bytes of the body: of a gRPC message, what says its length.
	prefix []byte
}

// phase is how far it has come.
func (s *h2Stream) phase() record.RequestPhase {
	switch {
	case s.began:
		return record.PhaseBody
	case s.sent:
		return record.PhaseFirstByte
	default:
		return record.PhaseSend
	}
}

// answerBegan closes first, once. Only with the connection's lock.
func (s *h2Stream) answerBegan() {
	select {
	case <-s.first:
	default:
		close(s.first)
	}
}

// broken is what a peer did against the protocol, to the whole connection.
type broken string

func (b broken) Error() string { return string(b) }

// read takes frames until the connection ends.
func (c *h2Conn) read() {
	for {
		f, err := c.framer.ReadFrame()
		if stream, ok := errors.AsType[http2.StreamError](err); ok {
			c.malformed(stream)
			continue
		}
		if err == nil {
			err = c.take(f)
		}
		if err != nil {
			c.die(readEnd(err))
			return
		}
		c.retire()
	}
}

// readEnd tells what is no HTTP/2 from a connection that ended.
func readEnd(err error) request.End {
	if why, ok := errors.AsType[broken](err); ok {
		return badAnswer(record.PhaseFirstByte, string(why))
	}
	if code, ok := errors.AsType[http2.ConnectionError](err); ok {
		return badAnswer(record.PhaseFirstByte, "HTTP/2: "+http2.ErrCode(code).String())
	}
	if errors.Is(err, http2.ErrFrameTooLarge) {
		return badAnswer(record.PhaseFirstByte, "no HTTP/2: a frame that is too large")
	}
	return endOf(err, record.PhaseFirstByte)
}

// malformed ends one stream whose header is against the protocol.
func (c *h2Conn) malformed(e http2.StreamError) {
	c.mu.Lock()
	if st := c.streams[e.StreamID]; st != nil {
		st.began = true
		c.finish(st, badAnswer("", fmt.Sprintf("HTTP/2: %v", e.Cause)), clock.MonoNs())
	}
	c.mu.Unlock()
	c.control(func() error { return c.framer.WriteRSTStream(e.StreamID, e.Code) })
}

func (c *h2Conn) take(f http2.Frame) error {
	if _, ok := f.(*http2.SettingsFrame); !ok && !c.settled { // only the reader writes settled
		return broken("no HTTP/2: it does not begin with SETTINGS")
	}
	switch f := f.(type) {
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.MetaHeadersFrame:
		c.header(f)
	case *http2.DataFrame:
		return c.data(f)
	case *http2.RSTStreamFrame:
		c.reset(f)
	case *http2.GoAwayFrame:
		c.goingAway(f)
	case *http2.WindowUpdateFrame:
		return c.grow(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			data := f.Data
			c.control(func() error { return c.framer.WritePing(true, data) })
		}
	case *http2.PushPromiseFrame:
		return broken("HTTP/2: a push, which was forbidden")
	}
	return nil
}

func (c *h2Conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		c.mu.Lock()
		if len(c.acks) == 0 {
			c.mu.Unlock()
			return broken("HTTP/2: SETTINGS acknowledged that were not sent")
		}
		acknowledged := c.acks[0]
		c.acks = c.acks[1:]
		c.mu.Unlock()
		if acknowledged != nil {
			acknowledged()
		}
		return nil
	}
	table := uint32(math.MaxUint32)
	c.mu.Lock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			c.most = s.Val
		case http2.SettingMaxFrameSize:
			c.frame = int64(s.Val)
		case http2.SettingHeaderTableSize:
			table = s.Val
		case http2.SettingInitialWindowSize:
			for _, st := range c.streams {
				st.window += int64(s.Val) - c.initial
			}
			c.initial = int64(s.Val)
			c.moreRoom()
		}
		return nil
	})
	first := !c.settled
	c.settled = true
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.control(func() error {
		c.encoder.SetMaxDynamicTableSizeLimit(table)
		return c.framer.WriteSettingsAck()
	})
	if first {
		c.events.settled()
	}
	return nil
}

// moreRoom wakes those who wait for a window; the caller holds mu.
func (c *h2Conn) moreRoom() {
	close(c.room)
	c.room = make(chan struct{})
}

func (c *h2Conn) grow(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	window := &c.window
	if f.StreamID != 0 {
		st := c.streams[f.StreamID]
		if st == nil {
			return nil // it has ended
		}
		window = &st.window
	}
	*window += int64(f.Increment)
	if *window > math.MaxInt32 {
		return broken("HTTP/2: a window that is too large")
	}
	c.moreRoom()
	return nil
}

// header takes a response's header or trailer, or an interim response.
func (c *h2Conn) header(f *http2.MetaHeadersFrame) {
	c.mu.Lock()
	st := c.streams[f.StreamID]
	if st == nil {
		c.mu.Unlock()
		return // it has ended
	}
	st.began = true
	st.reply.bytes += int64(f.Length)
	why := ""
	switch status, err := strconv.Atoi(f.PseudoValue("status")); {
	case f.Truncated:
		why = "a header larger than 64 KiB"
	case st.headed && (f.PseudoValue("status") != "" || !f.StreamEnded()):
		why = "a second header"
	case st.headed:
	case err != nil || status < 100 || status > 999:
		why = "a header without a status"
	case status < 200 && !f.StreamEnded():
		c.mu.Unlock()
		return
	case status < 200:
		why = "an interim response as the last"
	default:
		st.reply.status, st.headed = status, true
	}
	if why != "" {
		c.finish(st, badAnswer("", "HTTP/2: "+why), clock.MonoNs())
		c.mu.Unlock()
		c.control(func() error { return c.framer.WriteRSTStream(f.StreamID, http2.ErrCodeProtocol) })
		return
	}
	c.fields(st, f)
	st.answerBegan()
	unfinished := f.StreamEnded() && c.whole(st)
	c.mu.Unlock()
	if unfinished {
		c.leaveUnfinished(f.StreamID)
	}
}

// fields notes what of a header or trailer is of use; the caller holds mu.
func (c *h2Conn) fields(st *h2Stream, f *http2.MetaHeadersFrame) {
	for _, h := range f.RegularFields() {
		switch h.Name {
		case "content-length":
			if n, err := strconv.ParseInt(h.Value, 10, 64); err == nil && n >= 0 {
				st.reply.length = n
			}
		case "grpc-status":
			st.reply.grpcStatus = h.Value
		case "grpc-message":
			st.reply.grpcMessage = h.Value
		}
		if h.Name == c.instanceHeader {
			st.reply.instance, c.instance = h.Value, h.Value
		}
	}
}

// whole ends a stream whose response is whole; true where the request is not. The caller holds mu.
func (c *h2Conn) whole(st *h2Stream) (unfinished bool) {
	c.finish(st, request.End{Kind: request.EndAnswered}, clock.MonoNs())
	return !st.closing
}

// leaveUnfinished tells the server that the rest of a request will not come, which it has answered already (RFC 9113, 8.1).
func (c *h2Conn) leaveUnfinished(id uint32) {
	c.control(func() error { return c.framer.WriteRSTStream(id, http2.ErrCodeCancel) })
}

// prefixLen is the length of what precedes a gRPC message: a flag and four bytes of length.
const prefixLen = 5

func (c *h2Conn) data(f *http2.DataFrame) error {
	n := int64(f.Length)
	var ofConnection, ofStream uint32
	unfinished := false
	c.mu.Lock()
	if c.uncredited += n; c.uncredited >= connectionWindow/2 {
		ofConnection, c.uncredited = uint32(c.uncredited), 0
	}
	if st := c.streams[f.StreamID]; st != nil {
		if !st.headed {
			c.mu.Unlock()
			return broken("HTTP/2: a body before its header")
		}
		body := f.Data()
		st.reply.prefix = append(st.reply.prefix, body[:min(len(body), prefixLen-len(st.reply.prefix))]...)
		st.reply.data += int64(len(body))
		st.reply.bytes += n
		if f.StreamEnded() {
			unfinished = c.whole(st)
		} else if st.uncredited += n; st.uncredited >= streamWindow/2 {
			ofStream, st.uncredited = uint32(st.uncredited), 0
		}
	}
	c.mu.Unlock()
	if ofConnection > 0 {
		c.control(func() error { return c.framer.WriteWindowUpdate(0, ofConnection) })
	}
	if ofStream > 0 {
		c.control(func() error { return c.framer.WriteWindowUpdate(f.StreamID, ofStream) })
	}
	if unfinished {
		c.leaveUnfinished(f.StreamID)
	}
	return nil
}

func (c *h2Conn) reset(f *http2.RSTStreamFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.streams[f.StreamID]
	if st == nil {
		return
	}
	kind := request.EndStreamReset
	if f.ErrCode == http2.ErrCodeRefusedStream {
		kind = request.EndGoaway // not taken on (RFC 9113, 8.7)
	}
	c.finish(st, request.End{Kind: kind, Message: f.ErrCode.String()}, clock.MonoNs())
}

// goingAway ends the streams that the server did not take on; the others go on (RFC 9113, 6.8).
func (c *h2Conn) goingAway(f *http2.GoAwayFrame) {
	now := clock.MonoNs()
	message := "GOAWAY " + f.ErrCode.String()
	if debug := f.DebugData(); len(debug) > 0 {
		message = brief(message + ": " + string(debug))
	}
	c.mu.Lock()
	c.goaway = true
	c.orderly = f.ErrCode == http2.ErrCodeNo
	inOrder := c.orderly || len(c.streams) == 0 && c.carried > 0
	for id, st := range c.streams {
		if id > f.LastStreamID {
			c.finish(st, request.End{Kind: request.EndGoaway, Message: message}, now)
		}
	}
	c.mu.Unlock()
	c.ended(inOrder)
}
