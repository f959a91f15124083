//! The forwarder of `headstart_core::forward`, at work: a TUN interface, sockets, one thread, no sleeps (paper 3).
//!
//! [`Enclosure`] is where programs run whose traffic is forwarded; [`Worker`] drives one `Forwarder` for them; [`owner`] finds
//! out whose a connection is. What is done with each packet is decided in core; nothing is kept of what passes but what the
//! forwarder records.

#[cfg(feature = "host")]
pub mod board;
#[cfg(feature = "host")]
pub mod capture;
#[cfg(feature = "host")]
pub mod device;
#[cfg(feature = "host")]
pub mod ebpf;
#[cfg(feature = "host")]
mod enclosure;
#[cfg(feature = "host")]
mod exit;
#[cfg(feature = "host")]
mod finder;
#[cfg(feature = "host")]
mod inbound;
#[cfg(feature = "host")]
mod lines;
#[cfg(feature = "host")]
mod loopback;
pub mod owner;
#[cfg(feature = "host")]
mod routes;
#[cfg(feature = "host")]
mod seen;
#[cfg(feature = "host")]
mod sockets;
#[cfg(feature = "host")]
mod window;
#[cfg(feature = "host")]
mod worker;

#[cfg(feature = "host")]
pub use enclosure::{Enclosure, EnclosureError};
#[cfg(feature = "host")]
pub(crate) use exit::Exit;
#[cfg(feature = "host")]
pub use exit::{Protect, Protector};
#[cfg(feature = "host")]
pub use inbound::{Inbound, Offered};
#[cfg(feature = "host")]
pub use lines::line_of;
#[cfg(feature = "host")]
pub use loopback::{Loopback, Theirs, settle};
pub use owner::Process;
#[cfg(feature = "host")]
pub use routes::Routes;
#[cfg(feature = "host")]
pub use seen::{Attributed, Sink};
#[cfg(feature = "host")]
pub(crate) use worker::{FRONT, Here, Running};
#[cfg(feature = "host")]
pub use worker::{Tap, Tapped, Worker, WorkerError};
