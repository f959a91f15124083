/* sock_ops: what the kernel's TCP does. A SYN leaves, a connection is there, a round trip was taken, a state changes. Its record is told
 * when it is closed. Callbacks that other programs of the same control group want stay on, and no answer of theirs is touched. */
#include "flow.h"

INLINE void ends_of(struct bpf_sock_ops *context, struct ends *ends)
{
	ends->local_port = context->local_port;
	ends->peer_port = __builtin_bswap32(context->remote_port);
	if (context->family == V4) {
		mapped(ends->local, context->local_ip4);
		mapped(ends->peer, context->remote_ip4);
		return;
	}
	__u32 *local = (__u32 *)ends->local, *peer = (__u32 *)ends->peer;
	local[0] = context->local_ip6[0];
	local[1] = context->local_ip6[1];
	local[2] = context->local_ip6[2];
	local[3] = context->local_ip6[3];
	peer[0] = context->remote_ip6[0];
	peer[1] = context->remote_ip6[1];
	peer[2] = context->remote_ip6[2];
	peer[3] = context->remote_ip6[3];
}

/* Four places for each doubling. */
INLINE __u32 place_of(__u32 us)
{
	__u32 power = 0, rest = us;
	for (int n = 4; n >= 0; n--) {
		__u32 shift = 1u << n;
		if (rest >> shift) {
			rest >>= shift;
			power += shift;
		}
	}
	if (power < TRIPS_FROM)
		return 0;
	__u32 place = (power - TRIPS_FROM) * 4 + ((us >> (power - 2)) & 3);
	return place < TRIPS ? place : TRIPS - 1;
}

INLINE void known(struct bpf_sock_ops *context, struct flow *flow)
{
	flow->rtt_us = context->srtt_us >> 3;
	flow->min_rtt_us = context->rtt_min;
	flow->sent_again = context->total_retrans - flow->again_before;
}

/* Marks a subflow of MPTCP, once its peer takes part in that; one that joins a connection belongs to whom the connection does. */
INLINE void of_mptcp(struct flow *flow, void *socket)
{
	struct tcp_sock *tcp = kernel_tcp_socket(socket);
	struct mptcp_subflow_context *subflow;
	struct mptcp_sock *whole = NULL;
	__u32 token = 0;
	if (!tcp || !EXISTS(tcp->is_mptcp) || !tcp->is_mptcp)
		return;
	subflow = tcp->inet_conn.icsk_ulp_data;
	if (!subflow || read_kernel(&whole, sizeof(whole), &subflow->conn) || !whole)
		return;
	if (read_kernel(&token, sizeof(token), &whole->token) || !token)
		return;
	if (READ_BITS(subflow, mp_join) || READ_BITS(subflow, request_join)) {
		struct owner *owner = map_lookup(&TOKENS, &token);
		if (owner)
			flow->owner = *owner;
	} else if (flow->owner.pid) {
		map_update(&TOKENS, &token, &flow->owner, BPF_ANY);
	}
	if (READ_BITS(subflow, mp_join) || READ_BITS(subflow, mp_capable))
		flow->token = token;
}

INLINE void listen_for(struct bpf_sock_ops *context)
{
	callbacks(context, context->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTT_CB_FLAG);
}

/* Once a round trip. Newer kernels call before they have set what they have found, and hand it over (args: sample, smoothed). */
INLINE void round_trip(struct bpf_sock_ops *context, struct flow *flow)
{
	__u32 smoothed = context->args[1], place = place_of((smoothed ? smoothed : context->srtt_us) >> 3);
	if (place < TRIPS)
		flow->trips[place]++;
}

INLINE void closed(struct bpf_sock_ops *context, struct flow *flow, void *socket)
{
	struct tcp_sock *tcp = kernel_tcp_socket(socket);
	if (!flow->syn && !flow->connected)
		return;
	known(context, flow);
	flow->ended = time_now();
	if (tcp) {
		flow->error = tcp->inet_conn.icsk_inet.sk.sk_err;
		flow->lost = tcp->lost - flow->lost_before;
		flow->reordered = tcp->reord_seen - flow->reordered_before;
		flow->up.bytes = tcp->bytes_sent - tcp->bytes_retrans - flow->sent_before;
		limits(flow, tcp);
		acknowledged(flow, tcp);
	}
	if (flow->connected) {
		/* The kernel counts the end (FIN) as one. */
		__u64 received = context->bytes_received - flow->received_before;
		flow->down.bytes = received - (flow->fins & BY_PEER && received ? 1 : 0);
	}
	tell(flow, sizeof(*flow));
	/* What is told is over: the socket may be connected anew. */
	flow->kind = 0;
	flow->syn = flow->connected = 0;
}

SEC("sockops")
int sock_ops(struct bpf_sock_ops *context)
{
	__u32 op = context->op;
	struct bpf_sock *socket = context->sk;
	bool begins = op == BPF_SOCK_OPS_TCP_CONNECT_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;
	struct flow *flow;
	if (!socket)
		return 1;
	if (!begins && op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && op != BPF_SOCK_OPS_STATE_CB && op != BPF_SOCK_OPS_RTT_CB)
		return 1;
	flow = storage(&FLOWS, socket, NULL, begins ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (!flow)
		return 1;
	if (op == BPF_SOCK_OPS_RTT_CB) {
		round_trip(context, flow);
	} else if (op == BPF_SOCK_OPS_STATE_CB) {
		__u32 state = context->args[1];
		if (state == FIN_WAIT1 || state == LAST_ACK)
			says_its_end(flow, BY_PROGRAM);
		else if (state == CLOSE_WAIT)
			says_its_end(flow, BY_PEER);
		else if (state == CLOSED)
			closed(context, flow, socket);
	} else {
		__u64 now = time_now();
		flow->kind = FLOW;
		flow->cookie = cookie_of(context);
		ends_of(context, &flow->ends);
		if (op == BPF_SOCK_OPS_TCP_CONNECT_CB) {
			flow->syn = now;
			if (!flow->asked)
				flow->asked = now;
		} else {
			flow->connected = now;
			known(context, flow);
		}
		if (op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
			flow->origin = ACCEPTED;
			flow->asked = now;
		}
		of_mptcp(flow, socket);
		listen_for(context);
	}
	return 1;
}
