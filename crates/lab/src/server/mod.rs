//! Servers of the lab: DNS, the web, HTTPS and SSH, on the sites' addresses, in threads of the lab's process (SSH:
//! in a program of its own).
//!
//! They answer as the world says and count what reaches them. They never leave the network namespace of the thread that
//! started them.

pub mod authority;
pub mod dns;
mod files;
pub mod head;
mod http;
pub mod https;
pub mod idle;
pub mod recorder;
pub mod replay;
pub mod ssh;
pub mod stage;
pub mod suite;
pub mod web;
mod zone;
