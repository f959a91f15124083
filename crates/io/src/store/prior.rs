//! What other hosts of a site have learned of paths, for a host that has just joined: under names that only the secret that comes along
//! can make. Kept in a store of its own beside the history, under the same key.
//!
//! It is a prior: it fills gaps until this host has tried for itself (`headstart_core::cwnd::history::Prior`). What never happens here: something is taken in whose signature was not checked by the
//! caller, or anything of a program, a name or a network; those do not leave their host.

use super::file::{FileError, PRIOR, StoreFile};
use super::record::age;
use super::seal::Seal;
use super::{FORGOTTEN_AFTER, wall};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headstart_core::cwnd::history::{History, Key, LENGTH, Prior, Record};
use headstart_core::time::{Duration, Instant};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Hosts whose experience is kept; the oldest is dropped for a new one.
pub const MOST_SOURCES: usize = 16;
/// Bytes of what one host hands on at most: all records that it can have, twice over.
pub const MOST_BYTES: u64 = 16 << 20;
/// How far clocks of hosts may differ.
const SKEW: u64 = 300;

/// What one host has learned, as it hands it on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Which host, in words of its operator.
    pub from: String,
    /// When, in seconds since 1970 by that host's clock.
    pub made_at: u64,
    /// The secret of the names of paths.
    secret: String,
    /// A key and a record each.
    paths: Vec<String>,
}

/// The history of another host, and the site that signed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignedHistory {
    /// The public key of the site that signed it.
    pub site: String,
    /// What it says.
    pub learned: Learned,
}

/// Why something is not taken in.
#[derive(Debug, thiserror::Error)]
pub enum PriorError {
    /// It is of no known form.
    #[error("not a host's history: {0}")]
    Malformed(String),
    /// The clocks differ too much to tell its age.
    #[error("it was written {0} s in the future: set the clock of one of the hosts")]
    Future(u64),
    /// It is worth nothing any more.
    #[error("it is {0} days old, and history is used for 90: export it again")]
    Old(u64),
    /// There is a later one of the same host.
    #[error("a later one of {0} is already here")]
    Superseded(String),
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] FileError),
}

impl Learned {
    /// What the own records of `history` say, whose names were made with `secret`.
    pub fn new(from: String, secret: [u8; 16], history: &History) -> Self {
        let record = |(key, _, record): (Key, _, &Record)| {
            STANDARD.encode([&key.0.to_le_bytes()[..], &record.encode()].concat())
        };
        let paths = history.records().map(record).collect();
        Self { from, made_at: wall(), secret: STANDARD.encode(secret), paths }
    }

    /// The one in `text`; it is checked before it is used.
    pub fn parse(text: &[u8]) -> Result<Self, PriorError> {
        let learned: Self = serde_json::from_slice(text).map_err(|why| PriorError::Malformed(why.to_string()))?;
        let malformed = |what: &str| PriorError::Malformed(what.to_owned());
        let is_word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if learned.from.is_empty() || learned.from.len() > 64 || !learned.from.chars().all(is_word) {
            return Err(malformed("invalid host name"));
        }
        if learned.secret().is_none() {
            return Err(malformed("invalid secret"));
        }
        if learned.paths.iter().any(|path| decode(path).is_none()) {
            return Err(malformed("invalid path"));
        }
        Ok(learned)
    }

    /// Paths in it.
    pub fn paths(&self) -> usize {
        self.paths.len()
    }

    /// How old it is by the clock of this host.
    pub fn age(&self) -> Duration {
        age(self.made_at, wall())
    }

    fn secret(&self) -> Option<[u8; 16]> {
        STANDARD.decode(&self.secret).ok()?.try_into().ok()
    }

    /// Its paths at `now`, a moment since 1970. Records that no path can have, or from the future, are left out.
    pub fn prior(&self, now: Instant) -> Option<Prior> {
        let records = self.paths.iter().filter_map(|path| {
            let (key, record) = decode(path)?;
            Some((key, Record::decode(&record, now).ok()?))
        });
        Some(Prior::new(self.secret()?, records))
    }

