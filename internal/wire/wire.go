// Package wire is the language that the probe and the clients of its flows
// speak: one JSON object a line over TCP, one a datagram over UDP, with a
// fixed order of fields so that a person can read it and a fast client need not parse it.
//
//	client  {"type":"ping","seq":12}
//	server  {"type":"hello","instance":"probe-7d9","pod_uid":"c0ff…","promises":"announce"}   once, on a new TCP connection
//	server  {"type":"beat","instance":"probe-7d9","pod_uid":"c0ff…","seq":12}                  the answer to ping 12
//	server  {"type":"tick","instance":"probe-7d9","pod_uid":"c0ff…","seq":3}                   unasked, on an idle connection
//	server  {"type":"draining","instance":"probe-7d9","pod_uid":"c0ff…","closes_in_ms":25000}  at SIGTERM
//	server  {"type":"bye","instance":"probe-7d9","pod_uid":"c0ff…"}                            then the FIN: an orderly end
//
// A server whose hello promises "announce" never ends a stream in order
// without a bye. The conversation is therefore the message: a FIN without a
// bye is inside it.
//
// It must not know sockets, records or any other package of the project.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Type of a message.
type Type string

const (
	Ping     Type = "ping"
	Hello    Type = "hello"
	Beat     Type = "beat"
	Tick     Type = "tick"
	Draining Type = "draining"
	Bye      Type = "bye"
)

// PromiseAnnounce is the value of Hello's promises: orderly ends are announced.
const PromiseAnnounce = "announce"

// MaxMessageBytes bounds a message, newline included; longer ones are refused.
const MaxMessageBytes = 1024

// Message is any of the above, decoded.
type Message struct {
	Type       Type   `json:"type"`
	Instance   string `json:"instance,omitempty"`
	PodUID     string `json:"pod_uid,omitempty"`
	Promises   string `json:"promises,omitempty"`
	Seq        uint64 `json:"seq,omitempty"`
	ClosesInMs int64  `json:"closes_in_ms,omitempty"`
}

// Identity is who answers: the Pod's name and UID.
type Identity struct {
	Instance, PodUID string
	prefix           []byte // of a beat, up to and including "seq":
}

// NewIdentity prepares an identity for many answers.
func NewIdentity(instance, podUID string) *Identity {
	return &Identity{Instance: instance, PodUID: podUID, prefix: beatPrefix(Beat, instance, podUID)}
}

func beatPrefix(t Type, instance, podUID string) []byte {
	q := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	return []byte(`{"type":"` + string(t) + `","instance":` + q(instance) + `,"pod_uid":` + q(podUID) + `,"seq":`)
}

// AppendBeat appends the answer to ping seq, without newline.
func (id *Identity) AppendBeat(dst []byte, seq uint64) []byte {
	dst = append(dst, id.prefix...)
	dst = strconv.AppendUint(dst, seq, 10)
	return append(dst, '}')
}

// Append appends any message with this identity, without newline.
func (id *Identity) Append(dst []byte, m Message) []byte {
	if m.Type == Beat {
		return id.AppendBeat(dst, m.Seq)
	}
	m.Instance, m.PodUID = id.Instance, id.PodUID
	b, err := json.Marshal(m)
	if err != nil {
		panic("wire: a message of plain fields cannot be encoded: " + err.Error())
	}
	return append(dst, b...)
}

// Is reports whether b is this identity's beat, and the seq that it answers,
// without decoding it. ok is false for every other message, also a valid one.
func (id *Identity) Is(b []byte) (seq uint64, ok bool) {
	rest, found := bytes.CutPrefix(b, id.prefix)
	if !found {
		return 0, false
	}
	return digits(rest)
}

var pingPrefix = []byte(`{"type":"ping","seq":`)

// AppendPing appends ping seq, without newline.
func AppendPing(dst []byte, seq uint64) []byte {
	dst = append(dst, pingPrefix...)
	dst = strconv.AppendUint(dst, seq, 10)
	return append(dst, '}')
}

// ParsePing reads a ping in its fixed form; ok is false for anything else.
func ParsePing(b []byte) (seq uint64, ok bool) {
	rest, found := bytes.CutPrefix(b, pingPrefix)
	if !found {
		return 0, false
	}
	return digits(rest)
}

// digits reads a decimal number that ends with one closing brace.
func digits(b []byte) (uint64, bool) {
	if len(b) < 2 || len(b) > 21 || b[len(b)-1] != '}' {
		return 0, false
	}
	var n uint64
	for _, c := range b[:len(b)-1] {
		d := uint64(c - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// Parse decodes one message, without its newline.
func Parse(b []byte) (Message, error) {
	var m Message
	if len(b) > MaxMessageBytes {
		return m, fmt.Errorf("message of %d bytes is over the limit of %d", len(b), MaxMessageBytes)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("decoding message: %w", err)
	}
	switch m.Type {
	case Ping, Hello, Beat, Tick, Draining, Bye:
		return m, nil
	default:
		return m, fmt.Errorf("unknown message type %q", m.Type)
	}
}
