// Package conntrack listens to the events of one network namespace's connection tracking, over netlink: NEW, UPDATE and DESTROY
// of the entries under test, with both directions, so that a client's connection is tied to the Pod that served it.
//
// It only listens and dumps; it creates, changes and deletes nothing. It must not know Pods, Services or records.
package conntrack

import "net/netip"

// Kind is what happened to an entry.
type Kind string

const (
	New     Kind = "new"
	Update  Kind = "update"
	Destroy Kind = "destroy"
)

// Entry is one connection as the namespace's conntrack holds it.
type Entry struct {
	// Protocol is an IP protocol number: 6 TCP, 17 UDP.
	Protocol uint8
	// Original and Reply are its two directions, source then destination. Reply[0] is who really served, Original[1] whom the client asked.
	Original, Reply [2]netip.AddrPort
	Zone            uint16
	ID              uint32
	// Status is the bits of include/uapi/linux/netfilter/nf_conntrack_common.h.
	Status uint32
	// TimeoutS is how long it would live on without a packet; 0 where it was not told.
	TimeoutS uint32
	// TCPState is that of conntrack's own table; 0 for other protocols or where it was not told.
	TCPState uint8
}

// Event is one message.
type Event struct {
	// MonoNs is CLOCK_MONOTONIC at the receipt: an upper bound.
	MonoNs int64
	Kind   Kind
	Entry  Entry
	// PortID is the netlink socket of the process that asked for it; 0: the kernel did it by itself (a packet, a timeout).
	PortID uint32
}
