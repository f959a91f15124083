//! The floor that proves: emulated networks, experiments and reports.
//!
//! | module | what is in it |
//! |---|---|
//! | [`world`], [`condition`], [`page`] | names, hosts, fates, DNS and link of one internet; the named ones; pages to be loaded |
//! | [`sim`], [`netns`] | the two readings of a world: played in virtual time, built of namespaces and kernel sockets |
//! | [`scenario`] | the same for whole networks: hosts, routers, links and flows in a TOML file |
//! | [`server`], [`program`], [`browser`], [`socket_loader`] | what stands behind addresses; what is run against it: programs, Chromium, a page load over sockets |
//! | [`experiment`] | one file for each table or figure, tied to claims by `docs/claims.toml` |
//! | [`campaign`] | many of them as tasks that any scheduler hands out; their results as tables |
//! | [`fleet`] | telemetry: of hosts that never were, made in virtual time; of many hosts, by days as Parquet |
//! | [`bucket`], [`columns`] | places in an S3-compatible store; tables in files of Parquet |
//! | [`stats`], [`report`] | samples to medians and intervals; tables and pages |
//! | [`device`], [`cgroup`] | the state of the machine that a result is of; one that saves |
#![forbid(unsafe_code)]

pub mod browser;
pub mod bucket;
pub mod campaign;
pub mod cgroup;
pub mod columns;
pub mod condition;
pub use headstart_io::device;
pub mod experiment;
pub mod fleet;
pub mod netns;
pub mod page;
pub mod program;
pub mod report;
pub mod scenario;
pub mod server;
pub mod sim;
pub mod socket_loader;
pub mod stats;
pub mod world;

/// What is behind a mutex, whichever thread panicked while it held it: each value here is whole by itself.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