    fn check_age(&self) -> Result<(), PriorError> {
        let now = wall();
        if self.made_at > now.saturating_add(SKEW) {
            return Err(PriorError::Future(self.made_at - now));
        }
        let age = self.age();
        if age > FORGOTTEN_AFTER { Err(PriorError::Old(age.as_secs() / 86_400)) } else { Ok(()) }
    }
}

fn decode(path: &str) -> Option<(Key, Vec<u8>)> {
    let bytes = STANDARD.decode(path).ok().filter(|bytes| bytes.len() == 8 + LENGTH)?;
    let (key, record) = bytes.split_first_chunk()?;
    Some((Key(u64::from_le_bytes(*key)), record.to_vec()))
}

/// The store of what other hosts have learned.
#[derive(Debug)]
pub struct Priors {
    file: StoreFile,
}

impl Priors {
    /// The store in `folder`; nothing is opened or made yet.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { file: StoreFile::new(folder, PRIOR) }
    }

    /// What is there and not too old, the newest first.
    pub fn load(&self) -> Result<Vec<SignedHistory>, FileError> {
        let Some((seal, found)) = self.file.opened()? else { return Ok(Vec::new()) };
        let source = |(digest, sealed): (_, Vec<u8>)| serde_json::from_slice(&seal.open(&digest, &sealed)?).ok();
        let mut sources: Vec<SignedHistory> = found.into_iter().filter_map(source).collect();
        sources.retain(|source| source.learned.age() <= FORGOTTEN_AFTER);
        sources.sort_by(|a, b| b.learned.made_at.cmp(&a.learned.made_at).then_with(|| a.name().cmp(&b.name())));
        Ok(sources)
    }

    /// Takes in what `learned` says, which `site` has signed; it replaces what the same host said earlier.
    pub fn add(&self, site: String, learned: Learned) -> Result<(), PriorError> {
        learned.check_age()?;
        let known = match self.load() {
            Err(why) if why.is_of_the_file() => {
                self.file.make_room()?;
                Vec::new()
            }
            known => known?,
        };
        let source = SignedHistory { site, learned };
        let same = known.iter().find(|known| known.name() == source.name());
        if same.is_some_and(|same| same.learned.made_at > source.learned.made_at) {
            return Err(PriorError::Superseded(source.learned.from));
        }
        let Some(seal) = self.file.key(true)? else { return Ok(()) };
        let others = known.iter().filter(|known| known.name() != source.name());
        let mut changes: Vec<_> = others.skip(MOST_SOURCES - 1).map(|old| (seal.digest(&old.name()), None)).collect();
        changes.push(self.sealed(&seal, &source)?);
        Ok(self.file.write(&changes)?)
    }

    /// Forgets all of it; how many sources there were.
    pub fn remove(&self) -> Result<usize, FileError> {
        let Some((seal, found)) = self.file.opened()? else { return Ok(0) };
        let readable = found.iter().filter(|(digest, sealed)| seal.open(digest, sealed).is_some()).count();
        let changes: Vec<_> = found.into_iter().map(|(digest, _)| (digest, None)).collect();
        if !changes.is_empty() {
            self.file.write(&changes)?;
        }
        Ok(readable)
    }

    fn sealed(&self, seal: &Seal, source: &SignedHistory) -> Result<super::file::RecordChange, FileError> {
        let failed = |e| self.file.failed(e);
        let plain = serde_json::to_vec(source).map_err(|why| failed(std::io::Error::other(why)))?;
        let digest = seal.digest(&source.name());
        Ok((digest, Some(seal.close(&digest, &plain).map_err(failed)?)))
    }
}

