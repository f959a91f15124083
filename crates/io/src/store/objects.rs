//! How large objects were that a proxy has fetched, kept on disk for the next one of this user, in a store of its own beside
//! the history and under the same key (docs/decisions/0008): one sealed record of keyed hashes and sizes, no address of anything.
//!
//! Nothing here is needed to go on: errors are reported in one line and leave an empty history. Every call may take as
//! long as a disk takes.

use super::file::{FileError, OBJECTS, StoreFile};
use super::seal::Seal;
use super::upkeep::Upkeep;
use headstart_core::steer::object::Sizes;
use siphasher::sip::SipHasher13;
use std::hash::Hasher as _;
use std::io;
use std::path::PathBuf;

/// What the record stands for.
const NAME: &[u8] = b"sizes of objects";
/// What the keys of objects are made of.
const SECRET: &[u8] = b"the secret of the keys of objects";
/// Objects that are kept: as many as [`Sizes`] has room for.
const MOST: usize = 32_768;

/// Makes keys of addresses: an attacker cannot choose their places in a table.
#[derive(Clone)]
pub struct Keys(SipHasher13);

impl std::fmt::Debug for Keys {
    /// Keeps the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// Keys that are of this run alone.
    pub fn fresh() -> io::Result<Self> {
        let key = Seal::fresh_key()?;
        Ok(Self(SipHasher13::new_with_key(key.first_chunk().ok_or(io::ErrorKind::UnexpectedEof)?)))
    }

    /// The key of an object.
    pub fn of(&self, what: &str) -> u64 {
        let mut hasher = self.0;
        hasher.write(what.as_bytes());
        hasher.finish()
    }
}

/// A store of sizes. See the module.
#[derive(Debug)]
pub struct Objects(Upkeep);

impl Objects {
    /// The store in `folder`; nothing is opened or made yet.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self(Upkeep::new(StoreFile::new(folder, OBJECTS), "sizes of objects"))
    }

    /// What went wrong since the last question, each thing once and in one line.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0.notes)
    }

    /// The keys of what this store keeps; `None` if nothing can be kept.
    pub fn keys(&mut self) -> Option<Keys> {
        match self.0.file.key(true) {
            Ok(seal) => Some(Keys(SipHasher13::new_with_key(&seal?.digest(SECRET)))),
            Err(why) => {
                self.0.note(&why);
                None
            }
        }
    }

    /// Puts what is kept into `sizes`; how many objects that were.
    pub fn load(&mut self, sizes: &mut Sizes) -> usize {
        match read(&self.0.file) {
            Ok(kept) => {
                kept.iter().for_each(|(key, bytes)| sizes.recall(*key, *bytes));
                kept.len()
            }
            Err(why) => {
                self.0.give_up(&why);
                0
            }
        }
    }

    /// Writes what is known, with what others of this user have written meanwhile. Whether it could.
    pub fn save(&mut self, sizes: &Sizes) -> bool {
        let mut all = sizes.clone();
        if let Ok(kept) = read(&self.0.file) {
            kept.into_iter().for_each(|(key, bytes)| all.recall(key, bytes));
        }
        self.0.save(|upkeep| write(&upkeep.file, &all)).is_some()
    }
}

fn read(file: &StoreFile) -> Result<Vec<(u64, u64)>, FileError> {
    let Some((seal, found)) = file.opened()? else { return Ok(Vec::new()) };
    let place = seal.digest(NAME);
    let record = found.iter().find(|(digest, _)| *digest == place).and_then(|(_, sealed)| seal.open(&place, sealed));
    // What does not open is as nothing.
    Ok(record.map(|plain| decode(&plain)).unwrap_or_default())
}

fn write(file: &StoreFile, sizes: &Sizes) -> Result<(), FileError> {
    let Some(seal) = file.key(true)? else { return Ok(()) };
    let place = seal.digest(NAME);
    let entries = sizes.entries().take(MOST);
    let plain: Vec<u8> = entries.flat_map(|(key, bytes)| [key.to_le_bytes(), bytes.to_le_bytes()]).flatten().collect();
    let sealed = seal.close(&place, &plain).map_err(|e| file.failed(e))?;
    file.write(&[(place, Some(sealed))])
}

fn decode(plain: &[u8]) -> Vec<(u64, u64)> {
    let (words, _) = plain.as_chunks::<8>();
    let (entries, _) = words.as_chunks::<2>();
    entries.iter().take(MOST).map(|pair| (u64::from_le_bytes(pair[0]), u64::from_le_bytes(pair[1]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("headstart-objects-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// What the next proxy would know.
        fn loaded(&self) -> (Keys, Sizes, Objects) {
            let mut store = Objects::in_folder(self.0.clone());
            let (keys, mut sizes) = (store.keys().unwrap(), Sizes::default());
            store.load(&mut sizes);
            (keys, sizes, store)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_came_is_known_to_the_next_proxy_and_two_at_once_keep_what_both_saw() {
        let scratch = Scratch::new("next");
        let (keys, mut sizes, mut store) = scratch.loaded();
        sizes.learn(keys.of("http://a.example/x"), 700);
        let (_, mut other, mut second) = scratch.loaded();
        other.learn(keys.of("http://a.example/y"), 900);
        assert!(store.save(&sizes) && second.save(&other));
        let (keys, next, mut store) = scratch.loaded();
        assert_eq!(
            ["x", "y", "z"].map(|of| next.expect(keys.of(&format!("http://a.example/{of}")))),
            [Some(700), Some(900), None]
        );
        assert_eq!(store.notes(), [""; 0]);
        let text = std::fs::read(scratch.0.join("objects.redb")).unwrap();
        assert!(!text.windows(9).any(|w| w == b"a.example"));
    }

    #[test]
    fn a_store_that_is_damaged_begins_anew_and_says_so() {
        let scratch = Scratch::new("damaged");
        let (keys, mut sizes, mut store) = scratch.loaded();
        sizes.learn(keys.of("x"), 700);
        assert!(store.save(&sizes));
        std::fs::write(scratch.0.join("objects.redb"), b"no store").unwrap();
        let (_, next, mut store) = scratch.loaded();
        assert!(next.is_empty() && store.notes()[0].contains("is damaged"));
        assert!(store.save(&sizes));
        assert_eq!(scratch.loaded().1.expect(keys.of("x")), Some(700));
    }

    #[test]
    fn a_record_of_any_length_is_pairs_of_numbers() {
        assert!(decode(&[0; 15]).is_empty());
        assert_eq!(decode(&[[1, 0, 0, 0, 0, 0, 0, 0], [2; 8]].concat()), [(1, 0x0202_0202_0202_0202)]);
        assert_eq!(decode(&[7; 50]).len(), 3);
    }
}
