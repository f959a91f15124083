//! The tunnel over two channels: a TUN interface, a WireGuard session a channel, and the steering of `core` between them.
//!
//! [`config`] is the file that a person writes, in WireGuard's form; [`keys`] its keys. [`end`](End) is one end of the tunnel
//! without any descriptor: packets and datagrams in, packets and datagrams out, so that a test plays both ends in memory.
//! [`Tunnel`] gives it its interface and its sockets. This decides only which datagrams may be answered: which channel a packet
//! takes is `headstart_core::steer`'s. What never happens here: a datagram that does not authenticate is answered (but by
//! WireGuard's own cookie under load), or a packet from an address that the peer may not use is let in.

pub mod config;
mod end;
mod gather;
pub mod keys;
mod tunnel;
mod usage;

pub use config::{Config, Role};
pub use end::{Act, End, Refused};
pub use gather::Gather;
pub use tunnel::{CapStatus, ChannelStatus, ReasonStatus, Status, Tunnel, TunnelError};
