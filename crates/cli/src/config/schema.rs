//! The settings for other programs (a JSON Schema, for editors) and for people (a commented example), both written out of
//! the one table.

use super::all::ALL;
use super::setting::{Setting, SettingType};
use serde_json::{Map, Value, json};

/// Where the schema is published in the repository.
#[cfg(test)]
pub const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.schema.json");
/// Where the example is published in the repository.
#[cfg(test)]
pub const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.example.toml");

/// The JSON Schema (draft 2020-12).
pub fn schema() -> Value {
    let mut sections: Map<String, Value> = Map::new();
    for setting in ALL {
        let section = sections
            .entry(setting.section())
            .or_insert_with(|| json!({ "type": "object", "additionalProperties": false, "properties": {} }));
        section["properties"][setting.name()] = of(setting);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "headstart settings",
        "type": "object",
        "additionalProperties": false,
        "properties": sections,
    })
}

fn of(setting: &Setting) -> Value {
    let mut schema = match setting.kind {
        SettingType::Flag => json!({ "type": "boolean" }),
        SettingType::Whole { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        SettingType::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        SettingType::Choice(choices) => json!({ "type": "string", "enum": choices() }),
        SettingType::Text(_) => json!({ "type": "string" }),
    };
    schema["default"] = (&setting.by_default()).into();
    schema["description"] = format!("{} Source of the default: {}.", setting.what, setting.source).into();
    schema
}

/// A file with every setting at its default, all of them commented out.
pub fn example() -> String {
    let mut text = "# headstart settings. Commented lines show the defaults; remove the `#` to change one.\n\
                    # Order of precedence, lowest first: /etc/headstart/config.toml, ~/.config/headstart/config.toml, -c FILE,\n\
                    # HEADSTART_SECTION__KEY, flags. Check with `headstart config check`; `config show --origin` shows current values.\n"
        .to_owned();
    let mut section = "";
    for setting in ALL {
        if setting.section() != section {
            section = setting.section();
            text += &format!("\n[{section}]\n");
        } else {
            text += "\n";
        }
        let range = match setting.kind {
            SettingType::Whole { least, most } => format!(" From {least} to {most}."),
            SettingType::Choice(choices) => format!(" One of {}.", choices().join(", ")),
            SettingType::Share => " From 0 to 1.".to_owned(),
            SettingType::Flag | SettingType::Text(_) => String::new(),
        };
        text += &format!(
            "# {}{range}\n# Source: {}.\n# {} = {}\n",
            setting.what,
            setting.source,
            setting.name(),
            setting.by_default()
        );
    }
    text
}