impl SignedHistory {
    fn name(&self) -> Vec<u8> {
        format!("prior {} {}", self.site, self.learned.from).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::cwnd::history::{Medium, Outcome, Sample, Settings, Trust};
    use headstart_core::path::NetworkId;
    use std::net::IpAddr;

    const HERE: NetworkId = NetworkId(7);
    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn now() -> Instant {
        Instant::from_millis(1000 * wall())
    }

    fn learned(from: &str, made_at: u64) -> Learned {
        let mut history = History::new(Settings::default(), [9; 16]);
        let sample = Sample {
            window: 400_000,
            carried: 400_000,
            rtt: Duration::from_millis(40),
            rate: 10_000_000,
            loss: 0.0,
            limited: false,
            shared: false,
            outcome: Outcome::Clean,
            medium: Medium::Wired,
        };
        history.learn(now(), HERE, PEER, &sample);
        Learned { made_at, ..Learned::new(from.into(), [9; 16], &history) }
    }

    fn text(learned: &Learned) -> Vec<u8> {
        serde_json::to_vec(learned).unwrap()
    }

    #[test]
    fn what_a_host_hands_on_is_what_another_begins_with() {
        let folder = tempfile::tempdir().unwrap();
        let priors = Priors::in_folder(folder.path().into());
        let handed = Learned::parse(&text(&learned("web-1", wall()))).unwrap();
        assert_eq!(handed.paths(), 2, "the address and its prefix");
        priors.add("site".into(), handed.clone()).unwrap();
        let kept = Priors::in_folder(folder.path().into()).load().unwrap();
        assert_eq!(kept, [SignedHistory { site: "site".into(), learned: handed }]);
        let mut history = History::new(Settings::default(), [1; 16]);
        history.set_priors(kept.iter().filter_map(|source| source.learned.prior(now())).collect());
        let known = history.recall(now(), HERE, PEER).unwrap();
        assert_eq!((known.window, known.trust), (400_000, Trust::Fleet));
        let bytes = std::fs::read(folder.path().join("prior.redb")).unwrap();
        assert!(!bytes.windows(5).any(|w| w == b"web-1"), "sealed");
        assert_eq!((priors.remove().unwrap(), priors.load().unwrap()), (1, vec![]));
    }

    #[test]
    fn a_host_is_heard_once_by_its_last_word_and_only_so_many_are() {
        let folder = tempfile::tempdir().unwrap();
        let priors = Priors::in_folder(folder.path().into());
        let add = |from: &str, made_at| priors.add("site".into(), learned(from, made_at));
        let begun = wall() - 1000;
        add("web-1", begun + 10).unwrap();
        assert!(matches!(add("web-1", begun), Err(PriorError::Superseded(_))), "an old one replayed");
        add("web-1", begun + 20).unwrap();
        assert_eq!(priors.load().unwrap().len(), 1);
        (2..=MOST_SOURCES as u64 + 1).for_each(|n| add(&format!("web-{n}"), begun + 20 + n).unwrap());
        let names: Vec<_> = priors.load().unwrap().into_iter().map(|source| source.learned.from).collect();
        assert_eq!((names.len(), &names[0][..]), (MOST_SOURCES, "web-17"), "the newest first");
        assert!(!names.contains(&"web-1".into()), "the oldest went");
    }

    #[test]
    fn what_is_from_the_future_too_old_or_no_history_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let priors = Priors::in_folder(folder.path().into());
        let add = |made_at| priors.add("site".into(), learned("web-1", made_at));
        assert!(matches!(add(wall() + 3600), Err(PriorError::Future(_))));
        assert!(matches!(add(wall() - 100 * 86_400), Err(PriorError::Old(100))));
        add(wall() + 60).unwrap();
        let good = learned("web-1", 7);
        for wrong in [
            Learned { from: String::new(), ..good.clone() },
            Learned { from: "a b".into(), ..good.clone() },
            Learned { secret: "short".into(), ..good.clone() },
            Learned { paths: vec!["AAAA".into()], ..good },
        ] {
            assert!(matches!(Learned::parse(&text(&wrong)), Err(PriorError::Malformed(_))), "{wrong:?}");
        }
        assert!(Learned::parse(b"[]").is_err());
    }
}
