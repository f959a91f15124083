//! The queue of a link whose text has a limited rate and no `queue=`, such as `rate=12mbit`: its size is a time at that rate.
//!
//! A queue of 1000 packets is a second long at 12 Mbit/s: CUBIC fills it, waits that long for each packet, and loses packets by hundreds
//! when it overflows (docs/decisions/0139). The conditions of experiments are read as they are written, by
//! [`parse_duplex_with_files`].

use crate::medium::Way;
use crate::text::{ParseError, change, parse_duplex_with_files};
use crate::{DuplexSpec, Files, LinkSpec, queue};
use headstart_core::time::{Duration, Instant};

/// How long a full queue is at least. Deep enough for a round trip across an ocean, and for CUBIC to leave slow start by the delay that it
/// sees (HyStart) before it loses a window's worth.
pub const WAIT: Duration = Duration::from_millis(200);
/// Room on slow links: 32 packets of 1500 bytes, three initial windows (RFC 6928).
pub const LEAST: usize = 48_000;

/// As [`parse_duplex_with_files`], but a direction with a rate and neither a queue nor a preset gets a queue that is as long, at that rate,
/// as [`WAIT`] or twice its delay, whichever is longer, and no shorter than [`LEAST`].
pub fn parse_duplex_sized(text: &str, files: &mut Files<'_>) -> Result<DuplexSpec, ParseError> {
    let mut spec = parse_duplex_with_files(text, files)?;
    resize(&mut spec, text, |_| true);
    Ok(spec)
}

/// As [`change`], but a queue whose size was not given follows the rate and the delay.
pub fn change_sized(base: &DuplexSpec, text: &str, files: &mut Files<'_>) -> Result<DuplexSpec, ParseError> {
    let mut spec = change(base, text, files)?;
    resize(&mut spec, text, |way| sized(base.way(way)).as_ref() == Some(&base.way(way).queue));
    Ok(spec)
}

/// Sizes the queue of each direction of which `text` says nothing, if it may be sized.
fn resize(spec: &mut DuplexSpec, text: &str, may: impl Fn(Way) -> bool) {
    // One direction stands for both.
    let (up, down) = text.split_once(';').unwrap_or((text, text));
    for (way, text) in Way::BOTH.into_iter().zip([up, down]) {
        let link = if way == Way::Up { &mut spec.up } else { &mut spec.down };
        if let Some(queue) = sized(link).filter(|_| !says(text) && may(way)) {
            link.queue = queue;
        }
    }
}

/// Whether the text of a direction says which queue it has: a preset does.
fn says(text: &str) -> bool {
    text.split(',').any(|item| item.split_once('=').is_none_or(|(key, _)| key.trim() == "queue"))
}

/// The queue that suits a direction; none if its rate has no limit.
fn sized(link: &LinkSpec) -> Option<queue::QueueSpec> {
    let wait = WAIT.max(2 * link.least_delay());
    let bytes = initial_rate(link) / 8.0 * wait.as_secs_f64();
    bytes.is_finite().then(|| queue::drop_tail(None, Some((bytes.round() as usize).max(LEAST))))
}

/// What the rate lets through at its start, in bit/s; infinite without a limit.
pub fn initial_rate(link: &LinkSpec) -> f64 {
    // 12 Mbit in full packets: many periods of most traces.
    const PACKETS: usize = 1000;
    const BYTES: usize = 1500;
    let mut rate = link.rate.build();
    let mut through = Instant::ZERO;
    for _ in 0..PACKETS {
        let start = rate.start(Instant::ZERO);
        through = rate.serve(start, BYTES);
    }
    let time = through.since(Instant::ZERO).as_secs_f64();
    if time > 0.0 { (PACKETS * BYTES) as f64 * 8.0 / time } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(spec: &DuplexSpec) -> [String; 2] {
        [spec.up.queue.to_string(), spec.down.queue.to_string()]
    }

    fn read(text: &str) -> DuplexSpec {
        parse_duplex_sized(text, &mut |_| Ok("1\n".repeat(2))).unwrap()
    }

    #[test]
    fn a_queue_that_is_not_written_is_as_long_as_the_rate_asks_for() {
        for (text, wanted) in [
            ("rate=12mbit", ["drop-tail:300000b"; 2]),
            ("rate=12mbit,delay=20ms", ["drop-tail:300000b"; 2]),
            ("rate=12mbit,delay=300ms", ["drop-tail:900000b"; 2]),
            ("rate=64kbit", ["drop-tail:48000b"; 2]),
            ("rate=trace:two packets a millisecond", ["drop-tail:600000b"; 2]),
            ("rate=8mbit;rate=80mbit,queue=100p", ["drop-tail:200000b", "drop-tail:100p"]),
            // As before: what has no rate, what says its queue, and what a preset says.
            ("delay=20ms", ["drop-tail:1000p"; 2]),
            ("queue = infinite,rate=12mbit", ["infinite"; 2]),
            ("lte", ["drop-tail:1000p"; 2]),
            ("lte,rate=5mbit", ["drop-tail:1000p"; 2]),
            ("medium=wlan:strong", ["drop-tail:1000p"; 2]),
        ] {
            assert_eq!(queues(&read(text)), wanted, "{text}");
        }
    }

    #[test]
    fn all_but_the_queue_is_as_it_is_read_otherwise() {
        let text = "rate=12mbit,delay=20ms,loss=1%";
        let plain = crate::parse_duplex(text).unwrap();
        let DuplexSpec { up, down, medium } = read(text);
        let queue = || plain.up.queue.clone();
        assert_eq!(DuplexSpec { up: up.with_queue(queue()), down: down.with_queue(queue()), medium }, plain);
    }

    #[test]
    fn it_follows_a_link_that_becomes_another_unless_somebody_has_sized_it() {
        let changed =
            |base: &str, text: &str| queues(&change_sized(&read(base), text, &mut |_| Err(String::new())).unwrap());
        assert_eq!(changed("rate=12mbit", "rate=24mbit"), ["drop-tail:600000b"; 2]);
        assert_eq!(changed("rate=12mbit", "rate=24mbit;delay=300ms"), ["drop-tail:600000b", "drop-tail:900000b"]);
        assert_eq!(changed("rate=12mbit", "rate=24mbit,queue=10p"), ["drop-tail:10p"; 2]);
        assert_eq!(changed("rate=12mbit,queue=10p", "rate=24mbit"), ["drop-tail:10p"; 2]);
        assert_eq!(changed("lte", "rate=24mbit"), ["drop-tail:1000p"; 2]);
        assert_eq!(changed("rate=12mbit", "lte"), ["drop-tail:1000p"; 2]);
    }
}
