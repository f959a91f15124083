//! Chromium without a window: several processes, a resolver of its own, sockets of a network process, a fresh profile each
//! time.
//!
//! It prints the page as it stands after its scripts have run, not as it was sent.

use super::{Entry, Origin, Scheme, write};

const SCRIPT: &str = "chromium.sh";

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "chromium",
    what: "headless Chromium, which resolves and races the two families by itself, in several processes",
    origin: Origin::Path { file: "chromium", package: "chromium" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: false,
    sends: false,
    within: "",
    prepare: |_, workdir| {
        write(workdir, SCRIPT, include_str!("scripts/chromium.sh"))?;
        Ok("/bin/sh".into())
    },
    fetch: |command, asked| {
        let hash = asked.trust.and_then(|t| t.https.as_ref()).map_or("", |trust| &trust.key_hash);
        command.arg(asked.workdir.join(SCRIPT)).arg("chromium").arg(asked.workdir).arg(hash);
        command.arg(asked.url.to_string()).arg(&asked.url.host);
    },
};
