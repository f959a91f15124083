//! QUIC that remembers the path (paper 2, RFC 9959), for programs that use quinn.
//!
//! [`adapter`] gives each connection of a quinn endpoint a congestion window out of what earlier connections to the same peer
//! showed. All decisions are `headstart_core::cwnd`'s; here they meet quinn's traits.
#![forbid(unsafe_code)]

pub mod adapter;
