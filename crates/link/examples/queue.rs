//! What a full queue does to others: a message each 20 ms beside a transfer that sends a fifth more than the link carries, queue by
//! queue.
//!
//! `cargo run -p headstart-link --example queue`. Virtual time: the same numbers on every machine.
#![forbid(unsafe_code)]

use headstart_core::time::{Duration, Instant};
use headstart_link::{Link, Packet, parse};

/// 1500 bytes each millisecond: 12 Mbit/s.
const TRANSFER: Duration = Duration::from_millis(1);
const SECONDS: u64 = 10;

/// A packet, and when it was sent if it is a message.
struct Sent(Option<Instant>);

impl Packet for Sent {
    fn wire_len(&self) -> usize {
        if self.0.is_some() { 100 } else { 1500 }
    }
}

/// The messages' delays in milliseconds, shortest first.
fn delays(link: &str) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let mut link: Link<Sent> = Link::new(&parse(link)?.0, 1);
    let mut delays = Vec::new();
    for n in 0..SECONDS * 1000 {
        let now = Instant::ZERO + TRANSFER * u32::try_from(n)?;
        // A full queue drops; the messages that it drops are missing below.
        let _ = link.push(now, Sent(None));
        if n % 20 == 0 {
            let _ = link.push(now, Sent(Some(now)));
        }
        while let Some((came, Sent(sent))) = link.poll(now) {
            delays.extend(sent.map(|sent| (came - sent).as_secs_f64() * 1e3));
        }
    }
    delays.sort_by(f64::total_cmp);
    Ok(delays)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:<24} {:>8} {:>10} {:>10}", "queue", "came", "median", "longest");
    for queue in ["drop-tail:20p", "drop-tail:200p", "codel"] {
        let delays = delays(&format!("rate=10mbit,delay=15ms,queue={queue}"))?;
        let (median, longest) = delays.get(delays.len() / 2).zip(delays.last()).ok_or("no message came")?;
        println!("{queue:<24} {:>8} {median:>7.1} ms {longest:>7.1} ms", delays.len());
    }
    Ok(())
}

#[test]
fn a_longer_queue_delays_messages_and_codel_keeps_it_short() {
    let median = |queue: &str| {
        let delays = delays(&format!("rate=10mbit,delay=15ms,queue={queue}")).unwrap();
        delays[delays.len() / 2]
    };
    let [short, long, managed] = ["drop-tail:20p", "drop-tail:200p", "codel"].map(median);
    assert!(short < long && managed < long, "{short} {long} {managed}");
}
