//! One setting: its key, what it may be, its default and where that comes from. Files, the environment, flags, the
//! example, the schema and `config show` all read this and know no setting by name.

use toml::de::DeValue;

/// A setting of headstart.
#[derive(Debug)]
pub struct Setting {
    /// `section.key`, as in the file.
    pub key: &'static str,
    /// What it may be.
    pub kind: SettingType,
    /// What it is unless set otherwise, as in the environment.
    pub default: &'static str,
    /// What it does, with its unit.
    pub what: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

/// What a setting may be.
#[derive(Clone, Copy, Debug)]
pub enum SettingType {
    /// True or false.
    Flag,
    /// A whole number between two others.
    Whole {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A share between 0 and 1.
    Share,
    /// One of these names.
    Choice(fn() -> Vec<&'static str>),
    /// A text that another part of the program understands.
    Text(fn(&str) -> Result<(), String>),
}

/// What a setting is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`SettingType::Flag`].
    Flag(bool),
    /// Of [`SettingType::Whole`].
    Whole(u64),
    /// Of [`SettingType::Share`].
    Share(f64),
    /// Of [`SettingType::Choice`] and [`SettingType::Text`].
    Text(String),
}

impl std::fmt::Display for Value {
    /// As in the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Whole(n) => n.fmt(f),
            Self::Share(share) => write!(f, "{share:?}"),
            Self::Text(text) => write!(f, "{}", serde_json::Value::from(text.as_str())),
        }
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Flag(flag) => (*flag).into(),
            Value::Whole(n) => (*n).into(),
            Value::Share(share) => (*share).into(),
            Value::Text(text) => text.as_str().into(),
        }
    }
}

impl Setting {
    /// Its section.
    pub fn section(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(section, _)| section)
    }

    /// Its name in the section.
    pub fn name(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(_, name)| name)
    }

    /// Its name in the environment: `HEADSTART_SECTION__KEY`.
    pub fn variable(&self) -> String {
        format!("HEADSTART_{}__{}", self.section(), self.name()).to_uppercase().replace('-', "_")
    }

    /// Reads it from the environment or a flag; else what it may be.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        match self.kind {
            SettingType::Flag => {
                text.parse().map(Value::Flag).map_err(|_| format!("must be true or false (got {text:?})"))
            }
            SettingType::Whole { .. } => text.parse().ok().map(Value::Whole).ok_or_else(|| self.not_whole(text)),
            SettingType::Share => text.parse().ok().map(Value::Share).ok_or_else(|| not_a_share(text)),
            SettingType::Choice(_) | SettingType::Text(_) => Ok(Value::Text(text.to_owned())),
        }
        .and_then(|value| self.checked(value))
    }

    /// Reads it from a file; else what it may be.
    pub fn read_toml(&self, value: &DeValue<'_>) -> Result<Value, String> {
        let number = || match value {
            DeValue::Integer(n) if n.radix() == 10 => Some(n.as_str().to_owned()),
            DeValue::Float(x) => Some(x.as_str().to_owned()),
            _ => None,
        };
        let kind = kind_of(value);
        match (self.kind, value) {
            (SettingType::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (SettingType::Flag, _) => Err(format!("must be true or false (got {kind})")),
            (SettingType::Whole { .. } | SettingType::Share, _) => match number() {
                Some(text) => self.read(&text),
                None => Err(format!("must be a number (got {kind})")),
            },
            (SettingType::Choice(_) | SettingType::Text(_), DeValue::String(text)) => {
                self.checked(Value::Text(text.to_string()))
            }
            (SettingType::Choice(_) | SettingType::Text(_), _) => Err(format!("must be a text in quotes (got {kind})")),
        }
    }

    /// What it is by default.
    pub fn by_default(&self) -> Value {
        // A test reads every default.
        self.read(self.default).unwrap_or_else(|_| Value::Text(self.default.to_owned()))
    }

    fn checked(&self, value: Value) -> Result<Value, String> {
        match (self.kind, &value) {
            (SettingType::Whole { least, most }, Value::Whole(n)) if !(least..=most).contains(n) => {
                Err(self.not_whole(&n.to_string()))
            }
            (SettingType::Share, Value::Share(share)) if !(0.0..=1.0).contains(share) => {
                Err(not_a_share(&share.to_string()))
            }
            (SettingType::Choice(choices), Value::Text(text)) => match choices() {
                choices if choices.contains(&text.as_str()) => Ok(value),
                choices => Err(headstart_core::choice::unknown("value", text, &choices)),
            },
            (SettingType::Text(check), Value::Text(text)) => check(text).map(|()| value),
            _ => Ok(value),
        }
    }

    fn not_whole(&self, text: &str) -> String {
        match self.kind {
            SettingType::Whole { least, most } => format!("must be a whole number from {least} to {most} (got {text})"),
            _ => format!("must be a whole number (got {text})"),
        }
    }
}

fn not_a_share(text: &str) -> String {
    format!("must be a number from 0 to 1 (got {text})")
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
