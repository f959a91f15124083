//! `headstart completions SHELL` and `headstart man [DIR]`: completion scripts, man pages and the book's reference pages, generated
//! from the command line and the settings.

use crate::config::Kind;
use crate::{config, exit};
use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

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

    /// Write commands.md and settings.md instead of man pages.
    #[arg(long, requires = "folder")]
    markdown: bool,
}

/// Prints the completion script.
pub fn completions(args: &Completions, command: &mut clap::Command) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "headstart", &mut script);
    crate::say!("{}", String::from_utf8(script)?.trim_end());
    Ok(exit::OK)
}

/// Prints the page of `headstart`, or writes the pages of all verbs.
pub fn man(args: &Man, command: &clap::Command) -> anyhow::Result<u8> {
    let Some(folder) = &args.folder else {
        crate::say!("{}", page(command.clone())?.trim_end());
        return Ok(exit::OK);
    };
    let what = || format!("cannot write man pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(what)?;
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
    clap_mangen::Man::new(command).render(&mut page)?;
    let page = String::from_utf8(page).map_err(std::io::Error::other)?;
    Ok(SECTIONS.iter().fold(page, |page, (help, section)| page.replace(help, section)))
}

/// Width of the help in the reference: that of a page of the book.
const COLUMNS: usize = 100;

/// Writes the reference pages.
fn reference(folder: &Path, command: &clap::Command) -> anyhow::Result<u8> {
    for (name, text) in [("commands.md", commands(command)), ("settings.md", settings())] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    crate::complain!("headstart: commands.md and settings.md written to {}", folder.display());
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
            Kind::Flag => "`true`, `false`".to_owned(),
            Kind::Whole { least, most } => format!("{least} to {most}"),
            Kind::Share => "0 to 1".to_owned(),
            Kind::Choice(choices) => choices().iter().map(|c| format!("`{c}`")).collect::<Vec<_>>().join(", "),
            Kind::Text(_) => "text".to_owned(),
        };
        let cell = |text: &str| text.replace('|', "\\|");
        let (what, source) = (cell(setting.what), cell(setting.source));
        let default = if setting.default.is_empty() { "–".to_owned() } else { format!("`{}`", setting.default) };
        let _ =
            writeln!(text, "| `{}` | {values} | {default} | {what} Source of the default: {source}. |", setting.key);
    }
    text
}

const GENERATED: &str = "Written by `headstart man docs/reference --markdown`; a test keeps it current.\n";

#[cfg(all(test, feature = "lab"))]
mod tests {
    use super::*;

    #[test]
    fn the_reference_pages_are_current() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        for (name, expected) in [("commands.md", commands(&crate::help::whole())), ("settings.md", settings())] {
            let found = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            let line = found.lines().zip(expected.lines()).position(|(a, b)| a != b);
            let how = "cargo run --bin headstart-lab -- man docs/reference --markdown";
            assert!(found == expected, "docs/reference/{name} is old from line {line:?} on; renew it: {how}");
        }
    }

    #[test]
    fn every_verb_that_is_shown_is_in_the_reference_and_no_hidden_one() {
        let text = commands(&crate::help::whole());
        for name in ["headstart run", "headstart lab shell", "headstart relay ports"] {
            assert!(text.contains(&format!("\n## {name}\n")), "{name}");
        }
        assert!(!text.contains("## headstart supervise") && text.contains("Exit codes:"));
        assert!(settings().contains("| `connect.race` | `sequential`, "), "{}", settings());
    }
}
