//! The floor that proves: emulated networks, experiments and reports.
#![forbid(unsafe_code)]

pub mod browser;
pub mod cgroup;
pub mod condition;
pub mod device;
pub mod experiment;
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
