/* sock_ops: a connection whose path is known begins with what the path has carried, under the rules of careful resume (RFC 9959), and
 * asks again for a lost SYN when the path's round trip says so. An object of its own: it measures nothing.
 *
 * What is known comes from who loads it, for a host and for its prefix. Here it is never made larger: halved for a prefix in which a
 * first flight was lost, made smaller where the round trip is shorter, and not used where the round trip, the local address, the network
 * namespace or the kernel's own window say that this is another path, or that others have a say. */
#include "kernel.h"

struct place {
	__u8 address[16];
	__u32 bits;
};

struct path {
	/* The local address that it was learned from; none if it is not known. */
	__u8 source[16];
	/* Segments that may be sent, of what the path has carried, and the round trip over which it has carried it. */
	__u32 window;
	__u32 rtt_us;
	/* For a SYN; zero leaves the kernel's own. */
	__u32 timeout_us;
};

struct losses {
	__u64 last;
	__u32 count;
	__u32 unused;
};

struct limits {
	/* The network namespace of whom it was learned for (SO_NETNS_COOKIE). */
	__u64 namespace;
	/* How long a loss is remembered. */
	__u64 lifetime_ns;
	__u32 most;
	__u32 unused;
};

/* The first flight of a connection that was given more than the kernel gives. */
struct flight {
	struct place prefix;
	__u32 bytes;
};

_Static_assert(sizeof(struct place) == 20, "place");
_Static_assert(sizeof(struct path) == 28, "path");
_Static_assert(sizeof(struct limits) == 24, "limits");

struct {
	UINT(type, BPF_MAP_TYPE_HASH);
	UINT(map_flags, BPF_F_NO_PREALLOC);
	/* As many peers as a setting allows, and their prefixes. */
	UINT(max_entries, 8192);
	struct place *key;
	struct path *value;
} PATHS SEC(".maps");

/* By prefix. Of too many those that were used longest ago are forgotten. */
struct {
	UINT(type, BPF_MAP_TYPE_LRU_HASH);
	UINT(max_entries, 8192);
	struct place *key;
	struct losses *value;
} LOSSES SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 1);
	__u32 *key;
	struct limits *value;
} LIMITS SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_SK_STORAGE);
	UINT(map_flags, BPF_F_NO_PREALLOC);
	int *key;
	struct flight *value;
} FLIGHTS SEC(".maps");

/* Connections that were given more, first flights of them that were lost, SYNs with a timeout of ours. */
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 3);
	__u32 *key;
	__u64 *value;
} COUNTS SEC(".maps");

enum { GIVEN = 0, LOST = 1, SYNS = 2 };
/* What the kernel gives by itself: RFC 6928. */
enum { OWN = 10 };
/* RFC 9959, section 3.2: a path of more than ten times the round trip is another. */
enum { ANOTHER = 10 };
/* Prefixes that share a way, as IPv4 is mapped into IPv6 (/24), and of IPv6 (/56): `cwnd::initcwnd` of core. */
enum { PREFIX_V4 = 96 + 24, PREFIX_V6 = 56 };
enum { ADDRESS = 128 };

INLINE void count(__u32 what)
{
	__u64 *number = map_lookup(&COUNTS, &what);
	if (number)
		__sync_fetch_and_add(number, 1);
}

/* The addresses of both ends, IPv4 mapped. */
INLINE bool ends(struct bpf_sock_ops *context, __u32 *local, __u32 *peer)
{
	if (context->family == V4) {
		__u32 near = context->local_ip4, far = context->remote_ip4;
		/* Else the compiler joins these reads with those of IPv6 by a pointer into the context, which the kernel refuses. */
		asm volatile("" : "+r"(near), "+r"(far));
		local[0] = local[1] = peer[0] = peer[1] = 0;
		local[2] = peer[2] = __builtin_bswap32(0xffff);
		local[3] = near;
		peer[3] = far;
		return true;
	}
	if (context->family != V6)
		return false;
	local[0] = context->local_ip6[0];
	local[1] = context->local_ip6[1];
	local[2] = context->local_ip6[2];
	local[3] = context->local_ip6[3];
	peer[0] = context->remote_ip6[0];
	peer[1] = context->remote_ip6[1];
	peer[2] = context->remote_ip6[2];
	peer[3] = context->remote_ip6[3];
	return true;
}

INLINE bool is_v4(const __u32 *address)
{
	return !address[0] && !address[1] && address[2] == __builtin_bswap32(0xffff);
}

INLINE void prefix_of(struct place *prefix, const __u32 *peer)
{
	__u32 *to = (__u32 *)prefix->address;
	to[0] = peer[0];
	to[1] = peer[1];
	if (is_v4(peer)) {
		to[2] = peer[2];
		to[3] = peer[3] & __builtin_bswap32(0xffffff00);
		prefix->bits = PREFIX_V4;
	} else {
		to[1] &= __builtin_bswap32(0xffffff00);
		to[2] = to[3] = 0;
		prefix->bits = PREFIX_V6;
	}
}

