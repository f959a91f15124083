/* What the programs need of the kernel: helpers by number (linux/bpf.h), and of its own structures the fields that are read.
 *
 * Offsets are not those of this file: each access is relocated against the BTF of the running kernel when the programs are loaded
 * (preserve_access_index), so fields may be left out and their order does not matter. */
#pragma once

#include <linux/bpf.h>
#include <linux/in.h>
#include <stdbool.h>
#include <stddef.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define UINT(name, value) int(*name)[value]
#define RELOCATED __attribute__((preserve_access_index))

/* A field of less than a byte has no address: it is cut out of what it lies in, whose place is relocated (as libbpf's
 * BPF_CORE_READ_BITFIELD does it; the numbers are clang's). */
#define BITS(from, field)                                                                  \
	({                                                                                 \
		void *at_ = (void *)(from) + __builtin_preserve_field_info((from)->field, 0); \
		__u64 bits_ = 0;                                                           \
		/* Or the compiler puts the place into each of the loads. */         \
		asm volatile("" : "+r"(at_));                                              \
		switch (__builtin_preserve_field_info((from)->field, 1)) {                 \
		case 1:                                                                    \
			bits_ = *(__u8 *)at_;                                              \
			break;                                                             \
		case 2:                                                                    \
			bits_ = *(__u16 *)at_;                                             \
			break;                                                             \
		case 4:                                                                    \
			bits_ = *(__u32 *)at_;                                             \
			break;                                                             \
		}                                                                          \
		bits_ <<= __builtin_preserve_field_info((from)->field, 4);                 \
		bits_ >> __builtin_preserve_field_info((from)->field, 5);                  \
	})

/* The same of what is no pointer of the verifier's: copied, field by field. */
#define READ_BITS(from, field)                                                              \
	({                                                                                  \
		__u64 bits_ = 0;                                                            \
		read_kernel(&bits_, __builtin_preserve_field_info((from)->field, 1),       \
			    (void *)(from) + __builtin_preserve_field_info((from)->field, 0)); \
		bits_ <<= __builtin_preserve_field_info((from)->field, 4);                  \
		bits_ >> __builtin_preserve_field_info((from)->field, 5);                   \
	})

/* Whether the running kernel has a field. */
#define EXISTS(field) __builtin_preserve_field_info(field, 2)

static void *(*const map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const map_update)(void *map, const void *key, const void *value, __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static long (*const map_delete)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static __u64 (*const time_now)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u64 (*const jiffies_now)(void) = (void *)BPF_FUNC_jiffies64;
static __u64 (*const current_pid_tgid)(void) = (void *)BPF_FUNC_get_current_pid_tgid;
static __u64 (*const current_uid_gid)(void) = (void *)BPF_FUNC_get_current_uid_gid;
static __u64 (*const current_cgroup)(void) = (void *)BPF_FUNC_get_current_cgroup_id;
static void *(*const current_task)(void) = (void *)BPF_FUNC_get_current_task_btf;
static long (*const read_text)(void *to, __u32 size, const void *from) = (void *)BPF_FUNC_probe_read_kernel_str;
static long (*const read_kernel)(void *to, __u32 size, const void *from) = (void *)BPF_FUNC_probe_read_kernel;
static __u64 (*const cookie_of)(void *context) = (void *)BPF_FUNC_get_socket_cookie;
static void *(*const storage)(void *map, void *socket, void *value, __u64 flags) = (void *)BPF_FUNC_sk_storage_get;
static long (*const storage_delete)(void *map, void *socket) = (void *)BPF_FUNC_sk_storage_delete;
static struct bpf_sock *(*const full_socket)(struct bpf_sock *socket) = (void *)BPF_FUNC_sk_fullsock;
static void *(*const kernel_tcp_socket)(void *socket) = (void *)BPF_FUNC_skc_to_tcp_sock;
static long (*const callbacks)(struct bpf_sock_ops *context, int flags) = (void *)BPF_FUNC_sock_ops_cb_flags_set;
static long (*const set_option)(void *context, int level, int option, void *value, int len) = (void *)BPF_FUNC_setsockopt;
static long (*const get_option)(void *context, int level, int option, void *value, int len) = (void *)BPF_FUNC_getsockopt;
struct file;
struct socket;

static struct socket *(*const socket_of)(struct file *file) = (void *)BPF_FUNC_sock_from_file;
static __u64 (*const netns_cookie)(void *context) = (void *)BPF_FUNC_get_netns_cookie;
static long (*const load_bytes)(const void *packet, __u32 offset, void *to, __u32 len) = (void *)BPF_FUNC_skb_load_bytes;
static long (*const ring_output)(void *ring, void *data, __u64 size, __u64 flags) = (void *)BPF_FUNC_ringbuf_output;
static void *(*const ring_reserve)(void *ring, __u64 size, __u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*const ring_submit)(void *data, __u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static long (*const sequence_write)(void *sequence, const void *data, __u32 len) = (void *)BPF_FUNC_seq_write;

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
} RELOCATED;

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	__u16 skc_family;
	volatile __u8 skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
	int sk_err;
	__u16 sk_protocol;
} RELOCATED;

