//! nginx as the client of an upstream server: sockets that do not wait, registered with epoll *before* connect. The
//! upstream's name is looked up when nginx starts (getaddrinfo) or with each request (its own resolver).
//!
//! A shell script starts nginx, asks it for one page over a Unix socket with curl, and ends it.

use super::{Entry, Origin, PageRequest, Scheme, write};
use anyhow::Context as _;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "nginx.sh";

/// The upstream's name is looked up by getaddrinfo when nginx starts.
pub const AT_START: Entry = Entry {
    name: "nginx",
    what: "nginx as the client of an upstream whose name it looks up when it starts",
    fetch: |command, asked| ask("start", command, asked),
    ..RESOLVER
};

/// The upstream's name is looked up by nginx's own resolver with each request.
pub const RESOLVER: Entry = Entry {
    name: "nginx-resolver",
    what: "nginx as the client of an upstream whose name it looks up by itself, for each request",
    origin: Origin::Path { file: "nginx", package: "nginx" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare,
    fetch: |command, asked| ask("request", command, asked),
};

fn prepare(nginx: &Path, workdir: &Path) -> anyhow::Result<PathBuf> {
    headstart_io::program::find(OsStr::new("curl"), Some(&super::search_path()))
        .context("nginx is tested with curl, which is not installed (Debian package: curl)")?;
    // It may be where only root's PATH leads.
    let script = include_str!("scripts/nginx.sh").replace("\nnginx -p", &format!("\n'{}' -p", nginx.display()));
    write(workdir, SCRIPT, &script)?;
    Ok("/bin/sh".into())
}

fn ask(when: &str, command: &mut Command, asked: &PageRequest<'_>) {
    let or_nothing = |file: Option<&Path>| file.map_or_else(Default::default, Path::as_os_str).to_owned();
    command.arg(asked.workdir.join(SCRIPT)).arg(asked.url.to_string()).arg(asked.workdir).arg(when);
    command.args([or_nothing(asked.certificate()), or_nothing(asked.body)]);
}
