//! `headstart serve` and `headstart get`, with each other and with programs of others, over real sockets.
#![forbid(unsafe_code)]

mod browser;
mod flood;
mod lab;
mod memory;
mod others;
mod refusals;
mod scene;
mod transfer;
