//! `headstart realtime`: the paper's workload between two hosts, to see what a technique is worth on one's own network.
//!
//! Paper 4's touch events: messages of 50 bytes every 30 ms, 60 of them a stream. The delay of a stream is the mean of its
//! messages'.

mod board;
mod event;
mod receive;
mod send;

pub use board::{Board, show, show_with};

/// Verbs of `headstart realtime`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Send streams of small messages to `headstart realtime receive`.
    Send(send::Args),
    /// Receive the messages and report their delays.
    Receive(receive::Args),
}

/// Runs a verb.
pub fn run(verb: Verb) -> anyhow::Result<u8> {
    match verb {
        Verb::Send(args) => send::run(args),
        Verb::Receive(args) => receive::run(&args),
    }
}

/// The lane that the messages go over.
const LANE: u8 = 0;
