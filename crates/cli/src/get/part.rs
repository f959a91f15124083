//! Where the body goes. A file comes into being under another name, `FILE.part`, and gets its own when it is whole; what
//! was fetched before an interruption stays, with a note of what it is part of beside it, and is never overwritten.

use crate::exit::Usage;
use crate::input;
use anyhow::Context as _;
use hyper::header::{self, HeaderMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write, stdout};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where a body goes.
#[derive(Debug)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// What is no regular file: a device, a pipe.
    Device(PathBuf),
    /// A file.
    File(PathBuf),
}

impl Destination {
    /// The one that is named `path`; `-` is standard output.
    pub fn named(path: &Path) -> Result<Self, Usage> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        match path.metadata() {
            Ok(found) if found.is_dir() => {
                Err(Usage(format!("{} is a folder: give a file name in it", path.display())))
            }
            Ok(found) if !found.is_file() => Ok(Self::Device(path.to_owned())),
            _ => Ok(Self::File(path.to_owned())),
        }
    }

    /// Checks before anything is fetched that it can be written.
    pub fn check(&self) -> Result<(), Usage> {
        let path = match self {
            Self::Stdout => return Ok(()),
            Self::Device(path) => path.clone(),
            Self::File(path) => beside(path, PART),
        };
        input::check_writable(&path)
    }

    /// What was fetched of `url` before, as far as it can be resumed.
    pub fn begun(&self, url: &str) -> Option<Begun> {
        let Self::File(path) = self else { return None };
        let about: serde_json::Value =
            serde_json::from_slice(&input::bytes(&beside(path, ABOUT), input::MOST).ok()?).ok()?;
        let have = beside(path, PART).metadata().ok()?.len();
        let validator = about["validator"].as_str()?.to_owned();
        (about["url"] == url && have > 0).then_some(Begun { have, validator })
    }

    /// Begins anew with an answer that says `headers` of `url`. What is there of an earlier fetch is set aside; says so.
    pub fn begin(&self, url: &str, headers: &HeaderMap) -> anyhow::Result<(Sink, Option<String>)> {
        let path = match self {
            Self::Stdout => return Ok((Sink::Stdout, None)),
            Self::Device(path) => {
                let file = OpenOptions::new().write(true).open(path);
                return Ok((Sink::Device(file.with_context(|| format!("opening {}", path.display()))?), None));
            }
            Self::File(path) => path,
        };
        let (part, about) = (beside(path, PART), beside(path, ABOUT));
        let mut aside = None;
        if part.metadata().is_ok_and(|found| found.len() > 0) {
            // Another fetch may be at work on it.
            drop(taken(OpenOptions::new().append(true), &part)?);
            aside = Some(set_aside(path, &part)?);
        }
        let file = taken(OpenOptions::new().write(true).create(true).truncate(false), &part)?;
        file.set_len(0).with_context(|| format!("emptying {}", part.display()))?;
        match validator(headers) {
            Some(validator) => {
                let text = serde_json::json!({ "url": url, "validator": validator }).to_string();
                // Names of files may hold what grants access to them.
                let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&about);
                let written = options.and_then(|mut file| file.write_all(text.as_bytes()));
                written.with_context(|| format!("writing {}", about.display()))?;
            }
            // It could not be gone on with: what is there might be of another version.
            None => _ = std::fs::remove_file(&about),
        }
        let note = aside.map(|aside| format!("moved an earlier partial download to {}", aside.display()));
        Ok((Sink::Part { file, path: path.clone() }, note))
    }

    /// Goes on behind what is there.
    pub fn resume(&self) -> anyhow::Result<Sink> {
        let Self::File(path) = self else { anyhow::bail!("resuming needs `-o FILE`") };
        let part = beside(path, PART);
        let file = taken(OpenOptions::new().append(true), &part)?;
        Ok(Sink::Part { file, path: path.clone() })
    }
}

/// What was fetched before.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun {
    /// Bytes that are there.
    pub have: u64,
    /// What the server called it: an entity tag or a date, for If-Range.
    pub validator: String,
}

/// Opens a file for one process at a time: two that write into one would make something that neither has fetched.
fn taken(options: &OpenOptions, path: &Path) -> anyhow::Result<File> {
    let file = options.open(path).with_context(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            anyhow::bail!("another process is fetching {}: wait for it, or choose another file", path.display())
        }
        // A file system without locks.
        Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Names what is at `part` otherwise, by a name that nothing has; that name.
fn set_aside(path: &Path, part: &Path) -> anyhow::Result<PathBuf> {
    for number in 1..=MOST_ASIDE {
        let aside = beside(path, &if number == 1 { ASIDE.to_owned() } else { format!("{ASIDE}{number}") });
        // A link is made only where nothing is: what another process sets aside meanwhile stays, too.
        match std::fs::hard_link(part, &aside) {
            Ok(()) => {
                std::fs::remove_file(part).with_context(|| format!("setting {} aside", part.display()))?;
                return Ok(aside);
            }
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
            // A file system without links.
            Err(_) if !aside.exists() => {
                std::fs::rename(part, &aside).with_context(|| format!("setting {} aside", part.display()))?;
                return Ok(aside);
            }
            Err(_) => {}
        }
    }
    anyhow::bail!("there are already {MOST_ASIDE} old copies of {}: remove some", part.display())
}

/// Parts that are set aside beside each other.
const MOST_ASIDE: u32 = 1000;
const PART: &str = ".part";
const ABOUT: &str = ".part.json";
const ASIDE: &str = ".part~";

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Whether an answer is of another version than the one that `known` names.
pub fn is_another(headers: &HeaderMap, known: &str) -> bool {
    let of = |name: header::HeaderName| headers.get(name).is_some_and(|value| value.as_bytes() != known.as_bytes());
    if known.starts_with('"') { of(header::ETAG) } else { of(header::LAST_MODIFIED) }
}

/// What If-Range may name: a strong tag, else the date of the last change (RFC 9110, section 13.1.5).
fn validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let tag = text(header::ETAG).filter(|tag| !tag.starts_with("W/"));
    tag.or_else(|| text(header::LAST_MODIFIED)).map(str::to_owned)
}

