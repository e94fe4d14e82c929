// Package kernel traces what the kernel does to processes and sockets, with eBPF programs that are built into the binary: who sent
// which signal, who exited how, which socket listened until when, who sent or received a reset, who sent which ICMP error, and who
// deleted a conntrack entry.
//
// Nothing is pinned: the end of the process, also by SIGKILL, unloads every program. Filters are in the kernel, so that
// traffic that is not under test costs next to nothing.
//
// It must not know containers, Pods or records: it tells namespaces by inode and processes by number.
package kernel

import "net/netip"

// Kind is what happened.
type Kind uint8

const (
	// SignalSent: a signal of the watched ones was generated for a process. Source: tracepoint signal:signal_generate.
	SignalSent Kind = iota + 1
	// ProcessExited: the last thread of a process ended. Source: sched:sched_process_exit.
	ProcessExited
	// ListenerOpened and ListenerClosed: a TCP socket came to or left TCP_LISTEN. Source: sock:inet_sock_set_state.
	ListenerOpened
	ListenerClosed
	// SocketState: a TCP socket that was watched changed its state otherwise. Source: sock:inet_sock_set_state.
	SocketState
	// ResetSent and ResetReceived. Source: tcp:tcp_send_reset, tcp:tcp_receive_reset, and what the version of the kernel has instead.
	ResetSent
	ResetReceived
	// ICMPSent: the kernel sent an ICMP (or ICMPv6) error. Source: icmp:icmp_send or fentry/__icmp_send, fentry/icmp6_send.
	ICMPSent
	// EntryDeleted: a conntrack entry of a watched port was deleted. Source: fentry/nf_ct_delete.
	EntryDeleted
	// UDPClosed: a UDP socket that was bound to a watched port was closed. Source: fentry/udp_destroy_sock, fentry/udpv6_destroy_sock.
	UDPClosed
)

// Process says who did it, as far as the kernel tells in that moment.
type Process struct {
	// PID is the thread group's number in the first (the kernel's own) PID namespace; 0 for the kernel in a softirq without a process of its own.
	PID uint32
	// NsPID is its number in its own PID namespace: 1 for a container's first process.
	NsPID uint32
	// Comm is the name of the thread, at most 15 bytes.
	Comm string
	// NetNs, MntNs and PIDNs are the inodes of its namespaces: what /proc/PID/ns shows.
	NetNs, MntNs, PIDNs uint32
}

// Event is one thing that the kernel told.
type Event struct {
	// MonoNs is CLOCK_MONOTONIC (bpf_ktime_get_ns), taken where it happened.
	MonoNs int64
	Kind   Kind
	// By did it: the sender of a signal, the one who exits, closes, or deletes. InSoftirq: By merely happened to be running there.
	By        Process
	InSoftirq bool
	// To is whom a signal goes to; zero for other kinds.
	To Process
	// Signal is its number, and for ProcessExited the one that killed it, or 0. FromKernel: no process sent it (si_code SI_KERNEL).
	Signal     int
	FromKernel bool
	// ExitCode is what the process passed to exit.
	ExitCode int
	// NetNs is the inode of the network namespace that the socket or the packet belongs to.
	NetNs uint32
	// IfIndex is the interface that the packet came in by, as its namespace counts; 0 where none is known.
	IfIndex int
	// Protocol is an IP protocol number.
	Protocol uint8
	// Local and Remote are the socket's ends, or for ICMPSent the source and destination of the packet that the error is about.
	Local, Remote netip.AddrPort
	// OldState and NewState are TCP states of include/net/tcp_states.h.
	OldState, NewState uint8
	// Type and Code are those of an ICMP error.
	Type, Code uint8
	// To which address an ICMP error goes.
	ICMPTo netip.Addr
	// NetlinkPortID is what asked for the deletion of an entry; 0: no request of netlink did.
	NetlinkPortID uint32
	// Expired: the entry had reached its timeout when it was deleted.
	Expired bool
	// Original and Reply are an entry's two directions, source then destination.
	Original, Reply [2]netip.AddrPort
}
