//! Campaigns: many experiments, conditions and seeds as a list of tasks that any scheduler can hand out.
//!
//! | module | what is in it |
//! |---|---|
//! | `text` | `campaign.toml`: what is wanted |
//! | `task`, `plan` | the tasks, with ids of what decides their results; `plan.jsonl` |
//! | `folder` | a folder of results: one folder a task, whole or not there |
//! | `bucket` | results in an S3-compatible store: one object a task, whole or not there |
//! | `account` | every task exactly once; what is missing, double, differing or damaged |
//! | `pooled` | the results of many seeds as one result; how much seeds and hosts differ |
//! | `tables` | the same as Parquet |
//! | `engine` | what schedulers are given |
//! | `compare` | two results side by side |
//!
//! A task's id is a SHA-256 of what decides its result, never of a path, a host or a time: the same plan gives the same ids wherever
//! it is made, and a result says by its name which task it is of (docs/decisions/0090). Nothing here starts a process.

mod account;
mod bucket;
mod compare;
pub mod engine;
mod folder;
mod plan;
mod pooled;
mod tables;
mod task;
mod text;

pub use account::{Account, Counted, Discrepancy, collect};
pub use bucket::{Committed, Extent};
pub use compare::{Comparison, Difference, Judged, compare};
pub use folder::{Brief, Glance, Look, Part, Provenance, Results};
pub use plan::{Plan, Shard};
pub use pooled::{Agreement, Pooled, pool};
pub use tables::{SCHEMA, SCHEMA_VERSION, Tables};
pub use task::{Builds, Needs, Pages, Task, digest_of_file, digest_of_pages};
pub use text::{Campaign, Seeds, Set};

/// Version of the lines of a plan and of the records beside results.
pub const VERSION: u32 = 1;

/// `bytes` as lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `name` can be a task's id.
fn is_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit())
}

/// SHA-256 of `bytes`, in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

/// The identity of a result: SHA-256 of all that it says but for the machine and how long it took. Two results of one task in virtual
/// time have the same.
pub fn identity(outcome: &crate::experiment::Outcome) -> String {
    let mut bare = outcome.clone();
    bare.device = None;
    if let Some(extent) = &mut bare.extent {
        extent.seconds = 0.0;
    }
    sha256(&serde_json::to_vec(&bare).expect("an outcome is made of strings, numbers and lists"))
}
