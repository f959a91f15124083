//! Node: `fetch` (libuv's getaddrinfo in a thread pool) and `dns.resolve` (c-ares, which sends its own queries); sockets
//! that do not wait, registered with epoll after connect.

use super::{Entry, Origin, PageRequest, Scheme, write};
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "fetch.mjs";

/// Node's fetch.
pub const FETCH: Entry = Entry {
    name: "node",
    what: "Node's fetch, which tries the families in turns of 250 ms",
    prepare: |found, workdir| prepared(found, workdir, include_str!("scripts/fetch.mjs")),
    ..RESOLVE
};

/// Node's resolver of its own.
pub const RESOLVE: Entry = Entry {
    name: "node-resolve",
    what: "Node's dns.resolve (c-ares), which sends queries by itself, and its https module",
    origin: Origin::Path { file: "node", package: "nodejs" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare: |found, workdir| prepared(found, workdir, include_str!("scripts/resolve.mjs")),
    fetch,
};

fn prepared(found: &Path, workdir: &Path, script: &str) -> anyhow::Result<PathBuf> {
    write(workdir, SCRIPT, script)?;
    Ok(found.to_owned())
}

fn fetch(command: &mut Command, asked: &PageRequest<'_>) {
    if let Some(file) = asked.certificate() {
        command.env("NODE_EXTRA_CA_CERTS", file);
    }
    command.arg(asked.workdir.join(SCRIPT)).arg(asked.url.to_string()).args(asked.body);
}
