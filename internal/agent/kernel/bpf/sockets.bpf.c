// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// TCP and UDP sockets: listeners, ends of connections, resets.
#include "packet.h"

// Where the kernel tells no reason for a reset; its own begin at 0 (include/net/rstreason.h).
enum {
	REASON_UNKNOWN = -1,
};

// told is which changes of state are worth an event. Of an ordinary connection only one is: the side that sends its FIN
// first. The others are aborts, and a listener's begin and end. Nothing is read for the rest, which is most.
INLINE enum kind told(u32 from, u32 to)
{
	if (to == TCP_LISTEN)
		return LISTENER_OPENED;
	if (from == TCP_LISTEN && to == TCP_CLOSE) // a copy of the listener becomes each new connection
		return LISTENER_CLOSED;
	if (from == TCP_ESTABLISHED && to == TCP_FIN_WAIT1)
		return SOCKET_STATE;
	if (to == TCP_CLOSE && (from == TCP_ESTABLISHED || from == TCP_SYN_RECV || from == TCP_FIN_WAIT1 || from == TCP_CLOSE_WAIT))
		return SOCKET_STATE;
	return NOTHING;
}

// by_process tells whether a process is doing something to its full socket, and not a packet or a timer, which leave an error in it
// first. A process holds the lock of its socket; the others take none that is held, but what they leave to its owner is their doing all
// the same. Only the connections that wait for accept have no owner when the close of their listener aborts them: they are not
// attached to a file, and no orphans.
INLINE int by_process(struct sock *sk)
{
	if (LOAD(sk->sk_err))
		return 0;
	return LOAD(sk->sk_lock.owned) || (!LOAD(sk->sk_socket) && !(LOAD(sk->__sk_common.skc_flags) & SOCK_DEAD));
}

// inet_sock_set_state(sk, oldstate, newstate)
SEC("raw_tp/inet_sock_set_state")
int dp_state(struct context *ctx)
{
	struct sock *sk = (struct sock *)ctx->args[0];
	u32 from = ctx->args[1], to = ctx->args[2];
	enum kind kind = told(from, to);
	struct event *e;
	u32 netns;

	if (kind == NOTHING || LOAD(sk->sk_protocol) != IPPROTO_TCP)
		return 0;
	netns = netns_of_sock(sk);
	if (!watches(netns, SOCKETS))
		return 0;
	e = begin(kind, SHORT);
	if (!e)
		return 0;
	e->netns = netns;
	e->protocol = IPPROTO_TCP;
	e->old_state = from;
	e->new_state = to;
	if (!by_process(sk))
		e->flags |= BYSTANDER;
	ends_of_sock(e, sk);
	if (to != TCP_FIN_WAIT1) // every connection has that one, and nobody asks who
		describe(&e->by, current());
	end(e);
	return 0;
}

INLINE u8 state_of(struct sock *sk) { return sk ? LOAD(sk->__sk_common.skc_state) : 0; }

// reset_to_packet tells of a reset that answers a packet: the local end is where the packet went. sk is NULL where no
// socket took the packet.
INLINE void reset_to_packet(struct sock *sk, struct sk_buff *skb, s32 reason, u8 flags)
{
	struct packet p;
	struct event *e;

	if (!read_packet(&p, skb))
		return;
	if (p.tcp_flags & TCP_RST) // the kernel answers no reset with a reset
		return;
	if (sk) // a packet that reached its socket has lost its device
		p.netns = netns_of_sock(sk);
	if (!watches_packet(&p))
		return;
	e = begin(RESET_SENT, SHORT);
	if (!e)
		return;
	e->netns = p.netns;
	e->ifindex = p.ifindex;
	e->protocol = IPPROTO_TCP;
	e->old_state = state_of(sk);
	e->detail = reason;
	e->flags = flags | BYSTANDER;
	e->ends[0] = p.destination;
	e->ends[1] = p.source;
	e->ends_known = 2;
	describe(&e->by, current());
	end(e);
}

