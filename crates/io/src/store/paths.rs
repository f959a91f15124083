//! What was learned of paths (`headstart_core::cwnd::history`), kept on disk for the next server or client of this user, in a
//! store of its own beside the history and under the same key (docs/decisions/0008).
//!
//! Nothing here is needed to go on: errors are reported in one line and leave an empty history. Every call may take
//! as long as a disk takes.

use super::file::{FileError, PATHS, RecordChange, SealedRecords, StoreFile};
use super::prior::Priors;
use super::seal::Seal;
use super::upkeep::Upkeep;
use headstart_core::cwnd::history::{History, Key, LENGTH, Record};
use headstart_core::time::Instant;
use std::path::PathBuf;

/// Bytes of what is sealed: its key, that of its prefix, whether there is one, and the record.
const SEALED: usize = 8 + 8 + 1 + LENGTH;

type Encoded = [u8; SEALED];

/// A store of paths. See the module.
#[derive(Debug)]
pub struct Paths(Upkeep<Key, Encoded>);

impl Paths {
    /// The store in `folder`; nothing is opened or made yet.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self(Upkeep::new(StoreFile::new(folder, PATHS), "paths"))
    }

    /// What went wrong since the last question, each thing once and in one line.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0.notes)
    }

    /// The secret of a history whose records this store keeps; `None` if nothing can be kept.
    pub fn secret(&mut self) -> Option<[u8; 16]> {
        let mut key = self.0.file.key(true);
        if let Err(why) = &key {
            self.0.note(why);
            if why.is_of_the_file() {
                // A key that is none opens nothing: neither this store nor the history.
                self.0.file.remove_key();
                key = self.0.file.key(true);
            }
        }
        Some(key.ok()??.digest(b"the secret of the history of paths"))
    }

    /// Puts what is kept into `history`; how many records that were. `now`: the moment of the history.
    pub fn load(&mut self, now: Instant, history: &mut History) -> usize {
        match self.0.file.opened() {
            Ok(Some((seal, found))) => self.import(now, &seal, found, history),
            Ok(None) => 0,
            Err(why) => {
                self.0.give_up(&why);
                0
            }
        }
    }

    /// Lets `history` begin where it knows nothing with what other hosts have learned; from how many.
    pub fn load_priors(&mut self, now: Instant, history: &mut History) -> usize {
        if self.0.file.key(false).is_err() {
            // That was said where the secret was asked for.
            return 0;
        }
        let sources = match Priors::in_folder(self.0.file.folder().to_owned()).load() {
            Ok(sources) => sources,
            Err(why) => {
                self.0.notes.push(format!("paths of other hosts: {why}; they are not used"));
                return 0;
            }
        };
        let priors: Vec<_> = sources.iter().filter_map(|source| source.learned.prior(now)).collect();
        let found = priors.len();
        history.set_priors(priors);
        found
    }

    fn import(&mut self, now: Instant, seal: &Seal, found: SealedRecords, history: &mut History) -> usize {
        let (mut taken, mut unreadable) = (0, 0);
        for (digest, sealed) in found {
            let plain = seal.open(&digest, &sealed).and_then(|plain| Encoded::try_from(plain).ok());
            let Some((plain, (key, prefix, record))) = plain.and_then(|p| Some((p, decode(&p, now)?))) else {
                unreadable += 1;
                self.0.obsolete.push(digest);
                continue;
            };
            // A digest of another key: the records have been exchanged.
            if seal.digest(&name(key)) != digest {
                self.0.obsolete.push(digest);
                continue;
            }
            self.0.known.insert(key, plain);
            history.import(key, prefix, record);
            taken += 1;
        }
        self.0.note_unusable(unreadable);
        taken
    }

    /// What of `history` is not in the store yet: to be looked at while connections wait for the history, and quick.
    pub fn news(&self, history: &History) -> News {
        let mut changed = Vec::new();
        let mut seen = 0;
        for (key, prefix, record) in history.records() {
            let encoded = encode(key, prefix, record);
            match self.0.known.get(&key) {
                Some(known) if *known == encoded => seen += 1,
                Some(_) => {
                    seen += 1;
                    changed.push((key, Some(encoded)));
                }
                None => changed.push((key, Some(encoded))),
            }
        }
        if seen < self.0.known.len() {
            let gone = self.0.known.keys().filter(|key| history.record(**key).is_none());
            changed.extend(gone.map(|key| (*key, None)));
        }
        News(changed)
    }

    /// Writes it. Whether anything had to be written and was.
    pub fn save(&mut self, News(changed): News) -> bool {
        let nothing = changed.is_empty() && self.0.obsolete.is_empty();
        if nothing || self.0.is_paused() {
            return false;
        }
        if self.0.save(|upkeep| write(upkeep, &changed)).is_none() {
            return false;
        }
        self.0.obsolete.clear();
        for (key, encoded) in changed {
            match encoded {
                Some(encoded) => _ = self.0.known.insert(key, encoded),
                None => _ = self.0.known.remove(&key),
            }
        }
        true
    }
}

