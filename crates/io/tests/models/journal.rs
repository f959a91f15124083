//! A journal, its two files, and what it must know. The model test and the fuzz target `journal_story` play it.
//!
//! Writers are killed in the middle of a line, files are cut, changed, zeroed and deleted. As long as one file was whole since the last change
//! was written, a reader knows exactly the changes that are made and not undone; one that was being written may be known or not. Where both
//! files are harmed the reader knows all, or says that it may not.

use headstart_io::host::Numbers;
use headstart_io::host::change::{Change, rule::Rule, table::Table};
use headstart_io::host::journal::{Here, Journal, Steps};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Its folder, which goes with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How much of a line is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    Some,
    All,
}

struct Story {
    _folder: Folder,
    paths: [PathBuf; 2],
    journal: Option<Journal>,
    live: BTreeMap<u64, Change>,
    /// Which file has every record.
    whole: [bool; 2],
}

/// Plays a story.
pub fn play(steps: &[[u8; 4]]) {
    let mut story = Story::new();
    steps.iter().for_each(|step| story.step(*step));
    story.reopen();
    story.close();
}

fn here() -> Here {
    Here { boot: "b".into(), netns: 7 }
}

/// A change, a large one now and then, so that the journal is written anew.
fn change(size: u8) -> Change {
    match size {
        0..=199 => Change::Rule(Rule::new(size, Numbers { table: 18_515, priority: 32_765 })),
        _ => Change::Table(Table::new(&"x".repeat(usize::from(size) * 100))),
    }
}

impl Story {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // In memory, if there is such a folder: thousands of stories sync their files.
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let name = format!("headstart-journal-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = Folder(base.join(name));
        let paths = ["state", "run"].map(|name| folder.0.join(name).join("changes"));
        for path in &paths {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
        }
        let journal = Some(begun(&paths));
        Self { _folder: folder, paths, journal, live: BTreeMap::new(), whole: [true; 2] }
    }

    fn step(&mut self, [kind, a, low, high]: [u8; 4]) {
        let which = usize::from(a & 1);
        let place = usize::from(u16::from_le_bytes([low, high]));
        match kind % 10 {
            0..=2 => self.intend(low),
            3 => self.undo(usize::from(low)),
            4 => self.reopen(),
            5 => self.is_killed_while_it_writes(a, low, high),
            6 => self.is_killed_while_it_notes(a, low, high),
            7 | 8 if self.whole[1 - which] => self.harm(which, a >> 1, place),
            9 if high < 16 => self.harm_both(a >> 1, place),
            9 if high < 64 => self.close(),
            _ => {}
        }
    }

    fn journal(&mut self) -> &mut Journal {
        self.journal.as_mut().expect("it is open between steps")
    }

    fn intend(&mut self, size: u8) {
        let n = self.journal().intend(&change(size)).expect("there is room");
        assert!(self.live.insert(n, change(size)).is_none(), "a number is used twice");
        self.whole = [true; 2];
        let live = &self.journal.as_ref().expect("it is open").contents().live;
        assert_eq!(*live, self.live);
    }

    fn undo(&mut self, nth: usize) {
        let chosen = self.live.keys().nth(nth % self.live.len().max(1)).copied();
        if let Some(n) = chosen {
            self.journal().undone(n);
            self.live.remove(&n);
        }
    }

    /// Another process reads what this one has written.
    fn reopen(&mut self) {
        self.journal = None;
        let again = Journal::open(self.paths.clone(), here(), Steps::default()).expect("it can be read");
        let again = again.expect("there is one");
        assert_eq!(again.contents().live, self.live, "what is known");
        assert!(!again.contents().lost && !again.contents().elsewhere, "one file is whole");
        self.journal = Some(again);
    }

    fn bytes(&self) -> [Vec<u8>; 2] {
        self.paths.each_ref().map(|path| fs::read(path).unwrap_or_default())
    }

    /// What a writer that was killed between `before` and now leaves: some of the first file, or all of that and some of the second.
    ///
    /// How much of the line each file has: nothing, some or all.
    fn cut_back(&mut self, before: &[Vec<u8>; 2], a: u8, low: u8, high: u8) -> [Part; 2] {
        self.journal = None;
        let second = usize::from(a & 1);
        let (after, mut parts) = (self.bytes(), [Part::All; 2]);
        for n in second..2 {
            let more = after[n].strip_prefix(before[n].as_slice()).unwrap_or_default();
            let some = if n == second { usize::from(u16::from_le_bytes([low, high])) % (more.len() + 1) } else { 0 };
            let _ = fs::write(&self.paths[n], [before[n].as_slice(), &more[..some]].concat());
            parts[n] = match some {
                _ if some == more.len() => Part::All,
                0 => Part::Nothing,
                _ => Part::Some,
            };
        }
        parts
    }

