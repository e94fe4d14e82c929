// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Who deletes an entry of connection tracking.
#include "trace.h"

// An entry's addresses have 16 bytes, of which IPv4 uses the first four.
INLINE void read_end(struct end *to, const void *addr, be16 port, u16 family)
{
	if (family == AF_INET6)
		bpf_probe_read_kernel(to->addr, 16, addr);
	else
		map_ipv4(to, LOAD(*(const be32 *)addr));
	to->port = port;
}

// nf_ct_delete(ct, portid, report)
SEC("fentry/nf_ct_delete")
int dp_entry(struct context *ctx)
{
	struct nf_conn *ct = (struct nf_conn *)ctx->args[0];
	u32 portid = ctx->args[1];
	struct nf_conntrack_tuple *original = &ct->tuplehash[0].tuple;
	struct nf_conntrack_tuple *reply = &ct->tuplehash[1].tuple;
	u8 protocol = LOAD(original->dst.protonum);
	be16 asked = LOAD(original->dst.u.all);
	be16 served = LOAD(reply->src.u.all);
	struct event *e;
	struct net *net;
	u16 family;
	int expired;

	if (!watches_port(protocol, asked) && !watches_port(protocol, served))
		return 0;
	if (LOAD(ct->status) & IPS_DYING) // somebody was first: this call will delete nothing
		return 0;
	// The timeout is in jiffies, 32 bits that wrap around.
	expired = (s32)(LOAD(ct->timeout) - (u32)bpf_jiffies64()) <= 0;
	// Every TCP connection leaves an entry that expires, by nobody's will.
	if (expired && !portid && protocol == IPPROTO_TCP)
		return 0;
	e = begin(ENTRY_DELETED);
	if (!e)
		return 0;
	net = LOAD(ct->ct_net.net);
	e->netns = LOAD(net->ns.inum);
	e->protocol = protocol;
	e->netlink_port_id = portid;
	if (expired)
		e->flags |= EXPIRED;
	if (!portid)
		e->flags |= BYSTANDER;
	family = LOAD(original->src.l3num);
	read_end(&e->ends[0], FIELD_ADDRESS(original->src.u3), LOAD(original->src.u.all), family);
	read_end(&e->ends[1], FIELD_ADDRESS(original->dst.u3), asked, family);
	read_end(&e->ends[2], FIELD_ADDRESS(reply->src.u3), served, family);
	read_end(&e->ends[3], FIELD_ADDRESS(reply->dst.u3), LOAD(reply->dst.u.all), family);
	e->ends_known = 4;
	describe(&e->by, current());
	end(e);
	return 0;
}

// Where functions cannot be traced, a deletion shows where the kernel tells the listeners of netlink about it: at once, while the
// process that asked for it still runs. Followed are sockets of the agent itself, by SO_COOKIE.
struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, 1024);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, u8);
} followed SEC(".maps");

// A message about an entry (linux/netlink.h, linux/netfilter/nfnetlink_conntrack.h). Attributes have 4 bytes of header and are
// padded to 4; a tuple's come in this order.
struct header {
	u32 length;
	u16 type;
	u16 flags;
	u32 sequence;
	u32 portid; // of who asked, as the kernel fills it for events
	u8 family;
	u8 version;
	be16 resource;
};

struct attribute {
	u16 length;
	u16 type;
};

struct port {
	struct attribute header;
	be16 number;
	u16 padding;
};

struct transport_tuple {
	struct attribute header;
	struct attribute protocol_header;
	u8 protocol;
	u8 padding[3];
	struct port source;
	struct port destination;
};

struct tuple4 {
	struct attribute header;
	struct attribute ip_header;
	struct attribute source_header;
	be32 source;
	struct attribute destination_header;
	be32 destination;
	struct transport_tuple transport;
};

struct tuple6 {
	struct attribute header;
	struct attribute ip_header;
	struct attribute source_header;
	be32 source[4];
	struct attribute destination_header;
	be32 destination[4];
	struct transport_tuple transport;
};

enum {
	DELETION = 1 << 8 | 2, // NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE
	CTA_TYPE = 0x3fff,     // without the flag of nested attributes
	CTA_TUPLE_ORIG = 1,
	CTA_TUPLE_REPLY = 2,
	CTA_TUPLE_PROTO = 2,
	CTA_PROTO_DST_PORT = 3,
};

struct told_tuple {
	struct end source;
	struct end destination;
	u8 protocol;
};

// read_told reads a tuple at that address, and answers how long it is; 0 where it is not laid out as expected.
INLINE u32 read_told(struct told_tuple *to, const void *at, u8 family, u16 type)
{
	struct transport_tuple transport;
	struct attribute header;
	struct tuple4 v4;
	struct tuple6 v6;

	__builtin_memset(to, 0, sizeof(*to));
	if (family == AF_INET6) {
		v6 = LOAD(*(const struct tuple6 *)at);
		header = v6.header;
		transport = v6.transport;
		__builtin_memcpy(to->source.addr, v6.source, sizeof(v6.source));
		__builtin_memcpy(to->destination.addr, v6.destination, sizeof(v6.destination));
	} else {
		v4 = LOAD(*(const struct tuple4 *)at);
		header = v4.header;
		transport = v4.transport;
		map_ipv4(&to->source, v4.source);
		map_ipv4(&to->destination, v4.destination);
	}
	if ((header.type & CTA_TYPE) != type || (transport.header.type & CTA_TYPE) != CTA_TUPLE_PROTO || transport.destination.header.type != CTA_PROTO_DST_PORT)
		return 0;
	to->protocol = transport.protocol;
	to->source.port = transport.source.number;
	to->destination.port = transport.destination.number;
	return header.length;
}

// sk_data_ready(sk), since 6.3: the message is the last one in the socket's queue, unless another processor was as fast. Told are
// deletions that a process asked for.
SEC("raw_tp/sk_data_ready")
int dp_entry_told(struct context *ctx)
{
	struct sock *sk = (struct sock *)ctx->args[0];
	struct told_tuple original, reply;
	struct sk_buff *skb;
	struct header header;
	const void *message;
	struct event *e;
	u64 cookie;
	u32 length;

	if (LOAD(sk->__sk_common.skc_family) != AF_NETLINK)
		return 0;
	cookie = LOAD(sk->__sk_common.skc_cookie.counter);
	if (!bpf_map_lookup_elem(&followed, &cookie))
		return 0;
	skb = LOAD(sk->sk_receive_queue.prev);
	message = LOAD(skb->data);
	header = LOAD(*(const struct header *)message);
	if (header.type != DELETION || !header.portid)
		return 0;
	message += sizeof(header);
	length = read_told(&original, message, header.family, CTA_TUPLE_ORIG);
	if (!length || !read_told(&reply, message + length, header.family, CTA_TUPLE_REPLY))
		return 0;
	if (!watches_port(original.protocol, original.destination.port) && !watches_port(original.protocol, reply.source.port))
		return 0;
	e = begin(ENTRY_DELETED);
	if (!e)
		return 0;
	e->netns = netns_of_sock(sk);
	e->protocol = original.protocol;
	e->netlink_port_id = header.portid;
	e->ends[0] = original.source;
	e->ends[1] = original.destination;
	e->ends[2] = reply.source;
	e->ends[3] = reply.destination;
	e->ends_known = 4;
	describe(&e->by, current());
	end(e);
	return 0;
}
