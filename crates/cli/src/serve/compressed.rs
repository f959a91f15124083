//! Text that is compressed when it is asked for, where nothing lies compressed beside it. In gzip alone: every client takes it, and a
//! smaller coding is worth the time of [`super::coding`], ahead of the first request.
//!
//! Bounded, since clients cause the work: files of a size, a few at once, and the results in a place of a size. A client whose text
//! finds no room gets it as it is, at once: nothing here is waited for. What has been compressed is kept, so that requests which are
//! repeated (replayed early data, too) cost nothing more.

use super::file::Opened;
use flate2::Compression;
use flate2::write::GzEncoder;
use headstart_io::clock::wall;
use hyper::body::Bytes;
use std::collections::HashMap;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of the files that are compressed: less fits into a packet or two as it is; more takes tens of milliseconds.
const SIZES: std::ops::RangeInclusive<u64> = 1024..=1 << 20;
/// Bytes of results that are kept or on their way to clients.
const ROOM: usize = 16 << 20;
/// Results that are kept, with those of files that do not get smaller.
const MOST_KEPT: usize = 4096;
/// Files that are compressed at once, so that other answers have processors, too.
const AT_ONCE: usize = 2;
/// A file that was changed so short a time ago may be changed again under the same tag: then a result that is kept would be an old one.
const SETTLED: Duration = Duration::from_secs(2);
/// A result has at most so many of eight parts of the file.
const WORTH: u64 = 7;
/// Half as fast gains 2 % more.
const LEVEL: Compression = Compression::new(5);

/// Types of text that do not begin with `text/`; so do those that end in `+json` and `+xml`.
const TEXTS: &[&str] =
    &["application/javascript", "application/json", "application/xml", "application/toml", "application/yaml"];

/// A file as it was when it was opened: its device, and its tag.
type Name = (u64, String);

/// Compresses, and keeps what it has compressed.
#[derive(Debug, Default)]
pub struct Compressor(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// `None`: the file does not get smaller.
    results: HashMap<Name, (Option<Bytes>, u64)>,
    held: usize,
    busy: usize,
    /// Counts uses: the result that was not used for longest goes first.
    used: u64,
}

/// Whether a file of this kind and length may be compressed.
pub fn may(file: &Opened) -> bool {
    let kind = file.kind.split(';').next().unwrap_or_default().trim();
    let is_text =
        kind.starts_with("text/") || TEXTS.contains(&kind) || kind.ends_with("+json") || kind.ends_with("+xml");
    is_text && SIZES.contains(&file.length)
}

