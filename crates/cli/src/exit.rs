//! How a verb ends: exit codes, and errors in one line on standard error.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

/// A code, what it means in the help, what it means in the reference, and what to do.
type Code = (u8, &'static str, &'static str, &'static str);

/// Success.
pub const OK: u8 = 0;
/// Failure.
pub const FAILURE: u8 = 1;
/// Usage or configuration error (clap's code, too), an input that cannot be read or an output that cannot be written.
pub const USAGE: u8 = 2;
/// Partly successful.
pub const DEGRADED: u8 = 3;
/// Not permitted by the kernel or the host.
pub const NOT_PERMITTED: u8 = 4;
/// The daemon, supervisor or server is not reachable.
pub const UNREACHABLE: u8 = 5;
/// A killed daemon left changes: `headstart recover`.
pub const NEEDS_RECOVER: u8 = 6;
/// Invalid measurement: the machine was too busy.
pub const INVALID: u8 = 7;
/// The command cannot be executed; as env(1).
pub const CANNOT_RUN: u8 = 126;
/// Command not found; as env(1).
pub const NOT_FOUND: u8 = 127;

/// All of them, for the help and docs/reference/exit-codes.md.
pub const CODES: [Code; 10] = [
    (OK, "success", "success", ""),
    (FAILURE, "failure", "failure", "read the message"),
    (
        USAGE,
        "usage or configuration error, unreadable input, unwritable output",
        "usage or configuration error, an input that cannot be read or an output that cannot be written",
        "`headstart VERB --help`, `headstart config check`",
    ),
    (
        DEGRADED,
        "partly successful",
        "partly successful: `status`, `doctor` or `plan` found problems, changes were left alone, `get` received part of a file, \
         tasks remain (`lab status`)",
        "read what was printed",
    ),
    (
        NOT_PERMITTED,
        "not permitted",
        "not permitted by the kernel or the host",
        "the message names the command that grants it; `headstart doctor`",
    ),
    (
        UNREACHABLE,
        "daemon, supervisor or server not reachable",
        "the daemon, supervisor or server is not reachable",
        "start it; supervisors start with `headstart run`",
    ),
    (
        NEEDS_RECOVER,
        "a killed daemon left changes: run `headstart recover`",
        "a killed daemon left changes behind, or some could not be undone",
        "`headstart recover`",
    ),
    (
        INVALID,
        "invalid measurement: the machine was too busy",
        "invalid measurement: the machine was too busy",
        "repeat it on an idle machine",
    ),
    (CANNOT_RUN, "the command cannot be executed", "the command cannot be executed (as env(1))", ""),
    (NOT_FOUND, "command not found", "command not found (as env(1))", ""),
];

/// A store that is damaged makes the database library panic; `io::store` catches that and says what it means. So these panics
/// are not printed; all others are, as before. To be called once, first of all.
pub fn keep_panics_of_the_database_quiet() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let of_the_database = panic.location().is_some_and(|at| is_of_the_database(at.file()));
        if !of_the_database {
            tell(panic);
        }
    }));
}

/// Whether a source file is one of redb, of which the path says so (`…/redb-4.1.0/src/…`).
fn is_of_the_database(file: &str) -> bool {
    file.split('/').any(|part| part.starts_with("redb-"))
}

/// An error of usage: something was named that does not exist.
#[derive(Debug)]
pub struct Usage(pub String);

impl Usage {
    /// A file or folder that was named as input cannot be read: the same kind of error whichever verb reads it.
    pub fn unreadable(path: &Path, why: impl std::fmt::Display) -> Self {
        Self(format!("{}: {why}", path.display()))
    }

    /// A file or folder that was named as output cannot be made or opened. A disk that fills while it is written is a failure
    /// ([`FAILURE`]) instead.
    pub fn unwritable(path: &Path, why: impl std::fmt::Display) -> Self {
        Self(format!("cannot write {}: {why}", path.display()))
    }
}

