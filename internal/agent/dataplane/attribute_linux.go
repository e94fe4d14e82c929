package dataplane

import (
	"encoding/binary"
	"iter"
)

// attributes goes through netlink attributes (struct nlattr: length and type in the machine's order, padded to four bytes). It ends where the bytes do,
// or at the first that cannot be one. Payloads are not copied.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	const header, flags = 4, 0xc000 // NLA_F_NESTED, NLA_F_NET_BYTEORDER
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= header {
			length := int(binary.NativeEndian.Uint16(b))
			if length < header || length > len(b) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&^flags, b[header:length]) {
				return
			}
			b = b[min((length+3)&^3, len(b)):]
		}
	}
}

// attribute is the first of a type; nil where there is none.
func attribute(b []byte, kind uint16) []byte {
	for k, v := range attributes(b) {
		if k == kind {
			return v
		}
	}
	return nil
}

// number is a 32-bit number as nf_tables writes all of its own: in network order. ok is false where there are not four bytes.
func number(b []byte) (n uint32, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(b), true
}

// numberOf is the number in the attribute of a type, 0 where it is not there, which is what nf_tables means by leaving it out.
func numberOf(b []byte, kind uint16) uint32 {
	n, _ := number(attribute(b, kind))
	return n
}

// appendAttribute appends one attribute. Kinds of nested ones carry unix.NLA_F_NESTED.
func appendAttribute(b []byte, kind uint16, payload []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(payload)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, payload...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// appendText appends one attribute that is a text, with its final zero byte.
func appendText(b []byte, kind uint16, text string) []byte {
	return appendAttribute(b, kind, append([]byte(text), 0))
}
