/* What is kept of a connection, of datagrams and of their sockets, in the order in which `headstart_core::forward::kernel` reads it.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC, zero if it has not happened; addresses are IPv6's, IPv4 mapped into it (RFC 4291,
 * section 2.5.5.2); ports are in host order. Whoever changes a structure changes its size in both files. */
#pragma once

#include "kernel.h"

enum { FLOW = 1, LOOKUP = 2, PORT_PEER = 3, PORT_CLOSED = 4, DATAGRAMS = 5 };
/* Who has said its end (FIN), and whether the peer did so first. */
enum { BY_PROGRAM = 1, BY_PEER = 2, PEER_FIRST = 4 };
/* Who has begun it: the program, its peer, or somebody before we were here. */
enum { ASKED_FOR = 0, ACCEPTED = 1, BEFORE = 2 };

/* A round trip's place in the histogram: four for each doubling, from 16 us to over 16 s. */
enum { TRIPS = 80, TRIPS_FROM = 4 };
/* What a connection waited for, in the order of the kernel's `chrono_stat`. */
enum { LIMITS = 3 };
/* How much of a DNS message is handed over, and of the first datagram between two ends. */
enum { MESSAGE = 512, BEGINNING = 48 };

/* A silence that is longer, and than two round trips, is a pause of who sends: `observed::PAUSE` of core. */
static const __u64 PAUSE = 200000000;
/* Less at a time has no rate, and more is no request: the meters of core say so. */
static const __u64 TRANSFER = 8192, REQUEST = 16384;

struct owner {
	__u64 cgroup;
	__u32 pid;
	__u32 user;
	char name[16];
};

struct ends {
	__u8 local[16];
	__u8 peer[16];
	__u16 local_port;
	__u16 peer_port;
	__u32 unused;
};

struct way {
	__u64 bytes;
	__u64 packets;
	__u64 first;
	__u64 last;
	/* What came behind something else without a pause between, and the times between. */
	__u64 counted;
	__u64 counted_ns;
	__u64 gaps;
	__u64 gaps_ns;
	__u64 longest;
	/* Gaps below 1, 2, 4 ... 16384 ms, and those above. */
	__u32 histogram[16];
};

struct flow {
	__u32 kind;
	/* What the kernel told the program of it (errno), if it ended so. */
	__u32 error;
	__u64 cookie;
	struct owner owner;
	struct ends ends;
	__u64 asked;
	__u64 syn;
	__u64 connected;
	__u64 ended;
	__u64 hello_up;
	__u64 hello_down;
	__u32 origin;
	__u32 fins;
	__u32 lost;
	__u32 reordered;
	/* Of the connection of MPTCP that it is a subflow of (RFC 8684); zero if it is none. */
	__u32 token;
	/* What the kernel had counted of it when we came. */
	__u32 again_before;
	__u32 lost_before;
	__u32 reordered_before;
	__u64 sent_before;
	__u64 received_before;
	/* From here on, what is written when the program sends: in cache lines of its own, for another processor may be busy with what its
	 * peer sends. */
	struct way up;
	/* The run of data that is not yet over: what was sent of it, and since when. */
	__u64 run;
	__u64 run_began;
	/* When the program's latest data left, until the peer's next comes. */
	__u64 asking;
	/* When it was looked what has held it up. */
	__u64 limited_at;
	/* The sequence number after the newest data that has left. The kernel's own (snd_nxt) moves only after a segment was handed on, which
	 * on the same host is after its acknowledgement has come back. */
	__u32 next;
	/* The kernel does not tell how its state changes: its end is when the program closes it. */
	__u32 unheard;
	/* Jiffies. */
	__u32 limited[LIMITS];
	/* Of the latest sample of the rate: the size of its segments. */
	__u32 segment;
	/* From here on, what is written when the peer sends, or seldom. */
	struct way down;
	/* The times between the program's latest data and the peer's next. */
	__u64 answers_ns;
	__u64 longest_answer;
	/* What the peer has acknowledged in runs that are over, and how long some was on its way. */
	__u64 delivered;
	__u64 delivered_ns;
	/* Of the run that is not over, when it was looked: what was acknowledged, and when the latest was. */
	__u64 run_acknowledged;
	__u64 run_acknowledged_at;
	__u64 requests;
	__u64 requests_ns;
	__u64 longest_request;
	__u32 answers;
	__u32 rtt_us;
	__u32 min_rtt_us;
	__u32 sent_again;
	/* The latest sample: so many segments arrived in so many microseconds. */
	__u32 rate_segments;
	__u32 rate_us;
	__u32 trips[TRIPS];
};

