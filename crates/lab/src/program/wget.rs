//! wget: getaddrinfo, then a blocking connect to one address after the other.

use super::{Entry, Origin, PLAIN, Scheme, as_found};

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "wget",
    what: "wget, which tries one address after the other",
    origin: Origin::Path { file: "wget", package: "wget" },
    schemes: &[Scheme::Http, Scheme::Https],
    manner: PLAIN,
    prints_page: true,
    prepare: as_found,
    fetch: |command, url, _| {
        command.args(["--no-config", "--quiet", "--output-document=-"]).arg(url.to_string());
    },
};
