//! `headstart measure`: what can be said of a network by asking it, or by reckoning.

mod ask;
mod lte;
mod serve;
mod speech;

/// The verbs of `headstart measure`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// The path to a `headstart measure serve`: connect times, round trips idle and under load, throughput both ways.
    Network(ask::Args),
    /// The other end of measurements, on this host alone unless told.
    Serve(serve::Args),
    /// What resource blocks of LTE carry, by the equations of paper 3: bits a block, blocks a packet, throughput.
    Lte(lte::Args),
}

/// Does what the verb says.
pub fn run(verb: &Verb) -> anyhow::Result<u8> {
    match verb {
        Verb::Network(args) => ask::run(args),
        Verb::Serve(args) => serve::run(args),
        Verb::Lte(args) => lte::run(args),
    }
}
