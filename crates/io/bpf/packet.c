/* cgroup_skb: data as it passes, in both directions. Of TCP what is new; of UDP everything, and messages of DNS whole. Nothing is
 * changed or dropped. */
#include "flow.h"

struct tcp_header {
	__u16 source;
	__u16 destination;
	__u32 sequence;
	__u32 acknowledged;
	__u8 offset;
	__u8 flags;
};

struct udp_header {
	__u16 source;
	__u16 destination;
	__u16 len;
	__u16 checksum;
};

enum { FIN = 1, RECORD = 22, TO_SERVER = 1, TO_CLIENT = 2 };

/* Where the header of `protocol` begins; 0 if something else is there, such as an extension header of IPv6. */
INLINE __u32 transport(struct __sk_buff *packet, __u8 protocol)
{
	bool v6 = packet->protocol == __builtin_bswap16(0x86dd);
	__u8 first = 0, next = 0;
	if (load_bytes(packet, v6 ? 6 : 9, &next, 1) || next != protocol)
		return 0;
	if (v6)
		return 40;
	return load_bytes(packet, 0, &first, 1) ? 0 : (first & 15) * 4;
}

/* Reads the header of TCP, and says where it begins; 0 if there is none. Nearly always it is where the packet's memory begins, and
 * no function of the kernel need be called for it: this runs for every packet. */
INLINE __u32 tcp_header(struct __sk_buff *packet, struct tcp_header *header)
{
	__u8 *ip = (__u8 *)(long)packet->data, *end = (__u8 *)(long)packet->data_end;
	if (ip + 20 + sizeof(*header) <= end && ip[0] == 0x45 && ip[9] == TCP) {
		__builtin_memcpy(header, ip + 20, sizeof(*header));
		return 20;
	}
	if (ip + 40 + sizeof(*header) <= end && ip[0] >> 4 == 6 && ip[6] == TCP) {
		__builtin_memcpy(header, ip + 40, sizeof(*header));
		return 40;
	}
	__u32 at = transport(packet, TCP);
	return at && !load_bytes(packet, at, header, sizeof(*header)) ? at : 0;
}

INLINE bool is_hello(struct __sk_buff *packet, __u32 at, __u8 message)
{
	__u8 record[6] = {};
	return !load_bytes(packet, at, record, sizeof(record)) && record[0] == RECORD && record[1] == 3 && record[5] == message;
}

/* The peer sends data: the first after data of the program is an answer to it. */
INLINE void answered(struct flow *flow, __u64 now)
{
	if (!flow->asking)
		return;
	__u64 took = between(flow->asking, now);
	flow->asking = 0;
	flow->answers++;
	flow->answers_ns += took;
	if (took > flow->longest_answer)
		flow->longest_answer = took;
}

/* Hands over what `at` has of a message of DNS, whole or a segment of it. */
INLINE void hand_over(struct __sk_buff *packet, const struct owner *owner, const struct ends *ends, __u32 at, bool up, __u32 segment,
		      __u32 sequence)
{
	__u32 len = packet->len - at;
	struct lookup *lookup = ring_reserve(&TOLD, sizeof(*lookup), 0);
	if (!lookup) {
		lose(RECORDS);
		return;
	}
	lookup->kind = LOOKUP;
	lookup->up = up;
	lookup->at = time_now();
	lookup->owner = *owner;
	lookup->ends = *ends;
	lookup->cookie = cookie_of(packet);
	if (len > MESSAGE - 1)
		len = MESSAGE - 1;
	if (len < 1)
		len = 1;
	/* The same bound once more, as a mask: the verifier of Linux 6.1 does not carry the comparisons over to the register that it checks. */
	asm volatile("" : "+r"(len));
	len = ((len - 1) & (MESSAGE - 1)) + 1;
	lookup->len = load_bytes(packet, at, lookup->message, len) ? 0 : len;
	lookup->segment = segment;
	lookup->sequence = sequence;
	lookup->unused = 0;
	ring_submit(lookup, 0);
}