struct port {
	struct owner owner;
	/* KNOWN and ASKED. */
	__u32 flags;
	/* Peers that have sent it something and were sent nothing. */
	__u32 strangers;
};

/* Something was told of a socket, so that its end is told too; it has sent a message of DNS. */
enum { KNOWN = 1, ASKED = 2 };
/* Peers of a socket that are counted though the program has sent them nothing. More are only counted as lost: anybody can send from
 * addresses that are not its own. */
enum { MOST_STRANGERS = 64 };

struct pair {
	__u64 cookie;
	__u8 peer[16];
	__u16 peer_port;
	__u16 unused[3];
};

struct datagrams {
	__u32 kind;
	__u32 first_len;
	struct owner owner;
	struct ends ends;
	__u64 began;
	/* When the peer's first came. */
	__u64 answered;
	struct way up;
	struct way down;
	/* The last edge of the spin bit, and the round trips between them (RFC 9312, section 3.8.2). */
	__u64 edge;
	__u64 spins;
	__u64 spins_ns;
	__u64 longest_spin;
	__u32 spin;
	__u32 first_up;
	__u8 beginning[BEGINNING];
};

struct lookup {
	__u32 kind;
	__u32 up;
	__u64 at;
	struct owner owner;
	struct ends ends;
	__u64 cookie;
	__u32 len;
	/* Over TCP: bytes of the segment, and the number of the first. Zero over UDP. */
	__u32 segment;
	__u32 sequence;
	__u32 unused;
	__u8 message[MESSAGE];
};

struct port_event {
	__u32 kind;
	__u32 unused;
	struct pair pair;
};

_Static_assert(sizeof(struct flow) == 928, "flow");
/* The kernel puts it eight bytes into a cache line. */
_Static_assert(offsetof(struct flow, up) % 64 == 56 && offsetof(struct flow, down) % 64 == 56, "cache lines");
_Static_assert(sizeof(struct datagrams) == 456, "datagrams");
_Static_assert(sizeof(struct lookup) == 624, "lookup");
_Static_assert(sizeof(struct port_event) == 40, "port_event");

struct {
	UINT(type, BPF_MAP_TYPE_SK_STORAGE);
	/* What a listener's socket has, the sockets of its accepted connections begin with. */
	UINT(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	int *key;
	struct flow *value;
} FLOWS SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_SK_STORAGE);
	UINT(map_flags, BPF_F_NO_PREALLOC);
	int *key;
	struct port *value;
} PORTS SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_HASH);
	UINT(map_flags, BPF_F_NO_PREALLOC);
	UINT(max_entries, 16384);
	struct pair *key;
	struct datagrams *value;
} PAIRS SEC(".maps");

/* Whose connections of MPTCP are, by their tokens: who connects further subflows is the kernel itself. */
struct {
	UINT(type, BPF_MAP_TYPE_LRU_HASH);
	UINT(max_entries, 4096);
	__u32 *key;
	struct owner *value;
} TOKENS SEC(".maps");

/* Never written: what a new entry of PAIRS begins as, for it does not fit the stack. */
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 1);
	__u32 *key;
	struct datagrams *value;
} NOTHING SEC(".maps");

/* What ends, and lookups. 4 MiB: four thousand connections that end before anybody reads. */
struct {
	UINT(type, BPF_MAP_TYPE_RINGBUF);
	UINT(max_entries, 4 << 20);
} TOLD SEC(".maps");

/* What was lost: records that the ring had no room for, pairs of ends that the table had none for. */
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 2);
	__u32 *key;
	__u64 *value;
} LOST SEC(".maps");

enum { RECORDS = 0, ENTRIES = 1 };

/* The namespace of processes (its inode) whose numbers are told: that of who measures. */
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 1);
	__u32 *key;
	__u64 *value;
} HERE SEC(".maps");

/* Namespaces of processes that are inside each other, at most: a container in a container in a container. */
enum { NESTED = 5 };

INLINE void lose(__u32 what)
{
	__u64 *count = map_lookup(&LOST, &what);
	if (count)
		__sync_fetch_and_add(count, 1);
}

INLINE void tell(void *record, __u64 size)
{
	if (ring_output(&TOLD, record, size, 0))
		lose(RECORDS);
}

INLINE void says_its_end(struct flow *flow, __u32 who)
{
	if (who == BY_PEER && !(flow->fins & BY_PROGRAM))
		flow->fins |= PEER_FIRST;
	flow->fins |= who;
}

/* Moments are taken on several processors, and what was written by one may be newer than what another reads. */
INLINE __u64 between(__u64 before, __u64 now)
{
	return now > before ? now - before : 0;
}

