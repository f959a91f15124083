//! Headstart's own client, `headstart client HOST`: getaddrinfo, then a blocking connect to one address after the other.
//! It fetches no page and prints the peer that was reached: the smallest program that connects.

use super::{Entry, Origin, Scheme, as_found};

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "client",
    what: "headstart's own client, which only looks up and connects",
    origin: Origin::Own,
    schemes: &[Scheme::Http],
    prints_page: false,
    sends: false,
    within: "",
    prepare: as_found,
    fetch: |command, asked| {
        command.arg("client").arg(&asked.url.host);
    },
};
