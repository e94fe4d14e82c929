// Package http1 writes HTTP/1.1 requests and reads responses from bytes as they
// come (RFC 9112), without allocating for each. It does no input or output.
//
// It must not know sockets, schedules or outcomes.
package http1

import "errors"

// ErrMalformed: the bytes are no HTTP/1.x response.
var ErrMalformed = errors.New("not an HTTP/1.x response")

// Header is one request header.
type Header struct{ Name, Value string }

// AppendRequest writes one request: the request line, Host, the headers, Content-Length where there is
// a body or the method demands it, Connection: close if close.
func AppendRequest(b []byte, method, path, host string, headers []Header, body []byte, close bool) []byte {
	panic("not built yet")
}

// Parser reads one response after another. The zero value is not ready: call Reset for each request.
type Parser struct {
	// Status is known once HeaderDone.
	Status     int
	HeaderDone bool
	// KeepAlive: the connection may carry another request after this response.
	KeepAlive bool
	// Bytes of the response that were consumed.
	Bytes int64
	// Instance is the value of the header that NewParser was told; empty without. It is valid until the next Feed or Reset.
	Instance []byte
}

// NewParser makes a parser that notices the header instanceHeader (any case); empty for none.
func NewParser(instanceHeader string) *Parser { panic("not built yet") }

// Reset expects the response to a request of that method.
func (p *Parser) Reset(method string) { panic("not built yet") }

// Feed takes bytes: n were consumed, done says that the response is whole. Interim responses (1xx) are passed over. Errors wrap ErrMalformed.
func (p *Parser) Feed(b []byte) (n int, done bool, err error) { panic("not built yet") }

// EOF says whether the response is whole if the connection ends here (a body without length is).
func (p *Parser) EOF() (done bool) { panic("not built yet") }
