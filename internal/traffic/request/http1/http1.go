// Package http1 writes HTTP/1.1 requests and reads responses from bytes as they
// come (RFC 9112), without allocating for each. It does no input or output.
//
// It must not know sockets, schedules or outcomes.
package http1

import (
	"strconv"
	"strings"
)

// Header is one request header.
type Header struct{ Name, Value string }

// AppendRequest writes one request: the request line, Host, the headers, Content-Length where there is
// a body or the method demands it, Connection: close if close. Headers that say the same (Host, Content-Length,
// Transfer-Encoding, Connection) are left out, so that what is written once is never said twice. Everything else stands as given.
func AppendRequest(b []byte, method, path, host string, headers []Header, body []byte, close bool) []byte {
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendField(b, "Host", host)
	for _, h := range headers {
		if !framing(h.Name) {
			b = appendField(b, h.Name, h.Value)
		}
	}
	if len(body) > 0 || announcesBody(method) {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(body)), 10)
		b = append(b, "\r\n"...)
	}
	if close {
		b = appendField(b, "Connection", "close")
	}
	b = append(b, "\r\n"...)
	return append(b, body...)
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}

// framing tells the fields that say where a message goes, where it ends and what follows it.
func framing(name string) bool {
	for _, f := range []string{"Host", "Content-Length", "Transfer-Encoding", "Connection"} {
		if strings.EqualFold(name, f) {
			return true
		}
	}
	return false
}

// announcesBody tells the methods whose requests say Content-Length: 0 as well (RFC 9110, 8.6).
func announcesBody(method string) bool {
	return method == "POST" || method == "PUT" || method == "PATCH"
}
