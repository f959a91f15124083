//! Any bytes are a record of the store or none; what is read can be written, reads back and can be recalled.
//!
//! Records are sealed, so that foreign bytes come here only with the key; the store of another version may.
#![no_main]

use headstart_core::path::PathBook;
use headstart_core::time::Instant;
use headstart_io::store::{Record, What};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = Record::decode(bytes) else { return };
    let written = Record::wrap(record.saved_at, &record.what.encode().unwrap());
    if let Ok(written) = written {
        // Shares that are no numbers cannot be written, and then do not read back.
        if let Ok(again) = Record::decode(&written) {
            assert_eq!(again.saved_at, record.saved_at);
        }
    }
    if let What::Network(network) = record.what {
        let mut book = PathBook::default();
        book.recall(Instant::ZERO, vec![network.aged(std::time::Duration::from_secs(record.saved_at))]);
        let _ = book.records(Instant::from_nanos(u64::MAX));
    }
});
