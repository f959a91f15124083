//! Which programs are known to look what has become of a connect that they did not wait for, by SO_ERROR. The attempt of one that
//! only waits until it can write must not be ended while its own may still succeed.

use super::app_of;
use headstart_core::connect::{AppId, Looks};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Programs that connect by libraries of their own, which look: libcurl, libuv, nginx.
const KNOWN: [&str; 4] = ["curl", "git-remote-http", "nginx", "node"];
/// Programs that are remembered.
const MAX_SEEN: usize = 1024;
/// The ELF note that Go's linker writes into the first page of a program: type 4 of the name "Go". Its runtime always looks.
const NOTE_OF_GO: &[u8] = b"\x04\0\0\0Go\0\0";
const FIRST_PAGE: usize = 4096;

/// Those of one run.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    seen: BTreeSet<AppId>,
}

impl Knowledge {
    /// The program of `thread` has looked.
    pub fn looks(&mut self, thread: i32) {
        if self.seen.len() < MAX_SEEN
            && let Some(app) = app_of(thread)
        {
            self.seen.insert(app);
        }
    }

    /// What is known of `app`, which is the program of `thread`.
    pub fn of(&mut self, thread: i32, app: &AppId) -> Looks {
        if KNOWN.contains(&&**app) || self.seen.contains(app) {
            return Looks::Always;
        }
        if !is_of_go(thread) {
            return Looks::Perhaps;
        }
        if self.seen.len() < MAX_SEEN {
            self.seen.insert(app.clone());
        }
        Looks::Always
    }
}

fn is_of_go(thread: i32) -> bool {
    let mut page = [0; FIRST_PAGE];
    let read = File::open(format!("/proc/{thread}/exe")).and_then(|file| file.read_at(&mut page, 0)).unwrap_or(0);
    page[..read].windows(NOTE_OF_GO.len()).any(|bytes| bytes == NOTE_OF_GO)
}
