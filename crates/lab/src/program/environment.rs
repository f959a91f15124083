//! The environment that measured programs start with: the caller's, without what would lead them elsewhere.
//!
//! The user of an experiment may have a proxy, a preload or headstart itself switched off for a shell. None of this may
//! reach an arm, or all arms run alike and the result is silently wrong. What never happens here: a command that the user
//! gave (`headstart lab shell`) loses anything.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// Variables that would lead a program elsewhere, or change what it runs under.
const NOT_PASSED_ON: [&str; 14] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "GODEBUG",
    "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "HEADSTART",
    "HEADSTART_DIR",
    "LD_PRELOAD",
];

/// Keeps from `command` what the caller's environment and settings would do to it. What an experiment itself sets of this
/// (`HEADSTART`, say), it sets afterwards.
pub(crate) fn undisturbed(command: &mut Command) {
    NOT_PASSED_ON.iter().for_each(|name| _ = command.env_remove(name));
    let ours = |name: &OsString| name.as_bytes().starts_with(b"HEADSTART_");
    // Where in the lab this is, is no setting.
    let of_lab = |name: &OsString| name.as_bytes().starts_with(b"HEADSTART_LAB_");
    let settings = std::env::vars_os().map(|(name, _)| name).filter(|name| ours(name) && !of_lab(name));
    settings.for_each(|name| _ = command.env_remove(name));
    command.env("HEADSTART_CONFIG", "off");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_finds_neither_a_proxy_nor_a_word_about_headstart_and_keeps_the_rest() {
        let mut command = Command::new("/usr/bin/env");
        command.env_clear();
        for name in NOT_PASSED_ON.into_iter().chain(["LANG"]) {
            command.env(name, "off");
        }
        undisturbed(&mut command);
        assert_eq!(String::from_utf8_lossy(&command.output().unwrap().stdout), "HEADSTART_CONFIG=off\nLANG=off\n");
    }
}
