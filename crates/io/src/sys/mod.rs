//! What only the kernel can do, and the only modules where `unsafe` is allowed.
//!
//! Most modules wrap one kernel interface in safe types. [`room`] is a process that only makes system calls; [`libc_client`]
//! and [`call_cost`] are programs of the lab that call the C library as a plain C program does, with all that they are to
//! measure. Each unsafe block does one thing. Nothing in here decides what is done for a program under headstart.

#[cfg(test)]
pub(crate) mod absent;
#[cfg(feature = "host")]
pub mod bpf;
pub mod call_cost;
pub mod datagram;
pub mod epoll;
pub mod ethtool;
pub mod fork;
pub mod launch;
pub mod lease;
pub mod libc_client;
pub mod mountns;
#[cfg(feature = "host")]
pub mod netlink;
pub mod netns;
pub mod offload;
pub mod packet;
pub mod process;
pub mod reexec;
pub mod refusals;
#[cfg(feature = "host")]
pub mod room;
pub mod schedule;
pub mod seccomp;
pub mod signal;
pub mod socket_option;
pub mod stamps;
pub mod stream;
pub mod tcp_info;
pub mod train;
pub mod tun;
