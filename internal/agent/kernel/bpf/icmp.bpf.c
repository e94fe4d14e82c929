// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// ICMP errors that this kernel sends, by itself or for a rule that rejects.
#include "packet.h"

// icmp_sent(skb, type, code): skb is the packet that the error is about.
INLINE void icmp_sent(struct context *ctx, u8 flags)
{
	struct packet p;
	struct event *e;

	if (!read_packet(&p, (struct sk_buff *)ctx->args[0]) || !watches_packet(&p))
		return;
	e = begin(ICMP_SENT, SHORT);
	if (!e)
		return;
	e->netns = p.netns;
	e->ifindex = p.ifindex;
	e->protocol = p.protocol;
	e->icmp_type = ctx->args[1];
	e->icmp_code = ctx->args[2];
	e->flags = flags | BYSTANDER;
	e->ends[0] = p.source;
	e->ends[1] = p.destination;
	e->ends_known = 2;
	describe(&e->by, current());
	end(e);
}

// Since 6.11, and past the rate limits.
SEC("raw_tp/icmp_send")
int dp_icmp(struct context *ctx)
{
	icmp_sent(ctx, 0);
	return 0;
}

SEC("fentry/__icmp_send")
int dp_icmp_old(struct context *ctx)
{
	icmp_sent(ctx, REQUESTED);
	return 0;
}

SEC("fentry/icmp6_send")
int dp_icmp6(struct context *ctx)
{
	icmp_sent(ctx, REQUESTED);
	return 0;
}
