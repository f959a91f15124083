//! A bit a descriptor: set while its file is known to be held by it alone, and so may be exchanged for another. Only
//! socket(2) sets it; epoll instances, duplicates and fork clear it, since they hold the file too. A bit that is clear
//! without need costs an acceleration, never a connection.
//!
//! And a word a descriptor: which socket it was that has had no option set since socket(2) made it. Looking at 45 options
//! takes 16 us; most programs set none before they connect. A number that means another socket by now is ignored.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 1024;
static SOLE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// Descriptors whose sockets may be known as untouched; sockets past it are looked at.
const NUMBERS: usize = 16_384;
/// SO_COOKIE of the socket, or 0, which is no socket's.
static UNTOUCHED: [AtomicU64; NUMBERS] = [const { AtomicU64::new(0) }; NUMBERS];

fn number(fd: c_int) -> Option<&'static AtomicU64> {
    UNTOUCHED.get(usize::try_from(fd).ok()?)
}

/// The socket of that cookie is new.
pub(crate) fn untouched(fd: c_int, cookie: u64) {
    if let Some(word) = number(fd) {
        word.store(cookie, Ordering::Relaxed);
    }
}

/// Something is being set on `fd`.
pub(crate) fn touched(fd: c_int) {
    untouched(fd, 0);
}

/// Whether the socket of that cookie is new and nothing has been set on it.
pub(crate) fn is_untouched(fd: c_int, cookie: u64) -> bool {
    cookie != 0 && number(fd).is_some_and(|word| word.load(Ordering::Relaxed) == cookie)
}

fn place(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((SOLE.get(fd / 64)?, 1 << (fd % 64)))
}

/// `fd` is a new socket that nothing else holds.
pub(crate) fn is_new(fd: c_int) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// Something else holds the file of `fd` too.
pub(crate) fn is_shared(fd: c_int) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Another process holds every file of this one too. Called on both sides of a fork, so it does nothing but store; and that only
/// where there is something to be cleared, or each of them would have pages of its own for zeroes.
pub(crate) extern "C" fn all_are_shared() {
    SOLE.iter().filter(|word| word.load(Ordering::Relaxed) != 0).for_each(|word| word.store(0, Ordering::Relaxed));
}

/// Whether the file of `fd` may be exchanged; never for descriptors past the table.
pub(crate) fn may_exchange(fd: c_int) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_sockets_may_be_exchanged_until_something_else_holds_them() {
        is_new(63);
        assert!(may_exchange(63) && !may_exchange(64) && !may_exchange(62));
        is_shared(63);
        assert!(!may_exchange(63));
        is_new(-1);
        is_new(WORDS as c_int * 64);
        assert!(!may_exchange(-1) && !may_exchange(WORDS as c_int * 64));
        is_new(62);
        all_are_shared();
        assert!(!may_exchange(62));

        untouched(7, 99);
        assert!(is_untouched(7, 99) && !is_untouched(7, 98) && !is_untouched(8, 99) && !is_untouched(-1, 99));
        touched(7);
        assert!(!is_untouched(7, 99) && !is_untouched(7, 0));
    }
}
