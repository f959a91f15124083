//! What this process knows of its supervisor, found once by `start` and never changed.

use headstart_core::wire::shim::{FILTER_BYTES, filter_bit};
use std::ffi::CStr;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// What is known for the whole life of the process.
pub(crate) struct Session {
    /// Path of the supervisor's socket, with its final zero.
    pub socket: Vec<u8>,
    /// The program's file name.
    pub app: String,
    /// It has another view of the file system (a mount namespace), where /etc/hosts and resolv.conf may be others.
    pub sees_other_files: bool,
    /// Whether the environment has rules for lookups, as the first lookup has found it.
    pub is_told_how: OnceLock<bool>,
    pub mapped: &'static [AtomicU8],
}

static SESSION: OnceLock<Option<Session>> = OnceLock::new();

/// The session, if this process is to be accelerated.
pub(crate) fn current() -> Option<&'static Session> {
    SESSION.get()?.as_ref()
}

/// Sets it, once; `None` if it has been set.
pub(crate) fn set(session: Option<Session>) -> Option<()> {
    SESSION.set(session).ok()
}

impl Session {
    /// Whether a lookup by headstart may have given `addr`; no false negatives, few false positives.
    pub fn may_know(&self, addr: IpAddr) -> bool {
        let bit = filter_bit(addr);
        self.mapped.get(bit / 8).is_some_and(|b| b.load(Ordering::Relaxed) & (1 << (bit % 8)) != 0)
    }

    /// Whether it looks names up by rules of its own, which the C library keeps: RES_OPTIONS, LOCALDOMAIN (resolv.conf(5)), other files.
    /// The environment is looked at once, as the C library does, when a name is first looked up: programs set these variables too.
    pub fn has_own_rules(&self) -> bool {
        // SAFETY: C strings. The C library reads the same variables at its own first lookup.
        let is_set = |name: &CStr| !unsafe { libc::getenv(name.as_ptr()) }.is_null();
        self.sees_other_files
            || *self.is_told_how.get_or_init(|| [c"RES_OPTIONS", c"LOCALDOMAIN"].into_iter().any(is_set))
    }

    /// Whether system calls of this process are trapped for the supervisor too.
    pub fn calls_are_trapped(&self) -> bool {
        self.mapped.get(FILTER_BYTES).is_some_and(|b| b.load(Ordering::Relaxed) != 0)
    }
}
