//! Chromium without a window: several processes, a resolver of its own, sockets of a network process, a fresh profile each
//! time.
//!
//! It prints the page as it stands after its scripts have run, not as it was sent.

use super::{Entry, Manner, Origin, Scheme, as_found};
use std::sync::atomic::{AtomicU32, Ordering};

/// Profiles made so far: each start has one of its own.
static PROFILES: AtomicU32 = AtomicU32::new(0);

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "chromium",
    what: "headless Chromium, which resolves and races the two families by itself, in several processes",
    origin: Origin::Path { file: "chromium", package: "chromium" },
    schemes: &[Scheme::Http, Scheme::Https],
    manner: Manner { blocks: false, resolves_through_libc: false, is_static: false },
    prints_page: false,
    sends: false,
    prepare: as_found,
    fetch: |command, asked| {
        let profile = asked.workdir.join(format!("profile-{}", PROFILES.fetch_add(1, Ordering::Relaxed)));
        command.args(["--headless=new", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-gpu"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(["--disable-dev-shm-usage"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        if let Some(trust) = asked.trust.and_then(|t| t.https.as_ref()) {
            command.arg(format!("--ignore-certificate-errors-spki-list={}", trust.key_hash));
        }
        // What it keeps beside the profile.
        command.env("HOME", &profile).env("XDG_CONFIG_HOME", &profile).env("XDG_CACHE_HOME", &profile);
        command.arg("--dump-dom").arg(asked.url.to_string());
    },
};
