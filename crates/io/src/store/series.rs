//! What the page of `headstart ui` draws over days: summaries by how long they cover and when they begin, in a store of its own beside the
//! history and under the same key (docs/decisions/0008, 0098). What a summary holds is its reader's business.
//!
//! Nothing here is needed to go on: errors are reported in one line and leave an empty history. Every call may take as
//! long as a disk takes.

use super::file::{FileError, RecordChange, SERIES, StoreFile};
use super::seal::{DIGEST, Digest};
use super::upkeep::Upkeep;
use std::fs::File;
use std::path::PathBuf;

/// A summary: its resolution by number, and the second of the Unix epoch with which it begins.
pub type Moment = (u8, u64);

/// The store. See the module.
#[derive(Debug)]
pub struct Series {
    upkeep: Upkeep,
    /// Held as long as this process is the one that writes.
    lock: Option<File>,
}

impl Series {
    /// The store in `folder`; nothing is opened or made yet.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { upkeep: Upkeep::new(StoreFile::new(folder, SERIES), "history of the page"), lock: None }
    }

    /// What went wrong since the last question, each thing once and in one line.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.upkeep.notes)
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        std::fs::metadata(self.upkeep.file.path()).map_or(0, |about| about.len())
    }

    /// Makes this process the one that writes; whether it is.
    pub fn lock(&mut self) -> bool {
        match self.upkeep.file.lock() {
            Ok(lock) => self.lock = lock,
            Err(why) => self.upkeep.note(&why),
        }
        self.lock.is_some()
    }

    /// All summaries, in no order. A file that is no good is moved aside.
    pub fn load(&mut self) -> Vec<(Moment, Vec<u8>)> {
        self.read().unwrap_or_else(|why| {
            self.upkeep.give_up(&why);
            Vec::new()
        })
    }

    fn read(&self) -> Result<Vec<(Moment, Vec<u8>)>, FileError> {
        let Some((seal, found)) = self.upkeep.file.opened()? else { return Ok(Vec::new()) };
        // What does not open, or is not ours, is as nothing.
        let open = |(place, sealed): (Digest, Vec<u8>)| Some((moment(&place)?, seal.open(&place, &sealed)?));
        Ok(found.into_iter().filter_map(open).collect())
    }

    /// Writes and removes summaries, all or none. Whether it could, and may.
    pub fn save(&mut self, changes: &[(Moment, Option<Vec<u8>>)]) -> bool {
        self.lock.is_some() && self.upkeep.save(|upkeep| write(&upkeep.file, changes)).is_some()
    }
}

fn write(file: &StoreFile, changes: &[(Moment, Option<Vec<u8>>)]) -> Result<(), FileError> {
    let Some(seal) = file.key(true)? else { return Ok(()) };
    let sealed = changes.iter().map(|(moment, plain)| {
        let place = place(*moment);
        let sealed = plain.as_ref().map(|plain| seal.close(&place, plain)).transpose()?;
        Ok((place, sealed))
    });
    let sealed: Result<Vec<RecordChange>, std::io::Error> = sealed.collect();
    file.write(&sealed.map_err(|e| file.failed(e))?)
}

fn place((level, start): Moment) -> Digest {
    let mut place = [0; DIGEST];
    place[0] = level;
    place[DIGEST - 8..].copy_from_slice(&start.to_be_bytes());
    place
}

fn moment(place: &Digest) -> Option<Moment> {
    let start = u64::from_be_bytes(*place.last_chunk()?);
    place[1..DIGEST - 8].iter().all(|byte| *byte == 0).then_some((place[0], start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_outlive_their_process_one_process_writes_and_a_damaged_file_is_moved_aside() {
        let scratch = tempfile::tempdir().unwrap();
        let store = || Series::in_folder(scratch.path().join("state"));
        let mut first = store();
        assert!(first.load().is_empty() && first.lock());
        let mut second = store();
        assert!(!second.lock() && !second.save(&[((0, 7), Some(b"of another".to_vec()))]));
        assert!(first.save(&[((0, 7), Some(b"a".to_vec())), ((3, u64::MAX), Some(b"curl".to_vec()))]));
        assert!(first.save(&[((0, 7), None), ((1, 8), Some(b"b".to_vec()))]));
        drop(first);
        let mut next = store();
        let mut all = next.load();
        all.sort();
        assert_eq!(all, [((1, 8), b"b".to_vec()), ((3, u64::MAX), b"curl".to_vec())]);
        assert_eq!((next.notes(), second.notes()), (vec![], vec![]));
        let file = scratch.path().join("state/series.redb");
        assert!(!std::fs::read(&file).unwrap().windows(4).any(|part| part == b"curl"), "programs are named in it");

        std::fs::write(&file, "damaged").unwrap();
        assert!(next.load().is_empty());
        assert!(next.notes()[0].contains("a new one is started"), "said");
        assert!(scratch.path().join("state/series.set-aside.redb").exists(), "moved aside");
        assert!(next.lock() && next.save(&[((1, 9), Some(b"c".to_vec()))]));
        assert_eq!(store().load(), [((1, 9), b"c".to_vec())]);
    }
}
