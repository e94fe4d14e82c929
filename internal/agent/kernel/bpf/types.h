// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// The kernel's types, as far as the programs read them. Only the names of structures and fields count: the loader finds
// by the running kernel's BTF where each field really is (CO-RE). Neither sizes nor order are those of any kernel.
#pragma once

#include "bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// Processes (include/linux/sched.h, sched/signal.h, pid.h, nsproxy.h).

struct ns_common {
	u32 inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct net {
	struct ns_common ns;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
	struct net *net_ns;
};

struct upid {
	s32 nr;
	struct pid_namespace *ns;
};

struct pid {
	u32 level;
	struct upid numbers[1];
};

typedef struct {
	s32 counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	s32 group_exit_code;
	u32 flags;
	struct pid *pids[2];
};

struct task_struct {
	u32 flags;
	s32 tgid;
	s32 exit_code;
	u64 start_time;
	char comm[16];
	struct task_struct *group_leader;
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
};

struct kernel_siginfo {
	s32 si_code;
};

enum {
	PIDTYPE_TGID = 1,
	PF_KTHREAD = 0x00200000,
	SIGNAL_GROUP_EXIT = 4,
	SI_USER = 0,
	SI_QUEUE = -1,
	SI_TKILL = -6,
};

// Sockets (include/net/sock.h, inet_sock.h).

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	u8 bytes[16]; // the kernel's has a union; it is read by bytes
};

struct sock_common {
	be32 skc_daddr;
	be32 skc_rcv_saddr;
	be16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	u8 skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	unsigned long skc_flags;
};

typedef struct {
	s32 owned;
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	u16 sk_protocol;
	s32 sk_err;
	void *sk_socket;
};

struct inet_sock {
	struct sock sk;
	be16 inet_sport;
};

enum {
	AF_INET = 2,
	AF_INET6 = 10,
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	SOCK_DEAD = 1 << 0, // of skc_flags, which numbers bits
};

// States of include/net/tcp_states.h.
enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LISTEN = 10,
	TCP_NEW_SYN_RECV = 12,
};

// Packets (include/linux/skbuff.h, netdevice.h, net/dst.h).

struct net_device {
	possible_net_t nd_net;
};

struct dst_entry {
	struct net_device *dev;
};

// What netlink keeps in cb (include/linux/netlink.h): whose socket sent the message, 0 for the kernel.
struct netlink_skb_parms {
	u32 portid;
};

struct sk_buff {
	u8 cb[48];
	struct net_device *dev;
	struct sock *sk;
	unsigned long _skb_refdst;
	s32 skb_iif;
	u16 network_header;
	u8 *head;
};

// Connection tracking (include/net/netfilter/nf_conntrack.h, nf_conntrack_tuple.h).

union nf_inet_addr {
	u8 bytes[16]; // read by bytes
};

union nf_conntrack_man_proto {
	be16 all;
};

struct nf_conntrack_man {
	union nf_inet_addr u3;
	union nf_conntrack_man_proto u;
	u16 l3num;
};

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
	struct {
		union nf_inet_addr u3;
		union {
			be16 all;
		} u;
		u8 protonum;
	} dst;
};

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};

struct nf_conn {
	u32 timeout;
	struct nf_conntrack_tuple_hash tuplehash[2];
	unsigned long status;
	possible_net_t ct_net;
};

enum {
	IPS_DYING = 1 << 9,
};

#pragma clang attribute pop
