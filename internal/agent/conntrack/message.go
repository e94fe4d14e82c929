package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Messages of ctnetlink: its number among nfnetlink's subsystems is the upper byte of a message's type.
const (
	subsystem   = 1 // NFNL_SUBSYS_CTNETLINK
	msgNew      = subsystem << 8
	msgGet      = subsystem<<8 | 1
	msgDelete   = subsystem<<8 | 2
	msgGetStats = subsystem<<8 | 5
)

// Flags of a netlink message. The kernel marks the NEW of an entry as a creation; the same type without that mark is an UPDATE.
const (
	flagRequest = 0x001 // NLM_F_REQUEST
	flagAck     = 0x004 // NLM_F_ACK
	flagDump    = 0x300 // NLM_F_DUMP
	flagCreate  = 0x400 // NLM_F_CREATE
)

// Sizes in bytes, of include/uapi/linux/netlink.h and nfnetlink.h.
const (
	headerLen     = 16 // struct nlmsghdr
	familyLen     = 4  // struct nfgenmsg
	attributesAt  = headerLen + familyLen
	attributeHead = 4 // struct nlattr
)

// Attributes of an entry (CTA_*).
const (
	attrOriginal  = 1
	attrReply     = 2
	attrStatus    = 3
	attrProtoInfo = 4
	attrTimeout   = 7
	attrID        = 12
	attrZone      = 18

	// Within attrOriginal and attrReply (CTA_TUPLE_*).
	tupleIP    = 1
	tupleProto = 2
	tupleZone  = 3

	// Within tupleIP (CTA_IP_*).
	ipV4Source      = 1
	ipV4Destination = 2
	ipV6Source      = 3
	ipV6Destination = 4

	// Within tupleProto (CTA_PROTO_*).
	protoNumber      = 1
	protoSource      = 2
	protoDestination = 3

	// Within attrProtoInfo (CTA_PROTOINFO_*), and within that.
	protoInfoTCP      = 1
	protoInfoTCPState = 1
)

// header is a netlink message's, without its length.
type header struct {
	kind, flags uint16
	seq, portID uint32
}

// cutMessage takes the first message off a datagram: its header, what follows the header, and the rest of the datagram.
func cutMessage(b []byte) (h header, payload, rest []byte, err error) {
	if len(b) < headerLen {
		return h, nil, nil, fmt.Errorf("a netlink message of %d bytes is shorter than its header", len(b))
	}
	length := int(binary.NativeEndian.Uint32(b))
	if length < headerLen || length > len(b) {
		return h, nil, nil, fmt.Errorf("a netlink message says that it has %d bytes, of %d that came", length, len(b))
	}
	h = header{
		kind:   binary.NativeEndian.Uint16(b[4:]),
		flags:  binary.NativeEndian.Uint16(b[6:]),
		seq:    binary.NativeEndian.Uint32(b[8:]),
		portID: binary.NativeEndian.Uint32(b[12:]),
	}
	return h, b[headerLen:length], b[min(align(length), len(b)):], nil
}

// align rounds up to the four bytes that messages and attributes begin at.
func align(n int) int { return (n + 3) &^ 3 }

// attributes walks over a sequence of them.
type attributes struct {
	rest  []byte
	kind  uint16
	value []byte
	err   error
}

// next goes to the next attribute; false at the end, or where err says what is wrong.
func (a *attributes) next() bool {
	if len(a.rest) == 0 || a.err != nil {
		return false
	}
	if len(a.rest) < attributeHead {
		a.err = fmt.Errorf("%d bytes after the last attribute", len(a.rest))
		return false
	}
	length := int(binary.NativeEndian.Uint16(a.rest))
	if length < attributeHead || length > len(a.rest) {
		a.err = fmt.Errorf("an attribute says that it has %d bytes, of %d that are left", length, len(a.rest))
		return false
	}
	// The two upper bits are marks (NLA_F_NESTED, NLA_F_NET_BYTEORDER), not of the number.
	a.kind = binary.NativeEndian.Uint16(a.rest[2:]) & 0x3fff
	a.value = a.rest[attributeHead:length]
	a.rest = a.rest[min(align(length), len(a.rest)):]
	return true
}

// integers of attributes are in network byte order; the wrong size is an error of the walk.

func (a *attributes) uint8() uint8 {
	if !a.sized(1) {
		return 0
	}
	return a.value[0]
}

func (a *attributes) uint16() uint16 {
	if !a.sized(2) {
		return 0
	}
	return binary.BigEndian.Uint16(a.value)
}

func (a *attributes) uint32() uint32 {
	if !a.sized(4) {
		return 0
	}
	return binary.BigEndian.Uint32(a.value)
}

