//! A world in virtual time: the first of the lab's three speeds.
//!
//! A [`Session`] is one host for a while: a program that looks names up and connects, below it either headstart (the very
//! `Connector` that the supervisor runs, with any race) or nothing but libc and kernel ([`Arm::Bare`]), below that the
//! kernel's TCP and the access link of the world. Same world, same arm, same seed: the same nanoseconds.
//!
//! What never happens here: no clock, no socket, no thread. A [`Browser`] goes on where a
//! session ends: it loads pages. What is not modelled: the time that programs and supervisor compute, and search
//! domains. `netns` measures those.

mod app;
mod behind;
pub mod calls;
mod channels;
mod company;
mod dial;
mod driver;
mod far_side;
mod glibc;
mod hystart;
mod loader;
pub mod messages;
mod oracle;
mod packet;
pub mod quic;
mod servers;
mod session;
mod stack;
mod talker;
pub mod tcp;
#[cfg(test)]
mod tests;
mod transfer;
mod tunnel;

pub use app::{AppHost, Granted, Launch, Wish};
pub(crate) use channels::mean_rate;
pub use channels::{Gone, Steering};
pub use company::{Delays, Wanted};
pub(crate) use driver::Driven;
pub use loader::{Arm as BrowserArm, Browser, Load, Parts, Timing};
pub use oracle::faster;
pub use session::{Session, Spent, Visit};
pub use stack::{RADIO_SLEEPS, Traffic};
pub use tunnel::Tunnel;

use headstart_core::connect::cache::Lifetime;
use headstart_core::connect::race;
use std::fmt;

/// One way of getting connected.
#[derive(Clone, Copy, Debug)]
pub enum Arm {
    /// libc and kernel alone: glibc's getaddrinfo, then blocking connects one after the other.
    Bare,
    /// Headstart with this race.
    Race(&'static race::Entry),
}

impl Arm {
    /// Every race of the registry, then [`Arm::Bare`].
    pub fn all() -> impl Iterator<Item = Self> {
        race::ALL.iter().map(Self::Race).chain([Self::Bare])
    }

    /// The arm called `name`.
    pub fn find(name: &str) -> Result<Self, UnknownArm> {
        Self::all().find(|arm| arm.name() == name).ok_or_else(|| UnknownArm(name.into()))
    }

    /// Its name in tables: `bare`, or that of the race.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Race(entry) => entry.name,
        }
    }
}

impl PartialEq for Arm {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Arm {}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No arm of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", headstart_core::choice::unknown("arm", .0, &Arm::all().map(Arm::name).collect::<Vec<_>>()))]
pub struct UnknownArm(pub String);

/// How a session is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What is below the program.
    pub arm: Arm,
    /// How long answers are kept; [`Lifetime::Off`] makes every lookup a cold one. Nothing to [`Arm::Bare`].
    pub lifetime: Lifetime,
    /// Seed of what the connector draws (exploration). The world has its own.
    pub seed: u64,
}
