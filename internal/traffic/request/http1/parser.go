package http1

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// ErrMalformed: the bytes are no HTTP/1.x response.
var ErrMalformed = errors.New("not an HTTP/1.x response")

// What can be wrong, made once: an error costs nothing and carries no byte of the response.
var (
	errStatusLine = malformed("its status line")
	errSwitching  = malformed("it switches protocols, which was not asked for")
	errField      = malformed("a header field")
	errTooLarge   = malformed("its header is larger than 64 KiB")
	errLength     = malformed("its Content-Length")
	errChunk      = malformed("a chunk")
)

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// maxHeader bounds a header with all interim responses before it, a line of a
// chunk's size, and a trailer: what real servers accept from clients is 8 to 64 KiB.
const maxHeader = 64 << 10

// keptLine is how large a buffer for a line in pieces may stay with its parser.
const keptLine = 4 << 10

type state uint8

const (
	inStatus state = iota
	inHeader
	inLength  // a body of known length
	inSize    // the line with a chunk's size
	inChunk   // a chunk's data
	inEnd     // the line end after a chunk's data
	inTrailer // the fields after the last chunk
	inRest    // a body that ends with the connection
	whole
	broken
)

// Parser reads one response after another. The zero value is not ready: call Reset for each request.
type Parser struct {
	// Status is known once HeaderDone.
	Status     int
	HeaderDone bool
	// KeepAlive: the connection may carry another request after this response. Known once HeaderDone.
	KeepAlive bool
	// Bytes of the response that were consumed, interim responses included.
	Bytes int64
	// Instance is the value of the header that NewParser was told; empty without. It is valid until the next Feed or Reset.
	Instance []byte

	name []byte // of the instance header, in lower case
	line []byte // the begin of a line whose end has not come
	// room is how much of maxHeader is left.
	room  int
	left  int64 // of the body or chunk
	state state
	err   error

	head    bool // the request was HEAD
	old     bool // HTTP/1.0
	close   bool // Connection: close
	keep    bool // Connection: keep-alive
	hasLen  bool
	length  int64
	encoded bool // Transfer-Encoding was there
	chunked bool // and its last coding is chunked
	interim bool // an interim response is being read
}

// NewParser makes a parser that notices the header instanceHeader (any case); empty for none.
func NewParser(instanceHeader string) *Parser {
	return &Parser{name: bytes.ToLower([]byte(instanceHeader))}
}

// Reset expects the response to a request of that method.
func (p *Parser) Reset(method string) {
	line, instance := p.line[:0], p.Instance[:0]
	if cap(line) > keptLine {
		line = nil
	}
	*p = Parser{name: p.name, line: line, Instance: instance, room: maxHeader, head: method == "HEAD"}
}

// Feed takes bytes: n were consumed, done says that the response is whole. Interim responses (1xx) are passed over. Errors wrap ErrMalformed.
func (p *Parser) Feed(b []byte) (n int, done bool, err error) {
	for n < len(b) && p.state < whole {
		took, err := p.step(b[n:])
		n += took
		p.Bytes += int64(took)
		if err != nil {
			p.state, p.err = broken, err
		}
	}
	return n, p.state == whole, p.err
}

// EOF says whether the response is whole if the connection ends here (a body without length is).
func (p *Parser) EOF() (done bool) { return p.state == whole || p.state == inRest }

// step takes the next piece of b, at least one byte.
func (p *Parser) step(b []byte) (n int, err error) {
	switch p.state {
	case inLength, inChunk:
		took := min(int64(len(b)), p.left)
		p.left -= took
		if p.left == 0 {
			if p.state == inChunk {
				p.state, p.room = inEnd, maxHeader
			} else {
				p.state = whole
			}
		}
		return int(took), nil
	case inRest:
		return len(b), nil
	}
	line, n, ok := p.cut(b)
	if !ok {
		if p.room < 0 {
			return n, errTooLarge
		}
		// What cannot become a status line is told at once: a server of another protocol may never send a line's end.
		if p.state == inStatus && !bytes.HasPrefix(version, p.line[:min(len(p.line), len(version))]) {
			return n, errStatusLine
		}
		return n, nil
	}
	if p.room < 0 {
		return n, errTooLarge
	}
	switch p.state {
	case inStatus:
		return n, p.statusLine(line)
	case inHeader:
		if len(line) == 0 {
			return n, p.headerEnd()
		}
		return n, p.field(line)
	case inSize:
		return n, p.chunkSize(line)
	case inEnd:
		p.state, p.room = inSize, maxHeader
		if len(line) != 0 {
			return n, errChunk
		}
		return n, nil
	default: // inTrailer
		if len(line) == 0 {
			p.state = whole
			return n, nil
		}
		_, _, err := split(line)
		return n, err
	}
}

// cut takes a line without its end from b, with what had come of it before; ok is false where its end has not come.
// A line may end with LF alone (RFC 9112, 2.2).
func (p *Parser) cut(b []byte) (line []byte, n int, ok bool) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		n = min(len(b), p.room+1) // no more than shows that it is too much
		p.line = append(p.line, b[:n]...)
		p.room -= n
		return nil, n, false
	}
	line = b[:end]
	if len(p.line) > 0 {
		line = append(p.line, line...)
		p.line = line[:0]
	}
	p.room -= end + 1
	return bytes.TrimSuffix(line, []byte{'\r'}), end + 1, true
}

