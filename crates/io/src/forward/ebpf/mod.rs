//! Measured without being carried: headstart's programs in the kernel (eBPF, `crates/io/bpf`) tell what the forwarder would have seen
//! (docs/decisions/0088). No packet of a program passes through this process.
//!
//! [`Programs`] loads and attaches them; [`Watcher`] reads what they tell. Nothing is pinned: whatever ends this process, even
//! SIGKILL, closes its descriptors, and with them everything is detached and forgotten by the kernel. Others that are attached to
//! the same control group stay: they and ours are attached by links of their own.

mod lacking;
mod programs;
#[cfg(test)]
mod tests;
mod watcher;

pub use lacking::lacking;
pub use programs::{Cost, KernelError, Programs, Ran};
pub(crate) use programs::{failed, missing};
pub use watcher::Watcher;
