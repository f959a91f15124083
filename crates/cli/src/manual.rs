//! `headstart completions SHELL` and `headstart man [DIR]`: completion scripts, man pages and the book's reference pages, generated
//! from the command line and the settings.

use crate::config::SettingType;
use crate::{config, exit};
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use headstart_core::connect::race;
use headstart_core::cwnd::start;
use headstart_core::realtime::technique;
use headstart_core::steer::policy;
use headstart_io::device::iso8601;
use headstart_link::preset;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Arguments of `headstart completions`.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// Shell to generate the script for.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Arguments of `headstart man`.
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Folder for the pages of all verbs [default: print the page of `headstart`].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Write commands.md, exit-codes.md and settings.md instead of man pages.
    #[arg(long, requires = "folder")]
    markdown: bool,
}

/// Prints the completion script. `experiments`: their names, where the caller has the lab.
pub fn completions(args: &Completions, command: &clap::Command, experiments: &[&'static str]) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut completed(command, experiments), "headstart", &mut script);
    crate::say!("{}", String::from_utf8(script)?.trim_end());
    Ok(exit::OK)
}

/// The command as it is completed: without the verbs that only headstart itself uses, and with the names in registries as values.
fn completed(command: &clap::Command, experiments: &[&'static str]) -> clap::Command {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let shown = shown.map(|verb| with_names(verb, experiments));
    clap::Command::new("headstart").args(command.get_arguments().cloned()).subcommands(shown)
}

fn with_names(verb: clap::Command, experiments: &[&'static str]) -> clap::Command {
    let name = verb.get_name().to_owned();
    let verb = verb.mut_args(|arg| match names(&name, arg.get_id().as_str(), experiments) {
        Some(names) => arg.value_parser(PossibleValuesParser::new(names)),
        None => arg,
    });
    verb.mut_subcommands(|verb| with_names(verb, experiments))
}

/// The names that an argument of a verb takes, where a registry has them; the parser itself says more about a wrong one.
fn names(verb: &str, argument: &str, experiments: &[&'static str]) -> Option<Vec<&'static str>> {
    let names = match (verb, argument) {
        ("run", "race") => race::ALL.iter().filter(|entry| !entry.lab_only).map(|entry| entry.name).collect(),
        (_, "start") => start::ALL.iter().map(|entry| entry.name).collect(),
        (_, "technique") => technique::ALL.iter().map(|entry| entry.name).collect(),
        ("proxy", "policy") => policy::ALL.iter().map(|entry| entry.name).collect(),
        (_, "link") => preset::ALL.iter().map(|entry| entry.name).collect(),
        ("list", "what") => crate::list::names(),
        (_, "speed") => vec!["sim", "netns", "both"],
        ("run" | "list", "name") if !experiments.is_empty() => experiments.to_vec(),
        _ => return None,
    };
    Some(names)
}

/// Prints the page of `headstart`, or writes the pages of all verbs.
pub fn man(args: &Man, command: &clap::Command) -> anyhow::Result<u8> {
    let Some(folder) = &args.folder else {
        crate::say!("{}", page(command.clone())?.trim_end());
        return Ok(exit::OK);
    };
    let what = || format!("cannot write man pages to {}", folder.display());
    std::fs::create_dir_all(folder).map_err(|why| exit::Usage::unwritable(folder, why))?;
    if args.markdown {
        return reference(folder, command);
    }
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    pages(&command, folder).with_context(what)?;
    crate::complain!("headstart: man pages written to {}", folder.display());
    Ok(exit::OK)
}

/// Writes the pages of a verb and of those below it, without hidden ones.
fn pages(command: &clap::Command, folder: &Path) -> std::io::Result<()> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set()).try_for_each(|verb| pages(verb, folder))?;
    let file = clap_mangen::Man::new(command.clone()).get_filename();
    std::fs::write(folder.join(file), page(command.clone())?)
}

/// The man page of a verb. What follows the options in its help has the sections that man(7) has for it.
fn page(command: clap::Command) -> std::io::Result<String> {
    const SECTIONS: [(&str, &str); 4] = [
        ("\n.SH EXTRA\nExamples:\n", "\n.SH EXAMPLES\n"),
        ("\n.SH EXTRA\n", "\n.SH NOTES\n"),
        ("\n\nExit codes:\n", "\n.SH \"EXIT STATUS\"\n"),
        ("\n\nEnvironment:\n", "\n.SH ENVIRONMENT\n"),
    ];
    let mut page = Vec::new();
    let usage = synopsis(&command);
    let man = clap_mangen::Man::new(command.override_usage(usage)).date(date(env!("HEADSTART_TIME")));
    man.source(concat!("headstart ", env!("CARGO_PKG_VERSION"))).render(&mut page)?;
    let page = String::from_utf8(page).map_err(std::io::Error::other)?;
    Ok(SECTIONS.iter().fold(page, |page, (help, section)| page.replace(help, section)))
}

/// The day of a time in seconds since 1970: of what was built, so that the same source gives the same pages. Nothing if it is not known.
fn date(seconds: &str) -> String {
    let time = seconds.parse().ok().map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    time.map_or_else(String::new, |time| iso8601(time).chars().take_while(|c| *c != 'T').collect())
}

/// How a verb is called: each option with its value, and each argument.
fn synopsis(command: &clap::Command) -> String {
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let mut words = vec![command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned()];
    words.extend(shown().filter(|arg| !arg.is_positional()).map(option));
    for arg in shown().filter(|arg| arg.is_positional()) {
        let more = if arg.get_num_args().is_some_and(|n| n.max_values() > 1) { "..." } else { "" };
        let name = value(arg);
        words.push(if arg.is_required_set() { format!("{name}{more}") } else { format!("[{name}{more}]") });
    }
    words.extend(command.has_subcommands().then(|| "COMMAND".to_owned()));
    words.join(" ")
}

fn option(arg: &clap::Arg) -> String {
    let names = [arg.get_short().map(|short| format!("-{short}")), arg.get_long().map(|long| format!("--{long}"))];
    let mut text = names.into_iter().flatten().collect::<Vec<_>>().join("|");
    if arg.get_action().takes_values() {
        let is_optional = arg.get_num_args().is_some_and(|n| n.min_values() == 0);
        text += &if is_optional { format!(" [{}]", value(arg)) } else { format!(" {}", value(arg)) };
    }
    let more = if matches!(arg.get_action(), clap::ArgAction::Append | clap::ArgAction::Count) { "..." } else { "" };
    if arg.is_required_set() { format!("{text}{more}") } else { format!("[{text}]{more}") }
}

fn value(arg: &clap::Arg) -> String {
    arg.get_value_names().map_or_else(|| arg.get_id().as_str().to_uppercase(), |names| names.join(" "))
}

/// Width of the help in the reference: that of a page of the book.
const COLUMNS: usize = 100;

/// Writes the reference pages.
fn reference(folder: &Path, command: &clap::Command) -> anyhow::Result<u8> {
    for (name, text) in
        [("commands.md", commands(command)), ("settings.md", settings()), ("exit-codes.md", exit_codes())]
    {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    crate::complain!("headstart: commands.md, exit-codes.md and settings.md written to {}", folder.display());
    Ok(exit::OK)
}

/// The help of every verb that is not hidden, as one page.
fn commands(command: &clap::Command) -> String {
    let mut text = format!("# Commands\n\n{GENERATED}");
    let mut command = command.clone().term_width(COLUMNS);
    command.build();
    verb(&mut text, &mut command);
    text
}

fn verb(text: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or("headstart").to_owned();
    let _ = write!(text, "\n## {name}\n\n```text\n{}\n```\n", command.render_long_help().to_string().trim_end());
    for inner in command.get_subcommands_mut().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        verb(text, inner);
    }
}

/// Every setting, a table a section.
fn settings() -> String {
    let mut text = format!(
        "# Settings\n\n{GENERATED}\n`headstart config show --origin` shows the values in use and where they come from.\n"
    );
    let mut section = "";
    for setting in config::all::ALL {
        if setting.section() != section {
            section = setting.section();
            let _ = write!(text, "\n## {section}\n\n| setting | values | default | |\n|---|---|---|---|\n");
        }
        let values = match setting.kind {
            SettingType::Flag => "`true`, `false`".to_owned(),
            SettingType::Whole { least, most } => format!("{least} to {most}"),
            SettingType::Share => "0 to 1".to_owned(),
            SettingType::Choice(choices) => choices().iter().map(|c| format!("`{c}`")).collect::<Vec<_>>().join(", "),
            SettingType::Text(_) => "text".to_owned(),
        };
        let cell = |text: &str| text.replace('|', "\\|");
        let (what, source) = (cell(setting.what), cell(setting.source));
        let default = if setting.default.is_empty() { "–".to_owned() } else { format!("`{}`", setting.default) };
        let _ =
            writeln!(text, "| `{}` | {values} | {default} | {what} Source of the default: {source}. |", setting.key);
    }
    text
}

/// Exit codes as a table, and what goes beyond them.
fn exit_codes() -> String {
    let mut text = format!(
        "# Exit codes\n\n{GENERATED}\nThe same for every verb.\n\n| code | meaning | what to do |\n|---|---|---|\n"
    );
    for (code, _, meaning, mend) in exit::CODES {
        let _ = writeln!(text, "| {code} | {meaning} |{}{mend} |", if mend.is_empty() { "" } else { " " });
    }
    text + EXCEPTIONS
}

/// What the table of exit codes does not say.
const EXCEPTIONS: &str = "
A disk that fills while an output is written is a failure (1).

`run`, `trace` and `lab shell` exit with the status of the program that they ran: its own code, or 128 plus the signal that ended it.

A mistake in the file of `-c` or in a `HEADSTART_` variable ends a verb with exit code 2, except `status`, `down`, `recover` and `doctor`, which
warn and use the default settings: changes must be found and undone without the file too. Their codes are as above (`doctor`: 3).

Data goes to standard output, everything else to standard error. With `--json`, an error is one JSON object on standard error with `error`,
`hint` and `exit_code` ([schema](schemas/error.json)).
";

const GENERATED: &str = "Written by `headstart man docs/reference --markdown`; a test keeps it current.\n";

#[cfg(feature = "lab")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::whole;

    #[test]
    fn the_reference_pages_are_current() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        let commands = commands(&whole());
        let pages = [("commands.md", commands), ("settings.md", settings()), ("exit-codes.md", exit_codes())];
        for (name, expected) in pages {
            let found = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            let line = found.lines().zip(expected.lines()).position(|(a, b)| a != b);
            let how = "cargo run --bin headstart-lab -- man docs/reference --markdown";
            assert!(found == expected, "docs/reference/{name} is old from line {line:?} on; renew it: {how}");
        }
    }

    #[test]
    fn a_page_names_the_program_and_the_day_of_its_commit() {
        assert_eq!([date(""), date("0"), date("1796083200")], ["", "1970-01-01", "2026-12-01"]);
        let page = page(clap::Command::new("headstart-x")).unwrap();
        let version = concat!("\"headstart ", env!("CARGO_PKG_VERSION"), "\"");
        assert!(page.lines().any(|line| line.starts_with(".TH") && line.contains(version)), "{page}");
    }

    #[test]
    fn a_synopsis_has_the_values_of_options() {
        let mut whole = whole();
        whole.build();
        let of = |verb: &str| synopsis(whole.find_subcommand(verb).unwrap());
        let (run, get) = (of("run"), of("get"));
        assert!(run.starts_with("headstart run ") && run.ends_with(" CMD..."), "{run}");
        for part in ["[--race NAME]", "[--summary FILE]", "[-q|--quiet]"] {
            assert!(run.contains(part), "{part}: {run}");
        }
        assert!(!run.contains("--faster") && get.ends_with(" URL"), "{run} {get}");
        assert!(of("plan").contains("[--initcwnd [VIA]]"), "{}", of("plan"));
    }

    #[test]
    fn names_of_registries_are_completed_and_hidden_verbs_are_not() {
        let mut script = Vec::new();
        let mut command = completed(&whole(), &["page-load"]);
        clap_complete::generate(clap_complete::Shell::Bash, &mut command, "headstart", &mut script);
        let script = String::from_utf8(script).unwrap();
        for hidden in ["supervise", "probe", "lists"] {
            assert!(
                !script.contains(&format!("headstart__{hidden}")) && !script.contains(&format!("__subcmd__{hidden}")),
                "{hidden}"
            );
        }
        for name in ["happy-eyeballs-v2", "careful-resume", "obj-size-3k", "page-load", "lte", "experiments"] {
            assert!(script.contains(name), "{name}");
        }
    }

    #[test]
    fn every_verb_that_is_shown_is_in_the_reference_and_no_hidden_one() {
        let text = commands(&whole());
        for name in ["headstart run", "headstart lab shell", "headstart relay ports"] {
            assert!(text.contains(&format!("\n## {name}\n")), "{name}");
        }
        assert!(!text.contains("## headstart supervise") && text.contains("Exit codes:"));
        assert!(settings().contains("| `connect.race` | `sequential`, "), "{}", settings());
    }
}
