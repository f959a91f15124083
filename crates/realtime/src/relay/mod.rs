//! Relays: between sender and receiver each hop recovers its own losses (paper 4, section 5).
//!
//! [`Server`] is the relay of `headstart relay serve`, [`Client`] its other side, [`ports`] the local ports for programs that
//! know nothing of either. All that is said between them is inside TLS; each knows the other by its key
//! ([`crate::keys`], docs/decisions/0013). What never happens here: a message is read, or a connection is made that is not
//! allowed.

mod carry;
mod client;
mod clients;
mod joined;
pub mod ports;
mod records;
mod served;
mod server;
mod splice;
mod window;

pub use client::{Client, ClientError};
pub use clients::Clients;
pub use headstart_core::realtime::access::{self, Access, AccessError, Destination};
pub use headstart_core::realtime::preface::Answer;
pub use server::{Event, Server, ServerError, ServerSettings, Tally};