/* What the peer has acknowledged of the run that is not over, for who is told of it now. */
INLINE void acknowledged(struct flow *flow, struct tcp_sock *tcp)
{
	__u64 at = tcp->delivered_mstamp * 1000;
	__u32 acknowledged = tcp->snd_una, left = flow->next - acknowledged;
	/* The program's end (FIN) is counted as one, and is no data. */
	if ((__s32)left < 0)
		left = 0;
	flow->run_acknowledged = flow->run > left ? flow->run - left : 0;
	flow->run_acknowledged_at = at;
}

/* A run is over when all of it is acknowledged. That is looked for when the next begins, and the kernel has noted when it was: no
 * acknowledgement need be looked at. What was the latest of a connection, its reader makes out (`forward::kernel` of core). */
INLINE void over(struct flow *flow, struct tcp_sock *tcp)
{
	__u64 at = tcp->delivered_mstamp * 1000;
	if (!flow->run || (__s32)(flow->next - tcp->snd_una) > 0)
		return;
	if (flow->run >= TRANSFER) {
		flow->delivered += flow->run;
		flow->delivered_ns += between(flow->run_began, at);
	}
	if (flow->run <= REQUEST) {
		__u64 took = between(flow->up.last, at);
		flow->requests++;
		flow->requests_ns += took;
		if (took > flow->longest_request)
			flow->longest_request = took;
	}
	flow->run = flow->run_acknowledged = 0;
}

/* What has held it up until now: what the kernel has summed, and what goes on (`tcp_get_info_chrono_stats`). */
INLINE void limits(struct flow *flow, struct tcp_sock *tcp)
{
	__u32 going = BITS(tcp, chrono_type), since = (__u32)jiffies_now() - tcp->chrono_start;
	flow->limited_at = time_now();
	flow->limited[0] = tcp->chrono_stat[0] + (going == 1 ? since : 0);
	flow->limited[1] = tcp->chrono_stat[1] + (going == 2 ? since : 0);
	flow->limited[2] = tcp->chrono_stat[2] + (going == 3 ? since : 0);
	flow->rate_segments = tcp->rate_delivered;
	flow->rate_us = tcp->rate_interval_us;
	flow->segment = tcp->mss_cache;
}

/* Tells of a connection that was asked for and for which no SYN has left, as it fails where there is no route. */
INLINE void never_began(struct flow *flow)
{
	if (!flow->kind || !flow->asked || flow->syn || flow->connected)
		return;
	flow->ended = time_now();
	tell(flow, sizeof(*flow));
	flow->kind = 0;
}

/* The number of a process as who measures sees it; `otherwise` if that one does not. */
INLINE __u32 number_of(struct task_struct *leader, __u32 otherwise)
{
	__u32 zero = 0, inum, level;
	__u64 *here = map_lookup(&HERE, &zero);
	struct pid *pid = leader->thread_pid;
	struct upid upid;
	if (!here || !pid)
		return otherwise;
	level = pid->level;
	for (__u32 n = 0; n < NESTED && n <= level; n++) {
		if (read_kernel(&upid, sizeof(upid), (void *)&pid->numbers + n * sizeof(upid)))
			break;
		if (!read_kernel(&inum, sizeof(inum), &upid.ns->ns.inum) && inum == *here)
			return upid.nr;
	}
	return otherwise;
}

/* The process that runs now, by the name of its first thread. */
INLINE void owned(struct owner *owner)
{
	struct task_struct *task = current_task();
	owner->pid = number_of(task->group_leader, current_pid_tgid() >> 32);
	owner->user = current_uid_gid();
	owner->cgroup = current_cgroup();
	read_text(owner->name, sizeof(owner->name), task->group_leader->comm);
}

INLINE void mapped(__u8 *to, __u32 ip)
{
	__u32 *words = (__u32 *)to;
	words[0] = words[1] = 0;
	words[2] = __builtin_bswap32(0xffff);
	words[3] = ip;
}

/* Data came by: `forward::observed::Direction::data` of core. */
INLINE void passed(struct way *way, __u64 now, __u32 bytes, __u32 packets, __u64 trip)
{
	if (way->last) {
		__u64 gap = now > way->last ? now - way->last : 0;
		__u32 place = 0;
		/* Most come within the first millisecond. */
		if (gap >= 1000000ull)
			for (int n = 0; n < 15; n++)
				place += gap >= (1000000ull << n);
		way->gaps++;
		way->gaps_ns += gap;
		if (gap > way->longest)
			way->longest = gap;
		way->histogram[place & 15]++;
		if (gap <= PAUSE || gap <= 2 * trip) {
			way->counted += bytes;
			way->counted_ns += gap;
		}
	} else {
		way->first = now;
	}
	way->bytes += bytes;
	way->packets += packets;
	way->last = now;
}
