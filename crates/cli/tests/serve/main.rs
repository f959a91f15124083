//! `headstart serve` and `headstart get`, with each other and with programs of others, over real sockets.
#![forbid(unsafe_code)]

#[path = "../attack/mod.rs"]
mod attack;
mod browser;
mod client;
mod fleet;
mod flood;
mod greeting;
mod host_port;
mod hostile;
mod lab;
mod memory;
mod others;
mod refusals;
mod scene;
#[path = "../verbs/schema.rs"]
mod schema;
mod seen;
mod transfer;