/* Most packets of one direction only acknowledge, and are let go before anything is looked up. */
INLINE void of_tcp(struct __sk_buff *packet, struct bpf_sock *socket, const struct tcp_header *header, __u32 at, bool up)
{
	__u32 headers = at + (header->offset >> 4) * 4, bytes = packet->len - headers, sequence, segments;
	bool ends = !up && header->flags & FIN, data = packet->len > headers;
	struct tcp_sock *tcp;
	struct flow *flow;
	if (!ends && !data)
		return;
	flow = storage(&FLOWS, socket, NULL, 0);
	if (!flow || !flow->connected)
		return;
	if (ends)
		says_its_end(flow, BY_PEER);
	tcp = kernel_tcp_socket(socket);
	if (!data || !tcp)
		return;
	__u64 now = up && packet->tstamp ? packet->tstamp : time_now(), trip = flow->origin == ASKED_FOR && flow->syn ? flow->connected - flow->syn : 0;
	sequence = __builtin_bswap32(header->sequence);
	segments = packet->gso_segs ? packet->gso_segs : 1;
	if (up ? (__s32)(sequence - tcp->snd_nxt) < 0 : (__s32)(sequence + bytes - tcp->rcv_nxt) <= 0)
		return;
	if (flow->ends.peer_port == DNS)
		hand_over(packet, &flow->owner, &flow->ends, headers, up, bytes, sequence);
	if (up) {
		if (!flow->up.packets && is_hello(packet, headers, TO_SERVER))
			flow->hello_up = now;
		over(flow, tcp);
		if (!flow->run)
			flow->run_began = now;
		flow->run += bytes;
		flow->next = sequence + bytes;
		/* Who was connected to answers, and does not ask. */
		if (flow->origin != ACCEPTED)
			flow->asking = now;
		passed(&flow->up, now, bytes, segments, trip);
	} else {
		if (!flow->down.packets && flow->hello_up && is_hello(packet, headers, TO_CLIENT))
			flow->hello_down = now;
		answered(flow, now);
		passed(&flow->down, now, bytes, segments, trip);
	}
}

INLINE void ends_of_packet(struct __sk_buff *packet, struct ends *ends, bool up)
{
	__u8 *source = up ? ends->local : ends->peer, *destination = up ? ends->peer : ends->local;
	if (packet->protocol == __builtin_bswap16(0x86dd)) {
		load_bytes(packet, 8, source, 16);
		load_bytes(packet, 24, destination, 16);
	} else {
		__u32 ip[2] = {};
		load_bytes(packet, 12, ip, sizeof(ip));
		mapped(source, ip[0]);
		mapped(destination, ip[1]);
	}
}

INLINE void message(struct __sk_buff *packet, struct port *port, const struct ends *ends, __u32 at, bool up)
{
	/* An answer that was not asked for is none, and anybody can send it. */
	if (packet->len <= at || (!up && !(port->flags & ASKED)))
		return;
	if (up)
		port->flags |= KNOWN | ASKED;
	hand_over(packet, &port->owner, ends, at, up, 0, 0);
}

/* What is kept of a pair of ends; made when the first datagram comes by. */
INLINE struct datagrams *datagrams_of(struct __sk_buff *packet, struct port *port, const struct ends *ends, bool up, __u64 now)
{
	struct port_event event = { .kind = PORT_PEER };
	__u32 zero = 0;
	event.pair.cookie = cookie_of(packet);
	__builtin_memcpy(event.pair.peer, ends->peer, 16);
	event.pair.peer_port = ends->peer_port;
	struct datagrams *datagrams = map_lookup(&PAIRS, &event.pair);
	if (datagrams)
		return datagrams;
	void *nothing = map_lookup(&NOTHING, &zero);
	if ((!up && port->strangers >= MOST_STRANGERS) || !nothing || map_update(&PAIRS, &event.pair, nothing, BPF_NOEXIST)) {
		lose(ENTRIES);
		return NULL;
	}
	/* Who reads must hear of it, or nothing would ever remove it. */
	if (ring_output(&TOLD, &event, sizeof(event), 0)) {
		lose(RECORDS);
		map_delete(&PAIRS, &event.pair);
		return NULL;
	}
	port->flags |= KNOWN;
	if (!up)
		port->strangers++;
	datagrams = map_lookup(&PAIRS, &event.pair);
	if (datagrams) {
		datagrams->owner = port->owner;
		datagrams->ends = *ends;
		datagrams->began = now;
		datagrams->kind = DATAGRAMS;
	}
	return datagrams;
}

