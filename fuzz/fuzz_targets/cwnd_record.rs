//! Any bytes are a record of a path or none; what is read is within bounds, can be written, reads back and can be learned from.
#![no_main]

use headstart_core::cwnd::history::{Key, History, Record, Settings};
use headstart_core::time::Instant;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, Vec<u8>)| {
    let (now, bytes) = (Instant::from_nanos(input.0), input.1);
    let Ok(record) = Record::decode(&bytes, now) else { return };
    assert_eq!(Record::decode(&record.encode(), now), Ok(record));
    let mut history = History::new(Settings { quota: 2, ..Settings::default() }, [0; 16]);
    history.import(Key(1), None, record);
    assert_eq!(history.record(Key(1)), Some(&record));
    history.sweep(now);
});
