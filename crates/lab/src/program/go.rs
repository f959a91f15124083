//! Go's net/http in a static program: no C library, its own resolver, its own system calls, Happy Eyeballs of its own
//! (300 ms).
//!
//! The project's few lines are built once, in the work folder, with the toolchain that is there; nothing is downloaded.

use super::{Entry, Origin, Scheme, compile, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "go",
    what: "a static Go program, which resolves, connects and races the two families by itself",
    origin: Origin::Path { file: "go", package: "golang-go" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare,
    fetch: |command, asked| {
        asked.trust_by_environment(command);
        command.arg(asked.url.to_string()).args(asked.body);
    },
};

fn prepare(go: &Path, workdir: &Path) -> anyhow::Result<PathBuf> {
    let source = write(workdir, "fetch.go", include_str!("scripts/fetch.go"))?;
    let program = workdir.join("fetch");
    let mut command = Command::new(go);
    command.args(["build", "-o"]).arg(&program).arg(source);
    // The standard library and nothing else, by this toolchain, whatever the user's settings are. Modules on, though there
    // are none: without, the program would behave as those of old versions of Go (GODEBUG).
    command.env("CGO_ENABLED", "0").env("GO111MODULE", "on").env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
    command.current_dir(workdir);
    if std::env::var_os("HOME").is_none() {
        command.env("GOCACHE", workdir.join("cache"));
    }
    compile(&mut command, "program")?;
    Ok(program)
}