fn write(upkeep: &Upkeep<Key, Encoded>, changed: &[(Key, Option<Encoded>)]) -> Result<(), FileError> {
    let Some(seal) = upkeep.file.key(true)? else { return Ok(()) };
    let mut changes: Vec<RecordChange> = upkeep.obsolete.iter().map(|digest| (*digest, None)).collect();
    for (key, encoded) in changed {
        let digest = seal.digest(&name(*key));
        let sealed = encoded.map(|encoded| seal.close(&digest, &encoded)).transpose();
        changes.push((digest, sealed.map_err(|e| upkeep.file.failed(e))?));
    }
    upkeep.file.write(&changes)
}

/// What of a history is not in its store.
#[derive(Debug)]
pub struct News(Vec<(Key, Option<Encoded>)>);

impl News {
    /// Records that are new, have changed or are gone.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn name(key: Key) -> Vec<u8> {
    [&b"path "[..], &key.0.to_le_bytes()].concat()
}

fn encode(key: Key, prefix: Option<Key>, record: &Record) -> Encoded {
    let mut bytes = [0; SEALED];
    bytes[..8].copy_from_slice(&key.0.to_le_bytes());
    if let Some(prefix) = prefix {
        bytes[8..16].copy_from_slice(&prefix.0.to_le_bytes());
        bytes[16] = 1;
    }
    bytes[17..].copy_from_slice(&record.encode());
    bytes
}

