//! Some of a file, read piece by piece: at once where the kernel has it in memory, else in threads that may wait for a disk, the next piece
//! while one is sent.

use hyper::body::Bytes;
use rustix::io::{ReadWriteFlags, preadv2};
use std::fs::File;
use std::future::{Future as _, poll_fn};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes of the first piece, which HTTP/2 takes in whole for a client that has credit for one of them.
const FIRST: u64 = 4 * 1024;
/// Bytes of a piece where memory is scarce.
const LITTLE: u64 = 16 * 1024;
/// Bytes of a piece for a client that has taken some: two of them are held for each.
const PIECE: u64 = 64 * 1024;

/// Some of a file. What is read is what the file holds then; if it has become shorter, that is an error, never less.
#[derive(Debug)]
pub struct Chunks {
    file: Arc<File>,
    /// The next byte that is to be read.
    at: u64,
    /// One behind the last.
    end: u64,
    /// Bytes that were not handed out yet.
    left: u64,
    /// Bytes of the next piece.
    piece: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Chunks {
    /// The bytes of `file` from `from` up to `to`, without the last.
    pub fn new(file: Arc<File>, from: u64, to: u64) -> Self {
        Self { file, at: from, end: to, left: to.saturating_sub(from), piece: FIRST, reading: None }
    }

    /// Bytes to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next piece; `None` behind the last. `is_scarce`: whether to keep little in memory.
    pub async fn next(&mut self, is_scarce: bool) -> Option<io::Result<Bytes>> {
        poll_fn(|cx| self.poll(cx, is_scarce)).await
    }

    /// The next piece, for callers that poll. Inside a runtime only.
    pub fn poll(&mut self, cx: &mut Context<'_>, is_scarce: bool) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let at_once = if self.reading.is_none() { self.read_at_once() } else { None };
        let is_at_hand = at_once.is_some();
        let piece = match at_once {
            Some(piece) => Ok(piece),
            None => {
                let reading = self.reading.take().unwrap_or_else(|| self.read());
                let reading = self.reading.insert(reading);
                ready!(Pin::new(reading).poll(cx)).unwrap_or_else(|gone| Err(io::Error::other(gone)))
            }
        };
        self.reading = None;
        match &piece {
            Ok(bytes) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                self.piece = (2 * self.piece).min(if is_scarce { LITTLE } else { PIECE });
                // Only for a client that has taken some is the next piece read before it is asked for, and only from a disk.
                if !is_at_hand && self.at < self.end && self.piece > LITTLE {
                    self.reading = Some(self.read());
                }
            }
            Err(_) => self.left = 0,
        }
        Poll::Ready(Some(piece))
    }

    /// The next piece, if the kernel has all of it in memory (preadv2(2), RWF_NOWAIT): no thread is woken for it.
    fn read_at_once(&mut self) -> Option<Bytes> {
        let length = (self.end - self.at).min(self.piece);
        let mut piece = vec![0; usize::try_from(length).ok()?];
        let into = &mut [io::IoSliceMut::new(&mut piece)];
        let read = preadv2(&*self.file, into, self.at, ReadWriteFlags::NOWAIT).ok()?;
        if read < piece.len() {
            return None;
        }
        self.at += length;
        Some(piece.into())
    }

    fn read(&mut self) -> JoinHandle<io::Result<Bytes>> {
        let (file, at) = (self.file.clone(), self.at);
        let length = (self.end - at).min(self.piece);
        self.at += length;
        spawn_blocking(move || {
            let mut piece = vec![0; usize::try_from(length).unwrap_or(0)];
            file.read_exact_at(&mut piece, at)?;
            Ok(piece.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(chunks: &mut Chunks, is_scarce: bool) -> Vec<io::Result<Bytes>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut all = Vec::new();
            while let Some(piece) = chunks.next(is_scarce).await {
                all.push(piece);
            }
            all
        })
    }

    fn file(name: &str, bytes: &[u8]) -> Arc<File> {
        let path = std::env::temp_dir().join(format!("headstart-chunks-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        Arc::new(file)
    }

    #[test]
    fn all_pieces_together_are_the_part_that_was_asked_for() {
        let bytes: Vec<u8> = (0..400_000u32).map(|n| (n % 251) as u8).collect();
        let file = file("all", &bytes);
        for (from, to) in [(0, 400_000), (1, 131_073), (131_072, 131_073), (399_999, 400_000), (7, 7)] {
            for is_scarce in [false, true] {
                let pieces = collected(&mut Chunks::new(file.clone(), from, to), is_scarce);
                let whole: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.unwrap()).collect();
                assert!(whole == bytes[from as usize..to as usize], "{from}..{to}");
            }
        }
    }

    #[test]
    fn what_is_held_for_a_client_that_takes_nothing_is_little() {
        let file = file("little", &[0; 1_000_000]);
        let lengths = |is_scarce| {
            let pieces = collected(&mut Chunks::new(file.clone(), 0, 1_000_000), is_scarce);
            pieces.into_iter().map(|piece| piece.unwrap().len() as u64).collect::<Vec<_>>()
        };
        assert_eq!(lengths(false)[..6], [FIRST, 2 * FIRST, LITTLE, 2 * LITTLE, PIECE, PIECE]);
        assert!(lengths(true).iter().all(|length| *length <= LITTLE));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut chunks = Chunks::new(file.clone(), 0, 1_000_000);
            chunks.next(false).await;
            assert!(chunks.reading.is_none(), "the second is read when it is asked for");
            chunks.next(false).await;
            assert!(chunks.reading.is_none(), "the kernel has it");
            // As if the disk were to be waited for.
            chunks.reading = Some(chunks.read());
            chunks.next(false).await;
            assert!(chunks.reading.is_some(), "the fourth before");
        });
    }

    #[test]
    fn a_file_that_has_become_shorter_is_an_error_and_never_less() {
        let pieces = collected(&mut Chunks::new(file("short", b"12345"), 0, 10), false);
        assert!(matches!(&pieces[..], [Err(why)] if why.kind() == io::ErrorKind::UnexpectedEof), "{pieces:?}");
    }
}
