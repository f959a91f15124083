//! A rate that follows a recorded trace.
//!
//! The file repeats after its last timestamp. A packet that does not fit takes the next opportunities too, and what it
//! leaves over goes to the packets that were already waiting; an opportunity that finds nothing waiting is lost (mahimahi,
//! `LinkQueue::rationalize`). The trace starts at the origin of time. What is never done: no file is opened here, and an
//! opportunity is never used by a packet that came at or after it.

use std::sync::Arc;

use headstart_core::time::Instant;

use super::recorded::{MILLISECOND, OPPORTUNITY, Trace};
use super::{Rate, RateSpec};
use crate::spec::{digest, file};
use crate::{BadModel, Entry, Files};

const NAME: &str = "trace";
const FORM: &str = "FILE";

pub(super) const ENTRY: Entry<dyn Rate> = Entry {
    name: NAME,
    what: "delivery opportunities of 1500 bytes at recorded milliseconds, repeated",
    source: "mahimahi's packet-delivery traces (Netravali et al., USENIX ATC 2015)",
    parameters: FORM,
    example: "cellular.trace",
    parse,
};

/// A rate that follows `trace`.
pub fn trace(trace: Trace) -> RateSpec {
    let (name, digest) = (trace.name.clone(), digest(trace.millis().iter().copied()));
    let trace = Arc::new(trace);
    RateSpec::new(NAME, name, move || {
        Box::new(Follow { trace: Arc::clone(&trace), current: None, left: 0 }) // nothing used yet
    })
    .with_digest(digest)
}

fn parse(text: &str, files: &mut Files<'_>) -> Result<RateSpec, BadModel> {
    let contents = file(text, NAME, FORM, files)?;
    Ok(self::trace(Trace::parse(text, &contents)?))
}

/// The number of an opportunity: which run of the trace, which line of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    run: u64,
    line: usize,
}

struct Follow {
    trace: Arc<Trace>,
    /// The opportunity that was used last, and what is left of it, in bytes.
    current: Option<Slot>,
    left: usize,
}

impl Follow {
    fn time(&self, slot: Slot) -> u64 {
        let within = self.trace.millis().get(slot.line).copied().unwrap_or(0).saturating_mul(MILLISECOND);
        slot.run.saturating_mul(self.trace.period()).saturating_add(within)
    }

    fn after(&self, slot: Slot) -> Slot {
        if slot.line + 1 < self.trace.millis().len() {
            Slot { line: slot.line + 1, ..slot }
        } else {
            Slot { run: slot.run.saturating_add(1), line: 0 }
        }
    }

    /// The first opportunity later than `nanos`.
    fn first_later_than(&self, nanos: u64) -> Slot {
        let period = self.trace.period();
        // A multiple of the period counts as the start of a run, so some line of the run is always still to come.
        let run = nanos / period;
        let millis = (nanos - run * period) / MILLISECOND;
        Slot { run, line: self.trace.millis().partition_point(|&m| m <= millis) }
    }

    /// The opportunity that a packet waiting since `ready` gets.
    fn next(&self, ready: u64) -> Slot {
        match self.current {
            Some(slot) if self.time(slot) > ready => {
                if self.left > 0 {
                    slot
                } else {
                    self.after(slot)
                }
            }
            Some(slot) => self.first_later_than(ready).max(self.after(slot)),
            None => self.first_later_than(ready),
        }
    }
}

impl Rate for Follow {
    fn start(&self, ready: Instant) -> Instant {
        Instant::from_nanos(self.time(self.next(ready.as_nanos())))
    }