/* QUIC's spin bit, in the direction to the program: `forward::udp_flow` of core says what counts. */
INLINE void spun(struct datagrams *datagrams, __u8 first, __u64 now)
{
	__u32 spin = 1 + !!(first & 0x20), before = datagrams->spin;
	datagrams->spin = spin;
	if (!before || before == spin)
		return;
	__u64 edge = datagrams->edge;
	datagrams->edge = now;
	__u64 took = between(edge, now);
	if (edge && took >= between(datagrams->began, datagrams->answered) / 2) {
		datagrams->spins++;
		datagrams->spins_ns += took;
		if (took > datagrams->longest_spin)
			datagrams->longest_spin = took;
	}
}

INLINE void of_udp(struct __sk_buff *packet, struct bpf_sock *socket, bool up)
{
	struct port *port = storage(&PORTS, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	__u32 at = transport(packet, UDP), bytes, count;
	struct udp_header header;
	struct ends ends = {};
	__u8 first = 0;
	if (!port || !at || load_bytes(packet, at, &header, sizeof(header)))
		return;
	at += sizeof(header);
	ends_of_packet(packet, &ends, up);
	ends.local_port = __builtin_bswap16(up ? header.source : header.destination);
	ends.peer_port = __builtin_bswap16(up ? header.destination : header.source);
	if (ends.peer_port == DNS) {
		message(packet, port, &ends, at, up);
		return;
	}
	__u64 now = time_now();
	struct datagrams *datagrams = datagrams_of(packet, port, &ends, up, now);
	if (!datagrams)
		return;
	bytes = packet->len > at ? packet->len - at : 0;
	count = packet->gso_segs ? packet->gso_segs : 1;
	if (up && !datagrams->up.packets && datagrams->down.packets && port->strangers)
		port->strangers--;
	/* Where a peer was left out for being one of too many, who was first is not known. */
	if (up && !datagrams->up.packets && !datagrams->down.packets && port->strangers < MOST_STRANGERS) {
		datagrams->first_up = 1;
		datagrams->first_len = packet->gso_size ? packet->gso_size : bytes;
		if (bytes >= BEGINNING)
			load_bytes(packet, at, datagrams->beginning, BEGINNING);
	}
	if (!up) {
		if (!datagrams->answered)
			datagrams->answered = now;
		/* A short header (RFC 9000, section 17.3); what is no QUIC has one too, and is not read. */
		if (bytes && !load_bytes(packet, at, &first, 1) && (first & 0xc0) == 0x40)
			spun(datagrams, first, now);
	}
	passed(up ? &datagrams->up : &datagrams->down, now, bytes, count, 0);
}

INLINE int passes(struct __sk_buff *packet, bool up)
{
	struct bpf_sock *socket = packet->sk;
	struct tcp_header header;
	__u32 at;
	if (!socket)
		return 1;
	at = tcp_header(packet, &header);
	if (at) {
		of_tcp(packet, socket, &header, at, up);
		return 1;
	}
	socket = full_socket(socket);
	if (socket && socket->protocol == UDP)
		of_udp(packet, socket, up);
	return 1;
}

SEC("cgroup_skb/egress")
int egress(struct __sk_buff *packet)
{
	return passes(packet, true);
}

SEC("cgroup_skb/ingress")
int ingress(struct __sk_buff *packet)
{
	return passes(packet, false);
}
