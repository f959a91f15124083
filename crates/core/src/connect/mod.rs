//! Names resolved and connections opened ahead of time, over both families at once (paper 1).
//!
//! [`Connector`] is the mechanism, [`race::Race`] the policy, [`race::ALL`] the registry. The connector holds the
//! per-app [`cache`], coalesces and repeats queries, runs one `job` for each name that a program is after, and hands
//! over the connection that [`rank`] finds best. What programs do from launch to launch is in `prefetch_model`; `prefetch` and
//! `pool` decide by it what is looked up and opened before it is asked for. Whether, when and where packets are sent
//! is decided here; nothing here sends one.
//!
//! To be read from the bottom:
//!
//! | module | what is in it |
//! |---|---|
//! | [`crate::wire::dns`], [`crate::wire::record`], [`crate::wire::nat64`] | queries and answers; record types, what an HTTPS record says; IPv4 addresses inside IPv6 ones |
//! | [`crate::wire::relay`] | DNS messages of others, passed on: which questions are ours, and how a server's words answer them |
//! | [`crate::wire::shim`], [`crate::wire::sockaddr`], [`crate::wire::options`] | messages of the preloaded library; addresses out of programs' memory; options that an exchanged socket must carry |
//! | [`crate::path`] | round-trip times and failures by network, family and peer; translators by network |
//! | [`cache`], `service` | answers by app, with their lifetimes; which addresses of an HTTPS record may be used |
//! | [`race`], [`rank`] | the trait, its registry, one file a race; which of the ready connections is best |
//! | `types`, `messages` | ids, what programs ask for and what has come of it; what goes into the machine and comes out |
//! | `hints` | which families of a name a program has asked for |
//! | `lookups`, `servers`, `job` | queries under way, shared; which server they go to; one name that a program is after, its lookups and attempts |
//! | `crowd` | how many of very many attempts of a program are helped by another |
//! | `failures` | what has just failed, reported at once to the program that comes to it |
//! | `visits` | where programs have arrived, and whether they choose among the addresses of a name |
//! | `asks` | questions of programs that speak DNS themselves; no family is held up by the other |
//! | `prefetch_model`, [`memory`] | what programs ask for from launch to launch; the records of it that a store keeps |
//! | `prefetch`, `pool`, `agenda`, `pool_miss` | what is looked up before a program asks; where a connection is opened and when, for how long it is good, what may be wasted; why one was not there |
//! | `connector` | the machine: many jobs, shared lookups, tallies of what it all cost, an account a run |
//! | [`timeline`], [`explain`] | what happened, written down as it happens, and the account given of it |

mod agenda;
mod asks;
pub mod cache;
mod connector;
mod crowd;
pub mod explain;
mod extras;
mod failures;
mod hints;
mod job;
mod lookups;
pub mod memory;
mod messages;
mod pool;
mod pool_miss;
mod prefetch;
mod prefetch_model;
pub mod race;
pub mod rank;
mod servers;
mod service;
mod starts;
mod tally;
pub mod timeline;
mod types;
mod visits;

pub use asks::Answered;
pub use connector::{Connector, Settings};
pub use lookups::Patience;
pub use messages::{Input, Output};
pub use pool::{MAX_SPARES, Spoilt};
pub use pool_miss::PoolMiss;
pub use prefetch::Ahead;
pub use starts::Starts;
pub use tally::Tally;
pub use types::{
    AppId, Ask, AttemptId, AttemptResult, Claim, Looks, LookupResult, QueryId, RequestId, Resolve, Resolved, Want,
};

#[cfg(test)]
mod tests;
