package dataplane

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// Rules of nf_tables (linux/netfilter/nf_tables.h). A rule is a row of expressions: some load a part of the packet, a number by chance, or a
// constant into registers, some compare registers, and one may give a verdict or translate. What is loaded is followed through the registers, so that
// each comparison becomes a condition on the field it is about.

// origin is where the content of some registers came from.
type origin struct {
	kind originKind
	// at and length are of a part of a header, in bytes.
	at, length uint32
	// mask is what of it counts; nil is all.
	mask []byte
	// data is a constant.
	data []byte
	// set is the map that was asked.
	set string
}

type originKind uint8

const (
	fromUnknown originKind = iota
	fromNetwork
	fromTransport
	fromProtocol
	fromInterface
	fromSourceType
	fromDestinationType
	fromChance
	fromConstant
	fromMap
)

// word is one of the sixteen 4-byte registers: the at-th word of what came from there.
type word struct {
	from *origin
	at   int
}

// decoder reads the expressions of one rule.
type decoder struct {
	// bits is the length of the family's addresses.
	bits int
	rule rule
	regs [16]word
}

// decodeRule reads the attribute NFTA_RULE_EXPRESSIONS of a rule in a family with addresses of bits.
func decodeRule(expressions []byte, bits int) rule {
	d := decoder{bits: bits}
	for kind, e := range attributes(expressions) {
		if kind != unix.NFTA_LIST_ELEM {
			continue
		}
		d.expression(cString(attribute(e, unix.NFTA_EXPR_NAME)), attribute(e, unix.NFTA_EXPR_DATA))
		if d.rule.do.kind != passes {
			break
		}
	}
	return d.rule
}

func (d *decoder) expression(name string, b []byte) {
	switch name {
	case "payload":
		d.payload(b)
	case "meta":
		d.meta(b)
	case "fib":
		d.fib(b)
	case "numgen":
		d.load(numberOf(b, unix.NFTA_NG_DREG), &origin{kind: fromChance}, 4)
	case "ct", "hash", "rt", "socket", "osf", "exthdr", "byteorder", "tunnel", "xfrm":
		d.forget()
	case "bitwise":
		d.bitwise(b)
	case "immediate":
		d.immediate(b)
	case "cmp":
		d.compare(b)
	case "range":
		d.demand(condition{on: onOther})
	case "lookup":
		d.lookup(b)
	case "nat":
		d.nat(b)
	case "reject":
		d.rule.do = action{kind: rejects}
	case "masq", "redir", "tproxy", "queue", "fwd", "synproxy":
		d.rule.do = action{kind: accepts}
	case "dynset":
		d.rule.affinity = d.rule.affinity || strings.HasPrefix(cString(attribute(b, unix.NFTA_DYNSET_SET_NAME)), affinitySets)
	case "match":
		m := decodeMatch(cString(attribute(b, unix.NFTA_MATCH_NAME)), numberOf(b, unix.NFTA_MATCH_REV), attribute(b, unix.NFTA_MATCH_INFO))
		d.rule.when = append(d.rule.when, m.when...)
		d.rule.affinity = d.rule.affinity || m.affinity
	case "target":
		d.rule.do = decodeTarget(cString(attribute(b, unix.NFTA_TARGET_NAME)), numberOf(b, unix.NFTA_TARGET_REV), attribute(b, unix.NFTA_TARGET_INFO), d.bits)
	case "counter", "objref", "log", "notrack", "last", "dup", "flow_offload", "secmark":
		// They see every packet that reaches them, and let it pass.
	default:
		d.forget()
		d.demand(condition{on: onOther}) // limit, quota, connlimit, or what is new
	}
}

func (d *decoder) demand(c condition) { d.rule.when = append(d.rule.when, c) }

