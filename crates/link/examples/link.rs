//! What a link does to a second of steady packets: a preset by name, or a text such as `rate=5mbit,delay=40ms,loss=1%`.
//!
//! `cargo run -p headstart-link --example link [LINK]`.
#![forbid(unsafe_code)]

use headstart_core::time::{Duration, Instant};
use headstart_link::{Link, LinkSpec, parse};

/// A packet of 1200 bytes each millisecond: 9.6 Mbit/s.
const EVERY: Duration = Duration::from_millis(1);
const PACKETS: u64 = 1000;

/// A packet that knows when it was sent.
#[derive(Clone)]
struct Sent(Instant);

impl headstart_link::Packet for Sent {
    fn wire_len(&self) -> usize {
        1200
    }
}

/// The delays in milliseconds of the packets that came, shortest first.
fn delays(up: &LinkSpec) -> Vec<f64> {
    let mut link = Link::new(up, 1);
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
    delays.sort_by(f64::total_cmp);
    delays
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "lte".to_owned());
    let (up, _) = parse(&name)?;
    let delays = delays(&up);
    println!("{name}, up: {up}");
    let (median, most) = (delays.get(delays.len() / 2), delays.last());
    let (median, most) = median.zip(most).ok_or("no packet came")?;
    println!("{} of {PACKETS} packets came; {median:.1} ms at the median, {most:.1} ms at most", delays.len());
    Ok(())
}

#[test]
fn what_a_link_does_to_packets_is_what_its_text_says() {
    let of = |link: &str| delays(&parse(link).unwrap().0);
    // 0.96 ms for 1200 bytes, then the delay.
    let all = of("rate=10mbit,delay=40ms");
    assert_eq!(all.len(), 1000);
    assert!(all.iter().all(|ms| (ms - 40.96).abs() < 0.01), "{:?}", all.last());
    assert!(of("rate=10mbit,delay=40ms,loss=5%").len() < 1000);
}
