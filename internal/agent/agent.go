// Package agent watches one node for as long as a trial runs, and tells what its kernel saw: signals, exits, sockets, resets and ICMP
// errors, the rules of the data plane, and conntrack's entries.
//
// It only reads. All that it holds ends with its process: programs and links are not pinned, sockets are its own. What a kernel or
// a data plane does not let it see, it says once, at the beginning.
//
// It must not know Kubernetes' API: it knows containers, Pods' UIDs as the kubelet writes them into cgroups, addresses and ports. Which
// Pod, Service or request these are is the harness's knowledge.
package agent

// Sight is one kind of thing that the agent can or cannot see on this node.
type Sight struct {
	// Name is one of the Sight constants.
	Name string `json:"name"`
	// Seen is whether it is being watched.
	Seen bool `json:"seen"`
	// How names the means ("fentry/nf_ct_delete", "nftables netlink, tables of iptables-nft").
	How string `json:"how"`
	// Why says what is missing, all of it or a part (IPv6, what rules do), in words that an administrator can act on; empty where all is seen.
	Why string `json:"why"`
}

// What an agent may see. Each is told exactly once per session.
const (
	SightSignals   = "signals"
	SightExits     = "exits"
	SightListeners = "listeners"
	SightSockets   = "sockets"
	SightResets    = "resets"
	SightICMP      = "icmp"
	SightConntrack = "conntrack"
	SightDeleters  = "conntrack-deleters"
	SightRules     = "rules"
)
