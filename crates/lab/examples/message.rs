//! The touch events of paper 4 over a hop that loses 3 % of its packets: how late the worst of them come, by technique.
//!
//! `cargo run -p headstart-lab --example message`.
#![forbid(unsafe_code)]

use headstart_core::time::Duration;
use headstart_lab::sim::messages::{Hop, Sending, TOUCH, play};
use headstart_lab::sim::tcp;
use headstart_lab::stats::quantile;

/// Streams of each technique.
const STREAMS: u64 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let link = headstart_link::parse_duplex("rate=20mbit,delay=20ms,loss=3%")?;
    let hop = Hop { link, rtt: Duration::from_millis(40), fades: None, bulk: false };
    println!("50 bytes each 30 ms, 20 ms each way, 3 % lost\n");
    println!("{:<24} {:>10} {:>10} {:>18}", "technique", "p95", "p99", "packets a message");
    for technique in ["plain", "reduction-50", "trigger", "echo", "auto"] {
        let (mut delays, mut packets) = (Vec::new(), 0);
        for seed in 0..STREAMS {
            let sending = Sending::Technique(technique.to_owned());
            let heard = play(std::slice::from_ref(&hop), tcp::MODERN, &sending, TOUCH, seed, seed)?;
            packets += heard.packets;
            delays.extend(heard.delays);
        }
        let (p95, p99) = (quantile(&delays, 0.95)?, quantile(&delays, 0.99)?);
        println!("{technique:<24} {p95:>7.1} ms {p99:>7.1} ms {:>18.2}", packets as f64 / delays.len() as f64);
    }
    Ok(())
}
