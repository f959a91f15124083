//! One thing that the store keeps: a program or a network, and when it was saved. As JSON, so that a later version reads
//! what this one wrote; sealed by the store.
//!
//! The only moment in it is that of saving, by the wall clock. A clock that was set back makes nothing older than it is
//! and keeps no failure alive; see [`age`].

use headstart_core::connect::memory::Program;
use headstart_core::path::record::NetworkRecord;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bytes of a record at most: a program with a hundred names, each with two dozen followers, all as long as names can be.
pub const MAX_RECORD: usize = 1024 * 1024;

/// A thing that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Seconds since 1970, by the wall clock.
    pub saved_at: u64,
    /// What.
    pub what: What,
}

/// What is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// What was learned of a program.
    Program(Program),
    /// What was learned of a network.
    Network(NetworkRecord),
}

/// Why bytes are no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Longer than any record.
    #[error("a record of {0} bytes is too long")]
    TooLong(usize),
    /// Not what was written.
    #[error("a record cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl What {
    /// What tells it from others: in the store, its digest.
    pub fn name(&self) -> Vec<u8> {
        match self {
            Self::Program(program) => [b"program ", program.app.as_bytes()].concat(),
            Self::Network(network) => [&b"network "[..], &network.id.0.to_be_bytes()].concat(),
        }
    }

    /// As bytes, the same for the same content.
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        Ok(serde_json::to_vec(self)?)
    }
}

impl Record {
    /// The bytes of a record of `what` (as [`What::encode`] gives it), saved at `saved_at`.
    pub fn wrap(saved_at: u64, what: &[u8]) -> Result<Vec<u8>, RecordError> {
        let bytes = [&saved_at.to_be_bytes(), what].concat();
        if bytes.len() > MAX_RECORD { Err(RecordError::TooLong(bytes.len())) } else { Ok(bytes) }
    }

    /// The record in `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        if bytes.len() > MAX_RECORD {
            return Err(RecordError::TooLong(bytes.len()));
        }
        let (saved_at, what) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        Ok(Self { saved_at: u64::from_be_bytes(*saved_at), what: serde_json::from_slice(what)? })
    }
}

/// How old a record is at `now`; one from the future (the clock was set back since) is new.
pub fn age(saved_at: u64, now: u64) -> Duration {
    Duration::from_secs(now.saturating_sub(saved_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::connect::memory::{Follower, Name, Port};
    use headstart_core::path::NetworkId;
    use headstart_core::path::record::{FamilyRecord, PeerRecord, RttRecord};
    use proptest::prelude::*;

    fn program(app: String, host: String, n: u32, share: f32) -> Program {
        let followers = vec![Follower { name: host.clone(), times: n, ..Follower::default() }];
        let port = Port { port: 443, launches: n, share, parallel: share, ..Port::default() };
        let name = Name { name: host, a: true, launches: n, share, followers, ports: vec![port], ..Name::default() };
        Program { app, launches: n, names: vec![name] }
    }

    fn network(id: u64, address: std::net::IpAddr, n: u64) -> NetworkRecord {
        let rtt = Some(RttRecord { smoothed_us: 20_000, variation_us: 5 });
        let peer = PeerRecord { address, rtt, has_answered: true, used_ago_s: n, failed_ago_s: Some(n) };
        NetworkRecord {
            id: NetworkId(id),
            v4: FamilyRecord { rtt, lookup: None },
            peers: vec![peer],
            ..NetworkRecord::default()
        }
    }

    proptest! {
        #[test]
        fn a_record_reads_as_it_was_written(
            app in ".{0,20}", host in "[a-z.]{0,40}", n: u32, share in 0f32..=1.0, id: u64, saved_at: u64,
            address: std::net::IpAddr,
        ) {
            for what in [What::Program(program(app, host, n, share)), What::Network(network(id, address, n.into()))] {
                let bytes = Record::wrap(saved_at, &what.encode().unwrap()).unwrap();
                prop_assert_eq!(Record::decode(&bytes).unwrap(), Record { saved_at, what });
            }
        }

        #[test]
        fn any_bytes_are_a_record_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Record::decode(&bytes);
            let _ = Record::decode(&[&[0; 8][..], br#"{"network":"#, &bytes].concat());
        }
    }

    #[test]
    fn what_is_no_record_is_told_and_not_believed() {
        for bytes in [&b""[..], b"1234567", b"12345678", b"12345678{}", b"12345678{\"program\":3}", &[b'['; 5000]] {
            assert!(matches!(Record::decode(bytes), Err(RecordError::Malformed(_))), "{bytes:?}");
        }
        assert!(matches!(Record::decode(&vec![b' '; MAX_RECORD + 1]), Err(RecordError::TooLong(_))));
        assert!(Record::wrap(0, &vec![b' '; MAX_RECORD]).is_err());
    }

    #[test]
    fn the_records_of_this_version_are_read_by_all_later_ones() {
        let program = br#"{"program":{"app":"curl","launches":3,"names":[]}}"#;
        let network = br#"{"network":{"id":7,"v4":{"rtt":{"smoothed_us":20000,"variation_us":5},"lookup":null},"v6":{"rtt":null,"lookup":null},"peers":[{"address":"192.0.2.1","rtt":null,"has_answered":true,"used_ago_s":5,"failed_ago_s":null}]}}"#;
        for text in [&program[..], network] {
            let record = Record::decode(&Record::wrap(1_700_000_000, text).unwrap()).unwrap();
            assert_eq!(record.saved_at, 1_700_000_000);
            assert_eq!(record.what.encode().unwrap(), text);
        }
    }

    #[test]
    fn a_record_from_the_future_is_new() {
        assert_eq!(age(100, 160), Duration::from_secs(60));
        assert_eq!(age(160, 100), Duration::ZERO);
    }

    #[test]
    fn programs_and_networks_are_never_taken_for_each_other() {
        let p = What::Program(program("7".into(), String::new(), 1, 0.5));
        let n = What::Network(network(7, [192, 0, 2, 1].into(), 1));
        assert_ne!(p.name(), n.name());
    }
}