/// A URL for a message: without user and password, wherever they may end.
pub fn without_user(url: &str) -> std::borrow::Cow<'_, str> {
    let start = url.find("://").map_or(0, |at| at + 3);
    match url[start..].rfind('@') {
        Some(at) => format!("{}…{}", &url[..start], &url[start + at..]).into(),
        None => url.into(),
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error that ends with a code of its own.
#[derive(Debug)]
pub struct Coded(pub u8, pub String);

impl Coded {
    /// `program` could not be executed; as env(1).
    pub fn not_executed(program: &OsStr, why: &std::io::Error) -> Self {
        let code = if why.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
        Self(code, format!("{}: {why}", program.to_string_lossy()))
    }
}

impl std::fmt::Display for Coded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for Coded {}

/// An error and what caused it in one line. What a cause says is left out where the error before it has said so: errors of
/// libraries and of our own floors name their cause, some as text, some as source, some as both.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Turns what a verb came to into an exit code, and says what went wrong.
pub fn code(result: anyhow::Result<u8>) -> ExitCode {
    number(result).into()
}

/// The same as a number, for a process that ends by itself.
pub fn number(result: anyhow::Result<u8>) -> u8 {
    match result {
        Ok(code) => match crate::output::lost().filter(|_| code == OK) {
            Some(why) => say(&format!("standard output: {why}"), FAILURE),
            None => code,
        },
        Err(e) => say(&one_line(&e), of_error(&e)),
    }
}

fn of_error(e: &anyhow::Error) -> u8 {
    if let Some(Coded(code, _)) = e.chain().find_map(|cause| cause.downcast_ref()) {
        *code
    } else if e.chain().any(|cause| cause.is::<Usage>()) {
        USAGE
    } else {
        FAILURE
    }
}

/// The verb of this process with those that lead to it (`lab fleet report`), for hints.
static VERB: OnceLock<String> = OnceLock::new();
/// Whether errors are to be JSON, where that is known: the words of a program that is run are not ours.
static JSON: OnceLock<bool> = OnceLock::new();

/// Notes the verb that `words` name, right or wrong as the rest of them may be.
pub fn note_verb(command: &clap::Command, words: &[OsString]) {
    // The first is the one that the person gave.
    let _ = VERB.set(verb_path(command, words));
}

/// Notes that it is `run`, whose arguments were read without those of all other verbs.
pub fn note_run() {
    let _ = VERB.set("run".to_owned());
}

/// The names of verbs that stand in `words`, as deep as `command` knows them.
fn verb_path(mut command: &clap::Command, words: &[OsString]) -> String {
    let (mut path, mut words) = (Vec::new(), words.iter().map(|word| word.to_string_lossy()));
    while let Some(word) = words.next() {
        if let Some(verb) = command.find_subcommand(&*word) {
            path.push(verb.get_name());
            command = verb;
        } else if !word.starts_with('-') || word == "--" {
            break;
        } else if command.get_arguments().any(|option| option.get_action().takes_values() && is_option(option, &word)) {
            words.next();
        }
    }
    path.join(" ")
}

/// Whether `word` is this option, with its value in the next word.
fn is_option(option: &clap::Arg, word: &str) -> bool {
    let is_long = word.strip_prefix("--").is_some_and(|name| option.get_long() == Some(name));
    let is_short = |short: char| word.strip_prefix('-') == Some(&short.to_string());
    is_long || option.get_short().is_some_and(is_short)
}

/// Errors are JSON from now on, or lines.
pub fn in_json(wanted: bool) {
    let _ = JSON.set(wanted);
}

/// Writes an error to standard error, as a line or, where JSON was asked for, as one object.
fn say(error: &str, code: u8) -> u8 {
    if JSON.get().copied().unwrap_or_else(|| wants_json(std::env::args_os())) {
        crate::complain!("{}", object(error, hint_beside(error, code), code));
    } else {
        crate::complain!("headstart: {error}");
        // An error of usage names the way out itself.
        if let Some(hint) = hint_beside(error, code).filter(|_| code != USAGE) {
            crate::complain!("hint: {hint}");
        }
    }
    code
}

/// Ends the process: help and version as they are; an error of the arguments as one object, where JSON was asked for.
pub fn of_arguments(why: &clap::Error) -> ! {
    if !why.use_stderr() {
        why.exit()
    }
    let text = why.render();
    if !wants_json(std::env::args_os()) {
        let coloured = std::io::stderr().is_terminal() && crate::output::colour();
        let text = if coloured { text.ansi().to_string() } else { text.to_string() };
        crate::complain!("{}", plain(text).replacen("error:", "headstart:", 1).trim_end());
        std::process::exit(why.exit_code());
    }
    let text = plain(text.to_string());
    let (error, tip) = cut(&text);
    crate::complain!("{}", object(&error, tip.or_else(|| hint(USAGE)), USAGE));
    std::process::exit(USAGE.into())
}

/// What is wrong and what to do about it, from an error of arguments: clap's tips, usage and a pointer to the help follow after an
/// empty line.
fn cut(text: &str) -> (String, Option<String>) {
    let error: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let tips: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).collect();
    (error.join(" ").trim_start_matches("error: ").to_owned(), (!tips.is_empty()).then(|| tips.join("; ")))
}

