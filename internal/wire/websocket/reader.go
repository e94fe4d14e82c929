package websocket

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"unicode/utf8"
)

const (
	// step bounds how much memory a length alone can claim: more is taken only as bytes really come.
	step = 64 << 10
	// keep bounds the memory that is kept for the next message.
	keep = 64 << 10
)

// Reader takes messages and control frames from a stream of bytes.
type Reader struct {
	in     io.Reader
	masked bool
	// message under way, and its opcode; continuation where there is none.
	message []byte
	kind    Opcode
	control [maxControlBytes]byte
}

// NewReader reads what the other end sends: masked frames where that is a
// client, bare ones where it is a server. in should be buffered, heads are read in pieces of a few bytes.
func NewReader(in io.Reader, masked bool) *Reader { return &Reader{in: in, masked: masked} }

// Next gives the next whole message (Text, Binary) or control frame (Close,
// Ping, Pong), whichever comes first. The payload is good until the call after. A
// *Violation says what the peer did wrong; io.EOF that the stream ended between
// messages, io.ErrUnexpectedEOF that it ended within one.
func (r *Reader) Next() (Opcode, []byte, error) {
	if r.kind == continuation {
		r.message = r.message[:0]
		if cap(r.message) > keep {
			r.message = nil
		}
	}
	for {
		h, err := r.head()
		if err != nil {
			if errors.Is(err, io.EOF) && r.kind != continuation {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
		if h.op.control() {
			b := r.control[:h.length]
			if err := r.fill(b, h, 0); err != nil {
				return 0, nil, err
			}
			if h.op == Close && len(b) == 1 {
				return 0, nil, &Violation{CloseProtocolError, "a close frame with half a code"}
			}
			return h.op, b, nil
		}
		if h.op != continuation {
			r.kind = h.op
		}
		if err := r.gather(h); err != nil {
			return 0, nil, err
		}
		if h.fin {
			kind := r.kind
			r.kind = continuation
			if kind == Text && !utf8.Valid(r.message) {
				return 0, nil, &Violation{CloseBadData, "a text that is not UTF-8"}
			}
			return kind, r.message, nil
		}
	}
}

type head struct {
	fin    bool
	op     Opcode
	length int
	masked bool
	key    [4]byte
}

// head reads and checks what stands before a payload.
func (r *Reader) head() (h head, err error) {
	var b [8]byte
	if _, err := io.ReadFull(r.in, b[:2]); err != nil {
		return h, err
	}
	h.fin, h.op, h.masked = b[0]&finBit != 0, Opcode(b[0]&0x0f), b[1]&maskBit != 0
	reserved := b[0]&0x70 != 0
	length := uint64(b[1] &^ maskBit)
	switch length {
	case length16:
		if err := r.within(b[:2]); err != nil {
			return h, err
		}
		length = uint64(binary.BigEndian.Uint16(b[:2]))
	case length64:
		if err := r.within(b[:8]); err != nil {
			return h, err
		}
		length = binary.BigEndian.Uint64(b[:8])
	}
	if h.masked {
		if err := r.within(h.key[:]); err != nil {
			return h, err
		}
	}
	return h, r.check(&h, reserved, length)
}

// check holds a head to the rules, and sets its length once that is known to be bounded.
func (r *Reader) check(h *head, reserved bool, length uint64) error {
	switch {
	case reserved:
		return &Violation{CloseProtocolError, "a reserved bit is set, but no extension was agreed on"}
	case h.masked != r.masked:
		return &Violation{CloseProtocolError, "a client's frames must be masked, and only those"}
	}
	switch h.op {
	case Close, Ping, Pong:
		if !h.fin || length > maxControlBytes {
			return &Violation{CloseProtocolError, "a control frame that is too long or a fragment"}
		}
	case Text, Binary:
		if r.kind != continuation {
			return &Violation{CloseProtocolError, "a message within the fragments of another"}
		}
	case continuation:
		if r.kind == continuation {
			return &Violation{CloseProtocolError, "a continuation of nothing"}
		}
	default:
		return &Violation{CloseProtocolError, "an unknown opcode"}
	}
	if length > uint64(MaxMessageBytes-len(r.message)) {
		return &Violation{CloseTooBig, "a message over 16 MiB"}
	}
	h.length = int(length)
	return nil
}

// gather appends a frame's payload to the message.
func (r *Reader) gather(h head) error {
	for got := 0; got < h.length; {
		n := min(h.length-got, step)
		from := len(r.message)
		r.message = slices.Grow(r.message, n)[:from+n]
		if err := r.fill(r.message[from:], h, got); err != nil {
			return err
		}
		got += n
	}
	return nil
}

// fill reads a part of a payload, the from-th byte of its frame first.
func (r *Reader) fill(b []byte, h head, from int) error {
	if err := r.within(b); err != nil {
		return err
	}
	if h.masked {
		mask(b, h.key, from)
	}
	return nil
}

// within reads what must come: the end of the stream there is unexpected.
func (r *Reader) within(b []byte) error {
	_, err := io.ReadFull(r.in, b)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
