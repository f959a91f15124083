//! What a link does to a second of steady packets: a preset by name, or a text such as `rate=5mbit,delay=40ms,loss=1%`.
//!
//! `cargo run -p headstart-lab --example link [LINK]`.
#![forbid(unsafe_code)]

use headstart_core::time::{Duration, Instant};
use headstart_lab::stats::quantile;
use headstart_link::{Link, parse};

/// A packet of 1200 bytes each millisecond: 9.6 Mbit/s.
const EVERY: Duration = Duration::from_millis(1);
const PACKETS: u64 = 1000;

/// A packet that knows when it was sent.
struct Sent(Instant);

impl headstart_link::Packet for Sent {
    fn wire_len(&self) -> usize {
        1200
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "lte".to_owned());
    let (up, _) = parse(&name)?;
    let mut link = Link::new(&up, 1);
    let (mut delays, mut now) = (Vec::new(), Instant::ZERO);
    for _ in 0..PACKETS {
        // A full queue is one of the things that a link does.
        let _ = link.push(now, Sent(now));
        now += EVERY;
        while let Some((came, Sent(sent))) = link.poll(now) {
            delays.push((came - sent).as_secs_f64() * 1e3);
        }
    }
    while let Some(deadline) = link.poll_timeout() {
        now = now.max(deadline.at);
        while let Some((came, Sent(sent))) = link.poll(now) {
            delays.push((came - sent).as_secs_f64() * 1e3);
        }
    }
    println!("{name}, up: {up}");
    println!(
        "{} of {PACKETS} packets came; {:.1} ms at the median, {:.1} ms at most",
        delays.len(),
        quantile(&delays, 0.5)?,
        quantile(&delays, 1.0)?
    );
    Ok(())
}