    /// It is killed while it writes down a change, which is not made then.
    fn is_killed_while_it_writes(&mut self, a: u8, low: u8, high: u8) {
        // What is written anew is never half there, and has its own test.
        if self.whole != [true; 2] || self.bytes().iter().any(|bytes| bytes.len() > 60_000) {
            return;
        }
        let before = self.bytes();
        let n = self.journal().intend(&change(low)).expect("there is room");
        if self.bytes().iter().zip(&before).any(|(after, before)| !after.starts_with(before)) {
            self.live.insert(n, change(low));
            return;
        }
        let parts = self.cut_back(&before, a, low, high);
        self.adopt(n, change(low), parts);
    }

    /// It is killed while it notes that a change is undone.
    fn is_killed_while_it_notes(&mut self, a: u8, low: u8, high: u8) {
        if self.whole != [true; 2] {
            return;
        }
        let Some((n, change)) = self.live.first_key_value().map(|(n, change)| (*n, change.clone())) else { return };
        let before = self.bytes();
        self.journal().undone(n);
        let parts = self.cut_back(&before, a, low, high);
        self.live.remove(&n);
        self.adopt(n, change, parts);
    }

    /// Of the change `n` either may be known; what is goes on, and a file that says something else is not whole.
    fn adopt(&mut self, n: u64, change: Change, parts: [Part; 2]) {
        let again = Journal::open(self.paths.clone(), here(), Steps::default()).expect("it can be read");
        if let Some(found) = again.as_ref().and_then(|again| again.contents().live.get(&n)) {
            assert_eq!(*found, change);
            self.live.insert(n, change);
        }
        let is_said = parts.contains(&Part::All);
        self.whole = parts.map(|part| part == if is_said { Part::All } else { Part::Nothing });
        self.reopen();
    }

    /// Harms a file in one of the ways of disks and people.
    fn spoil(&self, which: usize, how: u8, place: usize) {
        let path = &self.paths[which];
        let mut bytes = fs::read(path).unwrap_or_default();
        let at = place % bytes.len().max(1);
        match how % 5 {
            0 => return drop(fs::remove_file(path)),
            1 => bytes.truncate(at),
            2 => bytes.iter_mut().for_each(|byte| *byte = 0),
            3 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (how >> 5)),
            _ => bytes.extend([how; 7]),
        }
        let _ = fs::write(path, bytes);
    }

    fn harm(&mut self, which: usize, how: u8, place: usize) {
        self.journal = None;
        self.spoil(which, how, place);
        self.whole[which] = false;
        self.reopen();
    }

    fn harm_both(&mut self, how: u8, place: usize) {
        self.journal = None;
        for (which, how) in [how, how.rotate_left(3)].into_iter().enumerate() {
            // A file that was cut behind a line, as the other, says nothing of what it has lost.
            let how = if how % 5 < 2 { how + 2 } else { how };
            self.spoil(which, how, place / (which + 1));
        }
        let again = Journal::open(self.paths.clone(), here(), Steps::default());
        if let Ok(Some(again)) = again {
            let contents = again.contents();
            let is_known = contents.live == self.live;
            assert!(is_known || contents.lost, "it is called whole, and is not");
            let all_named = contents.live.iter().all(|(n, change)| self.live.get(n).is_none_or(|own| own == change));
            assert!(all_named, "a change that was never made");
            drop(again.close());
        }
        self.begin_anew();
    }

    fn close(&mut self) {
        let journal = self.journal.take().expect("it is open");
        let closed = journal.close();
        assert!(closed.unclosed.is_empty() && closed.put_aside.is_none(), "{closed:?}");
        let again = Journal::open(self.paths.clone(), here(), Steps::default()).expect("it can be read");
        assert!(again.is_none());
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        for path in &self.paths {
            let _ = fs::remove_file(path);
        }
        (self.journal, self.live, self.whole) = (Some(begun(&self.paths)), BTreeMap::new(), [true; 2]);
    }
}

fn begun(paths: &[PathBuf; 2]) -> Journal {
    Journal::begin(paths.clone(), here(), Steps::default()).expect("it can be written")
}
