//! A megabyte over QUIC, by a server that has seen the path twice before: with each start rule, and what it costs others.
//!
//! `cargo run -p headstart-lab --example window`. The endpoints are quinn's, in virtual time.
#![forbid(unsafe_code)]

use headstart_core::cwnd::start;
use headstart_core::path::NetworkId;
use headstart_core::time::{Duration, Instant};
use headstart_lab::sim::quic::{Path, Stage, Times};
use headstart_quic::{CarefulResume, Clock, Options, Store};

const PATH: Path = Path::lossless(100_000_000, Duration::from_millis(38));
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let origin = headstart_io::clock::Clock::new().origin();
    println!("1 MB over 100 Mbit/s, 38 ms\n");
    println!("{:<18} {:>10} {:>10} {:>16}", "start rule", "first", "third", "packets dropped");
    for rule in start::ALL {
        let options = Options { rule, network: NetworkId(1), ..Options::default() };
        let memory = CarefulResume::with_options(Store::new(Clock::new(origin, Duration::ZERO), [7; 16]), options);
        let mut stage = Stage::new(&PATH, &memory, Times::new(origin), Instant::from_millis(1000), 0, 1)?;
        let mut took = Vec::new();
        for _ in 0..3 {
            let fetched = stage.fetch(1_000_000, LIMIT)?;
            took.push(fetched.took.ok_or("it did not come in a minute")?.as_secs_f64() * 1e3);
            stage.run_until(stage.now() + Duration::from_millis(500));
        }
        let dropped = stage.bottleneck().packets_dropped;
        println!("{:<18} {:>7.0} ms {:>7.0} ms {dropped:>16}", rule.name, took[0], took[2]);
    }
    Ok(())
}