// index is the number of a register's first word: 1 to 4 are of 16 bytes each, 8 to 23 of 4, over the same ones. 0 is the verdict.
func index(register uint32) (int, bool) {
	switch {
	case register >= 1 && register <= 4:
		return int(register-1) * 4, true
	case register >= unix.NFT_REG32_00 && register < unix.NFT_REG32_00+16:
		return int(register - unix.NFT_REG32_00), true
	}
	return 0, false
}

// load notes where length bytes from a register on come from.
func (d *decoder) load(register uint32, from *origin, length int) {
	first, ok := index(register)
	if !ok {
		return
	}
	for i := range min((length+3)/4, len(d.regs)-first) {
		d.regs[first+i] = word{from, i}
	}
}

// forget makes all registers unknown, after an expression whose destination is not followed.
func (d *decoder) forget() { d.regs = [16]word{} }

// content is where a register's content begins to come from; its kind is fromUnknown where it is not the beginning of what was loaded.
func (d *decoder) content(register uint32) *origin {
	if i, ok := index(register); ok && d.regs[i].from != nil && d.regs[i].at == 0 {
		return d.regs[i].from
	}
	return &origin{}
}

func (d *decoder) payload(b []byte) {
	o := &origin{at: numberOf(b, unix.NFTA_PAYLOAD_OFFSET), length: numberOf(b, unix.NFTA_PAYLOAD_LEN)}
	switch numberOf(b, unix.NFTA_PAYLOAD_BASE) {
	case unix.NFT_PAYLOAD_NETWORK_HEADER:
		o.kind = fromNetwork
	case unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		o.kind = fromTransport
	}
	d.load(numberOf(b, unix.NFTA_PAYLOAD_DREG), o, int(min(o.length, 64)))
}

func (d *decoder) meta(b []byte) {
	if attribute(b, unix.NFTA_META_SREG) != nil {
		return // it sets a mark
	}
	o := &origin{}
	length := 4
	switch numberOf(b, unix.NFTA_META_KEY) {
	case unix.NFT_META_L4PROTO:
		o.kind = fromProtocol
	case unix.NFT_META_IIF:
		o.kind = fromInterface
	case unix.NFT_META_IIFNAME:
		o.kind, length = fromInterface, unix.IFNAMSIZ
	case unix.NFT_META_OIFNAME:
		length = unix.IFNAMSIZ
	}
	d.load(numberOf(b, unix.NFTA_META_DREG), o, length)
}

func (d *decoder) fib(b []byte) {
	o := &origin{}
	if numberOf(b, unix.NFTA_FIB_RESULT) == unix.NFT_FIB_RESULT_ADDRTYPE {
		switch numberOf(b, unix.NFTA_FIB_FLAGS) {
		case unix.NFTA_FIB_F_SADDR:
			o.kind = fromSourceType
		case unix.NFTA_FIB_F_DADDR:
			o.kind = fromDestinationType
		}
	}
	d.load(numberOf(b, unix.NFTA_FIB_DREG), o, 4)
}

// bitwise is an address with a mask where nothing is added to it; else what it makes is unknown.
func (d *decoder) bitwise(b []byte) {
	from := *d.content(numberOf(b, unix.NFTA_BITWISE_SREG))
	mask := attribute(attribute(b, unix.NFTA_BITWISE_MASK), unix.NFTA_DATA_VALUE)
	for _, x := range attribute(attribute(b, unix.NFTA_BITWISE_XOR), unix.NFTA_DATA_VALUE) {
		if x != 0 {
			from = origin{}
		}
	}
	if from.mask != nil || from.kind != fromNetwork || uint32(len(mask)) != from.length {
		from = origin{}
	}
	from.mask = mask
	d.load(numberOf(b, unix.NFTA_BITWISE_DREG), &from, int(min(numberOf(b, unix.NFTA_BITWISE_LEN), 64)))
}

func (d *decoder) immediate(b []byte) {
	data := attribute(b, unix.NFTA_IMMEDIATE_DATA)
	if v, ok := decodeVerdict(data); ok {
		d.rule.do = v.action()
		return
	}
	value := attribute(data, unix.NFTA_DATA_VALUE)
	d.load(numberOf(b, unix.NFTA_IMMEDIATE_DREG), &origin{kind: fromConstant, data: value}, len(value))
}

