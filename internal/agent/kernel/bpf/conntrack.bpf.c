// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Entries of connection tracking: what the kernel tells of them over netlink, and who deletes one.
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
	e = begin(ENTRY_DELETED, sizeof(*e));
	if (!e)
		return 0;
	net = LOAD(ct->ct_net.net);
	e->netns = LOAD(net->ns.inum);
	e->protocol = protocol;
	e->netlink_port_id = portid;
	e->flags |= expired ? EXPIRED : EARLY;
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
	NEWS = 1 << 8,         // NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_NEW: of a new entry or of a change
	DELETION = 1 << 8 | 2, // IPCTNL_MSG_CT_DELETE
	NLM_F_CREATE = 0x400,  // with NEWS: the entry is new
	CTA_TYPE = 0x3fff,     // without the flag of nested attributes
	CTA_TUPLE_ORIG = 1,
	CTA_TUPLE_REPLY = 2,
	CTA_TIMEOUT = 7,
	CTA_TUPLE_PROTO = 2,
	CTA_PROTO_NUM = 1,
	CTA_PROTO_DST_PORT = 3,
	// How many attributes may come between the tuples and the timeout: zone, ID, status.
	CTA_BEFORE_TIMEOUT = 5,
};

struct told_tuple {
	struct end source;
	struct end destination;
	u8 protocol;
	u32 length;
};

enum reading {
	READ,
	OF_NO_PORTS, // of a protocol that has none
	UNREADABLE,  // not laid out as expected
};

INLINE enum reading read_told(struct told_tuple *to, const struct __sk_buff *skb, u32 at, u8 family, u16 type)
{
	struct transport_tuple transport;
	struct attribute header;
	struct tuple4 v4;
	struct tuple6 v6;

	__builtin_memset(to, 0, sizeof(*to));
	if (family == AF_INET6) {
		if (bpf_skb_load_bytes(skb, at, &v6, sizeof(v6)))
			return UNREADABLE;
		header = v6.header;
		transport = v6.transport;
		__builtin_memcpy(to->source.addr, v6.source, sizeof(v6.source));
		__builtin_memcpy(to->destination.addr, v6.destination, sizeof(v6.destination));
	} else {
		if (bpf_skb_load_bytes(skb, at, &v4, sizeof(v4)))
			return UNREADABLE;
		header = v4.header;
		transport = v4.transport;
		map_ipv4(&to->source, v4.source);
		map_ipv4(&to->destination, v4.destination);
	}
	if ((header.type & CTA_TYPE) != type || (transport.header.type & CTA_TYPE) != CTA_TUPLE_PROTO || transport.protocol_header.type != CTA_PROTO_NUM)
		return UNREADABLE;
	if (transport.protocol != IPPROTO_TCP && transport.protocol != IPPROTO_UDP)
		return OF_NO_PORTS;
	if (transport.destination.header.type != CTA_PROTO_DST_PORT)
		return UNREADABLE;
	to->protocol = transport.protocol;
	to->source.port = transport.source.number;
	to->destination.port = transport.destination.number;
	to->length = header.length;
	return READ;
}

// had_time tells whether a deleted entry had time left. Since 5.8 the kernel tells the time that was left, but not one of 0.
INLINE int had_time(const struct __sk_buff *skb, u32 at)
{
	struct attribute header;
	int i;

#pragma unroll
	for (i = 0; i <= CTA_BEFORE_TIMEOUT; i++) {
		if (bpf_skb_load_bytes(skb, at, &header, sizeof(header)) || header.length < sizeof(header))
			return 0;
		if ((header.type & CTA_TYPE) == CTA_TIMEOUT)
			return 1;
		at += (header.length + 3) & ~3U;
	}
	return 0;
}

// What becomes of a message.
enum {
	TAKEN = 0,      // the socket does not get it: it is an event by now, or nobody wants it
	UNTOUCHED = -1, // the socket gets the whole of it
};

// The filter of a socket of the agent's own that listens to conntrack: it runs within the call, packet or timer that the message is about, while
// the process that asked for it still runs. It turns the message into an event, which costs less than to queue it and to read it from there.
SEC("socket/conntrack")
int dp_entry_told(struct __sk_buff *skb)
{
	struct sk_buff *message = (struct sk_buff *)skb;
	const struct netlink_skb_parms *from = FIELD_ADDRESS(message->cb);
	struct told_tuple original, reply;
	enum kind kind = ENTRY_NEW;
	struct header header;
	enum reading reading;
	int early = 0;
	struct event *e;

	if (LOAD(from->portid)) // a process may send to the group, too
		return TAKEN;
	if (bpf_skb_load_bytes(skb, 0, &header, sizeof(header)) || (header.type != NEWS && header.type != DELETION))
		return UNTOUCHED;
	reading = read_told(&original, skb, sizeof(header), header.family, CTA_TUPLE_ORIG);
	if (reading == READ)
		reading = read_told(&reply, skb, sizeof(header) + original.length, header.family, CTA_TUPLE_REPLY);
	if (reading != READ)
		return reading == OF_NO_PORTS ? TAKEN : UNTOUCHED;
	if (!watches_port(original.protocol, original.destination.port) && !watches_port(original.protocol, reply.source.port))
		return TAKEN;
	if (header.type == DELETION) {
		kind = ENTRY_DELETED;
		// Where another listener did not get it, the kernel tells all of them again later, from a thread of its own.
		if (header.portid && (LOAD(current()->flags) & PF_KTHREAD))
			return TAKEN;
		early = had_time(skb, sizeof(header) + original.length + reply.length);
		// Every TCP connection leaves an entry that expires, by nobody's will.
		if (!early && !header.portid && original.protocol == IPPROTO_TCP)
			return TAKEN;
	} else if (!(header.flags & NLM_F_CREATE)) {
		kind = ENTRY_UPDATED;
		if (original.protocol == IPPROTO_TCP) // about four for every connection
			return TAKEN;
	}
	e = begin(kind, FOUR_ENDS);
	if (!e)
		return TAKEN;
	e->netns = netns_of_sock(LOAD(message->sk)); // that of the socket, while its filter runs
	e->protocol = original.protocol;
	e->netlink_port_id = header.portid;
	if (early)
		e->flags |= EARLY;
	e->ends[0] = original.source;
	e->ends[1] = original.destination;
	e->ends[2] = reply.source;
	e->ends[3] = reply.destination;
	e->ends_known = 4;
	if (header.portid)
		describe(&e->by, current());
	else
		e->flags |= BYSTANDER;
	end(e);
	return TAKEN;
}