var version = []byte("HTTP/1.")

// statusLine reads HTTP/1.x NNN and an optional reason (RFC 9112, 4).
func (p *Parser) statusLine(line []byte) error {
	const least = len("HTTP/1.1 200")
	if len(line) < least || !bytes.HasPrefix(line, version) || line[8] != ' ' || (line[7] != '0' && line[7] != '1') || !text(line) {
		return errStatusLine
	}
	code, ok := decimal(line[9:least])
	if !ok || code < 100 || len(line) > least && line[least] != ' ' {
		return errStatusLine
	}
	if code == 101 {
		return errSwitching
	}
	p.Status, p.old, p.interim = int(code), line[7] == '0', code < 200
	p.state = inHeader
	return nil
}

// field reads one header field and what it says of the framing.
func (p *Parser) field(line []byte) error {
	name, value, err := split(line)
	if err != nil || p.interim {
		return err
	}
	if len(p.name) > 0 && same(name, p.name) {
		p.Instance = append(p.Instance[:0], value...)
	}
	switch {
	case same(name, contentLength):
		return p.contentLength(value)
	case same(name, transferEncoding):
		p.encoded = true
		for token := range tokens(value) {
			p.chunked = same(token, chunkedToken)
		}
	case same(name, connection):
		for token := range tokens(value) {
			p.close = p.close || same(token, closeToken)
			p.keep = p.keep || same(token, keepAliveToken)
		}
	}
	return nil
}

var (
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
	connection       = []byte("connection")
	chunkedToken     = []byte("chunked")
	closeToken       = []byte("close")
	keepAliveToken   = []byte("keep-alive")
)

// contentLength takes a length; the same one may be said more than once, in one field or several (RFC 9110, 8.6).
func (p *Parser) contentLength(value []byte) error {
	found := false
	for token := range tokens(value) {
		length, ok := decimal(token)
		if !ok || p.hasLen && length != p.length {
			return errLength
		}
		p.length, p.hasLen, found = length, true, true
	}
	if !found {
		return errLength
	}
	return nil
}

// headerEnd decides how the body ends (RFC 9112, 6.3) and whether the connection stays (9.3).
func (p *Parser) headerEnd() error {
	if p.interim {
		p.Status, p.state = 0, inStatus
		return nil
	}
	p.HeaderDone = true
	p.KeepAlive = !p.close && (p.keep || !p.old)
	switch {
	case p.head || p.Status == 204 || p.Status == 304:
		p.state = whole
	case p.chunked:
		p.state, p.room = inSize, maxHeader
		// An HTTP/1.0 server that says chunked passes on what it does not understand (6.1).
		p.KeepAlive = p.KeepAlive && !p.old
	case p.encoded || !p.hasLen:
		p.state, p.KeepAlive = inRest, false
	case p.length == 0:
		p.state = whole
	default:
		p.state, p.left = inLength, p.length
	}
	return nil
}

// chunkSize reads a size in hex; extensions after a semicolon are passed over (RFC 9112, 7.1).
func (p *Parser) chunkSize(line []byte) error {
	digits, extension, _ := bytes.Cut(line, []byte{';'})
	digits = bytes.TrimRight(digits, " \t") // some servers pad it
	size, ok := hexadecimal(digits)
	if !ok || !text(extension) {
		return errChunk
	}
	p.left, p.state = size, inChunk
	if size == 0 {
		p.state, p.room = inTrailer, maxHeader
	}
	return nil
}

// split reads name: value. White space before the colon and folded lines are refused (RFC 9112, 5.1 and 5.2).
func split(line []byte) (name, value []byte, err error) {
	name, value, found := bytes.Cut(line, []byte{':'})
	if !found || len(name) == 0 || !text(value) {
		return nil, nil, errField
	}
	for _, c := range name {
		if !tokenByte[c] {
			return nil, nil, errField
		}
	}
	return name, bytes.Trim(value, " \t"), nil
}

// text refuses what no line may hold: CR and NUL (RFC 9110, 5.5).
func text(b []byte) bool { return bytes.IndexByte(b, '\r') < 0 && bytes.IndexByte(b, 0) < 0 }

// tokenByte are the bytes of a token (RFC 9110, 5.6.2).
var tokenByte = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

// tokens gives the members of a list, without empty ones (RFC 9110, 5.6.1).
func tokens(list []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(list) > 0 {
			token, rest, _ := bytes.Cut(list, []byte{','})
			list = rest
			if token = bytes.Trim(token, " \t"); len(token) > 0 && !yield(token) {
				return
			}
		}
	}
}

// same compares in ASCII, b in any case, with lower.
func same(b, lower []byte) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func decimal(b []byte) (v int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' || v > (math.MaxInt64-9)/10 {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, len(b) > 0
}

func hexadecimal(b []byte) (v int64, ok bool) {
	for _, c := range b {
		var digit byte
		switch {
		case '0' <= c && c <= '9':
			digit = c - '0'
		case 'a' <= c && c <= 'f':
			digit = c - 'a' + 10
		case 'A' <= c && c <= 'F':
			digit = c - 'A' + 10
		default:
			return 0, false
		}
		if v > math.MaxInt64>>4 {
			return 0, false
		}
		v = v<<4 | int64(digit)
	}
	return v, len(b) > 0
}
