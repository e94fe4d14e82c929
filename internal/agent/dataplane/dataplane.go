// Package dataplane reads from a node's own rules to which endpoints it sends the new connections of a Service, and tells each change of
// that: kube-proxy's rules for iptables (in nf_tables or in legacy tables) and its own nftables table.
//
// It reads over netlink and getsockopt, runs no other program and changes nothing. IPVS and Cilium are recognised and named as not readable.
//
// Rules in nf_tables are read anew after each commit that the kernel tells of (NFT_MSG_NEWGEN, which names the process too), and only
// so much of them as the fronts need. The number of the rules' generation is asked before and after, so that a state is never taken for another
// commit's. Legacy tables have no such message and come only whole: they are looked at again and again.
//
// The transport is github.com/mdlayher/netlink; what nf_tables says in it is decoded here. github.com/google/nftables was not taken: it can
// ask a map for all of its elements only, not for one, and decodes every rule of a chain that holds thousands of Services, and all that a commit
// changed, where its number is wanted.
//
// It must not know Pods, EndpointSlices or records: it knows virtual addresses, ports and the addresses behind them.
package dataplane

import (
	"net/netip"
	"slices"
	"time"
)

// Front is what clients ask: an address and port of a Service.
type Front struct {
	// Protocol is the number of IP's header: 6 TCP, 17 UDP, 132 SCTP.
	Protocol uint8
	// Addr is the virtual address and port. For a NodePort, the address is 0.0.0.0 or ::, which says of which family the port is meant.
	Addr netip.AddrPort
}

// NodePort is whether the front is a port of the node itself.
func (f Front) NodePort() bool { return f.Addr.Addr().IsUnspecified() }

// What answers for Services on a node.
const (
	NFTables       = "kube-proxy-nftables"
	IPTablesNFT    = "kube-proxy-iptables-nft"
	IPTablesLegacy = "kube-proxy-iptables-legacy"
	IPVS           = "kube-proxy-ipvs"
	Cilium         = "cilium"
	// None stands where no data plane was found at all.
	None = "none"
)

// Verdicts on a front's connections that no backend takes.
const (
	Reject = "reject"
	Drop   = "drop"
)

// State is what the rules said of one front at one time.
type State struct {
	Front Front
	// Plane is which of the data planes said it.
	Plane string
	// Known is whether any rule names the front.
	Known bool
	// Backends are the addresses that a new connection may be sent to, in order: one that reaches the node from elsewhere, and where
	// LocalBackends is nil, every one.
	Backends []netip.AddrPort
	// LocalBackends are those for connections that begin on the node, its own and its Pods', where the rules send these elsewhere (a NodePort
	// with externalTrafficPolicy Local); nil where they make no difference.
	LocalBackends []netip.AddrPort
	// Affinity is whether a client that was here before is sent to the backend of its last connection, where that is still one of them.
	Affinity bool
	// Verdict is what happens to a connection that Backends has nothing for: Reject, Drop, or "" where there are backends or no rule says so.
	Verdict string
}

// Same is whether two states say the same.
func (s State) Same(t State) bool {
	return s.Front == t.Front && s.Plane == t.Plane && s.Known == t.Known && s.Affinity == t.Affinity && s.Verdict == t.Verdict &&
		slices.Equal(s.Backends, t.Backends) && slices.Equal(s.LocalBackends, t.LocalBackends) && (s.LocalBackends == nil) == (t.LocalBackends == nil)
}

// Change is one new State of a front. Times are on the clock of clock.MonoNs.
type Change struct {
	State State
	// First marks the state that was found at the beginning: it may be as old as it likes, and both times are the look's.
	First bool
	// MonoNs is an upper bound of when it came to be so: the receipt of the kernel's message about the commit, which it sends right after it, or
	// the end of the look that found it.
	MonoNs int64
	// NotBeforeNs is a lower bound: the last time at which the state before it is known to have been in force.
	NotBeforeNs int64
	// Commits is how many commits to the namespace's nf_tables lie between the two states. Where it is not 1, which of them it was is
	// unknown. 0 for First, and for rules in legacy tables, which nobody counts.
	Commits uint32
	// ByPID and ByComm are the process that committed it (its main thread's or another thread's number in the first PID namespace, and
	// at most 15 bytes of its name); empty where the kernel did not tell, or where several commits differ in it.
	ByPID  uint32
	ByComm string
}

// Sight is one data plane of a node, and whether it is being watched.
type Sight struct {
	// Name is one of the constants above.
	Name string
	Seen bool
	// How names the means and the tables.
	How string
	// Why says what is missing, in words that an administrator can act on; empty where it is seen.
	Why string
}

// Options say what to watch.
type Options struct {
	// NetNS is the path of the network namespace (/proc/1/ns/net, /run/netns/NAME); "" is the caller's.
	NetNS string
	// Fronts are those to look for in the rules; at least one.
	Fronts []Front
	// Poll is the time between two looks: at legacy tables, and at the number of the generation of rules in nf_tables, which moves the lower bound
	// of the next change up. 0 is 50 ms. Looks at legacy tables that take long are made less often, so that they use a tenth of one processor at most.
	Poll time.Duration
}

// Counts are a Watcher's account of its own work.
type Counts struct {
	// Reads is how often the rules of the fronts were read.
	Reads uint64
	// Repeated is how many of them were void, because a commit came in between.
	Repeated uint64
	// Commits is how many commits the kernel told of.
	Commits uint64
	// Lost is how often such messages were lost, or did not come at all; what they were about was read nevertheless, later.
	Lost uint64
}
