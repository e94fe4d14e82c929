// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// What all programs share: the event, the maps, the filters, and how processes and addresses are read.
// decode.go reads the event.
#pragma once

#include "types.h"

// bpf_probe_read_kernel is for programs under the GPL only.
char gpl[] SEC("license") = "GPL";

// Kinds, as in kernel.go.
enum kind {
	NOTHING,
	SIGNAL_SENT,
	PROCESS_EXITED,
	LISTENER_OPENED,
	LISTENER_CLOSED,
	SOCKET_STATE,
	RESET_SENT,
	RESET_RECEIVED,
	ICMP_SENT,
	ENTRY_DELETED,
	UDP_CLOSED,
	ENTRY_NEW,
	ENTRY_UPDATED,
	KINDS,
};

enum flag {
	// By merely ran where a packet, a timer or the kernel itself did it.
	BYSTANDER = 1 << 0,
	FROM_KERNEL = 1 << 1,
	EXPIRED = 1 << 2,
	BY_RULE = 1 << 3,
	REQUESTED = 1 << 4,
	// A deleted entry had time left.
	EARLY = 1 << 5,
};

struct process {
	u32 pid;
	u32 ns_pid;
	u32 netns;
	u32 mntns;
	u32 pidns;
	char comm[16];
};

// An address is an IPv6 one; IPv4 ones are mapped (::ffff:a.b.c.d). The port is in network order, as both were read.
struct end {
	be32 addr[4];
	be16 port;
	u16 unused;
};

struct event {
	u64 mono_ns;
	u8 kind;
	u8 flags;
	u8 protocol;
	u8 ends_known;
	u8 old_state;
	u8 new_state;
	u8 icmp_type;
	u8 icmp_code;
	s32 signal;
	// The result of a signal, the code of an exit, or the kernel's reason for a reset.
	s32 detail;
	u32 netns;
	u32 ifindex;
	u32 netlink_port_id;
	struct process by;
	// Local and remote; or source and destination of an entry's original direction, then of its reply.
	struct end ends[4];
	struct process to;
	u32 unused;
};

// Most events have neither a second pair of ends nor somebody whom they go to, and are cut off before those.
enum {
	SHORT = __builtin_offsetof(struct event, ends) + 2 * sizeof(struct end),
	FOUR_ENDS = __builtin_offsetof(struct event, to),
};

// The offsets that decode.go reads at.
_Static_assert(__builtin_offsetof(struct event, kind) == 8, "decode.go");
_Static_assert(__builtin_offsetof(struct event, signal) == 16, "decode.go");
_Static_assert(__builtin_offsetof(struct event, netns) == 24, "decode.go");
_Static_assert(__builtin_offsetof(struct event, by) == 36, "decode.go");
_Static_assert(__builtin_offsetof(struct event, ends) == 72, "decode.go");
_Static_assert(__builtin_offsetof(struct event, to) == 152, "decode.go");
_Static_assert(sizeof(struct end) == 20, "decode.go");
_Static_assert(SHORT == 112, "decode.go");
_Static_assert(sizeof(struct event) == 192, "decode.go");

struct {
	MAP_NUMBER(type, MAP_RINGBUF);
	MAP_NUMBER(max_entries, 4096); // the loader sets it
} ring SEC(".maps");

// How many events of a kind found the ring full.
struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, KINDS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} lost SEC(".maps");

// Which namespaces are watched, by inode, and for what. Inodes of namespaces of all types are drawn from one range, so
// network and PID namespaces share the map.
enum subject {
	SOCKETS = 1 << 0,
	PROCESSES = 1 << 1,
};

struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, 8192);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} watched SEC(".maps");

// Which ports are watched in every namespace: protocol << 16 | port.
struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, 8192);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u8);
} ports SEC(".maps");

INLINE int watches(u32 inode, u32 subject)
{
	u32 *subjects = bpf_map_lookup_elem(&watched, &inode);

	return subjects && (*subjects & subject);
}

INLINE int watches_port(u8 protocol, be16 port)
{
	u32 key = (u32)protocol << 16 | from_be16(port);

	return bpf_map_lookup_elem(&ports, &key) != NULL;
}

// begin reserves an event of that size, all zero but for its time and kind; NULL, and counted as lost, where the ring is full.
INLINE struct event *begin(enum kind kind, const u64 size)
{
	struct event *e = bpf_ringbuf_reserve(&ring, size, 0);
	u64 *count;
	u32 key = kind;

	if (!e) {
		count = bpf_map_lookup_elem(&lost, &key);
		if (count)
			__sync_fetch_and_add(count, 1); // an interrupt may count here too
		return NULL;
	}
	__builtin_memset(e, 0, size);
	e->mono_ns = bpf_ktime_get_ns();
	e->kind = kind;
	return e;
}

