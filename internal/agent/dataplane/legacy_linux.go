package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Legacy tables of x_tables (linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h), as getsockopt copies them out: a row of entries, each
// of them the conditions of its family, matches, and a target. A chain of the user's begins with an entry whose target is ERROR and says its name. A
// jump is a number of bytes from the beginning. Sizes and offsets are those of machines with 64 bits.

// layout is how a family's entries are built.
type layout struct {
	bits                                  int
	source, destination                   int
	sourceMask, destinationMask           int
	incoming, incomingMask                int
	protocol, flags, inversions, goToFlag int
	targetOffset, nextOffset, size        int
}

var layouts = map[int]layout{
	32: {bits: 32, source: 0, destination: 4, sourceMask: 8, destinationMask: 12, incoming: 16, incomingMask: 48, protocol: 80, flags: 82, inversions: 83, goToFlag: 2,
		targetOffset: 88, nextOffset: 90, size: 112},
	128: {bits: 128, source: 0, destination: 16, sourceMask: 32, destinationMask: 48, incoming: 64, incomingMask: 96, protocol: 128, flags: 131, inversions: 132, goToFlag: 4,
		targetOffset: 140, nextOffset: 142, size: 168},
}

const (
	// Head of struct xt_entry_match and xt_entry_target: size, name, revision.
	extensionSize, extensionName, extensionRevision = 32, 2, 31
	// hooks is NF_INET_NUMHOOKS.
	hooks = 5
)

var errTable = errors.New("the table is not built as its family's are")

// legacyTable is one table, of which chains are decoded when they are asked for.
type legacyTable struct {
	layout
	entries []byte
	// begins is where each chain's first rule is, called who calls it so.
	begins map[string]int
	called map[int]string
	// only says which rules of chains that name every front are worth decoding.
	only func([]byte) bool
}

// parseTable finds the chains of a table. hookEntries is where the rules of each hook begin; of the hooks, only that of NF_INET_PRE_ROUTING is
// wanted. only may be nil, then every rule counts.
func parseTable(entries []byte, bits int, valid uint32, hookEntries [hooks]uint32, only func([]byte) bool) (*legacyTable, error) {
	t := &legacyTable{layout: layouts[bits], entries: entries, begins: map[string]int{}, called: map[int]string{}, only: only}
	for at := 0; at < len(entries); {
		e, err := t.entry(at)
		if err != nil {
			return nil, err
		}
		at = e.next
		if e.target == "ERROR" {
			name := cString(e.info)
			t.begins[name], t.called[at] = at, name
		}
	}
	if valid&1 != 0 { // NF_INET_PRE_ROUTING is hook 0
		t.begins[prerouting] = int(hookEntries[0])
	}
	return t, nil
}

// entry is one rule's parts.
type entry struct {
	bytes, matches []byte
	target         string
	revision       uint32
	info           []byte
	// next is where the next one begins.
	next int
}

// entry cuts the rule at an offset into its parts.
func (t *legacyTable) entry(at int) (entry, error) {
	if at < 0 || at+t.size > len(t.entries) {
		return entry{}, errTable
	}
	b := t.entries[at:]
	target, next := int(binary.NativeEndian.Uint16(b[t.targetOffset:])), int(binary.NativeEndian.Uint16(b[t.nextOffset:]))
	if target < t.size || next < target+extensionSize || next > len(b) {
		return entry{}, errTable
	}
	size := int(binary.NativeEndian.Uint16(b[target:]))
	if size < extensionSize || target+size > next {
		return entry{}, errTable
	}
	return entry{
		bytes: b[:next], matches: b[t.size:target],
		target: cString(b[target+extensionName : target+extensionRevision]), revision: uint32(b[target+extensionRevision]), info: b[target+extensionSize : target+size],
		next: at + next,
	}, nil
}

// chain decodes a chain: up to the head of the next one.
func (t *legacyTable) chain(name string) ([]rule, error) {
	at, known := t.begins[name]
	if !known {
		return nil, nil
	}
	var out []rule
	for at < len(t.entries) {
		e, err := t.entry(at)
		if err != nil {
			return nil, fmt.Errorf("chain %s: %w", name, err)
		}
		if e.target == "ERROR" {
			break
		}
		at = e.next
		if t.only != nil && namesFronts(name) && !t.only(e.bytes) {
			continue
		}
		r, err := t.rule(e)
		if err != nil {
			return nil, fmt.Errorf("chain %s: %w", name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// elements are nf_tables' alone.
func (t *legacyTable) elements(string) ([]element, error) { return nil, nil }

func (t *legacyTable) rule(e entry) (rule, error) {
	const notIncoming, notSource, notDestination, notProtocol = 0x01, 0x08, 0x10, 0x40
	inversions := e.bytes[t.inversions]
	var r rule
	for _, side := range []struct {
		on            field
		address, mask int
		not           bool
	}{{onSource, t.source, t.sourceMask, inversions&notSource != 0}, {onDestination, t.destination, t.destinationMask, inversions&notDestination != 0}} {
		ones, contiguous := leadingOnes(e.bytes[side.mask : side.mask+t.bits/8])
		if !contiguous {
			r.when = append(r.when, condition{on: onOther})
		} else if ones > 0 || side.not {
			address, _ := netip.AddrFromSlice(e.bytes[side.address : side.address+t.bits/8])
			r.when = append(r.when, condition{on: side.on, not: side.not, prefix: netip.PrefixFrom(address, ones)})
		}
	}
	if e.bytes[t.incomingMask] != 0 {
		r.when = append(r.when, condition{on: onInterface, not: inversions&notIncoming != 0})
	}
	if p := binary.NativeEndian.Uint16(e.bytes[t.protocol:]); p != 0 {
		r.when = append(r.when, condition{on: onProtocol, not: inversions&notProtocol != 0, from: p, to: p})
	}
	for rest := e.matches; len(rest) > 0; {
		if len(rest) < extensionSize {
			return rule{}, errTable
		}
		size := int(binary.NativeEndian.Uint16(rest))
		if size < extensionSize || size > len(rest) {
			return rule{}, errTable
		}
		m := decodeMatch(cString(rest[extensionName:extensionRevision]), uint32(rest[extensionRevision]), rest[extensionSize:size])
		r.when = append(r.when, m.when...)
		r.affinity = r.affinity || m.affinity
		rest = rest[size:]
	}
	if e.target != "" {
		r.do = decodeTarget(e.target, e.revision, e.info, t.bits)
		return r, nil
	}
	if len(e.info) < 4 {
		return rule{}, errTable
	}
	r.do = t.verdict(int(int32(binary.NativeEndian.Uint32(e.info))), e.next, int(e.bytes[t.flags])&t.goToFlag != 0)
	return r, nil
}

// verdict reads the standard target: where a jump leads, or minus a verdict's number minus 1.
func (t *legacyTable) verdict(v, next int, goTo bool) action {
	const drop, xtReturn = -1, -5
	switch {
	case v == next:
		return action{kind: passes} // a rule without a target "jumps" to the next one
	case v >= 0 && goTo:
		return action{kind: goesTo, chain: t.called[v]}
	case v >= 0:
		return action{kind: jumps, chain: t.called[v]}
	case v == drop:
		return action{kind: drops}
	case v == xtReturn:
		return action{kind: returns}
	}
	return action{kind: accepts}
}
