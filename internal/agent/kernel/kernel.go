// Package kernel traces what the kernel does to processes and sockets, with eBPF programs that are built into the binary: who sent
// which signal, who exited how, which socket listened until when, who sent or received a reset, who sent which ICMP error, and who
// deleted a conntrack entry.
//
// Nothing is pinned: the end of the process, also by SIGKILL, unloads every program. Filters are in the kernel, so that
// traffic that is not under test costs next to nothing. What this kernel does not let the package see, Tracer.Sights says.
//
// It must not know containers, Pods or records: it tells namespaces by inode and processes by number.
package kernel

import "net/netip"

// Kind is what happened.
type Kind uint8

// The numbers are those of enum kind in bpf/trace.h.
const (
	// SignalSent: a signal of the watched ones was generated for a process. Once for a whole process, however many threads it has.
	// Source: tracepoint signal_generate.
	SignalSent Kind = iota + 1
	// ProcessExited: the last thread of a process ended; By is the process. Source: tracepoint sched_process_exit.
	ProcessExited
	// ListenerOpened and ListenerClosed: a TCP socket came to or left TCP_LISTEN. Source: tracepoint inet_sock_set_state.
	ListenerOpened
	ListenerClosed
	// SocketState: a TCP connection began to end here. Told are only the changes that say by whom: ESTABLISHED to FIN_WAIT1 (this side
	// sent the first FIN), and ESTABLISHED, SYN_RECV, FIN_WAIT1 or CLOSE_WAIT to CLOSE (aborted, by a reset or for want of an
	// answer). An end that the other side began in order is not told. Source: tracepoint inet_sock_set_state.
	SocketState
	// ResetSent: Local sent a reset to Remote. Source: tracepoint tcp_send_reset, with fentry on tcp_v4_send_reset and tcp_v6_send_reset before
	// Linux 6.10; fentry on nf_send_reset and nf_send_reset6 for the resets of rules.
	ResetSent
	// ResetReceived: a reset ended the connection of Local. One that found no socket is not told. Source: tracepoint tcp_receive_reset.
	ResetReceived
	// ICMPSent: the kernel sent an ICMP (or ICMPv6) error about a packet from Local to Remote. It goes to Local. Source: tracepoint
	// icmp_send since Linux 6.11, before it fentry on __icmp_send; fentry on icmp6_send.
	ICMPSent
	// EntryDeleted: a conntrack entry of a watched port was deleted. TCP entries that merely expired are left out: every connection
	// leaves one. Source: fentry on nf_ct_delete; without it the filter of a socket that conntrack tells (Tracer.TakeConntrack).
	EntryDeleted
	// UDPClosed: a UDP socket that was bound to a watched port was closed. Source: fentry on udp_destroy_sock and udpv6_destroy_sock.
	UDPClosed
	// EntryNew: a conntrack entry of a watched port was made. Source: the filter of a socket that conntrack tells (Tracer.TakeConntrack).
	EntryNew
	// EntryUpdated: one of UDP was changed. Source: as EntryNew.
	EntryUpdated

	kinds = int(EntryUpdated) + 1
)

// Process says who did it, as far as the kernel tells in that moment.
type Process struct {
	// PID is the thread group's number in the first (the kernel's own) PID namespace; 0 is the idle task, which a packet interrupted.
	PID uint32
	// NsPID is its number in its own PID namespace: 1 for a container's first process.
	NsPID uint32
	// Comm is the name of the thread, at most 15 bytes.
	Comm string
	// NetNs, MntNs and PIDNs are the inodes of its namespaces: what /proc/PID/ns shows. NetNs and MntNs are 0 once it has left them, at its end.
	NetNs, MntNs, PIDNs uint32
}

// SignalResult is what became of a signal when it was generated (include/trace/events/signal.h).
type SignalResult uint8

const (
	// SignalDelivered: it is pending, and the process will see it.
	SignalDelivered SignalResult = iota
	// SignalIgnored: the process ignores it. So does the first process of a PID namespace with every signal that it has no handler for.
	SignalIgnored
	// SignalAlreadyPending: the same signal waited already; the process sees one.
	SignalAlreadyPending
	// SignalOverflowed: too many were waiting, and this one is lost (real-time signals only).
	SignalOverflowed
	// SignalLostInfo: it is pending, without saying who sent it.
	SignalLostInfo
)

// Event is one thing that the kernel told.
type Event struct {
	// MonoNs is CLOCK_MONOTONIC (bpf_ktime_get_ns), taken where it happened.
	MonoNs int64
	Kind   Kind
	// By did it: the sender of a signal, the one who exits, closes, or deletes. It is not told of a first FIN, which every connection has, nor of an
	// entry where nobody asked over netlink.
	By Process
	// Bystander: By merely happened to run on that processor when a packet arrived, a timer fired, or the kernel acted by itself.
	Bystander bool
	// To is whom a signal goes to; zero for other kinds.
	To Process
	// Signal is its number, and for ProcessExited the one that killed it, or 0.
	Signal int
	// Result is what became of the signal.
	Result SignalResult
	// FromKernel: no process sent the signal (a dying PID namespace, the OOM killer, a timer, a terminal).
	FromKernel bool
	// ExitCode is what the process passed to exit, as wait(2) tells it.
	ExitCode int
	// NetNs is the inode of the network namespace that the socket, the packet or the entry belongs to.
	NetNs uint32
	// IfIndex is the interface that the packet came in by, as its namespace counts; 0 where none is known.
	IfIndex int
	// Protocol is an IP protocol number; of the packet that the error is about for ICMPSent.
	Protocol uint8
	// Local and Remote are the socket's ends, or for ICMPSent the source and destination of the packet that the error is about,
	// as it looked then: a rule may have translated it already. Ports are 0 where the packet told none.
	Local, Remote netip.AddrPort
	// OldState and NewState are TCP states of include/net/tcp_states.h. For a reset OldState is that of its socket, or 0 without one.
	OldState, NewState uint8
	// ByRule: a rule of this node sent the reset (REJECT with tcp-reset), not a socket.
	ByRule bool
	// Reason is the kernel's own name for why it sent a reset, without its prefix ("NO_SOCKET", "TCP_ABORT_ON_CLOSE"); empty where it
	// tells none (before Linux 6.10, and for rules).
	Reason string
	// Requested: the event was taken where the packet was asked for, and the kernel may not have sent it (rate limits, no route). False:
	// it was taken where the packet was ready to go.
	Requested bool
	// Type and Code are those of an ICMP error; of ICMPv6 where the addresses are IPv6 ones.
	Type, Code uint8
	// NetlinkPortID is what asked for the deletion of an entry; 0: no request of netlink did.
	NetlinkPortID uint32
	// Expired: the entry had reached its timeout when it was deleted. Early: it had time left. Neither: that is not known.
	Expired, Early bool
	// Original and Reply are an entry's two directions, source then destination.
	Original, Reply [2]netip.AddrPort
}