struct socket {
	struct sock *sk;
} RELOCATED;

struct inet_sock {
	struct sock sk;
} RELOCATED;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u32 icsk_rto;
	void *icsk_ulp_data;
} RELOCATED;

struct minmax_sample {
	__u32 v;
} RELOCATED;

/* The least within a window of time, and two that may be the next. */
struct minmax {
	struct minmax_sample s[1];
} RELOCATED;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u64 bytes_received;
	__u32 total_retrans;
	__u32 srtt_us;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 rcv_nxt;
	/* When the newest data reached the peer: when that was acknowledged, on CLOCK_MONOTONIC in microseconds. */
	__u64 delivered_mstamp;
	struct minmax rtt_min;
	__u32 lost;
	__u32 reord_seen;
	/* For how long it had data and was held up by nothing else, by the peer's window, by its own buffer; in jiffies. */
	__u32 chrono_stat[3];
	__u32 chrono_start;
	__u8 chrono_type : 2;
	/* The latest sample of the rate at which segments arrive. */
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 mss_cache;
	/* Where the kernel is built with it. */
	bool is_mptcp;
} RELOCATED;

/* What a program has of a connection of MPTCP (net/mptcp/protocol.h). */
struct mptcp_sock {
	__u32 token;
} RELOCATED;

/* What a TCP socket under it has: what it asks its peer for, and what the peer has agreed to. */
struct mptcp_subflow_context {
	__u32 request_join : 1, mp_capable : 1, mp_join : 1;
	struct sock *conn;
} RELOCATED;

struct ns_common {
	__u32 inum;
} RELOCATED;

struct pid_namespace {
	struct ns_common ns;
} RELOCATED;

struct upid {
	int nr;
	struct pid_namespace *ns;
} RELOCATED;

struct pid {
	__u32 level;
	struct upid numbers[1];
} RELOCATED;

/* Its identity as the kernel has it, beside what it shows to who counts users in a namespace. */
struct user_id {
	__u32 val;
};

struct cred {
	struct user_id uid;
} RELOCATED;

struct kernfs_node {
	__u64 id;
} RELOCATED;

struct cgroup {
	struct kernfs_node *kn;
} RELOCATED;

struct css_set {
	struct cgroup *dfl_cgrp;
} RELOCATED;

struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
	const struct cred *cred;
	struct css_set *cgroups;
	int tgid;
	char comm[16];
} RELOCATED;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} RELOCATED;

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct sock *sk;
	void *value;
} RELOCATED;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
} RELOCATED;

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} RELOCATED;

enum { V4 = 2, V6 = 10, TCP = 6, UDP = 17, DNS = 53 };
/* States of TCP, by the kernel's numbers (net/tcp_states.h). */
enum { ESTABLISHED = 1, SYN_SENT = 2, FIN_WAIT1 = 4, FIN_WAIT2 = 5, CLOSED = 7, CLOSE_WAIT = 8, LAST_ACK = 9, LISTEN = 10, CLOSING = 11 };
/* Callbacks of a socket, for who is not called by it: from 6.13 on. */
enum { CALLBACKS = 1008 };

/* The kernel asks for it: helpers that read its memory are for programs under the GPL or a licence that allows it. Ours is MIT. */
char licence[] SEC("license") = "Dual MIT/GPL";
