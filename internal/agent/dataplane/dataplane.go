// Package dataplane reads from a node's own rules to which endpoints it sends the new connections of a Service, and when that
// changed: kube-proxy's iptables rules (of nft and of legacy tables) and its nftables table.
//
// It reads over netlink and getsockopt, and runs no other program. It changes nothing. IPVS and Cilium are recognised and named as not readable.
//
// It must not know Pods, EndpointSlices or records: it knows virtual addresses, ports and the addresses behind them.
package dataplane

import "net/netip"

// Front is what clients ask: a virtual address and port of a Service, or a NodePort (then Addr is the zero address).
type Front struct {
	Protocol uint8
	Addr     netip.AddrPort
}

// State is what the rules said of one front at one time.
type State struct {
	Front Front
	// Backends are the addresses that a new connection may be sent to, in order; empty where it is rejected or dropped.
	Backends []netip.AddrPort
	// LocalBackends are those for clients of this node or with a Local traffic policy, where the rules tell them apart; nil where not.
	LocalBackends []netip.AddrPort
	// Verdict is what happens without a backend: "reject", "drop", or "" where there are backends or no rule knows the front.
	Verdict string
	// Known is whether any rule names the front.
	Known bool
}

// Change is one new State of a front.
type Change struct {
	// MonoNs is when the kernel told of the commit (an upper bound, by the receipt of its message), or when a look found it.
	MonoNs int64
	// NotBeforeNs is the last time at which the state before it was seen; for a commit that was told, the one before it.
	NotBeforeNs int64
	State       State
	// By is the process that committed it, where the kernel told (NFTA_GEN_PROC_NAME, NFTA_GEN_PROC_PID).
	ByPID  uint32
	ByComm string
}
