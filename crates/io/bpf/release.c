/* cgroup/sock_release: a socket is closed. Its datagrams are over; a connection that was asked for and never sent a SYN has failed. */
#include "flow.h"

SEC("cgroup/sock_release")
int sock_release(struct bpf_sock *socket)
{
	if (socket->protocol == UDP) {
		struct port *port = storage(&PORTS, socket, NULL, 0);
		if (port && port->flags & KNOWN) {
			struct port_event event = { .kind = PORT_CLOSED };
			event.pair.cookie = cookie_of(socket);
			tell(&event, sizeof(event));
		}
	} else if (socket->protocol == TCP) {
		struct flow *flow = storage(&FLOWS, socket, NULL, 0);
		if (!flow)
			return 1;
		never_began(flow);
		if (flow->kind && flow->unheard) {
			flow->ended = time_now();
			says_its_end(flow, BY_PROGRAM);
			tell(flow, sizeof(*flow));
			flow->kind = 0;
		}
	}
	return 1;
}