// reset_of_socket tells of a reset that a socket receives, or sends by itself: closed with unread data, aborted, or timed out.
INLINE void reset_of_socket(enum kind kind, struct sock *sk, s32 reason, u8 flags)
{
	u32 netns = netns_of_sock(sk);
	struct event *e;

	if (!watches(netns, SOCKETS))
		return;
	e = begin(kind, SHORT);
	if (!e)
		return;
	e->netns = netns;
	e->protocol = IPPROTO_TCP;
	e->old_state = state_of(sk);
	e->detail = reason;
	e->flags = flags;
	ends_of_sock(e, sk);
	describe(&e->by, current());
	end(e);
}

INLINE void reset_sent(struct context *ctx, s32 reason)
{
	struct sock *sk = (struct sock *)ctx->args[0];
	struct sk_buff *skb = (struct sk_buff *)ctx->args[1];

	if (skb)
		reset_to_packet(sk, skb, reason, 0);
	else if (sk)
		reset_of_socket(RESET_SENT, sk, reason, by_process(sk) ? 0 : BYSTANDER);
}

// Since 6.10: tcp_send_reset(sk, skb, reason), for every reset; sk may be NULL. skb is NULL where no packet is answered.
SEC("raw_tp/tcp_send_reset")
int dp_reset(struct context *ctx)
{
	reset_sent(ctx, (s32)ctx->args[2]);
	return 0;
}

// Before 6.10: tcp_send_reset(sk, skb), only for resets with a full socket. dp_reset4 and dp_reset6 add the others.
SEC("raw_tp/tcp_send_reset")
int dp_reset_old(struct context *ctx)
{
	reset_sent(ctx, REASON_UNKNOWN);
	return 0;
}

// reset_without_socket tells of the resets that the old tracepoint leaves out.
INLINE void reset_without_socket(struct context *ctx)
{
	struct sock *sk = (struct sock *)ctx->args[0];
	struct sk_buff *skb = (struct sk_buff *)ctx->args[1];
	u8 state = state_of(sk);

	if (!sk || state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV)
		reset_to_packet(sk, skb, REASON_UNKNOWN, REQUESTED);
}

SEC("fentry/tcp_v4_send_reset")
int dp_reset4(struct context *ctx)
{
	reset_without_socket(ctx);
	return 0;
}

SEC("fentry/tcp_v6_send_reset")
int dp_reset6(struct context *ctx)
{
	reset_without_socket(ctx);
	return 0;
}

// nf_send_reset(net, sk, oldskb, hook): a rule of iptables or nftables rejects with a reset.
INLINE void reset_by_rule(struct context *ctx)
{
	reset_to_packet(NULL, (struct sk_buff *)ctx->args[2], REASON_UNKNOWN, REQUESTED | BY_RULE);
}

SEC("fentry/nf_send_reset")
int dp_rule_reset4(struct context *ctx)
{
	reset_by_rule(ctx);
	return 0;
}

SEC("fentry/nf_send_reset6")
int dp_rule_reset6(struct context *ctx)
{
	reset_by_rule(ctx);
	return 0;
}

// tcp_receive_reset(sk): a reset that was in the window and ends the connection.
SEC("raw_tp/tcp_receive_reset")
int dp_reset_in(struct context *ctx)
{
	reset_of_socket(RESET_RECEIVED, (struct sock *)ctx->args[0], REASON_UNKNOWN, BYSTANDER);
	return 0;
}

// Client sockets of UDP come and go as connections do: only those of a watched port are told.
INLINE void udp_closed(struct sock *sk)
{
	struct inet_sock *inet = (struct inet_sock *)sk;
	struct event *e;
	u32 netns;

	if (!watches_port(IPPROTO_UDP, LOAD(inet->inet_sport)))
		return;
	netns = netns_of_sock(sk);
	if (!watches(netns, SOCKETS))
		return;
	e = begin(UDP_CLOSED, SHORT);
	if (!e)
		return;
	e->netns = netns;
	e->protocol = IPPROTO_UDP;
	ends_of_sock(e, sk);
	describe(&e->by, current());
	end(e);
}

SEC("fentry/udp_destroy_sock")
int dp_udp4_closed(struct context *ctx)
{
	udp_closed((struct sock *)ctx->args[0]);
	return 0;
}

SEC("fentry/udpv6_destroy_sock")
int dp_udp6_closed(struct context *ctx)
{
	udp_closed((struct sock *)ctx->args[0]);
	return 0;
}
