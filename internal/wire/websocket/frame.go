// Package websocket is the framing of RFC 6455: frames, masks, fragments,
// close codes and the handshake's key. Both ends share it: the client that holds
// connections, and the bundled probe.
//
// It must not know sockets, HTTP or any other package of the project.
package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// Opcode says what a frame is (RFC 6455, 5.2).
type Opcode byte

const (
	continuation Opcode = 0
	Text         Opcode = 1
	Binary       Opcode = 2
	Close        Opcode = 8
	Ping         Opcode = 9
	Pong         Opcode = 10
)

// control frames may come between the fragments of a message, and are never fragments.
func (o Opcode) control() bool { return o&8 != 0 }

// Codes of a close frame (RFC 6455, 7.4.1, and the IANA registry that it set up).
const (
	CloseNormal         = 1000
	CloseGoingAway      = 1001
	CloseProtocolError  = 1002
	CloseNoStatus       = 1005 // stands for a frame without a code; never sent
	CloseBadData        = 1007
	CloseTooBig         = 1009
	CloseInternalError  = 1011
	CloseServiceRestart = 1012
	CloseTryAgainLater  = 1013
)

// MaxMessageBytes bounds a message, all of its fragments together.
const MaxMessageBytes = 16 << 20

// maxControlBytes bounds the payload of a control frame (RFC 6455, 5.5).
const maxControlBytes = 125

const (
	finBit  = 0x80
	maskBit = 0x80
	// Two lengths mean that the real one follows, in 2 or in 8 bytes.
	length16 = 126
	length64 = 127
)

// AcceptKey is what a server answers to the Sec-WebSocket-Key of a handshake (RFC 6455, 4.2.2).
func AcceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// AppendFrame appends a whole message or a control frame as a server sends it.
func AppendFrame(dst []byte, op Opcode, payload []byte) []byte {
	return append(appendHead(dst, op, len(payload), 0), payload...)
}

// AppendMasked appends a whole message or a control frame as a client must send it. key is to be new and unforeseeable for each frame.
func AppendMasked(dst []byte, op Opcode, key [4]byte, payload []byte) []byte {
	dst = append(appendHead(dst, op, len(payload), maskBit), key[:]...)
	from := len(dst)
	dst = append(dst, payload...)
	mask(dst[from:], key, 0)
	return dst
}

func appendHead(dst []byte, op Opcode, length int, masked byte) []byte {
	dst = append(dst, finBit|byte(op))
	switch {
	case length < length16:
		return append(dst, masked|byte(length))
	case length <= 0xffff:
		return binary.BigEndian.AppendUint16(append(dst, masked|length16), uint16(length))
	default:
		return binary.BigEndian.AppendUint64(append(dst, masked|length64), uint64(length))
	}
}

// mask masks or unmasks b, whose first byte is the from-th of its frame.
func mask(b []byte, key [4]byte, from int) {
	for i := range b {
		b[i] ^= key[(from+i)&3]
	}
}

// ClosePayload is the payload of a close frame; what of reason is over the limit is left out.
func ClosePayload(code int, reason string) []byte {
	b := append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
	return b[:min(len(b), maxControlBytes)]
}

// CloseCode reads a close frame's payload: CloseNoStatus where it is empty. It does not judge
// the code: a code that nobody may send is told like every other.
func CloseCode(payload []byte) (code int, reason string) {
	if len(payload) < 2 {
		return CloseNoStatus, ""
	}
	return int(binary.BigEndian.Uint16(payload)), string(payload[2:])
}

// Violation is what a peer did against the protocol.
type Violation struct {
	// Code of the close frame that it deserves.
	Code int
	// Why is a short phrase.
	Why string
}

func (v *Violation) Error() string { return fmt.Sprintf("breaks the WebSocket protocol: %s", v.Why) }
