//! `headstart measure`: what can be said of a network by asking it, or by reckoning.

mod ask;
mod lte;
mod serve;
mod speech;

/// The verbs of `headstart measure`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Measure the path to a `headstart measure serve`: connect time, latency idle and under load, throughput.
    Network(ask::Args),
    /// Answer `headstart measure network`; listens on loopback by default.
    Serve(serve::Args),
    /// Calculate LTE throughput from channel quality and resource blocks (paper 3).
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
