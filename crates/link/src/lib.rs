//! The floor that imitates: link models and a virtual-time network, pure.
//!
//! A [`Link`] is one direction of a link: loss, then a queue, then a rate, then a delay, in that order, first in, first
//! out but for [`Mishaps`]. Each of the four is a model from a registry ([`loss::ALL`], [`queue::ALL`], [`rate::ALL`], [`delay::ALL`]); a
//! [`LinkSpec`] names one of each, [`parse`] reads them from text, [`preset`] keeps the ones with a published source. A
//! [`Duplex`] is both directions and the medium that joins them ([`medium::ALL`]): two wires, or a channel that they share
//! instead of having a rate each. [`Network`] joins links into a topology with routes.
//!
//! Nothing here reads a clock, a file or a socket: time, trace files and seeds come in as arguments, so the same seed
//! gives the same releases bit for bit, in the simulator and under real packets.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod air;
pub mod delay;
mod direction;
mod duplex;
mod flight;
mod lane;
mod link;
pub mod loss;
pub mod medium;
mod mishap;
pub mod network;
mod packet;
pub mod preset;
pub mod quantity;
pub mod queue;
pub mod rate;
mod seed;
pub mod sized;
mod spec;
mod text;

pub use direction::{LinkSpec, Order};
pub use duplex::{Duplex, DuplexSpec};
pub use link::Link;
pub use mishap::Mishaps;
pub use network::Network;
pub use packet::{Counters, Dropped, Outcome, Packet};
pub use preset::{Preset, UnknownPreset};
pub use sized::{change_sized, initial_rate, parse_duplex_sized};
pub use spec::{BadModel, Entry, Files, Spec};
pub use text::{ParseError, change, parse, parse_duplex, parse_duplex_with_files, parse_with_files};