/* What is known of the way to the peer, and the peer's prefix. */
INLINE struct path *known(struct bpf_sock_ops *context, struct limits *limits, struct place *prefix)
{
	struct place host = { .bits = ADDRESS };
	__u32 local[4], *peer = (__u32 *)host.address;
	if (netns_cookie(context) != limits->namespace || !ends(context, local, peer))
		return NULL;
	prefix_of(prefix, peer);
	struct path *path = map_lookup(&PATHS, &host);
	if (!path)
		path = map_lookup(&PATHS, prefix);
	if (!path)
		return NULL;
	__u32 *source = (__u32 *)path->source;
	if (!(source[0] | source[1] | source[2] | source[3]))
		return path;
	bool same = source[0] == local[0] && source[1] == local[1] && source[2] == local[2] && source[3] == local[3];
	return same ? path : NULL;
}

/* Segments to begin with over a path whose handshake took `rtt`. */
INLINE __u32 window_of(struct path *path, struct limits *limits, const struct place *prefix, __u32 rtt)
{
	__u64 window = path->window;
	struct losses *losses = map_lookup(&LOSSES, prefix);
	if (!rtt || !path->rtt_us || rtt / ANOTHER > path->rtt_us)
		return 0;
	if (losses && time_now() - losses->last <= limits->lifetime_ns)
		window >>= losses->count & 31;
	/* RFC 9959, section 4.3: no faster than what was seen. */
	if (rtt < path->rtt_us)
		window = window * rtt / path->rtt_us;
	return window < limits->most ? window : limits->most;
}

INLINE void established(struct bpf_sock_ops *context, struct limits *limits, struct bpf_sock *socket)
{
	struct place prefix = {};
	int window;
	struct path *path;
	/* Another window is one that a route or another program has given, or the kernel after a lost SYN. */
	if (context->snd_cwnd != OWN || context->total_retrans)
		return;
	path = known(context, limits, &prefix);
	if (!path)
		return;
	window = window_of(path, limits, &prefix, context->srtt_us >> 3);
	if (window <= OWN || set_option(context, IPPROTO_TCP, TCP_BPF_IW, &window, sizeof(window)))
		return;
	count(GIVEN);
	struct flight *flight = storage(&FLIGHTS, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flight)
		return;
	flight->prefix = prefix;
	flight->bytes = window * context->mss_cache;
	/* What other programs want to hear stays on. */
	callbacks(context, context->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RETRANS_CB_FLAG);
}

/* Something is sent again: if it was of the first flight, the next connections to this prefix begin with half. */
INLINE void sent_again(struct bpf_sock_ops *context, struct limits *limits, struct bpf_sock *socket)
{
	struct flight *flight = storage(&FLIGHTS, socket, NULL, 0);
	struct tcp_sock *tcp;
	struct losses *losses, first = { .count = 1 };
	if (!flight)
		return;
	if (context->bytes_acked > flight->bytes) {
		storage_delete(&FLIGHTS, socket);
		return;
	}
	tcp = kernel_tcp_socket(socket);
	/* A probe for a lost tail is sent before anything is taken for lost. */
	if (!tcp || !tcp->lost)
		return;
	count(LOST);
	first.last = time_now();
	losses = map_lookup(&LOSSES, &flight->prefix);
	if (losses && first.last - losses->last <= limits->lifetime_ns && losses->count < 31)
		first.count = losses->count + 1;
	map_update(&LOSSES, &flight->prefix, &first, BPF_ANY);
	storage_delete(&FLIGHTS, socket);
}

/* A SYN is about to leave: how long its answer is waited for. The kernel's own second is what a socket begins with, so that it says how
 * many ticks a second has. What another program has answered stays. */
INLINE void wait_for_answer(struct bpf_sock_ops *context, struct limits *limits, struct bpf_sock *socket)
{
	struct place prefix = {};
	struct path *path;
	struct tcp_sock *tcp;
	__u64 second, ticks;
	if (context->reply)
		return;
	path = known(context, limits, &prefix);
	if (!path || !path->timeout_us)
		return;
	tcp = kernel_tcp_socket(socket);
	if (!tcp)
		return;
	second = tcp->inet_conn.icsk_rto;
	ticks = second * path->timeout_us / 1000000;
	if (second < 100 || second > 1000 || !ticks || ticks >= second)
		return;
	context->reply = ticks;
	count(SYNS);
}

SEC("sockops")
int initcwnd(struct bpf_sock_ops *context)
{
	__u32 zero = 0, op = context->op;
	struct bpf_sock *socket;
	struct limits *limits;
	if (op != BPF_SOCK_OPS_TIMEOUT_INIT && op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB &&
	    op != BPF_SOCK_OPS_RETRANS_CB)
		return 1;
	socket = context->sk;
	limits = map_lookup(&LIMITS, &zero);
	if (!socket || !limits)
		return 1;
	if (op == BPF_SOCK_OPS_TIMEOUT_INIT)
		wait_for_answer(context, limits, socket);
	else if (op == BPF_SOCK_OPS_RETRANS_CB)
		sent_again(context, limits, socket);
	else
		established(context, limits, socket);
	return 1;
}