/// What takes a body in.
#[derive(Debug)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// A device.
    Device(File),
    /// A file that is not whole yet.
    Part {
        /// The file.
        file: File,
        /// Its name when it is whole.
        path: PathBuf,
    },
}

impl Sink {
    /// Takes some of it in.
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Stdout => stdout().write_all(bytes).context("writing to standard output"),
            Self::Device(file) => file.write_all(bytes).context("writing"),
            Self::Part { file, path } => {
                file.write_all(bytes).with_context(|| format!("writing {}", beside(path, PART).display()))
            }
        }
    }

    /// That was all of it.
    pub fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout => stdout().flush().context("writing to standard output"),
            Self::Device(_) => Ok(()),
            Self::Part { file, path } => {
                drop(file);
                let part = beside(&path, PART);
                std::fs::rename(&part, &path).with_context(|| format!("naming it {}", path.display()))?;
                let _ = std::fs::remove_file(beside(&path, ABOUT));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("headstart-part-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let name = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
            let mut names: Vec<_> = std::fs::read_dir(&self.0).unwrap().flatten().map(name).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn headers(tag: &'static str) -> HeaderMap {
        [(header::ETAG, HeaderValue::from_static(tag))].into_iter().collect()
    }

    #[test]
    fn an_interrupted_fetch_is_gone_on_with_and_a_whole_one_gets_its_name() {
        let scratch = Scratch::new("on");
        let destination = Destination::named(&scratch.0.join("f")).unwrap();
        let (mut sink, note) = destination.begin("https://x/", &headers("\"1\"")).unwrap();
        sink.write(b"12").unwrap();
        drop(sink);
        assert_eq!((note, scratch.names()), (None, vec!["f.part".into(), "f.part.json".into()]));
        let begun = Begun { have: 2, validator: "\"1\"".into() };
        assert_eq!((destination.begun("https://x/"), destination.begun("https://y/")), (Some(begun), None));
        let mut sink = destination.resume().unwrap();
        sink.write(b"34").unwrap();
        sink.finish().unwrap();
        assert_eq!(
            (scratch.names(), std::fs::read(scratch.0.join("f")).unwrap()),
            (vec!["f".into()], b"1234".to_vec())
        );
        assert_eq!(destination.begun("https://x/"), None);
    }

    #[test]
    fn what_is_there_is_set_aside_and_never_overwritten() {
        let scratch = Scratch::new("aside");
        let destination = Destination::named(&scratch.0.join("f")).unwrap();
        let (mut sink, _) = destination.begin("https://x/", &headers("\"1\"")).unwrap();
        sink.write(b"old").unwrap();
        drop(sink);
        let (_, note) = destination.begin("https://x/", &headers("W/\"2\"")).unwrap();
        assert!(note.unwrap().contains("f.part~"));
        assert_eq!(std::fs::read(scratch.0.join("f.part~")).unwrap(), b"old");
        assert_eq!(destination.begun("https://x/"), None, "a weak tag says nothing of bytes");
        std::fs::write(scratch.0.join("f.part"), "older").unwrap();
        let (_, note) = destination.begin("https://x/", &headers("\"3\"")).unwrap();
        assert!(note.unwrap().contains("f.part~2"));
        let aside = ["f.part~", "f.part~2"].map(|name| std::fs::read(scratch.0.join(name)).unwrap());
        assert_eq!(aside, [b"old".to_vec(), b"older".to_vec()]);
    }

    #[test]
    fn two_fetches_do_not_write_into_one_file() {
        let scratch = Scratch::new("two");
        let destination = Destination::named(&scratch.0.join("f")).unwrap();
        let (mut sink, _) = destination.begin("https://x/", &headers("\"1\"")).unwrap();
        for second in [destination.begin("https://x/", &headers("\"1\"")).map(drop), destination.resume().map(drop)] {
            assert!(second.unwrap_err().to_string().contains("another process"));
        }
        sink.write(b"whole").unwrap();
        assert!(destination.resume().is_err() && destination.begin("https://x/", &headers("\"1\"")).is_err());
        sink.finish().unwrap();
        assert_eq!(std::fs::read(scratch.0.join("f")).unwrap(), b"whole");
    }

    #[test]
    fn a_part_of_another_version_is_known_by_its_tag() {
        assert!(is_another(&headers("\"2\""), "\"1\"") && !is_another(&headers("\"1\""), "\"1\""));
        assert!(!is_another(&HeaderMap::new(), "\"1\""), "who does not say, may be right");
    }

    #[test]
    fn folders_are_refused_and_devices_written_to() {
        assert!(Destination::named(Path::new("/")).unwrap_err().0.contains("is a folder"));
        let null = Destination::named(Path::new("/dev/null")).unwrap();
        let (mut sink, _) = null.begin("https://x/", &headers("\"1\"")).unwrap();
        sink.write(b"gone").unwrap();
        sink.finish().unwrap();
    }
}