// decodeVerdict reads the attribute that holds data, where these are a verdict.
func decodeVerdict(data []byte) (verdict, bool) {
	v := attribute(data, unix.NFTA_DATA_VERDICT)
	if v == nil {
		return verdict{}, false
	}
	return verdict{code: int32(numberOf(v, unix.NFTA_VERDICT_CODE)), chain: cString(attribute(v, unix.NFTA_VERDICT_CHAIN))}, true
}

// action is what a verdict does.
func (v verdict) action() action {
	const drop, goOn = 0, -1 // NF_DROP, NFT_CONTINUE
	switch v.code {
	case drop:
		return action{kind: drops}
	case goOn:
		return action{kind: passes}
	case unix.NFT_JUMP:
		return action{kind: jumps, chain: v.chain}
	case unix.NFT_GOTO:
		return action{kind: goesTo, chain: v.chain}
	case unix.NFT_RETURN:
		return action{kind: returns}
	}
	return action{kind: accepts}
}

func (d *decoder) compare(b []byte) {
	op := numberOf(b, unix.NFTA_CMP_OP)
	value := attribute(attribute(b, unix.NFTA_CMP_DATA), unix.NFTA_DATA_VALUE)
	c := condition{on: onOther}
	if op == unix.NFT_CMP_EQ || op == unix.NFT_CMP_NEQ {
		c = d.content(numberOf(b, unix.NFTA_CMP_SREG)).equals(value, d.bits)
		c.not = op == unix.NFT_CMP_NEQ
	}
	d.demand(c)
}

// equals is the condition that what came from there has a value.
func (o *origin) equals(value []byte, addressBits int) condition {
	const local = 2 // RTN_LOCAL
	sourceAt, destinationAt, protocolAt := uint32(12), uint32(16), uint32(9)
	if addressBits == 128 {
		sourceAt, destinationAt, protocolAt = 8, 24, 6
	}
	switch {
	case o.kind == fromProtocol && len(value) >= 1, o.kind == fromNetwork && o.at == protocolAt && o.length == 1 && len(value) >= 1:
		return condition{on: onProtocol, from: uint16(value[0]), to: uint16(value[0])}
	case o.kind == fromTransport && o.at == 2 && o.length == 2 && len(value) >= 2:
		port := binary.BigEndian.Uint16(value)
		return condition{on: onPort, from: port, to: port}
	case o.kind == fromInterface:
		return condition{on: onInterface}
	case o.kind == fromSourceType && len(value) >= 4 && binary.NativeEndian.Uint32(value) == local:
		return condition{on: onSourceLocal}
	case o.kind == fromDestinationType && len(value) >= 4 && binary.NativeEndian.Uint32(value) == local:
		return condition{on: onDestinationLocal}
	case o.kind == fromNetwork && (o.at == sourceAt || o.at == destinationAt):
		on := onSource
		if o.at == destinationAt {
			on = onDestination
		}
		if p, ok := prefixOf(value, o.mask, o.length, addressBits); ok {
			return condition{on: on, prefix: p}
		}
	}
	return condition{on: onOther}
}

// prefixOf makes a network from the first length bytes of an address, of which mask counts: nftables loads no more of it than it must.
func prefixOf(value, mask []byte, length uint32, addressBits int) (netip.Prefix, bool) {
	if length == 0 || int(length) > addressBits/8 || len(value) < int(length) {
		return netip.Prefix{}, false
	}
	full := make([]byte, addressBits/8)
	copy(full, value[:length])
	address, _ := netip.AddrFromSlice(full)
	ones := int(length) * 8
	if mask != nil {
		var contiguous bool
		if ones, contiguous = leadingOnes(mask); !contiguous {
			return netip.Prefix{}, false
		}
	}
	return netip.PrefixFrom(address, ones), true
}

