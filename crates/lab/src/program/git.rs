//! git: over https (a helper of its own, on libcurl: getaddrinfo, sockets that do not wait) and over ssh (OpenSSH's client,
//! another program that it starts: getaddrinfo, a blocking connect).
//!
//! A page is a file of a repository: the whole repository is cloned, then the file is printed.

use super::{Entry, Origin, PageRequest, Scheme, write};
use anyhow::Context as _;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "clone.sh";

/// git over https.
pub const HTTPS: Entry = Entry {
    name: "git",
    what: "git clone over https, by a helper program on libcurl",
    origin: Origin::Path { file: "git", package: "git" },
    schemes: &[Scheme::Https],
    prints_page: true,
    sends: false,
    within: "/repo.git",
    prepare,
    fetch: |command, asked| {
        if let Some(file) = asked.certificate() {
            command.env("GIT_SSL_CAINFO", file);
        }
        clone(command, asked, &asked.url.to_string());
    },
};

/// git over ssh.
pub const SSH: Entry = Entry {
    name: "git-ssh",
    what: "git clone over ssh, by OpenSSH's client",
    schemes: &[Scheme::Ssh],
    prepare: |git, workdir| {
        headstart_io::program::find(OsStr::new("ssh"), Some(&super::search_path()))
            .context("git over ssh runs ssh, which is not installed (Debian package: openssh-client)")?;
        prepare(git, workdir)
    },
    fetch: |command, asked| {
        let mut url = asked.url.to_string();
        if let Some(identity) = asked.trust.and_then(|t| t.ssh.as_ref()) {
            // The folder's path has no blanks: it is the lab's own.
            command.env("GIT_SSH_COMMAND", format!("ssh {}", identity.options().join(" ")));
            url = url.replacen("://", &format!("://{}@", identity.user), 1);
        }
        clone(command, asked, &url);
    },
    ..HTTPS
};

fn prepare(_: &Path, workdir: &Path) -> anyhow::Result<PathBuf> {
    write(workdir, SCRIPT, include_str!("scripts/clone.sh"))?;
    Ok("/bin/sh".into())
}

fn clone(command: &mut Command, asked: &PageRequest<'_>, url: &str) {
    command.arg(asked.workdir.join(SCRIPT)).arg(url).arg(asked.workdir);
}
