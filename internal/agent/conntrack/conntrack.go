// Package conntrack listens to the events of one network namespace's connection tracking, over netlink: NEW, UPDATE and DESTROY
// of the entries under test, with both directions, so that a client's connection is tied to the Pod that served it.
//
// The kernel itself drops the messages that are not under test, before they take room in the socket (Filter). What it had to
// drop for want of room is told as a Gap, and who asked for a deletion by its netlink socket (Event.PortID, Listener.Whose).
//
// It only listens and dumps; it creates, changes and deletes nothing, and sets no sysctl. It must not know Pods, Services or records.
//
// Sources: include/uapi/linux/netfilter/nfnetlink_conntrack.h and net/netfilter/nf_conntrack_netlink.c for the messages,
// net/netlink/af_netlink.c for what is lost and when, netlink(7).
package conntrack

import (
	"net/netip"
	"time"
)

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
	// The ports of protocols that have none are 0.
	Original, Reply [2]netip.AddrPort
	// Zone is the one of both directions, or of the original one where they differ.
	Zone uint16
	// ID stays the entry's own while it lives. The kernel hashes it from the entry's place in memory: another entry may have it later.
	ID uint32
	// Status is the bits of include/uapi/linux/netfilter/nf_conntrack_common.h.
	Status uint32
	// TimeoutS is how long it would live on without a packet; 0 where it was not told. With a DESTROY, more than 0 says that it was
	// deleted before its time was over; 0 says nothing, for older kernels never tell it there.
	TimeoutS uint32
	// TCPState is that of conntrack's own table; 0 for other protocols or where it was not told.
	TCPState uint8
}

// Event is one message.
type Event struct {
	// MonoNs is CLOCK_MONOTONIC at the receipt: an upper bound, up to a nap late.
	MonoNs int64
	Kind   Kind
	Entry  Entry
	// PortID is the netlink socket of the process that asked for it; 0: the kernel did it by itself (a packet, a timeout).
	PortID uint32
}

// Options say what to listen to, and where.
type Options struct {
	Filter Filter
	// Updates are the protocols of which UPDATEs are told; none by default. Every TCP connection makes about four, and once anyone
	// listens to UPDATEs the kernel builds those of all connections of the namespace, also those that Filter then drops.
	Updates []uint8
	// NoDestroys leaves DESTROYs out, for who knows of deletions by other means: where nobody listens to them the kernel does not build them.
	NoDestroys bool
	// Take is called with the socket that the events will come to, before the first may come. Where it answers true, the caller has attached a filter of
	// its own to it, in place of one that Filter makes. What comes through that one is held to Filter all the same. The socket is its only during the call. Its
	// error is Open's.
	Take func(fd int) (bool, error)
	// BufferBytes is what may wait in the socket; 0 means DefaultBufferBytes. The kernel counts its own bookkeeping too, of about
	// 1 kB per message, and allows twice the number.
	BufferBytes int
	// Nap is how long events wait at most to be read; 0 means DefaultNap, and a longer one after Take. The buffer must hold what comes in that time.
	Nap time.Duration
	// NetNS is the path of a network namespace: /proc/PID/ns/net, or /proc/self/fd/N for one that is open. Empty: the calling thread's own.
	NetNS string
	// Proc is where the proc file system is that shows the processes of the whole node, for Whose; empty means /proc.
	Proc string
}

// DefaultBufferBytes holds seconds of 5,000 connections that begin and 5,000 that end. Entries that have expired are deleted in bursts of
// thousands, by the kernel's own timer.
const DefaultBufferBytes = 32 << 20

// DefaultNap is one in which about a million events a second would fill DefaultBufferBytes.
const DefaultNap = 50 * time.Millisecond

// takenNap is one where another's filter lets next to nothing through.
const takenNap = time.Second

// Unseen is why a namespace's events cannot be had, in words that its administrator can act on.
type Unseen struct {
	Why string
	// Cause is the kernel's answer, where there was one.
	Cause error
}

func (u *Unseen) Error() string {
	if u.Cause != nil {
		return "conntrack events: " + u.Why + ": " + u.Cause.Error()
	}
	return "conntrack events: " + u.Why
}

func (u *Unseen) Unwrap() error { return u.Cause }

// Gap is a stretch of time in which messages were lost.
type Gap struct {
	// FromNs and ToNs enclose every loss, on CLOCK_MONOTONIC: from the last time at which the socket was found intact to the first at
	// which it was found empty again, for an overrun socket takes nothing in until then. Messages in between are sound, but not all
	// that there were. ToNs is 0 while it lasts.
	FromNs, ToNs int64
	// Lost is how many messages of those that passed the filter; 0 where the kernel did not count them, or not yet.
	Lost uint64
	// Why is one of the Gap constants.
	Why string
}

const (
	// GapOverrun: the socket had no room left (ENOBUFS).
	GapOverrun = "overrun"
	// GapUnreadable: a message was not as this package knows them.
	GapUnreadable = "unreadable"
)

// Owner is the process that a netlink socket is, or was, of.
type Owner struct {
	// PID is its number in the node's PID namespace, Comm the name of its first thread.
	PID  int
	Comm string
	// How is how that is known.
	How Basis
	// SeenNs is when it was last found so, on CLOCK_MONOTONIC.
	SeenNs int64
}

// Basis is how good a knowledge of a socket's owner is.
type Basis string

const (
	// ByHeld: it holds the socket now. This is proof, if it held it when it asked.
	ByHeld Basis = "held"
	// ByRemembered: it held the socket of that number when last seen, and nobody has one now. The number may have been another's since.
	ByRemembered Basis = "remembered"
	// ByNumber: it never was seen with such a socket, but the kernel gives a process's first socket the process's own number (in its
	// own PID namespace), and of all the processes of this network namespace only this one has it. It is a hint, not a proof.
	ByNumber Basis = "number"
)
