//! `headstart config`: an example to begin with, a check, what holds and why, the schema for editors.

use super::{Config, all, of_user, schema};
use crate::output::{self, Format};
use crate::{exit, say};
use anyhow::Context as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Verbs of `headstart config`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Write a configuration file with every setting explained and commented out.
    Init(Init),
    /// Check the current settings, or one file.
    Check(Check),
    /// Print the current value of every setting.
    Show(Show),
    /// Print the JSON Schema of the file, for editors.
    Schema,
}

/// Arguments of `headstart config init`.
#[derive(Debug, clap::Args)]
pub struct Init {
    /// File to write; `-` is standard output [default: the user's configuration file].
    file: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// Arguments of `headstart config check`.
#[derive(Debug, clap::Args)]
pub struct Check {
    /// Check only this file.
    file: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// Arguments of `headstart config show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// Show where each value comes from.
    #[arg(long)]
    origin: bool,
    #[command(flatten)]
    format: Format,
}

/// Runs a verb; `named` is the file of `-c`.
pub fn run(verb: Verb, named: Option<&Path>) -> anyhow::Result<u8> {
    match verb {
        Verb::Init(args) => init(args.file, args.format),
        Verb::Check(args) => check(&args, named),
        Verb::Show(args) => {
            show(&Config::load(named)?, &args);
            Ok(exit::OK)
        }
        Verb::Schema => {
            say!("{:#}", schema::schema());
            Ok(exit::OK)
        }
    }
}

/// Reports every mistake, not just the first.
fn check(args: &Check, named: Option<&Path>) -> anyhow::Result<u8> {
    let mistakes = match &args.file {
        Some(file) => super::file::read(file, &super::file::text(file, true)?.unwrap_or_default()).mistakes,
        None => Config::mistakes(named)?,
    };
    if args.format.json {
        let told: Vec<_> =
            mistakes.iter().map(|mistake| serde_json::json!({ "at": mistake.at, "why": mistake.why })).collect();
        output::document(1, serde_json::json!({ "valid": mistakes.is_empty(), "mistakes": told }));
        return Ok(if mistakes.is_empty() { exit::OK } else { exit::USAGE });
    }
    if mistakes.is_empty() {
        say!("the settings are valid");
        return Ok(exit::OK);
    }
    Err(super::usage(&mistakes).into())
}

fn init(file: Option<PathBuf>, format: Format) -> anyhow::Result<u8> {
    let is_named = file.is_some();
    let file = match file {
        Some(file) if file.as_os_str() == "-" && format.json => {
            return Err(exit::Usage("--json: the example is TOML; give a file name instead of `-`".into()).into());
        }
        Some(file) if file.as_os_str() == "-" => {
            say!("{}", schema::example().trim_end());
            return Ok(exit::OK);
        }
        Some(file) => file,
        None => of_user().context("neither XDG_CONFIG_HOME nor HOME is set: give a file name")?,
    };
    let unwritable = |why| exit::Usage::unwritable(&file, why);
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        // Of a path that was typed, perhaps wrong, only the last folder is made.
        let made = if is_named { std::fs::create_dir(folder) } else { std::fs::create_dir_all(folder) };
        made.map_err(unwritable)?;
    }
    // An existing file is never overwritten.
    let mut new = match std::fs::OpenOptions::new().write(true).create_new(true).open(&file) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            let shown = file.display();
            let why = format!(
                "{shown} already exists and was not changed: give another file name, or print the example: headstart config init -"
            );
            return Err(exit::Usage(why).into());
        }
        other => other.map_err(unwritable)?,
    };
    new.write_all(schema::example().as_bytes()).with_context(|| format!("writing {}", file.display()))?;
    if format.json {
        output::document(1, serde_json::json!({ "file": file }));
    } else {
        say!("{}", file.display());
    }
    Ok(exit::OK)
}

fn show(config: &Config, args: &Show) {
    let all = all::ALL.iter().map(|setting| (*setting, config.get(setting)));
    if args.format.json {
        let settings: serde_json::Map<_, _> = all
            .map(|(setting, (value, origin))| {
                let value =
                    serde_json::json!({ "value": serde_json::Value::from(&value), "origin": origin.to_string() });
                (setting.key.to_owned(), value)
            })
            .collect();
        return output::document(1, serde_json::json!({ "settings": settings }));
    }
    let mut section = "";
    for (setting, (value, origin)) in all {
        if setting.section() != section {
            say!("{}[{}]", if section.is_empty() { "" } else { "\n" }, setting.section());
            section = setting.section();
        }
        if args.origin {
            say!("{} = {value}  # {origin}", setting.name())
        } else {
            say!("{} = {value}", setting.name())
        }
    }
}
