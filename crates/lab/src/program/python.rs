//! Python's urllib: getaddrinfo, then a blocking connect to one address after the other, in an interpreter.
//!
//! Also what all programs in Python share: the interpreter that has a module, and how a script is told what to fetch.

use super::{Entry, Origin, PageRequest, Scheme, as_found};
use headstart_io::program::find;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FETCH: &str = "import sys, urllib.request
body = open(sys.argv[2], 'rb').read() if len(sys.argv) > 2 else None
sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], body).read())";

/// See the module.
pub const ENTRY: Entry = Entry {
    name: "python",
    what: "Python's urllib, which tries one address after the other",
    origin: Origin::Module { module: "urllib.request", package: "python3" },
    schemes: &[Scheme::Http, Scheme::Https],
    prints_page: true,
    sends: true,
    within: "",
    prepare: as_found,
    fetch: |command, asked| script(FETCH, command, asked),
};

/// Gives `command` a script, which is told the URL and perhaps a file to send.
pub(super) fn script(script: &str, command: &mut Command, asked: &PageRequest<'_>) {
    asked.trust_by_environment(command);
    command.args(["-c", script]).arg(asked.url.to_string()).args(asked.body);
}

/// The interpreter itself, not a script that starts one, that has `module`: the first of the PATH's and the system's. Asks
/// them.
pub(super) fn with_module(module: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let candidates = [find(OsStr::new("python3"), path), Some("/usr/bin/python3".into())];
    candidates.into_iter().flatten().find_map(|python| {
        let mut command = Command::new(python);
        command.args(["-c", &format!("import sys, {module}; print(sys.executable)")]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        (output.status.success() && !said.trim().is_empty()).then(|| said.trim().into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_nobody_has_is_not_found() {
        assert_eq!(with_module("no_such_module_anywhere", std::env::var_os("PATH").as_deref()), None);
    }
}