fn decode(bytes: &Encoded, now: Instant) -> Option<(Key, Option<Key>, Record)> {
    let (key, rest) = bytes.split_first_chunk::<8>()?;
    let (prefix, rest) = rest.split_first_chunk::<8>()?;
    let (has_prefix, record) = rest.split_first()?;
    let prefix = (*has_prefix == 1).then(|| Key(u64::from_le_bytes(*prefix)));
    Some((Key(u64::from_le_bytes(*key)), prefix, Record::decode(record, now).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_core::cwnd::history::{Medium, Outcome, Sample, Settings};
    use headstart_core::path::NetworkId;
    use headstart_core::time::Duration;
    use std::net::IpAddr;
    use std::os::unix::fs::PermissionsExt as _;

    const HERE: NetworkId = NetworkId(7);
    const NOW: Instant = Instant::from_millis(1_700_000_000_000);

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("headstart-paths-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn store(&self) -> Paths {
            Paths::in_folder(self.0.clone())
        }

        /// What the next process would know.
        fn loaded(&self) -> (History, Paths) {
            let mut store = self.store();
            let mut history = History::new(Settings::default(), store.secret().unwrap());
            store.load(NOW, &mut history);
            (history, store)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn peer(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn learn(history: &mut History, last: u8, window: u64) {
        let sample = Sample {
            window,
            carried: window,
            rtt: Duration::from_millis(40),
            rate: window * 25,
            loss: 0.0,
            limited: false,
            shared: false,
            outcome: Outcome::Clean,
            medium: Medium::Wired,
        };
        history.learn(NOW, HERE, peer(last), &sample);
    }

    fn window(history: &History, last: u8) -> Option<u64> {
        history.recall(NOW, HERE, peer(last)).map(|known| known.window)
    }

    fn save(store: &mut Paths, history: &History) -> bool {
        let news = store.news(history);
        store.save(news)
    }

    #[test]
    fn what_was_learned_is_known_to_the_next_process_and_nobody_else() {
        let scratch = Scratch::new("next");
        let (mut history, mut store) = scratch.loaded();
        learn(&mut history, 1, 480_000);
        assert!(save(&mut store, &history) && !save(&mut store, &history), "only what is new is written");
        for name in ["paths.redb", "history.key"] {
            assert_eq!(std::fs::metadata(scratch.0.join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        }
        let (mut next, mut store) = scratch.loaded();
        assert_eq!((window(&next, 1), store.notes()), (Some(480_000), vec![]));
        assert!(store.news(&next).is_empty());
        learn(&mut next, 2, 100_000);
        assert!(save(&mut store, &next));
        let (third, _) = scratch.loaded();
        assert_eq!((window(&third, 1), window(&third, 2)), (Some(480_000), Some(100_000)));
    }

    #[test]
    fn what_has_misled_is_gone_from_the_store_too() {
        let scratch = Scratch::new("refuted");
        let (mut history, mut store) = scratch.loaded();
        learn(&mut history, 1, 480_000);
        save(&mut store, &history);
        let (lease, _) = history.lease(NOW, HERE, peer(1)).unwrap();
        history.refute(&lease, HERE, peer(1));
        assert!(save(&mut store, &history));
        assert_eq!(window(&scratch.loaded().0, 1), None);
    }

    #[test]
    fn records_from_the_future_are_dropped_with_a_word() {
        let scratch = Scratch::new("future");
        let (mut history, mut store) = scratch.loaded();
        learn(&mut history, 1, 480_000);
        save(&mut store, &history);
        let mut store = scratch.store();
        let mut history = History::new(Settings::default(), store.secret().unwrap());
        let earlier = Instant::from_millis(1_600_000_000_000);
        assert_eq!((store.load(earlier, &mut history), history.len()), (0, 0));
        assert!(store.notes()[0].contains("are dropped"));
        assert!(save(&mut store, &history), "and are gone for good");
        assert_eq!(scratch.loaded().0.len(), 0);
    }

    #[test]
    fn a_damaged_store_is_set_aside_and_learning_goes_on() {
        for (n, bytes) in [&b""[..], b"x", &[0; 4096], &[0xff; 100_000]].into_iter().enumerate() {
            let scratch = Scratch::new(&format!("damaged-{n}"));
            let (mut history, mut store) = scratch.loaded();
            learn(&mut history, 1, 480_000);
            save(&mut store, &history);
            std::fs::write(scratch.0.join("paths.redb"), bytes).unwrap();
            let (mut history, mut store) = scratch.loaded();
            let notes = store.notes().join("\n");
            assert!(notes.contains("is damaged") && notes.contains("set-aside"), "{notes}");
            learn(&mut history, 2, 100_000);
            assert!(save(&mut store, &history) && scratch.0.join("paths.set-aside.redb").exists());
            assert_eq!(window(&scratch.loaded().0, 2), Some(100_000));
        }
    }

    #[test]
    fn a_store_of_a_later_version_is_set_aside_with_a_message() {
        let scratch = Scratch::new("newer");
        scratch.store().secret().unwrap();
        super::super::file::write_format(&scratch.0.join("paths.redb"), 2);
        let (_, mut store) = scratch.loaded();
        assert!(store.notes()[0].contains("has format 2"));
        assert!(scratch.0.join("paths.set-aside.redb").exists());
    }

    #[test]
    fn a_key_that_is_none_is_replaced_and_the_store_begins_anew() {
        let scratch = Scratch::new("keyless");
        let (mut history, mut store) = scratch.loaded();
        learn(&mut history, 1, 480_000);
        save(&mut store, &history);
        std::fs::write(scratch.0.join("history.key"), b"short").unwrap();
        let (mut history, mut store) = scratch.loaded();
        assert_eq!(history.len(), 0);
        assert!(store.notes().iter().any(|note| note.contains("history.key")));
        learn(&mut history, 2, 100_000);
        assert!(save(&mut store, &history));
        assert_eq!(window(&scratch.loaded().0, 2), Some(100_000));
    }

    #[test]
    fn whoever_forgets_the_history_forgets_the_paths() {
        let scratch = Scratch::new("forget");
        let (mut history, mut store) = scratch.loaded();
        learn(&mut history, 1, 480_000);
        save(&mut store, &history);
        super::super::Store::in_folder(scratch.0.clone()).forget(None, None).unwrap();
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
    }

    /// Not a test: a process that saves without end, to be killed.
    #[test]
    #[ignore = "run by the test below"]
    fn saves_until_it_is_killed() {
        let Some(folder) = std::env::var_os("HEADSTART_TEST_PATHS") else { return };
        let mut store = Paths::in_folder(folder.into());
        let mut history = History::new(Settings::default(), store.secret().unwrap());
        store.load(NOW, &mut history);
        let begin = window(&history, 1).unwrap_or(0);
        for n in begin + 1.. {
            for last in 1..=20 {
                learn(&mut history, last, n);
            }
            save(&mut store, &history);
            println!("saved {n}");
        }
    }

    #[test]
    fn a_process_that_is_killed_while_it_writes_loses_nothing_that_was_written() {
        use std::io::{BufRead as _, BufReader};
        let scratch = Scratch::new("killed");
        for _ in 0..6 {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "store::paths::tests::saves_until_it_is_killed", "--include-ignored", "--nocapture"])
                .env("HEADSTART_TEST_PATHS", &scratch.0)
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            let saved = |line: String| line.strip_prefix("saved ").and_then(|n| n.parse::<u64>().ok());
            // It writes again while we kill it.
            let last = lines.by_ref().filter_map(saved).nth(2).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            let last = lines.filter_map(saved).last().unwrap_or(last);
            let (history, mut store) = scratch.loaded();
            assert_eq!(store.notes(), Vec::<String>::new());
            // Each change is made whole or not at all: all peers are of one change, which is the last or the one behind it.
            let windows: Vec<_> = (1..=20).map(|peer| window(&history, peer).unwrap()).collect();
            assert!(windows.iter().all(|w| *w == windows[0]) && windows[0] >= last, "{last} {windows:?}");
        }
    }
}
