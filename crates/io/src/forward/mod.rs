//! The forwarder of `headstart_core::forward`, at work: a TUN interface, sockets, one thread, no sleeps (paper 3).
//!
//! [`Enclosure`] is where programs run whose traffic is forwarded; [`Worker`] drives one `Forwarder` for them; [`owner`] finds
//! out whose a connection is. What is done with each packet is decided in core; nothing is kept of what passes but what the
//! forwarder records.

pub mod board;
pub mod device;
mod enclosure;
mod exit;
mod finder;
mod lines;
mod loopback;
pub mod owner;
mod sockets;
mod worker;

pub use enclosure::{Enclosure, EnclosureError};
pub use exit::Protector;
pub use lines::line_of;
pub use loopback::Loopback;
pub use owner::Process;
pub use worker::{Seen, Sink, Tap, Tapped, Worker, WorkerError};
