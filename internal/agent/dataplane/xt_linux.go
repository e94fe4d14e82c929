package dataplane

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// Extensions of x_tables, which iptables' rules consist of in legacy tables and, in part, in nf_tables. Their data are structs of the kernel's
// uapi headers (linux/netfilter/xt_*.h, linux/netfilter/nf_nat.h, linux/netfilter_ipv4/ip_tables.h), numbers in the machine's order unless said.

// match is what one match of a rule demands.
type match struct {
	when     []condition
	affinity bool
}

// notUnderstood is what a match is that is unknown, or shorter than its kind.
var notUnderstood = match{when: []condition{{on: onOther}}}

// decodeMatch reads a match by its name and revision.
func decodeMatch(name string, revision uint32, info []byte) match {
	switch name {
	case "comment":
		return match{}
	case "tcp", "udp":
		return decodePorts(name, info)
	case "addrtype":
		return decodeAddrType(revision, info)
	case "recent":
		return decodeRecent(info)
	}
	return notUnderstood
}

// decodePorts reads struct xt_tcp and xt_udp: source ports from and to, destination ports from and to, and inversions, in bytes that differ.
func decodePorts(name string, info []byte) match {
	const invertSource, invertDestination, invertFlagsOrOption = 1, 2, 0xc
	size, inversionsAt := 9, 8
	if name == "tcp" {
		size, inversionsAt = 12, 11
	}
	if len(info) < size {
		return notUnderstood
	}
	inversions := info[inversionsAt]
	var m match
	if any := binary.NativeEndian.Uint32(info[0:]); inversions&(invertSource|invertFlagsOrOption) != 0 || any != anyPorts() || name == "tcp" && (info[8] != 0 || info[9] != 0) {
		m.when = append(m.when, condition{on: onOther}) // the client's port, or flags
	}
	c := condition{on: onPort, not: inversions&invertDestination != 0, from: binary.NativeEndian.Uint16(info[4:]), to: binary.NativeEndian.Uint16(info[6:])}
	if c.not || c.from != 0 || c.to != 0xffff {
		m.when = append(m.when, c)
	}
	return m
}

// anyPorts is a range of all ports, 0 and 65535, as one number of the machine's order.
func anyPorts() uint32 {
	return binary.NativeEndian.Uint32(binary.NativeEndian.AppendUint16([]byte{0, 0}, 0xffff))
}

// decodeAddrType reads struct xt_addrtype_info_v1 (types of source and destination, a bit each; then flags) and its revision 0, whose two
// inversions are numbers of their own.
func decodeAddrType(revision uint32, info []byte) match {
	if revision > 1 || len(info) < 8 || revision == 0 && len(info) < 12 {
		return notUnderstood
	}
	const local = 1 << 2 // RTN_LOCAL
	source, destination, flags := binary.NativeEndian.Uint16(info[0:]), binary.NativeEndian.Uint16(info[2:]), binary.NativeEndian.Uint32(info[4:])
	notSource, notDestination, limits := flags&1 != 0, flags&2 != 0, flags&^3 != 0
	if revision == 0 {
		notSource, notDestination, limits = flags != 0, binary.NativeEndian.Uint32(info[8:]) != 0, false
	}
	var m match
	if source == local {
		m.when = append(m.when, condition{on: onSourceLocal, not: notSource})
	}
	if destination == local {
		m.when = append(m.when, condition{on: onDestinationLocal, not: notDestination})
	}
	if limits || source != 0 && source != local || destination != 0 && destination != local {
		m.when = append(m.when, condition{on: onOther})
	}
	return m
}

// decodeRecent reads struct xt_recent_mtinfo (and _v1): a rule of kube-proxy's asks whether the client is in an endpoint's list, or puts it there, which
// always holds.
func decodeRecent(info []byte) match {
	const checkSetAt, invertAt, set = 8, 9, 1 << 1
	if len(info) <= invertAt {
		return notUnderstood
	}
	if info[checkSetAt]&set != 0 && info[invertAt] == 0 {
		return match{affinity: true}
	}
	return match{when: notUnderstood.when, affinity: true}
}

// decodeTarget reads a target by its name and revision, in a rule for addresses of bits.
func decodeTarget(name string, revision uint32, info []byte, bits int) action {
	switch name {
	case "DNAT":
		if b, ok := decodeDNAT(revision, info, bits); ok {
			return action{kind: translates, backend: b}
		}
		return action{kind: accepts}
	case "REJECT":
		return action{kind: rejects}
	case "REDIRECT", "MASQUERADE", "SNAT", "NETMAP", "TPROXY", "NFQUEUE":
		return action{kind: accepts}
	}
	return action{kind: passes} // MARK, LOG, CONNMARK, ...
}

// decodeDNAT reads struct nf_nat_ipv4_multi_range_compat (revision 0), nf_nat_range (1) and nf_nat_range2 (2); addresses and ports in network
// order. A range of several addresses, which kube-proxy does not write, counts as its first.
func decodeDNAT(revision uint32, info []byte, bits int) (netip.AddrPort, bool) {
	const mapsAddress, mapsPort = 1 << 0, 1 << 1
	flagsAt, addressAt, portAt := 0, 4, 36
	if revision == 0 {
		flagsAt, addressAt, portAt = 4, 8, 16
	}
	if revision > 2 || revision == 0 && bits != 32 || len(info) < portAt+2 {
		return netip.AddrPort{}, false
	}
	flags := binary.NativeEndian.Uint32(info[flagsAt:])
	address, ok := netip.AddrFromSlice(info[addressAt : addressAt+bits/8])
	if !ok || flags&mapsAddress == 0 {
		return netip.AddrPort{}, false
	}
	var port uint16
	if flags&mapsPort != 0 {
		port = binary.BigEndian.Uint16(info[portAt:])
	}
	return netip.AddrPortFrom(address, port), true
}

// cString is the text before the first zero byte.
func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
