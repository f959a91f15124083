//! A queue of limited room that drops arriving packets when full.
//!
//! The limit is in packets, in bytes, or both. A packet that would pass either limit is dropped whole; what is already
//! in the queue is never touched.

use headstart_core::time::Instant;

use super::{Backlog, Queue, QueueSpec};
use crate::quantity::{self, Room};
use crate::spec::split;
use crate::{BadModel, Entry, Files};

const NAME: &str = "drop-tail";
const FORM: &str = "ROOM[:ROOM]";

pub(super) const ENTRY: Entry<dyn Queue> = Entry {
    name: NAME,
    what: "a queue with a limit in packets and/or bytes that drops arriving packets when full",
    source: "pfifo and bfifo of Linux; mahimahi's droptail",
    parameters: FORM,
    example: "20p:24kb",
    parse,
};

/// A queue of at most `packets` and at most `bytes`; `None` is no limit of that kind.
pub fn drop_tail(packets: Option<usize>, bytes: Option<usize>) -> QueueSpec {
    let parts = [packets.map(|limit| format!("{limit}p")), bytes.map(|limit| format!("{limit}b"))];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(":");
    let (packets, bytes) = (packets.unwrap_or(usize::MAX), bytes.unwrap_or(usize::MAX));
    QueueSpec::new(NAME, text, move || Box::new(DropTail { packets, bytes }))
}

fn parse(text: &str, _: &mut Files<'_>) -> Result<QueueSpec, BadModel> {
    let (mut packets, mut bytes) = (None, None);
    for part in split(text, NAME, FORM, 1..=2)? {
        let taken = match quantity::room(&part)? {
            Room::Packets(limit) => packets.replace(limit),
            Room::Bytes(limit) => bytes.replace(limit),
        };
        if taken.is_some() {
            let reason = "two limits of one kind: give one in packets (p) and one in bytes (b, kb, mb)";
            return Err(BadModel::Senseless { model: NAME, reason });
        }
    }
    Ok(drop_tail(packets, bytes))
}

struct DropTail {
    packets: usize,
    bytes: usize,
}

impl Queue for DropTail {
    fn admits(&mut self, _: Instant, bytes: usize, backlog: Backlog) -> bool {
        backlog.packets < self.packets && backlog.bytes.saturating_add(bytes) <= self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(queue: &QueueSpec, packets: usize, bytes: usize) -> bool {
        queue.build().admits(Instant::ZERO, 1500, Backlog { packets, bytes })
    }

    #[test]
    fn either_limit_closes_the_queue() {
        let queue = drop_tail(Some(3), Some(4000));
        assert!(admits(&queue, 2, 2500));
        assert!(!admits(&queue, 3, 300));
        assert!(!admits(&queue, 2, 2501));
        assert!(admits(&drop_tail(Some(3), None), 2, 1 << 30));
        assert!(admits(&drop_tail(None, Some(1500)), 100, 0));
    }

    #[test]
    fn the_limits_read_in_either_order_but_not_twice() {
        let read = |text| parse(text, &mut |_| Err(String::new()));
        assert_eq!(read("20p:24kb"), Ok(drop_tail(Some(20), Some(24_000))));
        assert_eq!(read("24kb:20p"), Ok(drop_tail(Some(20), Some(24_000))));
        assert!(read("20p:30p").is_err());
        assert!(read("").is_err());
    }
}
