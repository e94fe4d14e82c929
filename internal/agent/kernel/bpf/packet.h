// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// How the packet is read that an ICMP error or a reset answers.
#pragma once

#include "trace.h"

struct packet {
	u32 netns;
	u32 ifindex;
	u8 protocol;
	u8 tcp_flags; // 0 for other protocols
	struct end source;
	struct end destination;
};

enum {
	TCP_RST = 1 << 2,
	DST_FLAGS = 3, // the low bits of _skb_refdst
};

// A packet that is being received has a device; one that is being sent may only have a route.
INLINE u32 netns_of_packet(struct sk_buff *skb)
{
	struct net_device *dev = LOAD(skb->dev);
	struct dst_entry *dst;
	struct net *net;

	if (!dev) {
		dst = (struct dst_entry *)(LOAD(skb->_skb_refdst) & ~(unsigned long)DST_FLAGS);
		dev = LOAD(dst->dev);
	}
	net = LOAD(dev->nd_net.net);
	return LOAD(net->ns.inum);
}

// What RFC 791, RFC 8200 and RFC 9293 put on the wire, as far as it is read here.
struct ipv4 {
	u8 version_and_length; // the length in words of 4 bytes
	u8 tos;
	be16 total;
	be16 id;
	be16 fragment;
	u8 ttl;
	u8 protocol;
	be16 checksum;
	be32 source;
	be32 destination;
};

struct ipv6 {
	be32 version_and_flow;
	be16 payload;
	u8 next;
	u8 hops;
	be32 source[4];
	be32 destination[4];
};

struct transport {
	be16 source;
	be16 destination;
	be32 sequence;
	be32 acknowledgment;
	u8 offset;
	u8 flags;
};

enum {
	FRAGMENT_OFFSET = 0x1fff,
	PORTS_LENGTH = 4,
};

// read_packet reads addresses and, of TCP and UDP without extension headers, ports. It answers 0 for what is neither IPv4
// nor IPv6.
INLINE int read_packet(struct packet *p, struct sk_buff *skb)
{
	const void *ip = LOAD(skb->head) + LOAD(skb->network_header);
	u8 version = LOAD(*(const u8 *)ip) >> 4;
	struct transport transport = {};
	u32 length = sizeof(struct ipv6);
	struct ipv4 v4;
	struct ipv6 v6;

	__builtin_memset(p, 0, sizeof(*p));
	p->netns = netns_of_packet(skb);
	p->ifindex = LOAD(skb->skb_iif);
	if (version == 4) {
		v4 = LOAD(*(const struct ipv4 *)ip);
		length = (v4.version_and_length & 15) * 4;
		p->protocol = v4.protocol;
		map_ipv4(&p->source, v4.source);
		map_ipv4(&p->destination, v4.destination);
		if (from_be16(v4.fragment) & FRAGMENT_OFFSET) // only the first one has the ports
			return 1;
	} else if (version == 6) {
		v6 = LOAD(*(const struct ipv6 *)ip);
		p->protocol = v6.next;
		__builtin_memcpy(p->source.addr, v6.source, sizeof(v6.source));
		__builtin_memcpy(p->destination.addr, v6.destination, sizeof(v6.destination));
	} else {
		return 0;
	}
	if (p->protocol == IPPROTO_TCP)
		bpf_probe_read_kernel(&transport, sizeof(transport), ip + length);
	else if (p->protocol == IPPROTO_UDP)
		bpf_probe_read_kernel(&transport, PORTS_LENGTH, ip + length);
	p->source.port = transport.source;
	p->destination.port = transport.destination;
	p->tcp_flags = transport.flags;
	return 1;
}

// What a node answers for somebody else (REJECT, or nobody listening on a NodePort) it answers in a namespace that is not
// watched: there the ports of the packet decide.
INLINE int watches_packet(const struct packet *p)
{
	return watches(p->netns, SOCKETS) || watches_port(p->protocol, p->destination.port) || watches_port(p->protocol, p->source.port);
}