// What a connection may have is read when the reader looks the next time: to be woken for each would cost it more than all the rest.
INLINE int is_of_connection(u8 kind)
{
	return kind == SOCKET_STATE || kind == RESET_SENT || kind == RESET_RECEIVED || kind == ICMP_SENT || kind == ENTRY_DELETED || kind == ENTRY_NEW ||
	       kind == ENTRY_UPDATED;
}

// When the program last woke the reader. For some time after that the reader looks by itself (tracer_linux.go, gather).
enum {
	GATHER_NS = 5000000,
};
static u64 woke_ns;

INLINE void end(struct event *e)
{
	u64 now = e->mono_ns;

	if (is_of_connection(e->kind) || now - woke_ns < GATHER_NS) {
		bpf_ringbuf_submit(e, RING_NO_WAKEUP);
		return;
	}
	woke_ns = now;
	bpf_ringbuf_submit(e, RING_FORCE_WAKEUP);
}

INLINE u32 netns_of_task(struct task_struct *task)
{
	struct nsproxy *proxy = LOAD(task->nsproxy);
	struct net *net;

	if (!proxy) // the task has left its namespaces: it is about to be reaped
		return 0;
	net = LOAD(proxy->net_ns);
	return LOAD(net->ns.inum);
}

// number_of_task finds the process's number in its own PID namespace, which is the last level of its numbers.
INLINE void number_of_task(struct task_struct *task, u32 *number, u32 *pidns)
{
	struct signal_struct *signal = LOAD(task->signal);
	struct pid *pid = LOAD(signal->pids[PIDTYPE_TGID]);
	const void *numbers = FIELD_ADDRESS(pid->numbers);
	struct upid *own = (void *)numbers + (u64)LOAD(pid->level) * SIZE_IN_KERNEL(struct upid);
	struct pid_namespace *ns = LOAD(own->ns);

	*number = LOAD(own->nr);
	*pidns = LOAD(ns->ns.inum);
}

INLINE void describe(struct process *p, struct task_struct *task)
{
	struct nsproxy *proxy = LOAD(task->nsproxy);
	struct mnt_namespace *mnt;

	p->pid = LOAD(task->tgid);
	number_of_task(task, &p->ns_pid, &p->pidns);
	p->netns = netns_of_task(task);
	if (proxy) {
		mnt = LOAD(proxy->mnt_ns);
		p->mntns = LOAD(mnt->ns.inum);
	}
	bpf_probe_read_kernel(p->comm, sizeof(p->comm), FIELD_ADDRESS(task->comm));
}

INLINE struct task_struct *current(void) { return (struct task_struct *)bpf_get_current_task(); }

// A process counts as watched by its PID namespace, or by its network namespace where that is watched for processes too.
INLINE int watches_process(struct task_struct *task)
{
	u32 number, pidns;

	if (watches(netns_of_task(task), PROCESSES))
		return 1;
	number_of_task(task, &number, &pidns);
	return watches(pidns, PROCESSES);
}

INLINE u32 netns_of_sock(struct sock *sk)
{
	struct net *net = LOAD(sk->__sk_common.skc_net.net);

	return LOAD(net->ns.inum);
}

INLINE void map_ipv4(struct end *to, be32 addr)
{
	to->addr[2] = to_be32(0xffff);
	to->addr[3] = addr;
}

// ends_of_sock tells a socket's two ends. The local port is the one that the socket was bound to, which outlives the
// moment at which the kernel gives the port back.
INLINE void ends_of_sock(struct event *e, struct sock *sk)
{
	struct inet_sock *inet = (struct inet_sock *)sk;

	if (LOAD(sk->__sk_common.skc_family) == AF_INET6) {
		bpf_probe_read_kernel(e->ends[0].addr, 16, FIELD_ADDRESS(sk->__sk_common.skc_v6_rcv_saddr));
		bpf_probe_read_kernel(e->ends[1].addr, 16, FIELD_ADDRESS(sk->__sk_common.skc_v6_daddr));
	} else {
		map_ipv4(&e->ends[0], LOAD(sk->__sk_common.skc_rcv_saddr));
		map_ipv4(&e->ends[1], LOAD(sk->__sk_common.skc_daddr));
	}
	e->ends[0].port = LOAD(inet->inet_sport);
	e->ends[1].port = LOAD(sk->__sk_common.skc_dport);
	e->ends_known = 2;
}
