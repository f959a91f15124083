/* iter/bpf_sk_storage_map: what is kept of connections that are open, for who reads the iterator. Costs nothing while it is not read. */
#include "flow.h"

SEC("iter/bpf_sk_storage_map")
int live(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct flow *flow = context->value;
	struct sock *socket = context->sk;
	struct tcp_sock *tcp;
	if (!flow || flow->kind != FLOW || !socket)
		return 0;
	tcp = kernel_tcp_socket(socket);
	if (tcp) {
		limits(flow, tcp);
		acknowledged(flow, tcp);
		flow->rtt_us = tcp->srtt_us >> 3;
		flow->min_rtt_us = tcp->rtt_min.s[0].v;
		flow->sent_again = tcp->total_retrans - flow->again_before;
	}
	sequence_write(context->meta->seq, flow, sizeof(*flow));
	return 0;
}
