//! Bytes to meaning and back, without state. Foreign bytes never panic here: they parse or they are an error.

#[cfg(feature = "dns")]
pub mod dns;
pub mod ip;
pub mod nat64;
pub mod netlink;
pub mod nfqueue;
pub mod options;
pub mod pcapng;
pub mod quic;
pub mod range;
pub mod record;
#[cfg(feature = "dns")]
pub mod relay;
pub mod shim;
pub mod sockaddr;
pub mod socks;
pub mod target;
pub mod tcp_metrics;
