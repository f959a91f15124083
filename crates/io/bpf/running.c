/* iter/task_file and iter/tcp: connections that were there before us, read once when a measurement of the whole host begins. What they
 * were is not known, and is not counted: neither how they were opened nor by whom, nor what the kernel has counted of them so far. */
#include "flow.h"

/* A process that has a descriptor of the socket. */
INLINE void owned_by(struct owner *owner, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	owner->pid = number_of(leader, task->tgid);
	owner->user = task->cred->uid.val;
	owner->cgroup = task->cgroups->dfl_cgrp->kn->id;
	read_text(owner->name, sizeof(owner->name), leader->comm);
}

INLINE void ends_before(struct ends *ends, const struct sock_common *common)
{
	ends->local_port = common->skc_num;
	ends->peer_port = __builtin_bswap16(common->skc_dport);
	if (common->skc_family == V4) {
		mapped(ends->local, common->skc_rcv_saddr);
		mapped(ends->peer, common->skc_daddr);
		return;
	}
	__u32 *local = (__u32 *)ends->local, *peer = (__u32 *)ends->peer;
	for (int n = 0; n < 4; n++) {
		local[n] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[n];
		peer[n] = common->skc_v6_daddr.in6_u.u6_addr32[n];
	}
}

INLINE void found(struct flow *flow, struct tcp_sock *tcp, struct sock *socket)
{
	__u64 now = time_now();
	flow->kind = FLOW;
	flow->origin = BEFORE;
	flow->cookie = cookie_of(socket);
	ends_before(&flow->ends, &socket->__sk_common);
	flow->asked = flow->connected = now;
	flow->next = tcp->snd_nxt;
	flow->rtt_us = tcp->srtt_us >> 3;
	flow->sent_before = tcp->bytes_sent - tcp->bytes_retrans;
	flow->received_before = tcp->bytes_received;
	flow->again_before = tcp->total_retrans;
	flow->lost_before = tcp->lost;
	flow->reordered_before = tcp->reord_seen;
	/* Until it is known better. */
	flow->unheard = 1;
}

SEC("iter/task_file")
int owners(struct bpf_iter__task_file *context)
{
	struct task_struct *task = context->task;
	struct file *file = context->file;
	struct socket *holder;
	struct sock *socket;
	struct tcp_sock *tcp;
	struct flow *flow;
	if (!task || !file)
		return 0;
	holder = socket_of(file);
	if (!holder)
		return 0;
	socket = holder->sk;
	if (!socket)
		return 0;
	__u16 family = socket->__sk_common.skc_family;
	if (family != V4 && family != V6)
		return 0;
	if (socket->sk_protocol == UDP) {
		struct port *port = storage(&PORTS, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
		if (port && !port->owner.pid)
			owned_by(&port->owner, task);
		return 0;
	}
	tcp = kernel_tcp_socket(socket);
	if (!tcp)
		return 0;
	__u8 state = socket->__sk_common.skc_state;
	if (state == CLOSED)
		return 0;
	flow = storage(&FLOWS, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return 0;
	if (!flow->owner.pid)
		owned_by(&flow->owner, task);
	if (!flow->asked)
		flow->asked = time_now();
	if (!flow->kind && state != LISTEN && state != SYN_SENT)
		found(flow, tcp, socket);
	return 0;
}

SEC("iter/tcp")
int hear(struct bpf_iter__tcp *context)
{
	struct sock_common *socket = context->sk_common;
	struct flow *flow;
	int flags = 0;
	if (!socket)
		return 0;
	flow = storage(&FLOWS, socket, NULL, 0);
	if (!flow || flow->origin != BEFORE)
		return 0;
	/* What other programs want to hear stays on. */
	if (get_option(socket, IPPROTO_TCP, CALLBACKS, &flags, sizeof(flags)))
		return 0;
	flags |= BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTT_CB_FLAG;
	if (!set_option(socket, IPPROTO_TCP, CALLBACKS, &flags, sizeof(flags)))
		flow->unheard = 0;
	return 0;
}
