//! A recorded delay for each packet: the first line for the first packet, and so on, then from the start again.
//!
//! Each line is a delay in milliseconds. With `order=free` packets come out in the order that the recording gives them;
//! otherwise a packet waits for the one before it. What never happens here: no file is opened, and a packet that was lost
//! or dropped before its delay takes no line.

use std::sync::Arc;

use headstart_core::time::{Duration, Instant};

use super::{Delay, DelaySpec, recorded};
use crate::spec::{digest, file};
use crate::{BadModel, Entry, Files};

const NAME: &str = "per-packet";
const FORM: &str = "FILE";
const LINE: &str = "DELAY";

pub(super) const ENTRY: Entry<dyn Delay> = Entry {
    name: NAME,
    what: "a recorded delay for each packet: lines of DELAY in milliseconds, repeated; order=free lets packets overtake",
    source: "per-packet delay replay, as in rattan and the crate netem-trace",
    parameters: FORM,
    example: "packets.trace",
    parse,
};

/// A delay for each packet in turn, repeated; none is no delay. `name` is how the specification calls the recording.
pub fn per_packet(name: &str, delays: &[Duration]) -> DelaySpec {
    let digest = digest(delays.iter().map(|delay| delay.as_nanos() as u64));
    let delays: Arc<[Duration]> = delays.into();
    DelaySpec::new(NAME, name.to_owned(), move || Box::new(PerPacket { delays: Arc::clone(&delays), next: 0 }))
        .with_digest(digest)
}

fn parse(text: &str, files: &mut Files<'_>) -> Result<DelaySpec, BadModel> {
    let contents = file(text, NAME, FORM, files)?;
    let rows = recorded::columns::<1>(text, LINE, &contents)?;
    Ok(per_packet(text, rows.as_flattened()))
}

struct PerPacket {
    delays: Arc<[Duration]>,
    next: usize,
}

impl Delay for PerPacket {
    fn draw(&mut self, _: Instant, _: &mut fastrand::Rng) -> Duration {
        let delay = self.delays.get(self.next).copied().unwrap_or_default();
        self.next = if self.next + 1 < self.delays.len() { self.next + 1 } else { 0 };
        delay
    }

    fn least(&self) -> Duration {
        self.delays.iter().copied().min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, parse_with_files};

    fn released(text: &str) -> Vec<(u64, Vec<u8>)> {
        let (spec, _) = parse_with_files(text, &mut |_| Ok("10\n2\n2.5\n".to_owned())).unwrap();
        let mut link = Link::new(&spec, 1);
        for k in 0..4u8 {
            link.push(Instant::from_millis(u64::from(k)), vec![k]).unwrap();
        }
        let all = std::iter::from_fn(|| link.poll(Instant::from_millis(100)));
        all.map(|(at, packet)| (at.as_nanos() / 1000, packet)).collect()
    }

    #[test]
    fn with_free_order_each_packet_takes_its_own_line_and_the_lines_repeat() {
        let expected = [(3000, vec![1]), (4500, vec![2]), (10_000, vec![0]), (13_000, vec![3])];
        assert_eq!(released("delay=per-packet:p.trace,order=free"), expected);
    }

    #[test]
    fn with_order_kept_a_packet_waits_for_the_one_before() {
        let expected = [(10_000, vec![0]), (10_000, vec![1]), (10_000, vec![2]), (13_000, vec![3])];
        assert_eq!(released("delay=per-packet:p.trace"), expected);
    }

    #[test]
    fn malformed_recordings_are_refused_with_file_line_and_reason() {
        let told = |text: &str| parse("p.trace", &mut |_| Ok(text.to_owned())).unwrap_err().to_string();
        assert_eq!(told("1\n2 3\n"), "p.trace:2: 2 columns: write `DELAY` in milliseconds a line");
        assert_eq!(told("1\n\n"), "p.trace:2: 0 columns: write `DELAY` in milliseconds a line");
        assert!(told("1\nx\n").starts_with("p.trace:2: `x` is not a number of milliseconds"));
    }

    #[test]
    fn the_least_is_that_of_all_lines() {
        let ms = Duration::from_millis;
        assert_eq!(per_packet("p", &[ms(9), ms(3), ms(5)]).build().least(), ms(3));
        assert_eq!(per_packet("p", &[]).build().least(), Duration::ZERO);
    }
}