/// The same without the words of programmers that the standard library has for what is no number or no address.
fn plain(text: String) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("invalid digit found in string", "must be a whole number"),
        ("cannot parse integer from empty string", "must be a whole number"),
        ("invalid float literal", "must be a number"),
        ("cannot parse float from empty string", "must be a number"),
        ("number too large to fit in target type", "the number is too large"),
        ("invalid socket address syntax", "must be ADDRESS:PORT, as in 127.0.0.1:8443 or [::1]:8443"),
    ];
    let text = WORDS.iter().fold(text, |text, (jargon, plain)| text.replace(jargon, plain));
    let mut lines: Vec<_> = text.split('\n').map(|line| in_range(line).unwrap_or_else(|| line.to_owned())).collect();
    // An unknown option that is passed as a value is an error of its own with nearly every verb.
    if let Some(at) = lines.iter().position(|line| line.contains("tip:") && line.contains(" as a value, use ")) {
        let with_blank = lines.get(at + 1).is_some_and(String::is_empty);
        lines.drain(at..=at + usize::from(with_blank));
    }
    lines.join("\n")
}

/// A line of clap's with a range as Rust writes it, in words: `…: 200 is not in 0..=100`.
fn in_range(line: &str) -> Option<String> {
    let (before, range) = line.split_once(" is not in ")?;
    let (before, value) = before.rsplit_once(' ')?;
    let (least, most) = range.trim_end().split_once("..=")?;
    // Where only the type is the limit, there is no other.
    let limits = match most.parse::<u64>().ok()? {
        most if most >= i64::MAX as u64 => format!("at least {least}"),
        most => format!("from {least} to {most}"),
    };
    Some(format!("{before} must be {limits} (got {value})"))
}

/// Whether these are the arguments of a command that is to print JSON; those of a program that it runs do not count.
fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.take_while(|word| word != "--").any(|word| word == "--json")
}

/// The hint, unless the error names a command to try.
fn hint_beside(error: &str, code: u8) -> Option<String> {
    hint(code).filter(|_| code == USAGE || !error.contains("`headstart "))
}

/// What to do about an error that ends with this code, where the error itself does not say it.
fn hint(code: u8) -> Option<String> {
    match code {
        USAGE => Some(match VERB.get().map(String::as_str).unwrap_or_default() {
            "" => "`headstart --help` lists the verbs".to_owned(),
            verb => format!("`headstart {verb} --help` shows the options and examples"),
        }),
        NOT_PERMITTED => Some("`headstart doctor` shows what this host permits".into()),
        UNREACHABLE => Some("start it first, or check the address".into()),
        NEEDS_RECOVER => Some("`headstart recover` removes what is left".into()),
        INVALID => Some("repeat it while the machine is idle".into()),
        _ => None,
    }
}

/// An error for programs; `docs/reference/schemas/error.json` describes it.
fn object(error: &str, hint: Option<String>, code: u8) -> serde_json::Value {
    serde_json::json!({ "version": 1, "error": error, "hint": hint, "exit_code": code })
}

