//! The engine of an app that has made a TUN interface (Android's VpnService): a process that forwards, measures and accelerates what comes
//! out of it, and gets from the app what the kernel does not say there.
//!
//! [`serve`] is one session, from the first greeting to the end. The protocol is described in `docs/reference/engine.md`: [`frame`] and
//! [`message`] read and write it, [`link`] is the connection, `session` what is done. Decisions are `core`'s, as everywhere: the same
//! machines as under `headstart run --measure`. Nothing is asked of the kernel that an app on a phone may not ask: no netlink, no /proc.

pub mod frame;
pub mod link;
pub mod message;
mod record;
mod session;

pub use session::{EngineError, racing, serve};
