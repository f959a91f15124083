//! wget: getaddrinfo, then a blocking connect to one address after the other.

use super::{Entry, Origin, Scheme, as_found};

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "wget",
    what: "wget, which tries one address after the other",
    origin: Origin::Path { file: "wget", package: "wget" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare: as_found,
    fetch: |command, asked| {
        command.args(["--no-config", "--quiet", "--output-document=-"]);
        if let Some(file) = asked.certificate() {
            command.arg(format!("--ca-certificate={}", file.display()));
        }
        if let Some(file) = asked.body {
            command.arg(format!("--post-file={}", file.display()));
        }
        command.arg(asked.url.to_string());
    },
};