/// The exit status of a child as one byte: 128 + n for signal n.
pub fn of_child(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn json_is_asked_for_before_the_program_that_is_run() {
        let wants = |line: &str| wants_json(line.split(' ').map(Into::into));
        assert!(wants("headstart status --json") && !wants("headstart status"));
        assert!(!wants("headstart run -- curl --json x"));
    }

    #[test]
    fn an_error_has_a_hint_where_there_is_one() {
        let error = object("no", hint(USAGE), USAGE);
        assert_eq!((error["error"].as_str(), error["exit_code"].as_u64()), (Some("no"), Some(2)));
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--help")));
        assert!(object("no", hint(FAILURE), FAILURE)["hint"].is_null());
    }

    #[test]
    fn a_hint_names_the_verb_that_was_meant_with_those_before_it() {
        let path = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            verb_path(&crate::help::command(), &words)
        };
        for (line, verb) in [
            ("nosuch --json", ""),
            ("relay key", "relay key"),
            ("-c my.toml measure lte --cqi x", "measure lte"),
            ("--config=my.toml config show x", "config show"),
            ("relay nosuch", "relay"),
            ("run -- relay key", "run"),
            ("history", "history"),
        ] {
            assert_eq!(path(line), verb, "{line}");
        }
    }

    #[test]
    fn passing_an_option_as_a_value_is_no_tip() {
        let text = "error: x\n\n  tip: to pass '--json' as a value, use '-- --json'\n\nUsage: y";
        assert_eq!(plain(text.into()), "error: x\n\nUsage: y");
        let similar = "error: x\n\n  tip: a similar argument exists: '--json'\n\nUsage: y";
        assert_eq!(plain(similar.into()), similar);
    }

    #[test]
    fn an_error_that_names_a_command_needs_no_hint() {
        assert!(hint_beside("no measurement: start one with `headstart up --measure`", UNREACHABLE).is_none());
        assert!(hint_beside("connection refused", UNREACHABLE).is_some());
        assert!(hint_beside("`headstart x` is wrong", USAGE).is_some());
    }

    #[test]
    fn what_clap_suggests_is_the_hint() {
        let text =
            "error: unexpected argument '--jso' found\n\n  tip: a similar argument exists: '--json'\n\nUsage: x\n";
        let (error, tip) = cut(text);
        assert_eq!(error, "unexpected argument '--jso' found");
        assert_eq!(tip.as_deref(), Some("a similar argument exists: '--json'"));
        assert_eq!(cut("error: two\n  lines\n\nUsage: x"), ("two lines".into(), None));
    }

    #[test]
    fn a_url_in_a_message_has_no_password() {
        for (url, shown) in [
            ("https://u:p/a@b@host/x", "https://…@host/x"),
            ("u:pw@host", "…@host"),
            ("https://host/x", "https://host/x"),
            ("", ""),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }

    #[test]
    fn a_range_is_said_in_words() {
        let of = |text: &str| plain(text.to_owned());
        let line = "error: invalid value '200' for '--start-share <PERCENT>': ";
        assert_eq!(
            of(&format!("{line}200 is not in 0..=100\n\nFor more")),
            format!("{line}must be from 0 to 100 (got 200)\n\nFor more")
        );
        assert_eq!(of("x: 0 is not in 1..=18446744073709551615"), "x: must be at least 1 (got 0)");
        assert_eq!(of("it is not in here"), "it is not in here");
    }

    #[test]
    fn a_cause_is_told_once() {
        let gone = || std::io::Error::from_raw_os_error(2);
        let error = anyhow::Error::from(gone()).context(format!("reading page: {}", gone())).context("replaying");
        assert_eq!(one_line(&error), "replaying: reading page: No such file or directory (os error 2)");
        let plain = Err::<(), _>(gone()).context("reading page").unwrap_err();
        assert_eq!(one_line(&plain), "reading page: No such file or directory (os error 2)");
        assert_eq!(one_line(&anyhow::anyhow!("alone")), "alone");
    }
}
