//! What only the kernel can do, and the only modules where `unsafe` is allowed.
//!
//! Each module wraps one kernel interface in safe types; each unsafe block does one thing. No policy in here.

pub mod call_cost;
pub mod epoll;
pub mod ethtool;
pub mod fork;
pub mod lease;
pub mod libc_client;
pub mod mountns;
pub mod netlink;
pub mod netns;
pub mod offload;
pub mod packet;
pub mod process;
pub mod reexec;
pub mod room;
pub mod schedule;
pub mod seccomp;
pub mod signal;
pub mod socket_option;
pub mod tcp_info;
