//! The settings of all columns: what they are, layer over layer, and where each value came from.
//!
//! Later layers win: the default, /etc/headstart/config.toml, the user's file ($XDG_CONFIG_HOME/headstart/config.toml), the
//! file of `-c`, HEADSTART_SECTION__KEY, flags. Where HEADSTART_CONFIG is `off`, the first two files are not read.
//! Nothing is guessed: an unknown name is an error with its file and line and the nearest name that exists.

pub mod all;
mod file;
mod schema;
mod setting;
pub mod verb;

pub use file::Mistake;
pub use setting::{Setting, SettingType, Value};

use crate::exit::Usage;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The system's file.
const SYSTEM: &str = "/etc/headstart/config.toml";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No layer sets it.
    Default,
    /// A line of a file.
    File(PathBuf, usize),
    /// A variable of the environment.
    Environment(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// Everything that settings may come from.
#[derive(Debug, Default)]
struct Sources {
    /// Files that need not exist, weakest first.
    usual: Vec<PathBuf>,
    /// A file that must.
    named: Option<PathBuf>,
    /// The environment.
    variables: Vec<(OsString, OsString)>,
}

impl Sources {
    fn of_process(named: Option<&Path>) -> Self {
        Self { usual: usual(), named: named.map(Path::to_owned), variables: std::env::vars_os().collect() }
    }
}

/// All mistakes as one error, a line each.
pub fn usage(mistakes: &[Mistake]) -> Usage {
    Usage(mistakes.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\nheadstart: "))
}

/// All settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    values: BTreeMap<&'static str, (Value, Origin)>,
}

impl Config {
    /// Reads every layer but flags; `named` is the file of `-c`.
    pub fn load(named: Option<&Path>) -> Result<Self, Usage> {
        Self::of(Sources::of_process(named))
    }

    /// What is wrong in the same layers; an error if a file cannot be read at all.
    pub fn mistakes(named: Option<&Path>) -> Result<Vec<Mistake>, Usage> {
        Self::with_mistakes(&Sources::of_process(named)).map(|(_, mistakes)| mistakes)
    }

    /// Checks what was given to this process alone: the file of `-c` and the environment.
    pub fn check_given(named: Option<&Path>) -> Result<(), Usage> {
        Self::of(Sources { usual: Vec::new(), ..Sources::of_process(named) }).map(drop)
    }

    /// What every process of this user has in common: the usual files alone.
    pub fn in_common() -> Result<Self, Usage> {
        Self::of_files(usual())
    }

    /// What these files say, later ones first in rank; those that do not exist say nothing.
    pub fn of_files(usual: Vec<PathBuf>) -> Result<Self, Usage> {
        Self::of(Sources { usual, ..Sources::default() })
    }

    fn of(sources: Sources) -> Result<Self, Usage> {
        let (config, mistakes) = Self::with_mistakes(&sources)?;
        if mistakes.is_empty() { Ok(config) } else { Err(usage(&mistakes)) }
    }

    /// What is right in all layers, and everything that is wrong; an error if a file cannot be read at all.
    fn with_mistakes(sources: &Sources) -> Result<(Self, Vec<Mistake>), Usage> {
        let mut config = Self::default();
        let mut mistakes = Vec::new();
        for (path, required) in sources.usual.iter().map(|path| (path, false)).chain(sources.named.iter().zip([true])) {
            if let Some(text) = file::text(path, required)? {
                mistakes.extend(config.read_file(path, &text));
            }
        }
        mistakes.extend(config.read_variables(&sources.variables));
        Ok((config, mistakes))
    }

    fn read_file(&mut self, path: &Path, text: &str) -> Vec<Mistake> {
        let read = file::read(path, text);
        for (setting, value, line) in read.settings {
            self.values.insert(setting.key, (value, Origin::File(path.to_owned(), line)));
        }
        read.mistakes
    }

    fn read_variables(&mut self, variables: &[(OsString, OsString)]) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        for (name, text) in variables {
            // Two underscores tell a setting from other variables of ours.
            let Some(name) = name.to_str().filter(|name| name.starts_with("HEADSTART_") && name.contains("__")) else {
                continue;
            };
            let Some(setting) = all::ALL.iter().find(|setting| setting.variable() == name) else {
                let known: Vec<_> = all::ALL.iter().map(|setting| setting.variable()).collect();
                let known: Vec<_> = known.iter().map(String::as_str).collect();
                let why = headstart_core::choice::unknown("setting", name, &known);
                mistakes.push(Mistake { at: "environment".into(), why });
                continue;
            };
            match setting.read(&text.to_string_lossy()) {
                Ok(value) => _ = self.values.insert(setting.key, (value, Origin::Environment(name.to_owned()))),
                Err(why) => mistakes.push(Mistake { at: name.to_owned(), why }),
            }
        }
        mistakes
    }

    /// Takes what a flag says, if it was given.
    pub fn flag(&mut self, setting: &'static Setting, flag: &'static str, text: Option<&str>) -> Result<(), Usage> {
        if let Some(text) = text {
            let value = setting.read(text).map_err(|why| Usage(format!("{flag}: {why}")))?;
            self.values.insert(setting.key, (value, Origin::Flag(flag)));
        }
        Ok(())
    }

    /// What a setting is, and why.
    pub fn get(&self, setting: &Setting) -> (Value, Origin) {
        self.values.get(setting.key).cloned().unwrap_or_else(|| (setting.by_default(), Origin::Default))
    }

    /// A setting that is true or false.
    pub fn is_on(&self, setting: &Setting) -> bool {
        matches!(self.get(setting).0, Value::Flag(true))
    }

    /// A setting that is true or false, in a profile that has it true unless a layer sets it.
    pub fn is_on_in(&self, profile: bool, setting: &Setting) -> bool {
        match self.get(setting) {
            (_, Origin::Default) if profile => true,
            (value, _) => value == Value::Flag(true),
        }
    }

    /// A setting that is a whole number.
    pub fn whole(&self, setting: &Setting) -> u64 {
        if let Value::Whole(n) = self.get(setting).0 { n } else { 0 }
    }

    /// A setting that is a share.
    pub fn share(&self, setting: &Setting) -> f64 {
        if let Value::Share(share) = self.get(setting).0 { share } else { 0.0 }
    }

    /// A setting that is a text.
    pub fn text(&self, setting: &Setting) -> String {
        if let Value::Text(text) = self.get(setting).0 { text } else { String::new() }
    }
}

/// The files that are read without being named: none where `HEADSTART_CONFIG` is `off`, as the lab sets it for what it
/// measures.
pub fn usual() -> Vec<PathBuf> {
    if std::env::var_os("HEADSTART_CONFIG").is_some_and(|v| v == "off") {
        return Vec::new();
    }
    [Some(SYSTEM.into()), of_user()].into_iter().flatten().collect()
}

/// The user's own file, whether it exists or not.
fn of_user() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    // The specification of base directories: what is not absolute is to be ignored.
    let config = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let config = config.or_else(|| variable("HOME").map(|home| home.join(".config")))?;
    Some(config.join("headstart/config.toml"))
}

#[cfg(test)]
mod tests;
