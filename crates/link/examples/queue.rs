//! What a transfer does to others in the queue before a link: a message each 20 ms beside a sender that halves its window when a packet is
//! lost and else grows it by a packet a round trip, queue by queue.
//!
//! `cargo run -p headstart-link --example queue`. Virtual time: the same numbers on every machine.
#![forbid(unsafe_code)]

use headstart_core::time::{Duration, Instant};
use headstart_link::{Link, Outcome, Packet, parse};

const SECONDS: u64 = 30;
/// A window is halved once in this time, however many packets of it are lost.
const ROUND: Duration = Duration::from_millis(200);

/// A packet, and when it was sent if it is a message.
#[derive(Clone)]
struct Sent(Option<Instant>);

impl Packet for Sent {
    fn wire_len(&self) -> usize {
        if self.0.is_some() { 100 } else { 1500 }
    }
}

/// The transfer, in packets.
struct Window {
    size: f64,
    flight: u32,
    halved: Instant,
}

impl Window {
    fn acknowledged(&mut self) {
        self.flight -= 1;
        self.size += 1.0 / self.size;
    }

    fn lost(&mut self, now: Instant) {
        self.flight -= 1;
        if now - self.halved > ROUND {
            (self.size, self.halved) = ((self.size / 2.0).max(1.0), now);
        }
    }
}

/// The messages' delays in milliseconds, shortest first.
fn delays(link: &str) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let mut link: Link<Sent> = Link::new(&parse(link)?.0, 1);
    let (mut transfer, mut delays) = (Window { size: 10.0, flight: 0, halved: Instant::ZERO }, Vec::new());
    for ms in 0..SECONDS * 1000 {
        let now = Instant::from_millis(ms);
        while let Some(outcome) = link.poll_outcome(now) {
            match outcome {
                Outcome::Released(came, Sent(Some(sent))) => delays.push((came - sent).as_secs_f64() * 1e3),
                Outcome::Released(_, Sent(None)) => transfer.acknowledged(),
                Outcome::Dropped(_, _, Sent(None)) => transfer.lost(now),
                Outcome::Dropped(..) => {}
            }
        }
        if ms % 20 == 0 {
            // A message that the queue drops is missing in the end.
            let _ = link.push(now, Sent(Some(now)));
        }
        while f64::from(transfer.flight) < transfer.size {
            transfer.flight += 1;
            if link.push(now, Sent(None)).is_err() {
                transfer.lost(now);
                break;
            }
        }
    }
    delays.sort_by(f64::total_cmp);
    Ok(delays)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:<16} {:>8} {:>10} {:>10}", "queue", "came", "median", "longest");
    for queue in ["drop-tail:20p", "drop-tail:200p", "codel"] {
        let delays = delays(&format!("rate=10mbit,delay=15ms,queue={queue}"))?;
        let (median, longest) = delays.get(delays.len() / 2).zip(delays.last()).ok_or("no message came")?;
        println!("{queue:<16} {:>8} {median:>7.1} ms {longest:>7.1} ms", delays.len());
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
    assert!(short < long && managed < long / 2.0, "{short} {long} {managed}");
}