    fn serve(&mut self, start: Instant, bytes: usize) -> Instant {
        // `start` is the time of an opportunity, and the packet was there before it.
        let mut slot = self.next(start.as_nanos().saturating_sub(1));
        if self.current != Some(slot) {
            self.left = OPPORTUNITY;
        }
        let mut wanted = bytes;
        while wanted > self.left {
            wanted -= self.left;
            slot = self.after(slot);
            self.left = OPPORTUNITY;
        }
        self.left -= wanted;
        self.current = Some(slot);
        Instant::from_nanos(self.time(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::BadTrace;
    use proptest::prelude::*;

    fn served(text: &str, packets: &[(u64, usize)]) -> Vec<u64> {
        let mut server = trace(Trace::parse("test", text).unwrap()).build();
        let mut ends = Vec::new();
        for &(ready_us, bytes) in packets {
            let start = server.start(Instant::from_nanos(ready_us * 1000));
            ends.push(server.serve(start, bytes).as_nanos() / 1000);
        }
        ends
    }

    #[test]
    fn each_line_lets_1500_bytes_go_and_the_file_repeats() {
        let packets = [(0, 1500); 5];
        assert_eq!(served("1\n2\n5\n", &packets), [1000, 2000, 5000, 6000, 7000]);
    }

    #[test]
    fn what_a_packet_leaves_over_goes_to_the_one_that_waits() {
        assert_eq!(served("3\n10\n", &[(0, 700), (0, 700), (0, 700)]), [3000, 3000, 10_000]);
    }

    #[test]
    fn what_a_packet_leaves_over_is_lost_to_one_that_comes_later() {
        assert_eq!(served("3\n10\n", &[(0, 700), (3000, 700), (3001, 700)]), [3000, 10_000, 10_000]);
    }

    #[test]
    fn an_opportunity_that_finds_nothing_is_lost() {
        assert_eq!(served("1\n2\n3\n4\n", &[(2500, 1500), (2500, 1500)]), [3000, 4000]);
        // Idle for three runs and a half.
        assert_eq!(served("1\n2\n3\n4\n", &[(0, 1500), (14_000, 1500)]), [1000, 15_000]);
    }

    #[test]
    fn work_begins_at_an_opportunity_that_is_not_used_up() {
        let mut server = trace(Trace::parse("test", "3\n10\n").unwrap()).build();
        let start = server.start(Instant::ZERO);
        assert_eq!((start, server.serve(start, 1000)), (Instant::from_millis(3), Instant::from_millis(3)));
        assert_eq!(server.start(Instant::ZERO), Instant::from_millis(3));
        server.serve(start, 500);
        assert_eq!(server.start(Instant::ZERO), Instant::from_millis(10));
    }

    #[test]
    fn two_equal_lines_are_two_opportunities() {
        assert_eq!(served("4\n4\n8\n", &[(0, 1500), (0, 1500), (0, 1500)]), [4000, 4000, 8000]);
    }

    #[test]
    fn a_first_line_of_zero_comes_together_with_the_last_of_the_run_before() {
        assert_eq!(served("0\n5\n", &[(0, 1500), (0, 1500), (0, 1500), (5000, 1500)]), [5000, 5000, 10_000, 10_000]);
        assert_eq!(served("0\n0\n5\n", &[(5000, 1500)]), [10_000]);
    }

    #[test]
    fn a_packet_of_many_opportunities_takes_them_in_turn() {
        assert_eq!(served("1\n2\n3\n", &[(0, 4000), (0, 500), (0, 1)]), [3000, 3000, 4000]);
    }

    #[test]
    fn what_a_followed_trace_delivers_is_that_trace() {
        let text = "1\n1\n4\n7\n7\n7\n12\n";
        let ends = served(text, &[(0, 1500); 7]);
        let delivered = ends.iter().map(|us| (Instant::from_nanos(us * 1000), 1500));
        assert_eq!(Trace::of_deliveries("up", delivered).unwrap().to_text(), text);
        // Small packets fill an opportunity together; a third of one is left.
        let small = (1..=10).map(|k| (Instant::from_nanos(k * 300_000), 500));
        assert_eq!(Trace::of_deliveries("up", small).unwrap().millis(), [1, 2, 3]);
        assert!(matches!(Trace::of_deliveries("up", []), Err(BadTrace::Empty { .. })));
    }

    proptest! {
        /// The model against the plainest account of the format: walk every opportunity in turn.
        #[test]
        fn agrees_with_a_walk_over_every_opportunity(
            mut millis in proptest::collection::vec(0u64..40, 1..12),
            mut packets in proptest::collection::vec((0u64..200_000, 1usize..4000), 1..30),
        ) {
            millis.push(40);
            millis.sort_unstable();
            packets.sort_by_key(|p| p.0);
            let text = Trace::of_millis("t", millis.iter().copied()).unwrap().to_text();
            let mut expected = Vec::new();
            let (mut next, mut left_of_packet) = (0, packets[0].1);
            'all: for run in 0u64.. {
                for m in &millis {
                    let now = (run * 40 + m) * 1000;
                    let mut room = OPPORTUNITY;
                    while room > 0 && packets[next].0 < now {
                        let used = room.min(left_of_packet);
                        room -= used;
                        left_of_packet -= used;
                        if left_of_packet == 0 {
                            expected.push(now);
                            next += 1;
                            if next == packets.len() { break 'all; }
                            left_of_packet = packets[next].1;
                        }
                    }
                }
            }
            prop_assert_eq!(served(&text, &packets), expected);
        }
    }
}
