//! Java's HttpClient: getaddrinfo, then sockets of IPv6 that do not wait and that reach IPv4 by mapped addresses.
//!
//! The project's few lines are compiled once, in the work folder.

use super::{Entry, Origin, Scheme, compile, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "java",
    what: "Java's HttpClient, which connects by IPv6 sockets to both families",
    origin: Origin::Path { file: "javac", package: "default-jdk-headless" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare,
    fetch: |command, asked| {
        asked.trust_by_environment(command);
        command.arg("-cp").arg(asked.workdir).arg("Fetch").arg(asked.url.to_string()).args(asked.body);
    },
};

fn prepare(javac: &Path, workdir: &Path) -> anyhow::Result<PathBuf> {
    let source = write(workdir, "Fetch.java", include_str!("scripts/Fetch.java"))?;
    compile(Command::new(javac).arg("-d").arg(workdir).arg(source), "class")?;
    // A JDK has both in one folder.
    Ok(javac.with_file_name("java"))
}
