/* cgroup/connect4|6, sendmsg4|6, post_bind4|6: a process asks for a connection, sends datagrams, or listens. Whose a socket is, is told
 * here alone, in the process itself. All may go on. */
#include "flow.h"

INLINE void port_of(void *socket)
{
	struct port *port = storage(&PORTS, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (port && !port->owner.pid)
		owned(&port->owner);
}

/* What is kept of a connection that is asked for; none of what is no TCP. */
INLINE struct flow *asked(struct bpf_sock_addr *context)
{
	struct bpf_sock *socket = context->sk;
	struct flow *flow;
	if (!socket)
		return NULL;
	if (context->protocol == UDP)
		port_of(socket);
	if (context->protocol != TCP)
		return NULL;
	/* It may have been connected before, or bound. */
	flow = storage(&FLOWS, socket, NULL, 0);
	if (flow) {
		never_began(flow);
		storage_delete(&FLOWS, socket);
	}
	flow = storage(&FLOWS, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return NULL;
	owned(&flow->owner);
	flow->kind = FLOW;
	flow->asked = time_now();
	flow->ends.peer_port = __builtin_bswap16(context->user_port);
	return flow;
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *context)
{
	struct flow *flow = asked(context);
	if (flow)
		mapped(flow->ends.peer, context->user_ip4);
	return 1;
}

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *context)
{
	struct flow *flow = asked(context);
	if (flow) {
		__u32 *peer = (__u32 *)flow->ends.peer;
		peer[0] = context->user_ip6[0];
		peer[1] = context->user_ip6[1];
		peer[2] = context->user_ip6[2];
		peer[3] = context->user_ip6[3];
	}
	return 1;
}

INLINE int sends(struct bpf_sock_addr *context)
{
	if (context->sk)
		port_of(context->sk);
	return 1;
}

SEC("cgroup/sendmsg4")
int sendmsg4(struct bpf_sock_addr *context)
{
	return sends(context);
}

SEC("cgroup/sendmsg6")
int sendmsg6(struct bpf_sock_addr *context)
{
	return sends(context);
}

INLINE int bound(struct bpf_sock *socket)
{
	if (socket->protocol == UDP) {
		port_of(socket);
	} else if (socket->protocol == TCP) {
		struct flow *flow = storage(&FLOWS, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
		if (flow)
			owned(&flow->owner);
	}
	return 1;
}

SEC("cgroup/post_bind4")
int post_bind4(struct bpf_sock *socket)
{
	return bound(socket);
}

SEC("cgroup/post_bind6")
int post_bind6(struct bpf_sock *socket)
{
	return bound(socket);
}
