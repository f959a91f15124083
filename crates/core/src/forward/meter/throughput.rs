//! Data over the time from the first to the last of it; nothing where all came at one moment.

use super::super::observed::Direction;
use super::Entry;

pub(super) const UP: Entry = Entry {
    name: "up_mbit_s",
    unit: "Mbit/s",
    what: "Data of the program, from the first to the last of it",
    read: |flow| rate(&flow.up),
};

pub(super) const DOWN: Entry = Entry {
    name: "down_mbit_s",
    unit: "Mbit/s",
    what: "Data of the peer, from the first to the last of it",
    read: |flow| rate(&flow.down),
};

fn rate(direction: &Direction) -> Option<f64> {
    let time = direction.last?.since(direction.first?).as_secs_f64();
    (time > 0.0).then(|| direction.bytes as f64 * 8.0 / 1e6 / time)
}
