//! Servers of the lab: DNS and the web, on the sites' addresses, in threads of the lab's process.
//!
//! They answer as the world says and count what reaches them. They never leave the network namespace of the thread that
//! started them.

pub mod dns;
mod http;
pub mod web;
mod zone;
