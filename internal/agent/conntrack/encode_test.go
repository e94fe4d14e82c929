package conntrack

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// attribute encodes one, padded to where the next begins.
func attribute(kind uint16, parts ...[]byte) []byte {
	b := make([]byte, attributeHead)
	for _, p := range parts {
		b = append(b, p...)
	}
	binary.NativeEndian.PutUint16(b, uint16(len(b)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	return append(b, make([]byte, align(len(b))-len(b))...)
}

// nest marks an attribute as a sequence of others.
func nest(kind uint16, parts ...[]byte) []byte { return attribute(kind|0x8000, parts...) }

func be16(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
func be32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// tuple encodes a direction.
func tuple(kind uint16, protocol uint8, ends [2]netip.AddrPort) []byte {
	source, destination := uint16(ipV4Source), uint16(ipV4Destination)
	if ends[0].Addr().Is6() {
		source, destination = ipV6Source, ipV6Destination
	}
	return nest(kind,
		nest(tupleIP, attribute(source, ends[0].Addr().AsSlice()), attribute(destination, ends[1].Addr().AsSlice())),
		nest(tupleProto, attribute(protoNumber, []byte{protocol}), attribute(protoSource, be16(ends[0].Port())), attribute(protoDestination, be16(ends[1].Port()))))
}

// encode builds a message of conntrack.
func encode(kind, flags uint16, portID uint32, parts ...[]byte) []byte {
	b := slices.Concat(append([][]byte{request(kind, 0, 0, 0)}, parts...)...)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[6:], flags)
	binary.NativeEndian.PutUint32(b[12:], portID)
	return b
}

// ends parses a direction's source and destination.
func ends(source, destination string) [2]netip.AddrPort {
	return [2]netip.AddrPort{netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)}
}
