//! curl: looks names up by getaddrinfo in a thread, connects without blocking, and races the families by itself
//! (Happy Eyeballs, 200 ms between IPv6 and IPv4).

use super::{Entry, Origin, Scheme, as_found};

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "curl",
    what: "curl, which races the two families itself",
    origin: Origin::Path { file: "curl", package: "curl" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare: as_found,
    fetch: |command, asked| {
        // Not the user's own settings.
        command.args(["--disable", "--silent", "--show-error", "--fail"]);
        if let Some(file) = asked.certificate() {
            command.arg("--cacert").arg(file);
        }
        if let Some(file) = asked.body {
            command.arg("--data-binary").arg(format!("@{}", file.display()));
        }
        command.arg(asked.url.to_string());
    },
};