impl Compressor {
    /// The file in gzip; `None` if it is to be sent as it is.
    pub fn gzip(&self, file: &Opened) -> Option<Bytes> {
        if wall().duration_since(file.modified).is_ok_and(|age| age < SETTLED) {
            return None;
        }
        let device = rustix::fs::fstat(&*file.file).ok()?.st_dev;
        let name = (device, file.tag.clone());
        {
            let mut kept = self.lock();
            if let Some(known) = kept.known(&name) {
                return known;
            }
            if kept.busy == AT_ONCE {
                return None;
            }
            kept.busy += 1;
        }
        let result = compress(file);
        let mut kept = self.lock();
        kept.busy -= 1;
        kept.keep(name, result.ok()?)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn known(&mut self, name: &Name) -> Option<Option<Bytes>> {
        self.used += 1;
        let (result, used) = self.results.get_mut(name)?;
        *used = self.used;
        Some(result.clone())
    }

    /// Keeps a result, if there is room or what is not being sent can make some. What is not kept is not sent: then all that is in
    /// memory is counted here.
    fn keep(&mut self, name: Name, result: Option<Bytes>) -> Option<Bytes> {
        let bytes = result.as_ref().map_or(0, Bytes::len);
        // Another may have done the same meanwhile.
        self.forget(&name);
        while self.held + bytes > ROOM || self.results.len() >= MOST_KEPT {
            let idle = self.results.iter().filter(|(_, (result, _))| result.as_ref().is_none_or(Bytes::is_unique));
            let oldest = idle.min_by_key(|(_, (_, used))| *used).map(|(name, _)| name.clone())?;
            self.forget(&oldest);
        }
        self.held += bytes;
        self.used += 1;
        self.results.insert(name, (result.clone(), self.used));
        result
    }

    fn forget(&mut self, name: &Name) {
        if let Some((Some(result), _)) = self.results.remove(name) {
            self.held -= result.len();
        }
    }
}

/// Reads and compresses the file; `Ok(None)` if that does not make it smaller, an error if it is not as long as it was.
fn compress(file: &Opened) -> std::io::Result<Option<Bytes>> {
    let mut whole = vec![0; usize::try_from(file.length).unwrap_or(0)];
    file.file.read_exact_at(&mut whole, 0)?;
    let mut encoder = GzEncoder::new(Vec::with_capacity(whole.len() / 2), LEVEL);
    encoder.write_all(&whole)?;
    let mut result = encoder.finish()?;
    result.shrink_to_fit();
    let is_worth_it = result.len() as u64 * 8 <= file.length * WORTH;
    Ok(is_worth_it.then(|| result.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read as _;
    use std::sync::Arc;
    use std::time::SystemTime;

    fn opened(name: &str, bytes: &[u8]) -> Opened {
        let mut path = std::env::temp_dir();
        path.push(format!("headstart-compressed-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let file = Arc::new(File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let (length, tag) = (bytes.len() as u64, format!("\"{name}\""));
        Opened { file, length, modified: SystemTime::UNIX_EPOCH, tag, kind: "text/html; charset=utf-8".into() }
    }

    fn plain(compressed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(compressed).read_to_end(&mut plain).unwrap();
        plain
    }

    /// Bytes that no coding makes smaller.
    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..length).map(|_| rng.u8(..)).collect()
    }

    #[test]
    fn text_of_a_size_may_be_compressed_and_nothing_else() {
        let of = |kind: &'static str, length| may(&Opened { kind: kind.into(), length, ..opened("kinds", b"") });
        let texts = ["text/css; charset=utf-8", "application/json", "image/svg+xml", "application/manifest+json"];
        assert!(texts.iter().all(|kind| of(kind, 5000)));
        let others = ["image/png", "application/zip", "application/octet-stream", "font/woff2", "video/mp4"];
        assert!(!others.iter().any(|kind| of(kind, 5000)));
        let sizes = [1023, 1024, 1 << 20, (1 << 20) + 1].map(|length| of("text/css", length));
        assert_eq!(sizes, [false, true, true, false]);
    }

    #[test]
    fn a_text_is_compressed_once_and_what_does_not_get_smaller_is_sent_as_it_is() {
        let (compressor, text) = (Compressor::default(), "some text, again and again; ".repeat(400));
        let file = opened("once", text.as_bytes());
        let first = compressor.gzip(&file).unwrap();
        assert!(first.len() < text.len() / 4 && plain(&first) == text.as_bytes());
        assert_eq!(first.as_ptr(), compressor.gzip(&file).unwrap().as_ptr(), "the same bytes");
        let noisy = opened("noisy", &noise(5000, 1));
        assert_eq!((compressor.gzip(&noisy), compressor.gzip(&noisy)), (None, None));
        assert!(compressor.lock().results.contains_key(&(rustix::fs::fstat(&*noisy.file).unwrap().st_dev, noisy.tag)));
        let shorter = Opened { length: 20_000, tag: "\"shorter\"".into(), ..file };
        assert_eq!(compressor.gzip(&shorter), None, "it is not what it was");
        assert_eq!(compressor.lock().busy, 0);
    }

    #[test]
    fn a_text_that_is_being_written_is_sent_as_it_is() {
        let (compressor, file) = (Compressor::default(), opened("written", &[b'a'; 5000]));
        let changed = |modified| Opened { modified, ..file.clone() };
        assert_eq!(compressor.gzip(&changed(wall())), None);
        assert!(compressor.lock().results.is_empty());
        assert!(compressor.gzip(&changed(wall() - 2 * SETTLED)).is_some());
    }

    #[test]
    fn while_others_are_compressed_a_text_is_sent_as_it_is() {
        let (compressor, file) = (Compressor::default(), opened("busy", &[b'a'; 5000]));
        compressor.lock().busy = AT_ONCE;
        assert_eq!(compressor.gzip(&file), None);
        compressor.lock().busy = 0;
        assert!(compressor.gzip(&file).is_some());
    }

    #[test]
    fn what_is_kept_has_a_bound_and_what_is_being_sent_keeps_its_place() {
        let mut kept = Kept::default();
        let result = |n: u8| Some(Bytes::from(vec![n; ROOM / 4]));
        let name = |n: u8| (0, n.to_string());
        let mut sent: Vec<Bytes> = (0..2).map(|n| kept.keep(name(n), result(n)).unwrap()).collect();
        for n in 2..20 {
            assert!(kept.keep(name(n), result(n)).is_some());
            assert!(kept.held <= ROOM && kept.results.len() <= 4);
        }
        assert!((0..2).all(|n| kept.known(&name(n)).is_some()), "they are on their way");
        sent.extend((20..22).map(|n| kept.keep(name(n), result(n)).unwrap()));
        assert_eq!(kept.keep(name(22), result(22)), None, "all that there is room for is on its way");
        drop(sent);
        assert!(kept.keep(name(23), result(23)).is_some());
        let mut small = Kept::default();
        (0..=MOST_KEPT).for_each(|n| assert_eq!(small.keep((0, n.to_string()), None), None));
        assert_eq!(small.results.len(), MOST_KEPT);
    }
}