func (a *attributes) addr(size int) netip.Addr {
	if !a.sized(size) {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(a.value)
	return addr
}

func (a *attributes) sized(want int) bool {
	if len(a.value) != want && a.err == nil {
		a.err = fmt.Errorf("attribute %d has %d bytes instead of %d", a.kind, len(a.value), want)
	}
	return len(a.value) == want
}

// errNoTuple is an entry without one of its directions: nothing can be said of it.
var errNoTuple = errors.New("a direction without addresses")

// decodeEvent reads the payload of a NEW, UPDATE or DESTROY into e, whose MonoNs it leaves.
func decodeEvent(h header, payload []byte, e *Event) error {
	switch {
	case h.kind == msgDelete:
		e.Kind = Destroy
	case h.kind == msgNew && h.flags&flagCreate != 0:
		e.Kind = New
	case h.kind == msgNew:
		e.Kind = Update
	default:
		return fmt.Errorf("a message of type %#x", h.kind)
	}
	e.PortID = h.portID
	return decodeEntry(payload, &e.Entry)
}

// decodeEntry reads a message's payload into e. It keeps nothing of the payload and allocates only for errors.
func decodeEntry(payload []byte, e *Entry) error {
	*e = Entry{}
	if len(payload) < familyLen {
		return fmt.Errorf("a message of %d bytes is shorter than its family", len(payload))
	}
	all := attributes{rest: payload[familyLen:]}
	for all.next() {
		var err error
		switch all.kind {
		case attrOriginal:
			var zone uint16
			e.Original, e.Protocol, zone, err = decodeTuple(all.value)
			if zone != 0 {
				e.Zone = zone
			}
		case attrReply:
			e.Reply, _, _, err = decodeTuple(all.value)
		case attrZone:
			e.Zone = all.uint16()
		case attrID:
			e.ID = all.uint32()
		case attrStatus:
			e.Status = all.uint32()
		case attrTimeout:
			e.TimeoutS = all.uint32()
		case attrProtoInfo:
			e.TCPState, err = decodeTCPState(all.value)
		}
		if err != nil {
			return err
		}
	}
	if all.err != nil {
		return all.err
	}
	if !e.Original[0].IsValid() || !e.Original[1].IsValid() || !e.Reply[0].IsValid() || !e.Reply[1].IsValid() {
		return errNoTuple
	}
	return nil
}

// decodeTuple reads one direction.
func decodeTuple(b []byte) (ends [2]netip.AddrPort, protocol uint8, zone uint16, err error) {
	var addrs [2]netip.Addr
	var ports [2]uint16
	tuple := attributes{rest: b}
	for tuple.next() {
		parts := attributes{rest: tuple.value}
		switch tuple.kind {
		case tupleIP:
			for parts.next() {
				switch parts.kind {
				case ipV4Source:
					addrs[0] = parts.addr(4)
				case ipV4Destination:
					addrs[1] = parts.addr(4)
				case ipV6Source:
					addrs[0] = parts.addr(16)
				case ipV6Destination:
					addrs[1] = parts.addr(16)
				}
			}
		case tupleProto:
			for parts.next() {
				switch parts.kind {
				case protoNumber:
					protocol = parts.uint8()
				case protoSource:
					ports[0] = parts.uint16()
				case protoDestination:
					ports[1] = parts.uint16()
				}
			}
		case tupleZone:
			zone = tuple.uint16()
		}
		if parts.err != nil {
			return ends, 0, 0, parts.err
		}
	}
	if tuple.err != nil {
		return ends, 0, 0, tuple.err
	}
	for i := range ends {
		ends[i] = netip.AddrPortFrom(addrs[i], ports[i])
	}
	return ends, protocol, zone, nil
}

// decodeTCPState reads conntrack's state of a TCP connection out of what is told of its protocol; 0 for others.
func decodeTCPState(b []byte) (uint8, error) {
	var state uint8
	info := attributes{rest: b}
	for info.next() {
		if info.kind != protoInfoTCP {
			continue
		}
		tcp := attributes{rest: info.value}
		for tcp.next() {
			if tcp.kind == protoInfoTCPState {
				state = tcp.uint8()
			}
		}
		if tcp.err != nil {
			return 0, tcp.err
		}
	}
	return state, info.err
}

// request builds a message without attributes. family is an address family; 0 means all.
func request(kind, flags uint16, seq uint32, family uint8) []byte {
	b := make([]byte, attributesAt)
	binary.NativeEndian.PutUint32(b, attributesAt)
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], flagRequest|flags)
	binary.NativeEndian.PutUint32(b[8:], seq)
	b[headerLen] = family
	return b
}
