//! Names resolved and connections opened ahead of time, over both families at once (paper 1).
//!
//! [`Connector`] is the mechanism, [`race::Race`] the policy, [`race::ALL`] the registry. The connector holds the
//! per-app [`cache`], coalesces and repeats queries, runs one `job` for each name that a program is after, and hands
//! over the connection that [`rank`] finds best. What programs do from launch to launch is in `habits`; `prefetch` and
//! `pool` decide by it what is looked up and opened before it is asked for. Whether, when and to whom packets are sent
//! is decided here; nothing here sends one.

mod agenda;
mod asks;
pub mod cache;
mod connector;
pub mod explain;
mod habits;
mod job;
mod lookups;
pub mod memory;
mod missed;
mod pool;
mod prefetch;
pub mod race;
pub mod rank;
mod service;
mod tally;
pub mod timeline;
mod types;

pub use asks::Answered;
pub use connector::{Connector, Settings};
pub use missed::Missed;
pub use pool::{MAX_SPARES, Spoilt};
pub use prefetch::Ahead;
pub use tally::Tally;
pub use types::{
    AppId, Ask, AttemptId, AttemptResult, Claim, Input, LookupResult, Output, QueryId, RequestId, Resolve, Resolved,
    Want,
};

#[cfg(test)]
mod tests;