// leadingOnes counts the bits set at the beginning of a mask; contiguous is false where others are set too.
func leadingOnes(mask []byte) (n int, contiguous bool) {
	total := 0
	for i, m := range mask {
		total += bits.OnesCount8(m)
		if n == 8*i {
			n += bits.LeadingZeros8(^m)
		}
	}
	return n, n == total
}

func (d *decoder) lookup(b []byte) {
	set := cString(attribute(b, unix.NFTA_LOOKUP_SET))
	from := d.content(numberOf(b, unix.NFTA_LOOKUP_SREG))
	destination := attribute(b, unix.NFTA_LOOKUP_DREG)
	if from.kind != fromChance {
		// A map that numgen asks has an element for each of its numbers. Any other, and every set, may have the key or not.
		d.demand(condition{on: onOther})
	}
	if destination == nil {
		d.rule.affinity = d.rule.affinity || strings.HasPrefix(set, affinitySets)
		return
	}
	register, _ := number(destination)
	if register == 0 {
		d.rule.do = action{kind: goesByMap, set: set}
		return
	}
	d.load(register, &origin{kind: fromMap, set: set}, 64)
}

// nat is the translation; to where is a constant, or what a map gave.
func (d *decoder) nat(b []byte) {
	d.rule.do = action{kind: accepts}
	if numberOf(b, unix.NFTA_NAT_TYPE) != unix.NFT_NAT_DNAT {
		return
	}
	at, ok := index(numberOf(b, unix.NFTA_NAT_REG_ADDR_MIN))
	if !ok || d.regs[at].from == nil {
		return
	}
	address := d.regs[at]
	var port word
	if at, ok := index(numberOf(b, unix.NFTA_NAT_REG_PROTO_MIN)); ok {
		port = d.regs[at]
	}
	switch {
	case address.from.kind == fromConstant && address.at == 0 && (port.from == nil || port.from.kind == fromConstant && port.at == 0):
		a := action{kind: translates, portAt: -1}
		data := address.from.data
		if port.from != nil {
			a.portAt = len(data)
			data = append(data[:len(data):len(data)], port.from.data...)
		}
		if backend, ok := (element{data: data}).translation(a, d.bits); ok {
			d.rule.do = action{kind: translates, backend: backend}
		}
	case address.from.kind == fromMap && (port.from == nil || port.from == address.from):
		d.rule.do = action{kind: translatesByMap, set: address.from.set, addrAt: address.at * 4, portAt: -1}
		if port.from != nil {
			d.rule.do.portAt = port.at * 4
		}
	}
}

// backend is where an element of a map of backends sends a front's connections.
func (e element) backend(a action, f Front) (netip.AddrPort, bool) {
	return e.translation(a, f.Addr.Addr().BitLen())
}

// translation reads address and port from an element's data.
func (e element) translation(a action, bits int) (netip.AddrPort, bool) {
	if a.addrAt < 0 || len(e.data) < a.addrAt+bits/8 || len(e.data) < a.portAt+2 {
		return netip.AddrPort{}, false
	}
	address, ok := netip.AddrFromSlice(e.data[a.addrAt : a.addrAt+bits/8])
	if !ok {
		return netip.AddrPort{}, false
	}
	var port uint16
	if a.portAt >= 0 {
		port = binary.BigEndian.Uint16(e.data[a.portAt:])
	}
	return netip.AddrPortFrom(address, port), true
}

// decodeElements reads the attribute NFTA_SET_ELEM_LIST_ELEMENTS.
func decodeElements(list []byte) []element {
	var out []element
	for kind, b := range attributes(list) {
		if kind != unix.NFTA_LIST_ELEM {
			continue
		}
		data := attribute(b, unix.NFTA_SET_ELEM_DATA)
		e := element{data: attribute(data, unix.NFTA_DATA_VALUE)}
		e.verdict, _ = decodeVerdict(data)
		out = append(out, e)
	}
	return out
}
